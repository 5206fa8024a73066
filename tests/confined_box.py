"""Cases of tests/confined_cases.py run under the filter of `sparkgate confine`, as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SERVERS = HERE.parent / "servers"
NOBODY = 65534
USERS = [None, *([NOBODY] if os.getuid() == 0 else [])]
"""The user of the tests, and one without any privilege."""
TIMEOUT_S = 120
NEW_ENOUGH = (
    "import sys; sys.path[:0] = [sys.argv[1]]; import sparkgate.confine.syscalls; assert sys.version_info >= (3, 11)"
)


@cache
def interpreter(uid: int | None) -> str:
    """A Python that the user can start and that sees our modules; skips the test where there is none."""
    for path in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        command = [path or "false", "-c", NEW_ENOUGH, str(SERVERS)]
        try:
            if subprocess.run(command, user=uid, cwd="/", capture_output=True, timeout=TIMEOUT_S).returncode == 0:
                return str(path)
        except OSError:
            continue
    pytest.skip(f"no Python that user {uid} can start")


@cache
def _namespaces(uid: int | None) -> None:
    if sys.platform != "linux":
        pytest.skip("confinement is of Linux")
    ran = subprocess.run(command(uid, "true"), env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S)
    if "new namespaces" in ran.stderr:
        pytest.skip("this machine gives no user namespaces")
    assert ran.returncode == 0, ran.stderr


def environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(SERVERS), "PYTHONDONTWRITEBYTECODE": "1"}


def command(uid: int | None, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    """The command line of tests/confined_run.py."""
    user = () if uid is None else ("--uid", str(uid))
    return [interpreter(uid), str(HERE / "confined_run.py"), *user, *options, "--", *arguments]


def confined(
    uid: int | None, *arguments: str, options: tuple[str, ...] = (), **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run any command confined, to its end."""
    _namespaces(uid)
    line = command(uid, *arguments, options=options)
    return subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, **more)


def case(
    uid: int | None, name: str, given: Any = None, options: tuple[str, ...] = (), **more: Any
) -> tuple[Any, list[str]]:
    """What a case of tests/confined_cases.py found, and the refusals its supervisor was told."""
    ran = confined(uid, *case_command(uid, name), options=options, input=json.dumps(given) + "\n", **more)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1]), refusals(ran.stderr)


def case_command(uid: int | None, name: str) -> list[str]:
    return [interpreter(uid), str(HERE / "confined_cases.py"), name]


def refusals(stderr: str) -> list[str]:
    return [line.removeprefix("refused: ") for line in stderr.splitlines() if line.startswith("refused: ")]


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may write to, with a name short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="sg") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
