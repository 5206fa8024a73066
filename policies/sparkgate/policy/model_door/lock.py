"""The kill switch as the door process sees it by itself, should its gate hang.

`sparkgate.policy.kill_switch` says what the files mean; it needs asyncio, which is 4 MB more of memory in each process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable


def is_locked(files: Iterable[str]) -> bool:
    """Whether one of the switch's files is there, or cannot be told to be absent."""
    return any(map(_may_be_there, files))


def _may_be_there(file: str) -> bool:
    try:
        os.lstat(file)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
