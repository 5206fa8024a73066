"""A group of commands of which each is read from its file when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

WORDS = "sparkgate.words"
"""Where a context keeps the whole command line, which click gives away word by word."""


class CommandTable(click.Group):
    """A group that imports a command only when it is needed.

    Args:
        table: name of a command → module:attribute.
    """

    def __init__(self, *args: Any, table: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self._table = table

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta.setdefault(WORDS, list(args))
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return None
        module, _, attribute = self._table[cmd_name].partition(":")
        command: Any = getattr(importlib.import_module(module), attribute)
        return command if isinstance(command, click.Command) else None
