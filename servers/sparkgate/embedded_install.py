"""Puts a SearXNG into a virtual environment of its own: the pinned package, a checkout or an archive of one.

The environment is built under another name and renamed when complete, so a killed install is never taken for
a finished one. The pinned package and its needs are wheels with the hashes of `searxng_lock.txt`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkgate.embedded_files import EmbeddedError, Progress, exclusive, silent
from sparkgate.machine.files import open_private, private_folder, tail, text_of, write_private

LOCK = Path(__file__).with_name("searxng_lock.txt")
PINNED = "pinned"
_HASHED = ("--require-hashes", "--only-binary", ":all:")
_QUIET = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off")
# Where pip would put things, when the user's shell says so; they have no place in this environment.
_PIP_PLACES = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER")
_NO_VENV = "Install your system's package for virtual environments (Debian, Ubuntu: python3-venv)."
_NO_NETWORK = "Connect to the network once, or use --source with a checkout, an archive or a URL."
_WAYS_OUT = (
    ("ensurepip is not", _NO_VENV),
    ("No module named venv", _NO_VENV),
    ("DO NOT MATCH THE HASHES", "A proxy or mirror served another file: ask another package index."),
    ("No space left", "Free some 200 MB there."),
    ("ResolutionError", _NO_NETWORK),
    ("name resolution", _NO_NETWORK),
    ("NewConnectionError", _NO_NETWORK),
    ("No matching distribution", "See whether your package index can be reached, or use --source."),
)


@dataclass(frozen=True, slots=True)
class Program:
    """What to run: an interpreter, and the checkout to put on its path (None: it is installed)."""

    python: Path
    code: Path | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    key: str
    requirements: Path
    flags: tuple[str, ...]
    code: Path | None


class Installer:
    """Installs into `folder`/venv.

    `python` makes the environment; `lock` is the pinned package's requirements file.
    """

    def __init__(
        self, folder: Path, progress: Progress = silent, python: str = sys.executable, lock: Path = LOCK
    ) -> None:
        self.folder = folder
        self.log = folder / "install.log"
        self._progress = progress
        self._python = python
        self._lock = lock
        self._venv = folder / "venv"

    def install(self, source: str = PINNED) -> Program:
        """Install `source` ("pinned", a checkout's folder, its .tar.gz or .zip); again, it does nothing.

        Raises:
            EmbeddedError: no venv module, pip failed, no network, or `source` is not a SearXNG checkout.
        """
        with exclusive(self.folder / "install.lock", self._progress):
            plan = self._plan(source)
            if not self._holds(plan):
                self._build(plan)
        return Program(self._venv / "bin" / "python", plan.code)

    def is_current(self, source: str) -> bool:
        """Whether `install` would have nothing to do."""
        with exclusive(self.folder / "install.lock", self._progress):
            return self._holds(self._plan(source))

    def _plan(self, source: str) -> _Plan:
        if source == PINNED:
            return _Plan(_key(self._lock), self._lock, _HASHED, None)
        path = Path(source)
        code = path if path.is_dir() else self._unpacked(path)
        if not _is_checkout(code):
            raise EmbeddedError(f"{path} is no SearXNG checkout: no searx/webapp.py or no requirements.txt")
        return _Plan(_key(code / "requirements.txt"), code / "requirements.txt", (), code)

    def _unpacked(self, archive: Path) -> Path:
        if not archive.is_file():
            raise EmbeddedError(f"{archive} is not there; --source pinned goes back to the packaged SearXNG")
        target = self.folder / f"source-{_digest(archive)[:16]}"
        if not target.exists():
            self._progress(f"Unpacking {archive.name}")
            for old in self.folder.glob("source-*"):
                shutil.rmtree(old)
            unpack(archive, private_folder(self.folder / "source-.new"))
            (self.folder / "source-.new").rename(target)
        return next((found for found in (target, *sorted(target.iterdir())) if _is_checkout(found)), target)

    def _holds(self, plan: _Plan) -> bool:
        return text_of(self._venv / "installed") == plan.key

    def _build(self, plan: _Plan) -> None:
        fresh = self.folder / "venv.new"
        shutil.rmtree(fresh, ignore_errors=True)
        self.log.unlink(missing_ok=True)
        self._progress("Creating a virtual environment")
        self._run("cannot create a virtual environment", [self._python, "-I", "-m", "venv", str(fresh)])
        private_folder(fresh)
        pip = [str(fresh / "bin" / "python"), "-I", "-m", "pip", "install", *_QUIET, *plan.flags]
        self._progress("Installing SearXNG")
        self._run("pip cannot install SearXNG", [*pip, "-r", str(plan.requirements)])
        write_private(fresh / "installed", plan.key)
        shutil.rmtree(self._venv, ignore_errors=True)
        fresh.rename(self._venv)

    def _run(self, failure: str, argv: Sequence[str]) -> None:
        env = {name: value for name, value in os.environ.items() if name not in _PIP_PLACES}
        try:
            status = self._watch(argv, env)
        except OSError as error:
            raise EmbeddedError(f"{failure}: {argv[0]}: {error.strerror}") from error
        if status:
            raise EmbeddedError(self._explain(failure))

    def _watch(self, argv: Sequence[str], env: dict[str, str]) -> int:
        with (
            open_private(self.log, "a") as log,
            subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as child,
        ):
            for line in child.stdout or ():
                log.write(line)
                self._tell(line)
        return child.returncode

    def _tell(self, line: str) -> None:
        collecting = re.match(r"Collecting ([\w.-]+)", line)
        if collecting:
            self._progress(f"Fetching {collecting[1]}")
        elif line.startswith("Installing collected"):
            self._progress("Unpacking the packages")

    def _explain(self, failure: str) -> str:
        said = "\n".join(tail(self.log, 400))
        way_out = next((advice for sign, advice in _WAYS_OUT if sign in said), "")
        last = "\n".join(f"  {line}" for line in tail(self.log, 12))
        return f"{failure}. {way_out}\nIts last lines, from {self.log}:\n{last}"


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a .tar.* or .zip into `folder`, refusing members that would land outside it.

    Raises:
        EmbeddedError: not such an archive, a damaged one, or one with an unsafe member.
    """
    try:
        if zipfile.is_zipfile(archive):
            _unzip(archive, folder)
        else:
            _untar(archive, folder)
    except (tarfile.TarError, zipfile.BadZipFile, OSError, ValueError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise EmbeddedError(f"{archive} cannot be unpacked: {error}") from error


def _untar(archive: Path, folder: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise ValueError("this Python (before 3.11.4) has no safe way; unpack it and give the folder instead")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


def _unzip(archive: Path, folder: Path) -> None:
    root = folder.resolve()
    with zipfile.ZipFile(archive) as bundle:
        for name in bundle.namelist():
            if not (root / name).resolve().is_relative_to(root):
                raise ValueError(f"member {name!r} would land outside the folder")
        bundle.extractall(folder)


def _is_checkout(folder: Path) -> bool:
    return (folder / "searx" / "webapp.py").is_file() and (folder / "requirements.txt").is_file()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _key(requirements: Path) -> str:
    """What an environment holds; an upgraded interpreter leaves an old one broken, so its version counts."""
    return f"{_digest(requirements)} python{sys.version_info.major}.{sys.version_info.minor}\n"
