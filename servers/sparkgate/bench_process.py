"""The process that measures: a child of the gate, told what to do in one line, telling what it finds in one line each.

It ends when its standard input does, so it does not outlive the gate, however that ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import IO, Any

from sparkgate import log
from sparkgate.policy.guard import Guard
from sparkgate.policy.kill_switch import KillSwitch

COMMAND = (sys.executable, "-I", "-m", "sparkgate.measure.worker")
CANCEL_GRACE_S = 10.0
"""Between asking it to end and killing it: it has to tell what is unfinished."""
ERRORS_BYTES = 2000


class Measuring:
    """One run's process while it runs; `errors` is the file that it complains to."""

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self._process, self._errors = process, errors
        self._timers: list[threading.Timer] = []
        self._cancelled = False

    def send(self, request: Mapping[str, Any]) -> None:
        """Tell it what to measure. That it is gone already is seen by its end."""
        assert self._process.stdin
        with suppress(OSError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def events(self) -> Iterator[dict[str, Any]]:
        """What it tells, until it has ended or has closed its output."""
        assert self._process.stdout
        for text in self._process.stdout:
            try:
                event = json.loads(text)
            except ValueError:
                event = None
            if isinstance(event, dict):
                yield event
            else:
                log.error("bench_line", size_bytes=len(text))

    def cancel(self) -> None:
        """Ask it to end, and kill it when it does not; once is enough."""
        if not self._cancelled:
            self._cancelled = True
            self._process.terminate()
            self.later(CANCEL_GRACE_S, self._process.kill)

    def later(self, seconds: float, what: Any) -> None:
        """Call `what` unless the process is gone by then."""
        timer = threading.Timer(seconds, what)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def exit_code(self) -> int:
        """Wait for its end; what it has complained of goes to the log of this process."""
        code = self._process.wait()
        if code:
            self._errors.seek(0)
            told = self._errors.read()
            log.error("bench_process", code=code, stderr=told[-ERRORS_BYTES:].decode("utf-8", "replace"))
        return code

    def forget(self) -> None:
        """Nothing is to be done any more: it is gone."""
        for timer in self._timers:
            timer.cancel()


@contextmanager
def measuring(
    command: Sequence[str], guard: Guard | None, limit_s: float, switch: KillSwitch | None = None
) -> Iterator[Measuring]:
    """Start the process `command`, its first word an absolute path; it is gone when the context is left.

    After `limit_s` seconds it is cancelled, and when the switch is locked.

    Raises:
        OSError: it cannot be started.
        LockedNow: it is locked already.
    """
    with tempfile.TemporaryFile() as errors:
        with guard.child(command) if guard else nullcontext():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
                start_new_session=True,
            )
        measured = Measuring(process, errors)
        measured.later(limit_s, measured.cancel)
        try:
            with switch.cutting(measured.cancel) if switch else nullcontext():
                yield measured
        except BaseException:
            process.kill()
            raise
        finally:
            with suppress(OSError):
                process.communicate()
            measured.forget()
