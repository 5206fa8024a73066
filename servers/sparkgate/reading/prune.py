"""What of a page is not its text: scripts, what nobody sees, what stands around every page of a site."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkgate.reading.nodes import Node, walk

Attributes = Mapping[str, str | None]

_NO_TEXT_TAGS = (
    "script style noscript template svg iframe object embed canvas audio video map button input select textarea"
    " datalist dialog head link meta area source track applet progress meter"
)
NO_TEXT = frozenset(_NO_TEXT_TAGS.split())
KEPT_IN = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "summary", "dt", "legend"})
"""A button in one of these is what it says."""
AROUND = frozenset({"nav", "footer"})
AROUND_ROLES = frozenset({"navigation", "contentinfo", "search", "menu", "menubar", "banner", "dialog", "alertdialog"})
MOST_AROUND = 0.4
"""What holds a larger share of the text is not around it, whatever its name."""
MOST_WEIGHED = 200
COMMENT_WORDS = 5
MENU_LINKS, MENU_SHARE = 8, 0.7
MARK_CHARS = 40

_AROUND = (
    r"cookies?|consent|gdpr|onetrust|breadcrumbs?|sidebar|side-?nav|navbar|site-?(?:header|footer|nav)|skip-?link"
    r"|catlinks|mw-navigation"
)
_AROUND_CLASS = (
    r"sphinxsidebar|navheader|navfooter|page-?footer|nav-?menu|skip-?to|social|share|sharing|newsletter|subscribe"
    r"|related|promo|adverts?|ads?|sponsored|popup|modal|toolbar|mw-editsection|mw-jump-link|noprint|vector-header"
    r"|notable-traits|copybtn|copy-button|test-arrow"
)
_AROUND_IDS = re.compile(rf"(?:^|[\s_-])(?:{_AROUND})(?:$|[\s_-])", re.I)
_AROUND_CLASSES = re.compile(rf"(?:^|[\s_-])(?:{_AROUND}|{_AROUND_CLASS})(?:$|[\s_-])", re.I)
_CONTENT = "pre, h1, main, article, table.highlight"
"""What has one of these in it is no frame, whatever its name."""
_NUMBERS = re.compile(
    r"(?:^|\s)(?:linenos?|linenodiv|line-numbers-rows|gutter|blob-num|src-line-numbers|hljs-ln-numbers|hljs-ln-n|linenumber"
    r"|react-syntax-highlighter-line-number)(?:$|\s)"
)
_PERMALINK = re.compile(r"\s*(?:[¶#§🔗⚓]|\[?(?:source|edit|src)\]?|permalink|link to this \w+)?\s*", re.I)
_PERMALINK_NAMES = re.compile(
    r"(?:^|\s)(?:headerlink|anchor|anchor-?link|header-anchor|hash-link|viewcode-link|src|srclink|heading-link|permalink)"
    r"(?:$|\s)"
)
_UNSEEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|font-size\s*:\s*0(?:[a-z%]*)(?:$|[;\s!])"
    r"|opacity\s*:\s*0(?:\.0+)?(?:$|[;\s!])|(?:text-indent|left|top|right|margin-left)\s*:\s*-\d{3,}"
    r"|clip\s*:\s*rect\(\s*0|clip-path\s*:\s*inset\(\s*(?:50|100)%|(?:color)\s*:\s*transparent"
    r"|(?:^|[;\s])(?:max-)?(?:height|width)\s*:\s*[01](?:px)?\s*(?:$|[;!])",
    re.I,
)
_UNSEEN_NAMES = re.compile(
    r"(?:^|\s)(?:sr-only|screen-reader-text|visually-?hidden|visuallyhidden|d-none|is-hidden|offscreen|hide-text)(?:$|\s)"
)


@dataclass(slots=True)
class Pruned:
    """`skip`: the nodes, by their id, that are not read.

    `hidden` of them hold text that nobody sees, `scripts` run; `password`: there is a field for one.
    """

    skip: set[int] = field(default_factory=set)
    hidden: int = 0
    scripts: int = 0
    password: bool = False


class _Pruner:
    """One walk over a page; `around` is false when what stands around is read as well."""

    def __init__(self, root: Node, *, around: bool) -> None:
        self.found = Pruned()
        self._around = around
        self._main_depth = 0
        self._weighed = 0
        self._size = size_of(root)
        self._before_title = root.css_first("h1") is not None
        tabs = root.css("[role=tab][aria-controls]")
        self._tabs = {tab.attributes.get("aria-controls") for tab in tabs}

    def enter(self, node: Node) -> bool:
        if not node.is_element_node:
            if node.is_comment_node and len((node.comment_content or "").split()) >= COMMENT_WORDS:
                self.found.hidden += 1
            return False
        if self._out(node, node.tag or "", node.attributes):
            self.found.skip.add(node.mem_id)
            return False
        self._main_depth += node.tag in ("main", "article")
        self._before_title &= node.tag != "h1"
        return True

    def leave(self, node: Node) -> None:
        self._main_depth -= node.tag in ("main", "article")

    def _out(self, node: Node, tag: str, attributes: Attributes) -> bool:
        if tag in NO_TEXT:
            self._remember(tag, attributes)
            return not (tag == "button" and node.parent is not None and node.parent.tag in KEPT_IN)
        if tag in ("html", "body"):
            return False
        if self._is_unseen(attributes):
            self.found.hidden += bool(node.text().strip())
            return True
        names = (attributes.get("class") or "").lower()
        if (names and _NUMBERS.search(names)) or ("data-nosnippet" in attributes and node.text().strip().isdigit()):
            return True
        if tag == "a" and _is_permalink(node, names, attributes):
            return True
        return self._around and self._is_around(node, tag, attributes)

    def _remember(self, tag: str, attributes: Attributes) -> None:
        self.found.scripts += tag == "script"
        self.found.password |= tag == "input" and (attributes.get("type") or "").lower() == "password"

    def _is_unseen(self, attributes: Attributes) -> bool:
        if "hidden" in attributes and attributes["hidden"] != "until-found":
            return not self._has_tab(attributes)
        if (attributes.get("aria-hidden") or "").lower() == "true":
            return not self._has_tab(attributes)
        style, names = attributes.get("style"), attributes.get("class")
        return bool((style and _UNSEEN_STYLE.search(style)) or (names and _UNSEEN_NAMES.search(names.lower())))

    def _has_tab(self, attributes: Attributes) -> bool:
        """A panel that a visible tab of the page opens is there to be seen."""
        return attributes.get("role") == "tabpanel" and attributes.get("id") in self._tabs

    def _is_around(self, node: Node, tag: str, attributes: Attributes) -> bool:
        role = (attributes.get("role") or "").lower()
        if tag in AROUND or role in AROUND_ROLES:
            return not (tag == "footer" and self._main_depth) and self._is_small(node)
        if tag in ("header", "aside") and not self._main_depth:
            return not node.css_first("h1") and self._is_small(node)
        named = bool(attributes) and _is_named_around(attributes)
        is_menu = tag in ("ul", "ol") and self._before_title and _is_menu(node)
        return (named or is_menu) and not node.css_first(_CONTENT) and self._is_small(node)

    def _is_small(self, node: Node) -> bool:
        self._weighed += 1
        return self._weighed <= MOST_WEIGHED and size_of(node) < MOST_AROUND * self._size


def size_of(node: Node) -> int:
    """Characters of its text without scripts and styles, 1 at least."""
    unread = sum(len(script.text()) for script in node.css("script, style"))
    return max(1, len(node.text()) - unread)


def _is_menu(node: Node) -> bool:
    """Many links and hardly anything else; before the title of a page that is where it leads to, not what it says."""
    links = node.css("a[href]")
    return len(links) >= MENU_LINKS and sum(len(link.text().strip()) for link in links) > MENU_SHARE * size_of(node)


def _is_named_around(attributes: Attributes) -> bool:
    classes, name = attributes.get("class"), attributes.get("id")
    return bool((classes and _AROUND_CLASSES.search(classes)) or (name and _AROUND_IDS.search(name)))


def _is_permalink(node: Node, names: str, attributes: Attributes) -> bool:
    to_itself = (attributes.get("href") or "").startswith("#")
    if not (to_itself or _PERMALINK_NAMES.search(names)):
        return False
    text = node.text()
    return len(text) < MARK_CHARS and _PERMALINK.fullmatch(text) is not None


def prune(root: Node, *, around: bool = True) -> Pruned:
    """What is not to be read below `root`."""
    pruner = _Pruner(root, around=around)
    walk(root, pruner.enter, pruner.leave)
    return pruner.found
