"""YAML as a tree with places, built from PyYAML's events: what Hermes reads it with, whose rules are those of 1.1."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from sparkgate.clients.splice.edit import MAX_DEPTH, body_start, refuse

MAX_NODES = 1_000_000
"""Of a file with all its aliases followed."""

_UNREADABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\r(?!\n)")
_NAMED = re.compile(r"'[^']*'?|\"[^\"]*\"?")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVE: Callable[[type[yaml.Node], str, tuple[bool, bool]], str] = Resolver().resolve
_MAKE = SafeConstructor()
_CORE = "tag:yaml.org,2002:"
_BOUNDLESS = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)


@dataclass(slots=True, eq=False)
class Node:
    """One value or name.

    Attributes:
        start, end: indices into the text, without what is behind the last character that belongs to it.
        tag: as written, or what the value resolves to; `plain` is whether none was written.
        flow: a map or list in braces or brackets.
        parts: items of a list; name, value, name, value … of a map.
        size, depth: nodes and levels, with aliases followed.
    """

    kind: Literal["scalar", "map", "list", "alias"]
    start: int
    end: int
    value: str = ""
    tag: str = ""
    plain: bool = True
    anchor: str | None = None
    flow: bool = False
    parts: list[Node] = field(default_factory=list)
    target: Node | None = None
    size: int = 1
    depth: int = 1
    data: Any = None

    @property
    def empty(self) -> bool:
        """Nothing is written where the value would be."""
        return self.kind == "scalar" and self.start == self.end

    def entries(self) -> Iterator[tuple[Node, Node]]:
        return zip(self.parts[::2], self.parts[1::2], strict=True)


def tree(text: str, loader: Any = _LOADER) -> Node | None:
    """The only document of the text, None when it has none; raises CannotEdit."""
    if found := _UNREADABLE.search(text, body_start(text)):
        refuse(text, found.start(), "a character that YAML cannot hold, or a lone carriage return")
    builder = _Builder(text, body_start(text))
    try:
        for event in yaml.parse(text[builder.offset :], Loader=loader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        at = builder.offset + _index(error.problem_mark or error.context_mark)
        refuse(text, at, f"not YAML: {_NAMED.sub('…', error.problem or '')}")
    except yaml.YAMLError:
        refuse(text, builder.offset, "not YAML")
    if builder.root:
        plain_data(text, builder.root)
    return builder.root


def _index(mark: Any) -> int:
    return int(mark.index) if mark else 0


class _Builder:
    """Puts the events of one document together."""

    def __init__(self, text: str, offset: int) -> None:
        self.text, self.offset = text, offset
        self.root: Node | None = None
        self.open: list[Node] = []
        self.anchors: dict[str, Node] = {}
        self.documents = 0

    def take(self, event: yaml.Event) -> None:
        start = self.offset + _index(event.start_mark)
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                refuse(self.text, start, "a second document: which of them the host reads is not certain")
        elif isinstance(event, yaml.CollectionEndEvent):
            self.close(self.offset + _index(event.end_mark))
        elif isinstance(event, yaml.NodeEvent):
            self.add(self.node(event, start, self.offset + _index(event.end_mark)))

    def node(self, event: yaml.NodeEvent, start: int, end: int) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, start, end)
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event, start, end)
        kind: Literal["map", "list"] = "map" if isinstance(event, yaml.MappingStartEvent) else "list"
        started = cast(yaml.CollectionStartEvent, event)
        return Node(
            kind,
            start,
            end,
            tag=started.tag or "",
            plain=not started.tag,
            anchor=event.anchor,
            flow=bool(started.flow_style),
        )

    def alias(self, event: yaml.AliasEvent, start: int, end: int) -> Node:
        target = self.anchors.get(event.anchor or "")
        if target is None or target in self.open:
            refuse(self.text, start, "an alias of nothing, or of what it stands in")
        return Node("alias", start, end, target=target, size=target.size, depth=target.depth)

    def scalar(self, event: yaml.ScalarEvent, start: int, end: int) -> Node:
        tag = event.tag
        if tag is None or tag == "!":
            tag = _RESOLVE(yaml.ScalarNode, event.value, event.implicit)
        if event.style in ("|", ">"):
            end = self.block_end(start, end)
        return Node("scalar", start, end, value=event.value, tag=tag, plain=not event.tag, anchor=event.anchor)

    def block_end(self, start: int, end: int) -> int:
        """Of a block scalar: with its blank lines where it keeps them, without its last line break."""
        written = self.text[start:end]
        header = written.split("\n", 1)[0].split("#")[0]
        return start + len(re.sub(r"\r?\n[ ]*\Z", "", written) if "+" in header else written.rstrip())

    def add(self, node: Node) -> None:
        if node.anchor:
            self.anchors[node.anchor] = node
        if self.open:
            self.open[-1].parts.append(node)
        else:
            self.root = node
        if node.kind in ("map", "list"):
            self.open.append(node)
            if len(self.open) > MAX_DEPTH:
                refuse(self.text, node.start, f"nested over {MAX_DEPTH} levels")

    def close(self, end: int) -> None:
        node = self.open.pop()
        node.end = end if node.flow or not node.parts else node.parts[-1].end
        node.size = 1 + sum(part.size for part in node.parts)
        node.depth = 1 + max((part.depth for part in node.parts), default=0)
        if node.size > MAX_NODES or node.depth > MAX_DEPTH:
            refuse(self.text, node.start, "aliases that grow beyond all measure")


def plain_data(text: str, node: Node) -> Any:
    """What a node stands for; every node is worked out once, so aliases cost nothing."""
    if node.target:
        return node.target.data
    if node.kind == "scalar":
        node.data = _scalar(text, node)
    elif not node.plain and node.tag not in (f"{_CORE}map", f"{_CORE}seq", "!"):
        refuse(text, node.start, "a tag whose meaning only the host knows")
    elif node.kind == "list":
        node.data = list(map(plain_data, [text] * len(node.parts), node.parts))
    else:
        node.data = _table(text, node)
    return node.data


def _scalar(text: str, node: Node) -> Any:
    kind = node.tag.removeprefix(_CORE)
    made = yaml.ScalarNode(node.tag, node.value)
    if kind in ("str", "timestamp", "value", "merge"):
        return node.value
    if kind not in ("null", "bool", "int", "float"):
        refuse(text, node.start, "a tag whose meaning only the host knows")
    if kind == "float" and _BOUNDLESS.fullmatch(node.value):
        refuse(text, node.start, "a number without a value")
    try:
        return getattr(_MAKE, f"construct_yaml_{kind}")(made)
    except (ValueError, KeyError, IndexError):
        refuse(text, node.start, "a value that is not what its tag says, or a number that is too long")


def _table(text: str, node: Node) -> dict[Any, Any]:
    table: dict[Any, Any] = {}
    for name, value in node.entries():
        plain = plain_data(text, value)
        if name.tag == f"{_CORE}merge":
            table = _merged(text, value, plain) | table
        elif isinstance(key := plain_data(text, name), (dict, list)):
            refuse(text, name.start, "a name that is a table or a list")
        else:
            table[key] = plain
    return table


def _merged(text: str, node: Node, plain: Any) -> dict[Any, Any]:
    merged: dict[Any, Any] = {}
    for part in reversed(plain) if isinstance(plain, list) else [plain]:
        if not isinstance(part, dict):
            refuse(text, node.start, "`<<` without a table")
        merged |= part
    return merged
