"""How commands print: people get tables, programs get JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console


def console(*, to_stderr: bool = False, record: bool = False) -> Console:
    """A console that neither guesses at markup in data nor colours pipes."""
    return Console(stderr=to_stderr, markup=False, highlight=False, record=record)


def save_picture(out: Console, path: str, title: str) -> None:
    """Write what a recording console has shown as SVG, without the web fonts that rich links to."""
    picture = re.sub(r"@font-face \{.*?\}", "", out.export_svg(title=title), flags=re.DOTALL)
    Path(path).write_text(picture, encoding="utf-8")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def fail(message: str) -> NoReturn:
    """Say why on stderr and exit 1."""
    click.echo(message, err=True)
    raise SystemExit(1)
