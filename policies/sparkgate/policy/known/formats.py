"""What credential files look like: each reader turns a text into (name, value) pairs, where "" names a credential."""

from __future__ import annotations

import base64
import binascii
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator

Pair = tuple[str, str]
Reader = Callable[[str], Iterator[Pair]]

_ASSIGNMENT = re.compile(
    r"""\s*(?:-\s+)?(?:export\s+|set\s+)?["']?([A-Za-z_:][\w.\- ]{0,80}?)["']?\s*[:=]\s*(?!//)(.*)"""
)
_INLINE = re.compile(
    r"""(?<![\w.-])["']?([A-Za-z_][\w.-]{0,80})["']?\s*:\s*(?:"([^"]+)"|'([^']+)'|([^\s,{}\[\]"']+))"""
)
_QUOTED = re.compile(r""""((?:[^"\\]|\\.)*)"|'([^']*)'""")
_ESCAPE = re.compile(r"""\\(["'\\/])""")
_COMMENT = re.compile(r"\s[#;].*")
_NETRC = re.compile(r"""\b(?:password|passwd|account)\s+(?:"([^"]+)"|(\S+))""")
_NPM = re.compile(r"(?:^|:)\s*(_\w+|\w*[pP]assword)\s*=\s*(\S+)", re.MULTILINE)
_LOGIN = re.compile(r"""(?<=://)([^/\s"'<>]{1,512})@""")
_BODY = re.compile(r"[A-Za-z0-9+/=]{16,}")


def whole(text: str) -> Iterator[Pair]:
    """The file is the credential."""
    yield "", text.strip()


def lines(text: str) -> Iterator[Pair]:
    """Every line is one, but for empty ones and comments; in `NAME=value` the value is one, too."""
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("#"):
            yield "", line
            named = _ASSIGNMENT.match(line)
            yield from [("", _plain(named[2]))] if named else []


def assignments(text: str) -> Iterator[Pair]:
    """`NAME=value`, `name: value` and `- item` lines: .env, INI, simple YAML, JSON with comments, broken JSON or TOML.

    It reads what it understands and passes over the rest.
    """
    last, items = "", list[str]()
    for line in text.splitlines():
        if line.lstrip().startswith(("#", ";", "//")) or not line.strip():
            continue
        item = line.strip().removeprefix("- ").strip()
        found = _ASSIGNMENT.match(line)
        if "{" in line:
            yield from _inline(line)
        if found is None or item.startswith(("-", '"-', "'-")):
            items.append(_plain(item))
            continue
        yield from arguments(items, last)
        last, items = found[1], []
        yield found[1], _plain(found[2])
    yield from arguments(items, last)


def _inline(line: str) -> Iterator[Pair]:
    for name, *values in _INLINE.findall(line):
        yield name, next(filter(None, values), "")


def _plain(value: str) -> str:
    """Without quotes, a comment at its end, and the comma of a list."""
    quoted = _QUOTED.match(value.strip())
    if quoted:
        return _ESCAPE.sub(r"\1", quoted[1]) if quoted[1] is not None else quoted[2]
    return _COMMENT.sub("", value).strip().rstrip(",")


def arguments(items: Iterable[str], name: str) -> Iterator[Pair]:
    """The items of a list called `name`, where `--option value`, `--option=value` and `NAME=value` name a value."""
    option = ""
    for item in items:
        head, equals, tail = item.partition("=")
        dashed = item.startswith("-") and " " not in head
        if equals and (dashed or (head.isidentifier() and head.isupper())):
            yield head.lstrip("-"), tail
        elif not dashed:
            yield option or name, item
        option = item.lstrip("-") if dashed and not equals else ""


def tree(root: object) -> Iterator[Pair]:
    """Every text in nested tables and lists with the name it stands under. No recursion, so no depth is too deep."""
    waiting: list[tuple[str, object]] = [("", root)]
    while waiting:
        name, node = waiting.pop()
        if isinstance(node, dict):
            waiting += [(str(key), value) for key, value in node.items()]
        elif isinstance(node, list):
            waiting += [(name, item) for item in node if not isinstance(item, str)]
            yield from arguments([item for item in node if isinstance(item, str)], name or "value")
        elif isinstance(node, str):
            yield name or "value", node


def json_tree(text: str) -> Iterator[Pair]:
    """Raises ValueError or RecursionError: this is no JSON."""
    return tree(json.loads(text))


def toml_tree(text: str) -> Iterator[Pair]:
    """Raises ValueError or RecursionError: this is no TOML."""
    return tree(tomllib.loads(text))


def netrc(text: str) -> Iterator[Pair]:
    """The passwords and accounts of every machine."""
    for quoted, bare in _NETRC.findall(text):
        yield "", quoted or bare


def npmrc(text: str) -> Iterator[Pair]:
    """`//registry/:_authToken=…`; `_password` is base64 of it."""
    for name, value in _NPM.findall(text):
        yield name, value
        if name == "_password":
            yield name, decoded(value)


def pgpass(text: str) -> Iterator[Pair]:
    """`host:port:database:user:password`."""
    for line in text.splitlines():
        yield "", line.split(":", 4)[-1].replace("\\:", ":")


def searxng(text: str) -> Iterator[Pair]:
    """`ADDRESS basic USER:PASSWORD`, `ADDRESS bearer TOKEN`, `ADDRESS header NAME: VALUE`."""
    for line in text.splitlines():
        words = [] if line.lstrip().startswith("#") else line.split(None, 2)
        if len(words) == 3 and words[1].lower() == "basic":
            yield "", words[2].strip().partition(":")[2]
            yield "", base64.b64encode(words[2].strip().encode("utf-8", "replace")).decode("ascii")
        elif len(words) == 3:
            yield "", words[2].partition(": ")[2].strip() or words[2].strip()


def nothing(_text: str) -> Iterator[Pair]:
    """Only what `key_lines` and `logins` find in every file."""
    return iter(())


def key_lines(text: str) -> Iterator[str]:
    """Body lines of the private keys in a text, without what all keys of a kind begin with."""
    for block in text.split("-----BEGIN ")[1:]:
        kind, _, rest = block.partition("-----")
        if "PRIVATE KEY" not in kind:
            continue
        lines_of_it = rest.partition("-----END")[0].replace("\\n", "\n").splitlines()
        body = [line for line in map(str.strip, lines_of_it) if _BODY.fullmatch(line)]
        yield from body[1:]
        if len(body) == 1:
            yield body[0][24:]


def logins(text: str) -> Iterator[str]:
    """`user:password` or `user` of the URLs in a text."""
    return (found[1] for found in _LOGIN.finditer(text))


def decoded(value: str) -> str:
    """Printable text from base64, or ""."""
    try:
        text = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
    return text if text.isprintable() else ""


READERS: dict[str, Reader] = {
    "whole": whole,
    "lines": lines,
    "assignments": assignments,
    "json": json_tree,
    "toml": toml_tree,
    "netrc": netrc,
    "npmrc": npmrc,
    "pgpass": pgpass,
    "searxng": searxng,
    "embedded": nothing,
}
