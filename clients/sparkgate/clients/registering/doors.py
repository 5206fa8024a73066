"""Closing a host's own ways to the network in its file, and putting them back as they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sparkgate.clients.hosts.host import Change, Data, Door, Format
from sparkgate.clients.registering.record import Closed, Registration, sha
from sparkgate.clients.registering.values import MISSING, at
from sparkgate.clients.splice import CannotEdit, drop, put, read

Doors = Callable[[Data], Sequence[Door]]
Reopened = tuple[str, Registration, tuple[str, ...], tuple[str, ...]]
"""(text, what to remember, sentences on what stays, codes of what is open again)."""


def close(text: str, form: Format, doors: Doors, known: Registration) -> tuple[str, Registration, tuple[str, ...]]:
    """Close every door that a file can: (text, what to remember, codes of those that this closes).

    The doors are asked for again after each change, as two of them can share a list.

    Raises:
        CannotEdit: the text cannot be changed without risk.
    """
    shut: list[str] = []
    last: tuple[str, ...] = ()
    start = text
    while door := next((one for one in doors(read(text, form)) if one.changes and one.code not in shut), None):
        for change in door.changes:
            start = start if change.key == last else text
            text, known = _write(text, form, door.code, change, known, start)
            last = change.key
        shut.append(door.code)
    return text, known, tuple(shut)


def _write(
    text: str, form: Format, code: str, change: Change, known: Registration, start: str
) -> tuple[str, Registration]:
    """One value; where ours stands already, what was there before it is what counts."""
    now = at(read(text, form), change.key)
    edit = put(text, form, change.key, change.value)
    closed = Closed(code, list(change.key), _optional(now), sha(change.value), edit.made, cut(start, edit.text))
    ours = next((one for one in known.closed if one.key == closed.key and one.hash == _hash(now)), None)
    if ours is not None:
        closed = replace(closed, before=ours.before, made=ours.made, cut=closed.cut if start != text else [])
    return edit.text, known.with_closed(closed)


def reopen(text: str, form: Format, known: Registration) -> Reopened:
    """Put back what `close` has changed, the last change first; what the user has changed since stays.

    Raises:
        CannotEdit: the text cannot be changed without risk.
    """
    stays, codes = [], []
    for closed in reversed(known.closed):
        if _hash(at(read(text, form), closed.key)) == closed.hash:
            text = put_back(text, form, closed)
            codes.append(closed.code)
        else:
            stays.append(f"{'.'.join(closed.key)} has been changed since; it stays.")
    return text, replace(known, closed=()), tuple(stays), tuple(dict.fromkeys(codes))


def put_back(text: str, form: Format, closed: Closed) -> str:
    """The very text that was there, where that says the same as the value that was there."""
    if closed.before:
        plain = put(text, form, tuple(closed.key), closed.before[0]).text
    else:
        plain = drop(text, form, tuple(closed.key), closed.made).text
    if len(closed.cut) == 2 and closed.cut[1] and text.count(closed.cut[1]) == 1:
        exact = text.replace(closed.cut[1], closed.cut[0])
        if _reads(exact, form) == read(plain, form):
            return exact
    return plain


def _reads(text: str, form: Format) -> Any:
    try:
        return read(text, form)
    except CannotEdit:
        return None


def cut(before: str, after: str) -> list[str]:
    """The part of two texts that is not the same in both."""
    head = _alike(before, after)
    tail = _alike(before[head:][::-1], after[head:][::-1])
    return [before[head : len(before) - tail], after[head : len(after) - tail]]


def _optional(value: Any) -> list[Any]:
    return [] if value is MISSING else [value]


def _hash(value: Any) -> str:
    return "" if value is MISSING else sha(value)


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
