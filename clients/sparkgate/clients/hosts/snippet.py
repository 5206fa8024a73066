"""What to paste into a host's file: the entries under their key, in the host's notation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkgate.clients.hosts.entry import Launch
from sparkgate.clients.hosts.host import Format, Host

UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


def snippet(host: Host, form: Format, key: Sequence[str], launches: Sequence[Launch]) -> str:
    """The text for these servers, which stands by itself as a whole file; what there is instead for a few hosts."""
    if host.instead:
        return host.instead
    data: dict[str, Any] = {launch.server: host.entry(launch) for launch in launches}
    for name in reversed(key):
        data = {name: data}
    return WRITERS[form](data, len(key) + 1)


def advice(host: Host) -> list[str]:
    """What to mind, what closes the host's own ways to the network where its files say nothing of them, what to do."""
    found = [*host.doors({}), *(door for one in host.beside for door in one.doors({}))]
    return [*host.minds, *(f"{door.what} {_sentence(door.way_out)}" for door in found), host.after]


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _json(data: Mapping[str, Any], _: int) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _yaml(data: Mapping[str, Any], depth: int) -> str:
    """Blocks down to the keys of an entry, whose values are JSON, which YAML reads the same way."""
    return "".join(f"{line}\n" for line in _yaml_lines(data, depth, ""))


def _yaml_lines(data: Mapping[str, Any], depth: int, indent: str) -> list[str]:
    lines = []
    for name, value in data.items():
        if depth and isinstance(value, Mapping):
            lines += [f"{indent}{name}:", *_yaml_lines(value, depth - 1, f"{indent}  ")]
        else:
            lines.append(f"{indent}{name}: {_flow(value)}")
    return lines


def _flow(value: Any) -> str:
    """JSON, with plain names as keys of a table."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(inner)}" for name, inner in value.items()) + "}"
    return _scalars(value)


def _scalars(value: Any) -> str:
    """JSON of texts, numbers, booleans and lists of them, as YAML and TOML read it too: no characters of control."""
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _toml(data: Mapping[str, Any], depth: int) -> str:
    """A table for each server."""
    return "\n".join(_toml_tables(data, depth, ()))


def _toml_tables(data: Mapping[str, Any], depth: int, path: tuple[str, ...]) -> list[str]:
    if depth > 1:
        return [text for name, inner in data.items() for text in _toml_tables(inner, depth - 1, (*path, name))]
    return [
        f"[{'.'.join((*path, name))}]\n" + "".join(f"{key} = {_scalars(value)}\n" for key, value in entry.items())
        for name, entry in data.items()
    ]


WRITERS: dict[Format, Callable[[Mapping[str, Any], int], str]] = {
    "json": _json,
    "jsonc": _json,
    "json5": _json,
    "yaml": _yaml,
    "toml": _toml,
}
