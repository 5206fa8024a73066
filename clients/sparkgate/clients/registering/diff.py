"""What would change, as a person reads it: keys, and values of ours; whatever else is there may be a secret."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from sparkgate.clients.hosts.host import Format
from sparkgate.clients.registering.doors import cut
from sparkgate.clients.registering.record import Registration, sha
from sparkgate.clients.registering.values import MISSING, at
from sparkgate.clients.splice import CannotEdit, read
from sparkgate.failures.diagnosis import without_secrets

LINE_MAX = 1000
"""Characters of a line that is shown whole; some hosts keep all they know in one."""
TOKEN = re.compile(r"""\s+|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[{}\[\],:=]|[^\s{}\[\],:="']+""")
SIGNS = frozenset({"-", "#", "//", "/*", "*/", "|", ">", "|-", ">-", "---", "true", "false", "null", "…"})
"""Words that hold no value of anybody."""
HIDDEN = "…"
HIDDEN_RUN = re.compile(r"…(?:[ \t:=]*…)+")


def shown(before: str | None, after: str | None, name: str, words: Collection[str]) -> str:
    """A unified diff in which only `words` are legible, also in the lines around a change."""
    old, new = ("/dev/null" if text is None else name for text in (before, after))
    if max(map(len, [*(before or "").splitlines(), *(after or "").splitlines()]), default=0) > LINE_MAX:
        return "\n".join([f"--- {old}", f"+++ {new}", *_within(before or "", after or "", words)])
    lines = difflib.unified_diff((before or "").splitlines(), (after or "").splitlines(), old, new, lineterm="")
    return "\n".join(
        line if number < 2 or line.startswith("@@") else line[:1] + _masked(line[1:], words)
        for number, line in enumerate(lines)
    )


def legible(form: Format, key: tuple[str, ...], texts: Iterable[tuple[str, Registration]]) -> frozenset[str]:
    """Keys of the texts, and the values in them that we have written by what is remembered of each."""
    found: set[str] = set()
    for text, known in texts:
        try:
            data = read(text, form)
        except CannotEdit:
            continue
        found |= set(_keys(data))
        for value in _ours(data, key, known):
            found |= set(TOKEN.findall(value)) | {value}
    return frozenset(found)


def _keys(data: Any) -> Iterator[str]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key)
            yield from _keys(value)
    elif isinstance(data, list):
        for value in data:
            yield from _keys(value)


def _ours(data: Any, key: tuple[str, ...], known: Registration) -> Iterator[str]:
    """Values that are what we have written, told by their hashes."""
    for entry in known.entries:
        for name, hashes in entry.owned.items():
            value = at(data, (*key, entry.server, name))
            if value is not MISSING and sha(value) in hashes:
                yield from _leaves(value)
    for closed in known.closed:
        value = at(data, closed.key)
        if value is not MISSING and sha(value) == closed.hash:
            theirs = set(_leaves(closed.before))
            yield from (leaf for leaf in _leaves(value) if leaf not in theirs)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield str(value)


def _masked(line: str, words: Collection[str]) -> str:
    """The line with its structure, its keys and our values."""
    kept = (word if _may_stand(word, words) else HIDDEN for word in TOKEN.findall(line))
    return without_secrets(HIDDEN_RUN.sub(HIDDEN, "".join(kept)))


def _may_stand(word: str, words: Collection[str]) -> bool:
    if word.isspace() or word in "{}[],:=" or word in SIGNS or word in words:
        return True
    if word[0] in "\"'":
        return _unquoted(word) in words
    return "." in word and all(part in words for part in word.split("."))


def _unquoted(word: str) -> str:
    if len(word) < 2 or word[-1] != word[0]:
        return HIDDEN
    try:
        return str(json.loads(word)) if word[0] == '"' else word[1:-1]
    except ValueError:
        return word[1:-1]


def _within(before: str, after: str, words: Collection[str]) -> list[str]:
    """Only what is not the same, of each text one part."""
    parts = zip("-+", cut(before, after), strict=True)
    return ["@@ within long lines @@", *(_short(_part(sign, part, words)) for sign, part in parts)]


def _part(sign: str, part: str, words: Collection[str]) -> str:
    return "\n".join(f"{sign}{_masked(line, words)}" for line in part.splitlines() or [""])


def _short(part: str) -> str:
    return part if len(part) <= 2 * LINE_MAX else f"{part[:LINE_MAX]} … {part[-LINE_MAX:]}"
