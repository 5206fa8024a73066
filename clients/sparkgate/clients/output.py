"""How commands print: people get tables, programs get JSON."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import click
from rich.console import Console


def console(*, to_stderr: bool = False) -> Console:
    """A console that neither guesses at markup in data nor colours pipes."""
    return Console(stderr=to_stderr, markup=False, highlight=False, soft_wrap=False)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def fail(message: str) -> NoReturn:
    """Say why on stderr and exit 1."""
    click.echo(message, err=True)
    raise SystemExit(1)
