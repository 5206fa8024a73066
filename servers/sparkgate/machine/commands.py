"""Running a command of another program to its end: never through a shell, never without a limit."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import IO

from sparkgate.policy.guard import Guard

OUTPUT_MAX_CHARS = 2_000_000
NOT_INSTALLED = "is not installed"


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended. `code` is None when it could not be run, or did not end in time; `stderr` then says why."""

    code: int | None
    stdout: str = ""
    stderr: str = ""

    @property
    def ok(self) -> bool:
        """It ran to its end and says that all is well."""
        return self.code == 0

    @property
    def absent(self) -> bool:
        """There is no such program here."""
        return self.code is None and self.stderr.endswith(NOT_INSTALLED)


Run = Callable[[Sequence[str], float], Completed]
"""(argv, seconds it may take) → how it ended; never raises for what the command does."""


def runner(guard: Guard | None = None, environment: Mapping[str, str] | None = None) -> Run:
    """A `Run` with `environment` (default: this process's own), under the connection guard of this process."""

    def run(argv: Sequence[str], timeout_s: float) -> Completed:
        env = dict(os.environ if environment is None else environment)
        program = shutil.which(argv[0], path=env.get("PATH"))
        if program is None:
            return Completed(None, stderr=f"{argv[0]} {NOT_INSTALLED}")
        exact = (program, *argv[1:])
        try:
            with guard.child(exact) if guard else nullcontext():
                ended = subprocess.run(
                    exact,
                    env=env,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=timeout_s,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            return Completed(None, stderr=f"{argv[0]} did not end within {timeout_s:g} s")
        except OSError as error:
            return Completed(None, stderr=f"{argv[0]} cannot be run: {error.strerror}")
        return Completed(ended.returncode, _text(ended.stdout), _text(ended.stderr))

    return run


def _text(data: bytes) -> str:
    return data[-OUTPUT_MAX_CHARS:].decode("utf-8", "replace")


Spawn = Callable[[Sequence[str], Mapping[str, str], str, IO[bytes]], "subprocess.Popen[bytes]"]
"""(argv, whole environment, folder, output) → a process that leads a session of its own; raises OSError."""


def spawner(guard: Guard | None = None) -> Spawn:
    """A `Spawn` under the connection guard of this process."""

    def spawn(
        argv: Sequence[str], environment: Mapping[str, str], folder: str, output: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        program = shutil.which(argv[0], path=environment.get("PATH"))
        if program is None:
            raise FileNotFoundError(errno.ENOENT, "not installed")
        exact = (program, *argv[1:])
        with guard.child(exact) if guard else nullcontext():
            return subprocess.Popen(
                exact,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o022,
            )

    return spawn
