"""XML as text: a feed as a list of its entries, anything else indented."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from selectolax.lexbor import LexborHTMLParser

from sparkgate.reading.links import Links
from sparkgate.reading.markdown import write
from sparkgate.reading.notes import Note
from sparkgate.reading.page import MAX_TEXT_BYTES, Heading, Read
from sparkgate.reading.prune import prune
from sparkgate.reading.visible import clean
from sparkgate.reading.xml_tree import DeclaresEntities, Element, NotWellFormed, parse

MAX_ENTRIES, SUMMARY_CHARS, MAX_INDENT = 200, 1500, 20


def read_xml(text: str, url: str) -> Read:
    """A feed or a document; as it came, with a note, where it is neither."""
    try:
        root = parse(text)
    except DeclaresEntities:
        return Read("xml", "", text, notes=(Note("xml_entities"),))
    except NotWellFormed:
        return Read("xml", "", text, notes=(Note("xml_broken"),))
    entries = list(_entries(root))
    return _feed(root, entries, url) if entries else _document(root, url)


def _entries(root: Element) -> Iterator[Element]:
    """Those of RSS 0.9 to 2.0 and Atom."""
    if root.tag in ("rss", "RDF", "feed"):
        for place in (root, root.first("channel")):
            if place:
                yield from (one for one in place.elements() if one.tag in ("item", "entry"))


def _feed(root: Element, entries: list[Element], url: str) -> Read:
    title = _line(root.first("title") or (root.first("channel") or root).first("title"))
    links, headings = Links(url), []
    pieces = [f"# {title}\n\n"] if title else []
    size = sum(map(len, pieces))
    for entry in entries[:MAX_ENTRIES]:
        name = _line(entry.first("title")) or "(untitled)"
        headings.append(Heading(2, name, size))
        piece = f"## {name}\n\n{_about(entry, links)}"
        pieces.append(piece)
        size += len(piece)
    notes = (Note("feed", MAX_ENTRIES, len(entries)),) if len(entries) > MAX_ENTRIES else ()
    return Read("xml", title, "".join(pieces), tuple(headings), links.all(), notes=notes)


def _about(entry: Element, links: Links) -> str:
    """Date and address, then the summary."""
    date = _line(entry.first("published", "pubDate", "updated", "date"))
    address = links.absolute(_address(entry))
    links.add(address)
    summary = _plain(entry.first("summary", "description", "encoded", "content"))
    lines = " ".join(filter(None, (date, address)))
    return "".join(f"{piece}\n\n" for piece in (lines, summary) if piece)


def _address(entry: Element) -> str:
    found = [one for one in entry.elements() if one.tag == "link"]
    best = next((one for one in found if one.attributes.get("rel", "alternate") == "alternate"), None)
    return (best.attributes.get("href") or best.text().strip()) if best else ""


def _plain(element: Element | None) -> str:
    """The words of a summary, which is HTML more often than not."""
    tree = LexborHTMLParser(element.text() if element else "")
    if tree.body is None:
        return ""
    text, _ = write(tree.body, prune(tree.body, around=False).skip, Links(""))
    return text if len(text) <= SUMMARY_CHARS else text[:SUMMARY_CHARS].rsplit(" ", 1)[0] + " …"


def _line(element: Element | None) -> str:
    return clean(" ".join(element.text().split()))[:300] if element else ""


def _document(root: Element, url: str) -> Read:
    links = Links(url)
    lines: list[str] = []
    size = 0
    for line in _drawn(root, links):
        lines.append(line)
        size += len(line) + 1
        if size > MAX_TEXT_BYTES:
            break
    return Read("xml", _line(root.first("title")), clean("\n".join(lines)), links=links.all())


def _drawn(root: Element, links: Links) -> Iterator[str]:
    """A line for each element that has none in it, and for each beginning and end of the others."""
    stack: list[tuple[Element | str, int]] = [(root, 0)]
    while stack:
        one, depth = stack.pop()
        indent = "  " * min(depth, MAX_INDENT)
        if isinstance(one, str):
            yield from (indent + line for line in one.split("\n") if line.strip())
            continue
        links.add(one.attributes.get("href") or (one.text().strip() if one.tag in ("loc", "link") else ""))
        opening = one.tag + "".join(f" {name}={quoteattr(value)}" for name, value in one.attributes.items())
        if any(one.elements()):
            yield f"{indent}<{opening}>"
            stack.append((f"</{one.tag}>", depth))
            stack.extend((_inner(child), depth + 1) for child in reversed(one.content))
        else:
            text = escape(one.text().strip())
            yield f"{indent}<{opening}>{text}</{one.tag}>" if text else f"{indent}<{opening}/>"


def _inner(child: Element | str) -> Element | str:
    return escape(child.strip()) if isinstance(child, str) else child
