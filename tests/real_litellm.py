"""A real LiteLLM, the router, installed once into the cache folder of the tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from real_hosts import OFFLINE, cache_folder

from sparkgate.policy.local import free_port

VERSION = "1.108.7"
START_PATIENCE_S = 180.0
END_PATIENCE_S = 20.0
SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}
"""No download of prices, and no refusal to start without a key."""


@dataclass(frozen=True, slots=True)
class LiteLLM:
    """A running LiteLLM at `url`."""

    url: str
    process: subprocess.Popen[bytes]


def ensure_installed() -> Path:
    """The `litellm` program in an environment of its own."""
    folder = cache_folder() / f"litellm-{VERSION}-python{sys.version_info.major}.{sys.version_info.minor}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-I", "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet", "--no-input"]
        subprocess.run([*pip, f"litellm[proxy]=={VERSION}"], check=True)
        (folder / "complete").touch()
    return folder / "bin" / "litellm"


@contextmanager
def running(config: Mapping[str, Any] | str, port: int | None = None) -> Iterator[LiteLLM]:
    """A LiteLLM that serves `config` (an object, or the text of its YAML file) on loopback; ended afterwards."""
    port = port or free_port()
    with tempfile.TemporaryDirectory(prefix="sg-litellm-") as home:
        file = Path(home) / "config.yaml"
        file.write_text(config if isinstance(config, str) else json.dumps(config))
        argv = [str(ensure_installed()), "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
        environment = {"PATH": os.environ["PATH"], "HOME": home, **OFFLINE, **SETTINGS}
        process = subprocess.Popen(
            [*argv, "--telemetry", "False"], env=environment, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            _wait_until_it_listens(process)
            yield LiteLLM(f"http://127.0.0.1:{port}", process)
        finally:
            _end(process)


def _wait_until_it_listens(process: subprocess.Popen[bytes]) -> None:
    """Return when it says that it listens; a thread goes on to take what it prints, so that it never waits for us."""
    assert process.stdout
    printed: list[bytes] = []
    said = threading.Event()
    threading.Thread(target=_take, args=(process.stdout, printed, said), daemon=True).start()
    said.wait(START_PATIENCE_S)
    last = b"".join(printed[-30:]).decode("utf-8", "replace")
    assert any(b"Uvicorn running on" in line for line in printed), f"LiteLLM did not start:\n{last}"


def _take(stream: IO[bytes], printed: list[bytes], said: threading.Event) -> None:
    with stream:
        for line in stream:
            printed.append(line)
            if b"Uvicorn running on" in line:
                said.set()
    said.set()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
