"""Real hosts for tests, each installed once a machine into the cache folder that the real SearXNG uses too.

    hermes()        the `hermes` program
    openclaw()      the `openclaw` program and the folder its Node.js is in, which has to be on PATH
    from_npm(name)  the same of other hosts that npm brings

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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from box import Box

INSTALL_PATIENCE_S = 900.0
HOST_PATIENCE_S = 240.0
HERMES_VERSION = "0.19.0"
HERMES_PYTHONS = ("3.11", "3.12", "3.13")
OPENCLAW_VERSION = "2026.9.6"
NODE_VERSION = "24.21.0"
"""OpenClaw wants a newer Node.js than distributions have."""

FROM_NPM = {
    "claude": ("@anthropic-ai/claude-code", "2.1.332"),
    "codex": ("@openai/codex", "0.171.0"),
    "opencode": ("opencode-ai", "1.18.33"),
    "qwen": ("@qwen-code/qwen-code", "0.24.4"),
    "gemini": ("@google/gemini-cli", "0.61.0"),
}
"""Name of a program → its package, and the version of that."""

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


@dataclass(frozen=True, slots=True)
class Ended:
    """A host's command that has ended; as text, all there is to know when an assertion fails."""

    argv: tuple[str, ...]
    code: int
    out: str
    errors: str

    def __str__(self) -> str:
        return f"{' '.join(self.argv)} -> {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.errors}"


def run(box: Box, program: Program, *arguments: str) -> Ended:
    """A host's command, to its end. Output goes to files, which no surviving grandchild can hold open for us."""
    out, errors = box.root / "host.out", box.root / "host.err"
    argv = (str(program.executable), *arguments)
    environment = on_path(program.path, box.environment | OFFLINE)
    with out.open("wb") as to_out, errors.open("wb") as to_errors:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_errors, env=environment, cwd=box.root
        )
        try:
            code = process.wait(HOST_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    return Ended(argv, code, out.read_text(errors="replace"), errors.read_text(errors="replace"))


def listed_tools(box: Box) -> list[str]:
    """The tools of the search server, asked for without any host."""
    host = box.host()
    host.initialize()
    tools = host.ask("tools/list")["result"]["tools"]
    host.close()
    return [tool["name"] for tool in tools]


def cache_folder() -> Path:
    return Path(os.environ.get("SPARKGATE_TEST_CACHE", "~/.cache/sparkgate-tests")).expanduser().resolve()


def place_of_boxes() -> Path:
    """Where a box may lie that is confined: not below /tmp, which is another one inside."""
    places = (cache_folder() / "boxes", Path(__file__).resolve().parent / ".boxes", Path("/srv"))
    for place in places:
        if not place.is_relative_to("/tmp"):
            with suppress(OSError):
                place.mkdir(parents=True, exist_ok=True)
            if os.access(place, os.W_OK):
                return place
    pytest.skip("there is no folder to write in but below /tmp")


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
    """OpenClaw and the Node.js it wants; skips where there is no npm to install them with."""
    return _of_npm("openclaw", f"openclaw-{OPENCLAW_VERSION}-node{NODE_VERSION}", f"openclaw@{OPENCLAW_VERSION}")


def from_npm(name: str) -> Program:
    """A host of `FROM_NPM`; skips where there is no npm to install it with."""
    package, version = FROM_NPM[name]
    return _of_npm(name, f"{name}-{version}-node{NODE_VERSION}", f"{package}@{version}")


def _of_npm(name: str, folder: str, package: str) -> Program:
    """A program in a folder of its own, installed with the Node.js that it is run with."""
    node = _npm(f"node-{NODE_VERSION}", f"node@{NODE_VERSION}") / "node" / "bin"
    return Program(_npm(folder, package, path=node) / ".bin" / name, node)


def _npm(name: str, package: str, *, path: Path | None = None) -> Path:
    """The folder of modules that holds `package`, in the folder `name` of the cache."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"{package} is installed with npm, and there is none on PATH (it comes with Node.js)")
    folder = cache_folder() / name

    def build() -> None:
        downloads = folder / "downloads"
        install = [npm, "install", "--prefix", str(folder), "--cache", str(downloads), "--no-audit", "--no-fund"]
        _run([*install, package], path=path)
        shutil.rmtree(downloads)

    _installed(folder, build)
    return folder / "node_modules"


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
