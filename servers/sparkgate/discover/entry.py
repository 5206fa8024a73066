"""What was found as tables of the catalogue, for a person to read and to paste. A secret is in none of them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparkgate.discover.discovery import Found
from sparkgate.discover.signs import Judge, holds_secret
from sparkgate.engines import ENGINES
from sparkgate.engines.spec import line
from sparkgate.settings import ENGINE_NAME

NAME_MAX_CHARS = 32
GIB_DIGITS = 1
STATES: Mapping[str, str] = {
    "needs key": "it wants a key, so its models are not told; sparkgate keeps no key of an engine",
    "loading": "it does not answer yet, so its models are not told; run this again once it is ready",
    "stopped": "it is stopped, so its models are not told",
}
PUBLIC = "it is open to other machines: let it listen on 127.0.0.1, unless that is meant"
SECRET = "its command line holds a key or the like, so it is not shown and nothing starts it from here: keep the key in"
SECRET += " a file, or add runtime and command yourself"
NOT_TEXT = "its command line is no UTF-8 text, so it cannot be written down here"
ENVIRONMENT = "variables of its environment are not taken over: add those it needs as environment"
NO_MODEL = 'add runtime = "daemon" and model, the model it is to load'
NO_COMMAND = "its command line cannot be seen, so nothing starts it from here"
CHOOSE = "it has none loaded; model is the first of {count} that it lists: choose"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One table. `entry` is what it sets, `because` what spoke for the engine, `notes` what to know or to add."""

    name: str
    because: tuple[str, ...]
    entry: Mapping[str, object]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "engine": self.entry["engine"],
            "url": self.entry["url"],
            "runtime": self.entry.get("runtime", ""),
            "because": list(self.because),
            "entry": dict(self.entry),
            "notes": list(self.notes),
        }

    def as_toml(self) -> str:
        """The table with its reasons and notes as comments."""
        head = f"{ENGINES[str(self.entry['engine'])].title}: {', '.join(self.because)}"
        comments = "".join(f"# {line(text)}\n" for text in (head, *self.notes))
        return comments + f"[engines.{self.name}]\n" + "".join(_rows(self.entry))


def proposals(found: Iterable[Found], taken: Collection[str], judge: Judge) -> list[Proposal]:
    """One table an engine, and one a model that is loaded in a resident one; `taken` are names in use."""
    names = set(taken)
    made = []
    for one in found:
        for model in _models_of(one):
            entry, notes = _entry(one, model, judge)
            name = _free_name(model or one.candidate.owner.unit or one.engine, one.engine, names)
            names.add(name)
            made.append(Proposal(name, one.because, entry, notes))
    return made


def _models_of(one: Found) -> Sequence[str]:
    if one.resident and one.loaded:
        return one.models or ("",)
    front = ENGINES[one.engine].front and not one.resident
    return ("",) if front else one.models[:1] or ("",)


def _entry(one: Found, model: str, judge: Judge) -> tuple[dict[str, object], tuple[str, ...]]:
    place = one.candidate
    entry: dict[str, object] = {"engine": one.engine, "url": place.url}
    owner, notes = _daemon(one, model) if one.resident else _owned(one, judge)
    entry |= owner
    if model:
        entry["model"] = model
    if place.weights and not one.resident and not holds_secret((place.weights,), judge) and _is_text(place.weights):
        entry["weights"] = place.weights
    alone = len(one.models) == 1 and one.loaded if one.resident else True
    if one.held_gib and one.state == "answers" and alone and not ENGINES[one.engine].front:
        entry["memory_gib"] = round(one.held_gib, GIB_DIGITS) or 10**-GIB_DIGITS
    return entry, tuple(filter(None, (STATES.get(one.state, ""), PUBLIC if place.public else "", *notes)))


def _daemon(one: Found, model: str) -> tuple[dict[str, object], Iterable[str]]:
    """A resident engine stays up, whoever owns its process."""
    owner = one.candidate.owner
    whose = f"its process is of {owner.runtime} {owner.unit}, and stays up" if owner.unit else ""
    if not model:
        return {}, (whose, NO_MODEL)
    choose = CHOOSE.format(count=len(one.models)) if not one.loaded and len(one.models) > 1 else ""
    return {"runtime": "daemon"}, (whose, choose)


def _owned(one: Found, judge: Judge) -> tuple[dict[str, object], Iterable[str]]:
    place = one.candidate
    owner = place.owner
    if owner.runtime != "process":
        told = {"runtime": owner.runtime, "unit": owner.unit} if owner.runtime else {}
        return dict(told), owner.notes
    if not place.argv:
        return {}, (NO_COMMAND,)
    if not all(_is_text(word) for word in (*place.argv, place.folder)):
        return {}, (NOT_TEXT,)
    if holds_secret((*place.argv, place.folder), judge):
        return {}, (SECRET,)
    started: dict[str, object] = {"runtime": "process", "command": list(place.argv)}
    return started | ({"folder": place.folder} if place.folder else {}), (*owner.notes, ENVIRONMENT)


def _free_name(wanted: str, engine: str, taken: Collection[str]) -> str:
    """A name that `[engines.NAME]` may have: the last part of a model's id, with a number when it is in use."""
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", wanted.rstrip("/").rpartition("/")[2]).strip("-_")
    base = base[:NAME_MAX_CHARS] if ENGINE_NAME.fullmatch(base[:NAME_MAX_CHARS]) else engine
    name, count = base, 1
    while name in taken:
        count += 1
        name = f"{base[: NAME_MAX_CHARS - len(str(count)) - 1]}-{count}"
    return name


def _rows(entry: Mapping[str, object]) -> Iterator[str]:
    for key, value in entry.items():
        shown = f"[{', '.join(map(quoted, value))}]" if isinstance(value, list) else quoted(value)
        yield f"{key} = {shown}\n"


def quoted(value: object) -> str:
    """A number, or text as a basic string of TOML, which is that of JSON but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _is_text(word: str) -> bool:
    """Whether it can be written as UTF-8: words of a command are bytes."""
    return not any("\ud800" <= character <= "\udfff" for character in word)
