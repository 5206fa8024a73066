"""Real hosts for tests, each installed once a machine into the cache folder that the real SearXNG uses too.

    hermes()        the `hermes` program
    openclaw()      the `openclaw` program and the folder its Node.js is in, which has to be on PATH

A folder is complete when its marker file is there, which is written last: an install that was killed is done anew, and
one that is complete is taken as it is.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

INSTALL_PATIENCE_S = 900.0
HERMES_VERSION = "0.19.0"
HERMES_PYTHONS = ("3.11", "3.12", "3.13")
OPENCLAW_VERSION = "2026.9.6"
NODE_VERSION = "24.21.0"
"""OpenClaw wants a newer Node.js than distributions have."""

OFFLINE = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
    "NODE_USE_ENV_PROXY": "1",
}
"""Keeps a host that obeys proxies (both do) from asking anything beyond loopback: nothing listens on port 9."""


@dataclass(frozen=True, slots=True)
class Program:
    """An installed host: what to start, and a folder its PATH must begin with."""

    executable: Path
    path: Path


def cache_folder() -> Path:
    return Path(os.environ.get("SPARKGATE_TEST_CACHE", "~/.cache/sparkgate-tests")).expanduser()


def hermes() -> Program:
    """Hermes Agent in a virtual environment of its own; skips where no Python is that it runs on."""
    python = _python_for_hermes()
    folder = cache_folder() / f"hermes-{HERMES_VERSION}-python{_version_of(python)}"

    def build() -> None:
        _run([python, "-I", "-m", "venv", str(folder)])
        pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", "--no-input", "--quiet"]
        _run([*pip, f"hermes-agent[mcp,cli]=={HERMES_VERSION}"], without=("PIP_TARGET", "PIP_PREFIX", "PIP_USER"))

    _installed(folder, build)
    return Program(folder / "bin" / "hermes", folder / "bin")


def openclaw() -> Program:
    """OpenClaw and a Node.js for it; skips where there is no npm to install them with."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("OpenClaw is installed with npm, and there is none on PATH (it comes with Node.js)")
    folder = cache_folder() / f"openclaw-{OPENCLAW_VERSION}-node{NODE_VERSION}"
    modules = folder / "node_modules"
    node = modules / "node" / "bin"

    def build() -> None:
        downloads = folder / "downloads"
        install = [npm, "install", "--prefix", str(folder), "--cache", str(downloads), "--no-audit", "--no-fund"]
        _run([*install, f"node@{NODE_VERSION}"])
        _run([*install, f"openclaw@{OPENCLAW_VERSION}"], path=node)
        shutil.rmtree(downloads)

    _installed(folder, build)
    return Program(modules / ".bin" / "openclaw", node)


def _installed(folder: Path, build: Callable[[], None]) -> None:
    """Let `build` fill the empty `folder`, unless that has been done; other test runs wait."""
    marker = folder / "complete"
    with alone(folder.with_name(f"{folder.name}.lock")):
        if marker.exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        build()
        marker.touch()


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _python_for_hermes() -> str:
    """This interpreter if Hermes runs on it, else one of PATH."""
    names = [sys.executable, *(f"python{version}" for version in reversed(HERMES_PYTHONS))]
    found = (path for name in names if (path := shutil.which(name)))
    usable = next((path for path in found if _version_of(path) in HERMES_PYTHONS), None)
    if usable is None:
        pytest.skip(f"Hermes {HERMES_VERSION} needs one of Python {', '.join(HERMES_PYTHONS)}, and PATH has none")
    return usable


def _version_of(python: str) -> str:
    """`3.12` and the like; empty for a launcher without an interpreter behind it."""
    program = "import sys; print('{}.{}'.format(*sys.version_info))"
    answer = subprocess.run(
        [python, "-I", "-c", program], capture_output=True, text=True, timeout=INSTALL_PATIENCE_S, check=False
    )
    return answer.stdout.strip()


def _run(argv: Sequence[str], *, path: Path | None = None, without: Sequence[str] = ()) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in without}
    done = subprocess.run(
        argv,
        env=kept if path is None else on_path(path, kept),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=INSTALL_PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"{argv} ended with {done.returncode}:\n{done.stdout}"


def on_path(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with `folder` in front of the programs it finds."""
    return {**environment, "PATH": f"{folder}{os.pathsep}{environment['PATH']}"}
