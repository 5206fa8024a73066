"""Code of a page, its characters as they are, with the language that the page names."""

from __future__ import annotations

import re
from collections.abc import Container

from sparkgate.reading.nodes import Node, ancestors, plain, words_of
from sparkgate.reading.visible import clean

AROUND = 4
"""The language is named on the block, in it, or so many steps around it."""
_NAMED = re.compile(r"(?:language|lang|highlight-source|highlight|brush:|sourcecode)-?([a-z0-9+#._-]{1,20})")
_NO_LANGUAGE = frozenset(
    {"default", "none", "text", "plaintext", "plain", "notranslate", "txt", "ts-nocheck", "nohighlight", "auto", "code"}
)
_LANGUAGES = (
    "bash sh shell console python pycon rust go c cpp c++ java javascript js typescript ts json yaml toml xml html css"
    " sql ruby php perl lua swift kotlin scala haskell ini diff makefile dockerfile powershell"
)
_KNOWN = frozenset(_LANGUAGES.split())
_TICKS = re.compile(r"^ {0,3}(`{3,})", re.M)
_PYTHON3 = {"python3": "python", "pycon3": "pycon", "py": "python"}


def code_block(node: Node, skip: Container[int]) -> list[str]:
    """The lines of a fenced block; none when there is nothing in it."""
    text = clean(plain(node, skip)).replace("\xa0", " ").strip("\n").rstrip()
    if not text.strip():
        return []
    fence = "`" * max([3, *(len(run) + 1 for run in _TICKS.findall(text))])
    return [fence + language(node), *text.split("\n"), fence]


def language(node: Node) -> str:
    """As the page names it; "" when it does not."""
    inner = node.css_first("code")
    for place in ([inner] if inner is not None else []) + list(ancestors(node, AROUND)):
        if place.tag in ("body", "main", "article"):
            break
        if found := _language_of(place):
            return found
    return ""


def _language_of(node: Node) -> str:
    attributes = node.attributes
    named = [(attributes.get(name) or "").lower() for name in ("data-lang", "data-language")]
    for word in words_of(node, "class"):
        if match := _NAMED.fullmatch(word):
            named.append(match[1])
        elif word in _KNOWN and node.tag in ("pre", "code"):
            named.append(word)
    good = [word for word in named if re.fullmatch(r"[a-z0-9+#._-]{1,20}", word) and word not in _NO_LANGUAGE]
    return _PYTHON3.get(good[0], good[0]) if good else ""
