"""Starting the embedded SearXNG as a detached process that can be found again later."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread

from sparkgate.embedded_files import EmbeddedError
from sparkgate.machine.files import open_private
from sparkgate.machine.processes import Process, birth


def start(argv: Sequence[str], env: Mapping[str, str], folder: Path, log: Path) -> Process:
    """Start `argv` in `folder`, leader of its own session, output appended to `log`, with exactly `env`.

    Raises:
        EmbeddedError: the program is not there or may not be run.
    """
    try:
        with open_private(log, "a") as output:
            child = subprocess.Popen(
                argv,
                env=env,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
            )
    except OSError as error:
        raise EmbeddedError(f"{argv[0]} cannot be started: {error.strerror}") from error
    Thread(target=child.wait, daemon=True, name="searxng-reaper").start()
    return Process(child.pid, birth(child.pid))
