"""Level 2: each entry of ours is there, and says what it would say if it was written now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparkgate.clients.doctoring.case import Case
from sparkgate.clients.doctoring.finding import Finding
from sparkgate.clients.hosts.entry import SERVER_NAMES
from sparkgate.clients.registering.plan import Wish, adding
from sparkgate.clients.registering.step import Action
from sparkgate.clients.registering.values import MISSING, argv_of
from sparkgate.clients.splice import CannotEdit

ENVIRONMENT = ("env", "environment", "envs")
"""Keys of the variables that an entry sets, over all hosts."""
TAKES_NUMBERS = frozenset({"openclaw"})
"""Hosts that take numbers as values of variables; others drop the server, some without a word."""


def examine_entries(case: Case) -> list[Finding]:
    return [finding for name in SERVER_NAMES.values() for finding in _entry(case, name)]


def _entry(case: Case, server: str) -> Iterator[Finding]:
    there = case.entry(server)
    if there is MISSING:
        yield from _missing(case, server)
    elif not case.counts(there):
        words = f"{server} is there, and does not start sparkgate as sparkgate writes it."
        way_out = f"rename that entry, or `{case.register} --replace`"
        yield Finding("entry", "foreign", "fail", words, way_out, server)
    else:
        yield _compared(case, server, there)
        yield from _variables(case, server, there)


def _missing(case: Case, server: str) -> Iterator[Finding]:
    if case.known.entry(server) is not None:
        words = f"{server} was registered, and is not there any more."
        yield Finding("entry", "missing", "fail", words, f"`{case.register}`", server)
    elif server in case.usual and case.ours():
        words = f"{server} is not registered, and config.toml has a use for it."
        yield Finding("entry", "absent", "warn", words, f"`{case.register}`", server)


def _compared(case: Case, server: str, there: Mapping[str, Any]) -> Finding:
    """By what a registration would do to it now."""
    wanted = case.host.entry(case.launch(server))
    try:
        step = adding(case.place.site, [case.launch(server)], Wish(), case.text, case.known).steps[0]
    except CannotEdit as error:
        words = f"{case.place.target.file}:{error}: `register` could not bring {server} up to date here."
        return Finding("entry", "fixed", "warn", words, "write the entry out by hand", server)
    return _judged(case, server, step.action, differences(there, wanted, case.host.owned))


def _judged(case: Case, server: str, action: Action, differs: str) -> Finding:
    if action == "same":
        return Finding("entry", "same", "ok", f"{server} is as it would be written now.", server=server)
    if action == "update":
        words = f"{server} is older than this sparkgate: {differs}."
        return Finding("entry", "outdated", "warn", words, f"`{case.register}`", server)
    words = f"{server} is not as it would be written now: {differs}."
    way_out = f"if you did not mean that: `{case.register} --replace`"
    return Finding("entry", "edited", "warn", words, way_out, server)


def differences(there: Mapping[str, Any], wanted: Mapping[str, Any], owned: frozenset[str]) -> str:
    """What of an entry is another, in words; values only of the interpreter."""
    now, then = argv_of(there), argv_of(wanted)
    words = []
    if now[:1] != then[:1]:
        words.append(f"another interpreter ({' '.join(now[:1]) or 'none'}, this is {then[0]})")
    if now[1:] != then[1:]:
        words.append("other arguments")
    others = [key for key in sorted(owned - {"command", "cmd", "args"}) if there.get(key) != wanted.get(key)]
    return ", ".join([*words, *others]) or "written in another way"


def _variables(case: Case, server: str, there: Mapping[str, Any]) -> Iterator[Finding]:
    if case.host.name in TAKES_NUMBERS:
        return
    for key in ENVIRONMENT:
        values = there.get(key)
        odd = [name for name, value in values.items() if not isinstance(value, str)] if isinstance(values, dict) else []
        if odd:
            words = f"{key}.{odd[0]} of {server} is no text, and the host drops the server for that."
            yield Finding("entry", "not_text", "fail", words, "put its value in quotes", server)
