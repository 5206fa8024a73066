"""A parsed page as Markdown, with the place of every heading."""

from __future__ import annotations

import re
from collections.abc import Container

from sparkgate.reading.code_block import code_block
from sparkgate.reading.inline import Inline
from sparkgate.reading.links import Links
from sparkgate.reading.nodes import Node, walk, words_of
from sparkgate.reading.page import MAX_HEADING_CHARS, MAX_HEADINGS, MAX_TEXT_BYTES, Heading
from sparkgate.reading.table import data_table

_BLOCK_TAGS = (
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure"
    " footer form header hgroup hr legend li main menu nav ol optgroup p search section summary table tbody td tfoot"
    " th thead tr ul h1 h2 h3 h4 h5 h6"
)
BLOCKS = frozenset(_BLOCK_TAGS.split())
PREFORMATTED = frozenset({"pre", "xmp", "listing"})
LISTS = frozenset({"ul", "ol", "menu", "dir"})
MAX_DEPTH = 12
"""Lists and quotations within each other are indented so many times."""
_HEADING = re.compile(r"h([1-6])")
_API = re.compile(
    r"(?:py|c|cpp|js|rst|std|rb|php|go)|function|method|class|attribute|data|exception|property|envvar|macro|module"
    r"|staticmethod|classmethod|decorator"
)
"""Classes of a definition list, one of which says that its terms are signatures (Sphinx)."""


class Writer:
    """Takes a page node by node; `lines` are its Markdown."""

    def __init__(self, skip: Container[int], links: Links) -> None:
        self._skip, self._links = skip, links
        self._inline = Inline(skip, links)
        self.lines: list[str] = []
        self.headings: list[Heading] = []
        self._size = 0
        self._prefixes: list[str] = []
        self._marker = ""
        self._gap, self._before = False, ""
        self._numbers: list[int | None] = []
        self._level, self._signatures = 0, 0

    def enter(self, node: Node) -> bool:
        if node.is_text_node:
            self._inline.text(node.text_content or "")
            return False
        tag = node.tag or ""
        if not node.is_element_node or node.mem_id in self._skip or self._size > MAX_TEXT_BYTES:
            return False
        if tag in PREFORMATTED:
            self._code(node)
            return False
        if tag in BLOCKS:
            self._flush()
            return self._open(node, tag)
        return self._inline.enter(node, tag)

    def leave(self, node: Node) -> None:
        tag = node.tag or ""
        if tag not in BLOCKS:
            self._inline.leave(tag)
        elif match := _HEADING.fullmatch(tag):
            self._heading(int(match[1]))
        elif tag == "dt":
            self._term(node)
        else:
            self._flush()
            self._close(node, tag)

    def _open(self, node: Node, tag: str) -> bool:
        """Whether what is in the block is still to be read."""
        if tag == "table":
            return self._table(node)
        if tag in LISTS:
            self._gap = self._gap and not self._numbers
            self._numbers.append(_first_number(node) if tag == "ol" else None)
        elif tag == "li":
            self._item()
        elif tag == "blockquote":
            self._prefixes.append("> ")
        elif tag == "dl":
            self._signatures += _is_api(node)
        elif tag == "dd":
            self._gap = False
        return True

    def _close(self, node: Node, tag: str) -> None:
        if tag in LISTS and self._numbers:
            self._numbers.pop()
            self._gap = True
        elif tag in ("li", "blockquote") and self._prefixes:
            self._prefixes.pop()
            self._marker = ""
        elif tag == "dl":
            self._signatures -= _is_api(node)

    def _item(self) -> None:
        marker = "- "
        if self._numbers and (number := self._numbers[-1]) is not None:
            marker, self._numbers[-1] = f"{number}. ", number + 1
        self._gap = self._gap and not self._marker and not (self.lines and self._follows_item())
        self._prefixes.append(" " * len(marker))
        self._marker = marker

    def _follows_item(self) -> bool:
        return bool(re.match(r"\s*(?:- |\d+\. |  )", self.lines[-1]))

    def _flush(self) -> None:
        if text := self._inline.take():
            self._block(text.split("\n"))

    def _block(self, lines: list[str], *, bare: bool = False) -> None:
        """Add lines, each behind what stands before it; `bare`: at the left edge."""
        indent = "" if bare else "".join(self._prefixes[:MAX_DEPTH])
        if self._gap and self.lines:
            self._add(min(self._before, indent, key=len).rstrip())
        first = indent
        if self._marker:
            first = "".join(self._prefixes[:-1][: MAX_DEPTH - 1]) + self._marker
            self._marker = ""
            if bare:
                self._add(first.rstrip())
                first = ""
        for number, line in enumerate(lines):
            self._add(((indent if number else first) + line) if line else "")
        self._gap, self._before = True, indent

    def _add(self, line: str) -> None:
        self.lines.append(line)
        self._size += len(line) + 1

    def _code(self, node: Node) -> None:
        self._flush()
        for link in node.css("a[href]"):
            self._links.add(link.attributes.get("href"))
        if lines := code_block(node, self._skip):
            self._block(lines, bare=True)

    def _table(self, node: Node) -> bool:
        lines = data_table(node, self._skip, self._links)
        if lines is None:
            return True
        caption = node.css_first("caption")
        if caption is not None and caption.mem_id not in self._skip:
            self._block([" ".join(caption.text().split())])
        self._block(lines, bare=True)
        return False

    def _heading(self, level: int) -> None:
        self._level = level
        self._headed(self._inline.take(), level)

    def _headed(self, text: str, level: int) -> None:
        text = " ".join(text.split())
        if not text:
            return
        self._marker = ""
        start = self._size + (1 if self._gap and self.lines else 0)
        self._block([f"{'#' * level} {text}"], bare=True)
        if len(self.headings) < MAX_HEADINGS:
            self.headings.append(Heading(level, text.replace("`", "")[:MAX_HEADING_CHARS], start))

    def _term(self, node: Node) -> None:
        """A term of a definition list; the signature of an API is a heading, so that it can be found as one."""
        text = self._inline.take()
        if self._signatures and ("sig" in words_of(node, "class") or _is_api(node.parent)):
            self._headed(text, min(6, self._level + self._signatures))
        elif text:
            lines = text.split("\n")
            self._block([f"**{line}**" if "`" not in line and "*" not in line else line for line in lines])


def _is_api(node: Node | None) -> bool:
    return node is not None and any(map(_API.fullmatch, words_of(node, "class")))


def _first_number(node: Node) -> int:
    start = (node.attributes.get("start") or "").strip()
    return int(start) if start.isascii() and start.isdigit() and len(start) < 9 else 1


def write(root: Node, skip: Container[int], links: Links) -> tuple[str, tuple[Heading, ...]]:
    """The Markdown of what is below `root`, and its headings."""
    writer = Writer(skip, links)
    walk(root, writer.enter, writer.leave)
    writer._flush()
    return "\n".join(writer.lines), tuple(writer.headings)
