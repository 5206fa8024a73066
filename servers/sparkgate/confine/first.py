"""Process 1 of the new namespaces: starts the stage as its child, passes signals on, and reaps what is left."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from sparkgate.confine.kernel import PR_SET_DUMPABLE, prctl
from sparkgate.confine.wire import CANNOT_START

PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
OF_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""The command gets these itself."""
MOST_DESCRIPTORS = 1024


def _become(stage: Callable[[], int]) -> None:
    """Never returns: what a fork has inherited of its parent's work must not be gone on with."""
    code = CANNOT_START
    try:
        code = stage()
        sys.stderr.flush()
    except Exception as error:
        os.write(2, f"sparkgate: not started: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def run(stage: Callable[[], int]) -> int:
    """Exit code of what the stage became, 128 and the number where a signal ended it.

    Nobody may look into this process or trace it: it has no filter of system calls, so whoever could would have none.
    """
    child = os.fork()
    if not child:
        _become(stage)
    prctl(PR_SET_DUMPABLE, 0)
    for number in PASSED_ON:
        signal.signal(number, lambda number, _frame: os.kill(child, number))
    for number in OF_THE_TERMINAL:
        signal.signal(number, signal.SIG_IGN)
    os.closerange(0, MOST_DESCRIPTORS)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
