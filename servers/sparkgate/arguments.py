"""What stands on the command line of the stdio server. Standard library only."""

from __future__ import annotations

import os
import sys

from sparkgate import paths

XDG_FOLDERS = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
TOOLSETS = ("search", "engine", "bench")
GATES = ("--system", "--own")


def parse_arguments(arguments: list[str]) -> tuple[str, str, str]:
    """`[search, --config, FILE, --host, NAME, --env, NAME=VALUE, --system]` → (toolset, absolute config path, host).

    `--env` sets an XDG folder in this process, for hosts that do not pass it on. `--system` or `--own` say which gate
    is meant, where `paths.choose` is not to find out.

    Raises:
        SystemExit: 2 with a usage line on stderr.
    """
    gates = [one for one in arguments[1:] if one in GATES]
    plain = [one for one in arguments if one not in GATES]
    toolset, names, values = (plain[0] if plain else ""), plain[1::2], plain[2::2]
    if toolset not in TOOLSETS or len(names) != len(values) or not _fit(names, gates):
        raise _usage()
    given = dict(zip(names, values, strict=True))
    for name, value in zip(names, values, strict=True):
        variable, _, folder = value.partition("=")
        if name == "--env":
            if variable not in XDG_FOLDERS or not folder:
                raise _usage()
            os.environ[variable] = folder
    paths.choose(gates[0][2:] if gates else "own" if "--env" in names else "", given.get("--config"))
    return toolset, paths.config_path(given.get("--config")), given.get("--host", "")


def _fit(names: list[str], gates: list[str]) -> bool:
    """Whether all are known and go together: the gate of the machine has its files where it has them."""
    known = set(names) <= {"--config", "--host", "--env"} and len(gates) <= 1
    return known and ("--system" not in gates or set(names) <= {"--host"})


def _usage() -> SystemExit:
    options = "[--config FILE] [--host NAME] [--env XDG_…=FOLDER] [--own] | [--host NAME] --system"
    sys.stderr.write(f"usage: python -I -m sparkgate.stdio {'|'.join(TOOLSETS)} {options}\n")
    return SystemExit(2)
