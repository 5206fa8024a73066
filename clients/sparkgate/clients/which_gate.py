"""Which gate a command means, and as which user it works on that gate's files."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from itertools import pairwise, takewhile

from sparkgate import paths
from sparkgate.clients.output import fail

ON_FILES = frozenset({"audit", "config", "engine", "policy", "searxng"})
"""Commands that read and write the files of a gate themselves; others ask it by its socket."""
GATE_ON_FILES = frozenset({"lock", "run", "unlock"})
ALWAYS_OWN = "tour"
"""What it makes is thrown away."""
NO_ACCOUNT = (
    "this machine has no gate of its own; `sparkgate gate install --system` makes one, --own means one of yours"
)
NOT_YOURS = (
    "`sparkgate {command}` works on the files of this machine's gate, which nobody else may read: `sudo sparkgate "
    "{command}`, or `sparkgate --own {command}` for a gate of yours"
)


def settle(asked: str, command: str, words: Sequence[str]) -> None:
    """Let this process mean the gate that is asked for, else the one that `paths.choose` finds.

    Root works on the files of the machine's gate as its account: a file that root made there, the gate could not use.

    Args:
        asked: "system", "own" or "".
        command: name of the command that is to run.
        words: the command line behind `sparkgate`; what stands behind `--` belongs to another program.
    """
    ours = list(takewhile(lambda word: word != "--", words))
    after = ours[ours.index(command) + 1 :] if command in ours else []
    paths.choose("own" if command == ALWAYS_OWN else asked, _config_in(after))
    on_files = _works_on_files(command, after[0] if after else "")
    if not paths.means_system() or not (on_files or command in ("bench", "search")) or {"-h", "--help"} & set(after):
        return
    account = paths.system_uid()
    if account is None:
        fail(NO_ACCOUNT)
    if os.geteuid() == paths.ROOT:
        _become(pwd.getpwuid(account))
    elif on_files and os.geteuid() != account:
        fail(NOT_YOURS.format(command=f"{command} {after[0]}" if command == "gate" else command))


def _works_on_files(command: str, verb: str) -> bool:
    if command == "gate":
        return verb in GATE_ON_FILES
    return command in ON_FILES or (command == "bench" and verb != "run")


def _config_in(words: Sequence[str]) -> str | None:
    for word, after in pairwise([*words, ""]):
        if word == "--config" or word.startswith("--config="):
            return word.partition("=")[2] or after
    return None


def _become(account: pwd.struct_passwd) -> None:
    os.initgroups(account.pw_name, account.pw_gid)
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    os.environ |= {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name}
