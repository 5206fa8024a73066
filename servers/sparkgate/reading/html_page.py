"""An HTML page as a Read: its main part, what it links to, and whether it has text at all."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser

from sparkgate.reading.links import Links
from sparkgate.reading.markdown import write
from sparkgate.reading.nesting import is_too_deep
from sparkgate.reading.nodes import Node
from sparkgate.reading.notes import Note
from sparkgate.reading.page import Heading, NotReadable, Read
from sparkgate.reading.prune import Pruned, prune, size_of

MAIN = (
    ("main, [role=main]", 0.15),
    ("#mw-content-text, .markdown-body, [itemprop=articleBody]", 0.4),
    ("article", 0.5),
    ("#content, #main-content, #main, .documentwrapper", 0.5),
)
"""Where the main part is → the share of the text that it must have to be it."""
HARDLY_ANY, LITTLE = 60, 400
"""Characters of text; a page with less is empty, or looks like one that a browser has to build."""
LOGIN_CHARS = 300
MUCH_MORE = 3
"""What stands around is read too when there is so many times as much text with it."""
_APP_ROOTS = "#root, #app, #__next, #__nuxt, #___gatsby, app-root, [ng-app], [data-reactroot], #svelte, [ng-version]"
_REFRESH = re.compile(r"\s*\d+\s*[;,]\s*url\s*=\s*[\"']?([^\"'>\s]+)", re.I)

Text = tuple[str, tuple[Heading, ...], tuple[str, ...], Pruned]


def read_html(text: str, url: str) -> Read:
    """The main part of a page as Markdown.

    Raises:
        NotReadable: it is empty, built by JavaScript, asks for a login, or is nested beyond all reason.
    """
    if is_too_deep(text):
        raise NotReadable("damaged")
    tree = LexborHTMLParser(text)
    root = tree.body or tree.root
    if root is None or tree.root is None:
        raise NotReadable("empty_page", "nothing")
    markdown, headings, links, pruned = _text(tree, root, url, around=True)
    notes = [Note("hidden", pruned.hidden)] if pruned.hidden else []
    if len(markdown) < LITTLE:
        more = _text(tree, root, url, around=False)
        if len(more[0]) > MUCH_MORE * len(markdown):
            markdown, headings, links, pruned = more
            notes.append(Note("around"))
    title = _title(tree, headings)
    if forward := _forward(tree, links, url) if len(markdown) < LITTLE else "":
        told = f"{markdown}\n\nThis page sends its reader on to {forward}".strip()
        return Read("html", title, told, links=tuple(dict.fromkeys((forward, *links))))
    notes += _doubts(tree, markdown, pruned)
    return Read("html", title, markdown, headings, links, tuple(notes))


def _text(tree: LexborHTMLParser, root: Node, url: str, *, around: bool) -> Text:
    pruned = prune(root, around=around)
    links = Links(url)
    base = tree.css_first("base[href]")
    if base is not None:
        links.based_on(base.attributes.get("href") or "")
    markdown, headings = write(_main(root) if around else root, pruned.skip, links)
    return markdown, headings, links.all(), pruned


def _main(root: Node) -> Node:
    """The part that holds the text; the whole where no part says so, or several do."""
    size = size_of(root)
    for selector, share in MAIN:
        found = root.css(selector)
        if found and size_of(found[0]) >= share * size:
            return found[0]
    return root


def _doubts(tree: LexborHTMLParser, markdown: str, pruned: Pruned) -> list[Note]:
    """What makes one doubt that this is all.

    Raises:
        NotReadable: it is certain that it is not.
    """
    length = len(markdown)
    if pruned.password and length < LOGIN_CHARS:
        raise NotReadable("login_wall")
    is_app = pruned.scripts > 0 and tree.css_first(_APP_ROOTS) is not None
    if length < HARDLY_ANY and (is_app or not length):
        raise NotReadable("empty_page", "javascript" if is_app or _wants_script(tree) else "nothing")
    doubts = [Note("login")] if pruned.password else []
    if length < LITTLE and pruned.scripts and (is_app or _wants_script(tree)):
        doubts.append(Note("scripted"))
    return doubts


def _wants_script(tree: LexborHTMLParser) -> bool:
    return any("javascript" in node.text().lower() for node in tree.css("noscript")[:5])


def _title(tree: LexborHTMLParser, headings: tuple[Heading, ...]) -> str:
    node = tree.css_first("head > title, body > title")
    told = node.text().strip() if node is not None else ""
    return told or next((heading.text for heading in headings), "")


def _forward(tree: LexborHTMLParser, links: tuple[str, ...], url: str) -> str:
    """Where a page without text of its own sends its reader."""
    for node in tree.css("meta[http-equiv]")[:20]:
        if (node.attributes.get("http-equiv") or "").lower() == "refresh":
            match = _REFRESH.match(node.attributes.get("content") or "")
            if match and (target := Links(url).absolute(match[1])):
                return target
    return ""
