"""Which gate a command means, and as which user it works on that gate's files."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from itertools import pairwise

from sparkgate import paths
from sparkgate.clients.output import fail

ON_FILES = frozenset({"audit", "config", "engine", "policy", "searxng", "gate lock", "gate unlock"})
"""Commands that read and write the files of a gate themselves; the others ask it by its socket."""
AS_ITS_USER = ON_FILES | {"bench", "search"}
ALWAYS_OWN = "tour"
"""What it makes is thrown away."""
NO_ACCOUNT = (
    "this machine has no gate of its own; `sparkgate gate install --system` makes one, --own means one of yours"
)
NOT_YOURS = (
    "`sparkgate {command}` works on the files of this machine's gate, which nobody else may read: `sudo sparkgate "
    "{command}`, or `sparkgate --own {command}` for a gate of yours"
)


def settle(asked: str, command: str, arguments: Sequence[str]) -> None:
    """Let this process mean the gate that is asked for, else the one that `paths.choose` finds.

    Root works on the files of the machine's gate as its account: a file that root made there, the gate could not use.

    Args:
        asked: "system", "own" or "".
        command: name of the command that is to run.
        arguments: what follows it.
    """
    paths.choose("own" if command == ALWAYS_OWN else asked, _config_in(arguments))
    if command == "gate" and arguments:
        command = f"{command} {arguments[0]}"
    if not paths.means_system() or command not in AS_ITS_USER:
        return
    account = paths.system_uid()
    if account is None:
        fail(NO_ACCOUNT)
    if os.geteuid() == paths.ROOT:
        _become(pwd.getpwuid(account))
    elif command in ON_FILES and os.geteuid() != account:
        fail(NOT_YOURS.format(command=command))


def _config_in(arguments: Sequence[str]) -> str | None:
    for word, after in pairwise([*arguments, ""]):
        if word == "--config" or word.startswith("--config="):
            return word.partition("=")[2] or after
    return None


def _become(account: pwd.struct_passwd) -> None:
    os.initgroups(account.pw_name, account.pw_gid)
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    os.environ |= {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name}
