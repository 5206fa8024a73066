"""Tables of data as Markdown; a table that only lays a page out is none."""

from __future__ import annotations

from collections.abc import Container

from sparkgate.reading.inline import Inline
from sparkgate.reading.links import Links
from sparkgate.reading.nodes import Node, walk

BLOCKS = frozenset({"table", "blockquote", "h1", "h2", "h3", "dl", "hr", "form"})
MAX_COLUMNS, MAX_CELL_CHARS, MAX_SPAN = 40, 2000, 200
Rows = list[list[str]]


class _Table:
    """One walk over a table: its cells, unless it turns out to be none."""

    def __init__(self, root: Node, skip: Container[int], links: Links) -> None:
        self._root, self._skip, self._links = root, skip, links
        self.rows: Rows = []
        self.header = False
        self.is_data = True
        self._down: dict[int, tuple[int, str]] = {}
        self._cell: Inline | None = None
        self._span = (1, 1)

    def enter(self, node: Node) -> bool:
        tag = node.tag or ""
        if not self.is_data or node.mem_id in self._skip or tag == "caption":
            return False
        if node.is_text_node:
            if self._cell:
                self._cell.text(node.text_content or "")
            return False
        if (tag in BLOCKS and node != self._root) or (tag == "pre" and "\n" in node.text().strip()):
            self.is_data = False
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self._open(node, tag)
        elif self._cell:
            return self._within(node, tag, self._cell)
        return self.is_data

    def _open(self, node: Node, tag: str) -> None:
        self._cell = Inline(self._skip, self._links)
        self._span = (_number(node, "colspan", MAX_COLUMNS), _number(node, "rowspan", MAX_SPAN))
        self.header |= tag == "th" and len(self.rows) <= 1

    def _within(self, node: Node, tag: str, cell: Inline) -> bool:
        if tag in ("p", "div", "li", "ul", "ol"):
            cell.line()
        return cell.enter(node, "code" if tag == "pre" else tag)

    def leave(self, node: Node) -> None:
        tag = node.tag or ""
        if tag in ("td", "th") and self._cell and self.rows:
            text = _in_one_line(self._cell.take())
            self.is_data &= len(text) <= MAX_CELL_CHARS
            self._close(text)
            self._cell = None
        elif tag == "tr" and self.rows:
            self._fill(len(self.rows[-1]))
        elif self._cell:
            self._cell.leave(tag)

    def _close(self, text: str) -> None:
        row = self.rows[-1]
        self._fill(len(row))
        across, down = self._span
        for column in range(len(row), min(len(row) + across, MAX_COLUMNS)):
            self._down[column] = (down - 1, text)
            row.append(text if column == len(row) else "")

    def _fill(self, column: int) -> None:
        """What reaches down from the rows above is said again."""
        row = self.rows[-1]
        while self._down.get(column, (0, ""))[0] > 0 and column < MAX_COLUMNS:
            left, text = self._down[column]
            self._down[column] = (left - 1, text)
            row.append(text)
            column += 1


def _number(node: Node, name: str, most: int) -> int:
    word = (node.attributes.get(name) or "").strip()
    return max(1, min(int(word), most)) if word.isascii() and word.isdigit() and len(word) < 9 else 1


def _in_one_line(text: str) -> str:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    joined = "".join(line + (" " if line[-1] in ".,:;!?" else "; ") for line in lines)
    return joined.rstrip("; ").replace("|", "\\|") if len(lines) > 1 else text.strip().replace("|", "\\|")


def data_table(root: Node, skip: Container[int], links: Links) -> list[str] | None:
    """The lines of a table; None when it is none of data: one column, or with blocks in its cells."""
    table = _Table(root, skip, links)
    walk(root, table.enter, table.leave)
    rows = [row for row in table.rows if any(row)]
    if not table.is_data or not rows or max(map(len, rows)) < 2:
        return None
    return _drawn(rows, table.header)


def _drawn(rows: Rows, header: bool) -> list[str]:
    width = max(map(len, rows))
    if not header:
        rows = [[""] * width, *rows]
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in rows]
    return [lines[0], "|" + " --- |" * width, *lines[1:]]
