"""One value put into, or taken out of, a configuration file of another program; no other byte of it changes.

Every edit is proven before it is handed out: the text before and the text after are read again, and they differ in
that one value or the edit is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from sparkgate.clients.splice import json_edit, toml_edit, yaml_edit
from sparkgate.clients.splice.edit import CannotEdit, Edit, Span, body_start, check_text, refuse
from sparkgate.clients.splice.json_read import Dialect
from sparkgate.clients.splice.proof import Key, at, check, equal, was_dropped, was_put

UNSAFE = "this file cannot be edited safely by hand: the text after the edit would not read as it should"

if TYPE_CHECKING:
    from sparkgate.clients.hosts.host import Format


@dataclass(frozen=True, slots=True)
class _Syntax:
    """What a format is made of; `implied`: a table without members may not be there at all."""

    read: Callable[[str], Any]
    where: Callable[[str, Key], Span | None]
    put: Callable[[str, Key, Any], Edit]
    drop: Callable[[str, Key, int], str]
    implied: bool = False


def _json(dialect: Dialect) -> _Syntax:
    read, where = partial(json_edit.read, dialect=dialect), partial(json_edit.where, dialect=dialect)
    return _Syntax(read, where, partial(json_edit.put, dialect=dialect), partial(json_edit.drop, dialect=dialect))


_SYNTAX: dict[Format, _Syntax] = {
    "json": _json("json"),
    "jsonc": _json("jsonc"),
    "json5": _json("json5"),
    "toml": _Syntax(toml_edit.read, toml_edit.where, toml_edit.put, toml_edit.drop, implied=True),
    "yaml": _Syntax(yaml_edit.read, yaml_edit.where, yaml_edit.put, yaml_edit.drop),
}


def read(text: str, format: Format) -> Any:
    """The data of a file: dict, list, str, int, float, bool, None. A file without a value is `{}`.

    Raises:
        CannotEdit: it is not well formed, over 20 MB, or nested over 200 levels.
    """
    check_text(text)
    return _SYNTAX[format].read(text)


def where(text: str, format: Format, key: tuple[str, ...]) -> Span | None:
    """Where the member at this path stands, None when it is absent.

    Raises:
        CannotEdit: as `put` does.
    """
    check(key, None)
    read(text, format)
    return _SYNTAX[format].where(text, key)


def put(text: str, format: Format, key: tuple[str, ...], value: Any) -> Edit:
    """Set the value at this path, in place when one is there. Missing parents are made, and counted in the answer.

    Raises:
        CannotEdit: the file is broken, or what stands on the path does not allow an exact edit.
    """
    check(key, value)
    before = read(text, format)
    found = _SYNTAX[format].where(text, key)
    if found and equal(at(before, key), value):
        return Edit(text)
    edit = _SYNTAX[format].put(text, key, value)
    if not was_put(before, _again(text, edit.text, format, found), key, value):
        _unsafe(text, found)
    return edit


def drop(text: str, format: Format, key: tuple[str, ...], made: int = 0) -> Edit:
    """Take the value at this path out, with up to `made` parents above it that hold nothing else then.

    What `put` added comes out without a trace when `made` is what it answered. An absent value changes nothing.

    Raises:
        CannotEdit: as `put` does.
    """
    check(key, None)
    before = read(text, format)
    syntax = _SYNTAX[format]
    found = syntax.where(text, key)
    if not found:
        return Edit(text)
    after = syntax.drop(text, key, made)
    if not was_dropped(before, _again(text, after, format, found), key, len(key) if syntax.implied else made):
        _unsafe(text, found)
    return Edit(after)


def _again(before: str, after: str, format: Format, found: Span | None) -> Any:
    """The data after an edit."""
    try:
        return read(after, format)
    except CannotEdit:
        _unsafe(before, found)


def _unsafe(text: str, found: Span | None) -> NoReturn:
    refuse(text, found.start if found else body_start(text), UNSAFE)
