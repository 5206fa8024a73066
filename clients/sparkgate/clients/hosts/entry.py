"""What every host needs of us: which command to start, and how its configuration writes that down."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from sparkgate import paths

SERVER_NAMES = {"search": "sparksearch", "engine": "sparkengine", "bench": "sparkbench"}
"""Toolset → name of its server: short, without `-` and `_`, which hosts rewrite."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a host starts one server: an absolute interpreter and arguments, never the environment."""

    server: str
    command: str
    arguments: tuple[str, ...]


def launches(host: str, config: str, toolsets: Sequence[str]) -> tuple[Launch, ...]:
    """One launch for each toolset, with the folders that this user has moved."""
    places = [word for name, folder in paths.moved_places().items() for word in ("--env", f"{name}={folder}")]
    chosen = [] if config == paths.default_config_path() else ["--config", config]
    chosen = ["--system"] if paths.means_system() else chosen
    return tuple(
        Launch(
            SERVER_NAMES[toolset],
            sys.executable,
            ("-I", "-m", "sparkgate.stdio", toolset, "--host", host, *places, *chosen),
        )
        for toolset in toolsets
    )
