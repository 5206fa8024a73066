"""The addresses that a page leads to."""

from __future__ import annotations

import re
from urllib.parse import urldefrag, urljoin, urlsplit

from sparkgate.reading.page import MAX_LINK_CHARS, MAX_LINKS, MAX_LINKS_CHARS

LINK = re.compile(r"https?://[^\s\x00-\x1f\x7f]+", re.I)


class Links:
    """Collects absolute http(s) addresses, each once, in the order they come, and passes over what is none."""

    def __init__(self, base: str) -> None:
        self.base = base
        self._own = urldefrag(base).url if _is_web(base) else base
        self._found: dict[str, None] = {}
        self._left = MAX_LINKS_CHARS

    def based_on(self, href: str) -> None:
        """The page says that its addresses are relative to this one."""
        self.base = self.absolute(href) or self.base

    def add(self, href: str | None) -> None:
        if href and len(self._found) < MAX_LINKS and not href.startswith("#"):
            url = self.absolute(href)
            if url and url != self._own and url not in self._found and len(url) <= self._left:
                self._found[url] = None
                self._left -= len(url)

    def absolute(self, href: str) -> str:
        """An address against that of the page, without fragment; "" when it leads nowhere on the web."""
        href = "".join(href.split()) if len(href) <= MAX_LINK_CHARS else ""
        try:
            url = urldefrag(urljoin(self.base, href)).url if href else ""
            return url if _is_web(url) and len(url) <= MAX_LINK_CHARS else ""
        except ValueError:
            return ""

    def all(self) -> tuple[str, ...]:
        return tuple(self._found)


def _is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return LINK.fullmatch(url) is not None and bool(parts.netloc)
