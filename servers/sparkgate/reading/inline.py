"""The text of one paragraph: code in backticks, pictures by their description, links by their words."""

from __future__ import annotations

import re
from collections.abc import Container

from sparkgate.reading.links import Links
from sparkgate.reading.nodes import Node, plain
from sparkgate.reading.visible import clean

CODE = frozenset({"code", "kbd", "samp", "tt"})
_SPACE = re.compile(r"[ \t\n\r\f\xa0]+")
_AROUND_LINE_END = re.compile(r" *\n *")
_TICKS = re.compile(r"`+")
_NO_PICTURE = re.compile(r"\W*(?:logo|icon|avatar|image|photo|spacer)?\W*", re.I)
MAX_ALT_CHARS = 500
_POWER = re.compile(r"[+−-]?[\w+−-]{1,12}")


class Inline:
    """Collects what comes in a paragraph until it is taken.

    Args:
        skip: nodes that are not read.
        links: takes the addresses.
    """

    def __init__(self, skip: Container[int], links: Links) -> None:
        self._skip, self._links = skip, links
        self._pieces: list[str] = []
        self._after_link = False

    def text(self, text: str) -> None:
        self._after_link = False
        self._pieces.append(_SPACE.sub(" ", text))

    def line(self) -> None:
        self._pieces.append("\n")

    def enter(self, node: Node, tag: str) -> bool:
        """Whether what is in the node is to be read as well."""
        if tag == "a":
            self._links.add(node.attributes.get("href"))
            if self._after_link:
                self._pieces.append(" ")
        elif tag in CODE:
            self._code(node)
            return False
        elif tag == "img":
            self._picture(node)
        elif tag == "br":
            self.line()
        elif tag == "math":
            self.text(_formula(node))
            return False
        elif tag in ("sup", "sub"):
            return self._raised(node, tag)
        elif tag in ("del", "s", "strike"):
            self._pieces.append("~~")
        return True

    def leave(self, tag: str) -> None:
        if tag == "a":
            self._after_link = True
        elif tag in ("del", "s", "strike"):
            self._pieces.append("~~")
        elif tag in ("q",):
            self._pieces.append('"')

    def take(self) -> str:
        """The paragraph, a line for each that the page breaks; what was collected is gone."""
        text = clean("".join(self._pieces)).replace("~~~~", "")
        self._pieces.clear()
        self._after_link = False
        return _AROUND_LINE_END.sub("\n", _SPACE_RUN.sub(" ", text)).strip()

    def _code(self, node: Node) -> None:
        for link in node.css("a[href]"):
            self._links.add(link.attributes.get("href"))
        text = " ".join(plain(node, self._skip).split())
        if text:
            ticks = "`" * (1 + max(map(len, _TICKS.findall(text)), default=0))
            space = " " if text[0] == "`" or text[-1] == "`" else ""
            self.text(f"{ticks}{space}{text}{space}{ticks}")

    def _picture(self, node: Node) -> None:
        alt = (node.attributes.get("alt") or "").strip()[:MAX_ALT_CHARS]
        if not _NO_PICTURE.fullmatch(alt):
            self.text(f"[image: {alt}]")

    def _raised(self, node: Node, tag: str) -> bool:
        """A power, an index, or the mark of a footnote."""
        text = node.text().strip()
        if not _POWER.fullmatch(text):
            return True
        self._pieces.append(f"[{text}]" if node.css_first("a") else ("^" if tag == "sup" else "_") + text)
        return False


_SPACE_RUN = re.compile(r" {2,}")


def _formula(node: Node) -> str:
    """As TeX where the page says it so."""
    said = node.css_first('annotation[encoding*="tex"]')
    told = (said.text() if said else node.attributes.get("alttext") or "").strip()
    return f"${told}$" if told else node.text()
