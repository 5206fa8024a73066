"""What stands on the command line of the stdio server. Standard library only."""

from __future__ import annotations

import os
import sys

from sparkgate import paths

XDG_FOLDERS = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
TOOLSETS = ("search", "engine", "bench")


def parse_arguments(arguments: list[str]) -> tuple[str, str, str]:
    """`[search, --config, FILE, --host, NAME, --env, NAME=VALUE]` → (toolset, absolute config path, host).

    `--env` sets an XDG folder in this process, for hosts that do not pass it on.

    Raises:
        SystemExit: 2 with a usage line on stderr.
    """
    toolset, names, values = (arguments[0] if arguments else ""), arguments[1::2], arguments[2::2]
    if toolset not in TOOLSETS or len(names) != len(values) or set(names) - {"--config", "--host", "--env"}:
        raise _usage()
    given = dict(zip(names, values, strict=True))
    for name, value in zip(names, values, strict=True):
        variable, _, folder = value.partition("=")
        if name == "--env":
            if variable not in XDG_FOLDERS or not folder:
                raise _usage()
            os.environ[variable] = folder
    return toolset, paths.config_path(given.get("--config")), given.get("--host", "")


def _usage() -> SystemExit:
    options = "[--config FILE] [--host NAME] [--env XDG_…=FOLDER]"
    sys.stderr.write(f"usage: python -I -m sparkgate.stdio {'|'.join(TOOLSETS)} {options}\n")
    return SystemExit(2)
