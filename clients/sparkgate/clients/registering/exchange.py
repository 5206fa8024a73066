"""Two names of one folder change places in one step, so that what was replaced can be looked at afterwards.

`os.replace` drops what stood there, also when another program had written it a moment before. renameat2(2) with
RENAME_EXCHANGE (and renamex_np on macOS) keeps it under the other name.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

AT_FDCWD = -100
RENAME_EXCHANGE = 2
RENAME_SWAP = 2
UNABLE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
"""Answers of kernels and file systems that have no such step."""


def exchange(one: Path, other: Path) -> bool:
    """Let two names change places; False where this machine cannot.

    Raises:
        FileNotFoundError: one of them is gone.
        OSError: they cannot be renamed.
    """
    call = _call()
    if call is None:
        return False
    if call(os.fsencode(one), os.fsencode(other)) == 0:
        return True
    number = ctypes.get_errno()
    if number in UNABLE:
        return False
    raise OSError(number, os.strerror(number), str(other))


@cache
def _call() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        swap = getattr(library, "renamex_np", None)
        return swap and (lambda one, other: swap(one, other, RENAME_SWAP))
    rename = getattr(library, "renameat2", None)
    return rename and (lambda one, other: rename(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE))
