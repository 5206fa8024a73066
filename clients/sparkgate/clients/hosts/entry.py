"""What every host needs of us: which command to start, and how its configuration writes that down."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from sparkgate import paths

SERVER_NAMES = {"search": "sparksearch"}
"""Toolset → name of its server: short, without `-` and `_`, which hosts rewrite."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a host starts one server: an absolute interpreter and arguments, never the environment."""

    server: str
    command: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Host:
    """One host program: `snippet` turns launches into the text to paste into `file`; `advice` follows it."""

    name: str
    title: str
    file: str
    snippet: Callable[[tuple[Launch, ...]], str]
    advice: str


def launches(config: str) -> tuple[Launch, ...]:
    """One launch for each toolset there is; `--config` only when it is not the default place."""
    extra = () if config == paths.default_config_path() else ("--config", config)
    return tuple(
        Launch(server, sys.executable, ("-I", "-m", "sparkgate.stdio", toolset, *extra))
        for toolset, server in SERVER_NAMES.items()
    )
