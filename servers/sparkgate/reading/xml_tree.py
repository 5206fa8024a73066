"""XML as a tree, without what it could declare or fetch. However deep, it takes no recursion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.entities import html5
from xml.parsers import expat

_NAMED = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)([A-Za-z][A-Za-z0-9]{1,30};)")
_BARE = re.compile(r"&(?!#?\w{1,30};)")


@dataclass(slots=True)
class Element:
    """`tag` is without its prefix; `content` in the order of the document."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    content: list[Element | str] = field(default_factory=list)

    def elements(self) -> Iterator[Element]:
        return (one for one in self.content if isinstance(one, Element))

    def first(self, *tags: str) -> Element | None:
        """The first child with the first of these tags that there is."""
        for tag in tags:
            for one in self.elements():
                if one.tag == tag:
                    return one
        return None

    def text(self) -> str:
        """All text in it."""
        pieces: list[str] = []
        stack: list[Element | str] = [self]
        while stack:
            one = stack.pop()
            if isinstance(one, str):
                pieces.append(one)
            else:
                stack.extend(reversed(one.content))
        return "".join(pieces)


class DeclaresEntities(Exception):
    """It declares entities of its own, which are not put in."""


class NotWellFormed(Exception):
    """It is no XML."""


def parse(text: str) -> Element:
    """The root element. Entities of HTML and a bare `&`, which many feeds have, are taken for what they mean.

    Raises:
        DeclaresEntities: it does.
        NotWellFormed: it is no XML.
    """
    text = text.lstrip()
    try:
        return _parsed(text)
    except expat.ExpatError:
        text = _BARE.sub("&amp;", _NAMED.sub(lambda match: html5.get(match[1], f"&amp;{match[1]}"), text))
    try:
        return _parsed(text)
    except expat.ExpatError:
        raise NotWellFormed from None


def _parsed(text: str) -> Element:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    root = Element("")
    stack = [root]

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag.rpartition(":")[2], attributes)
        stack[-1].content.append(element)
        stack.append(element)

    def end(_: str) -> None:
        stack.pop()

    def data(text: str) -> None:
        stack[-1].content.append(text)

    def entity(*_: object) -> None:
        raise DeclaresEntities

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, data
    parser.EntityDeclHandler = entity
    parser.Parse(text, True)
    return next(root.elements())
