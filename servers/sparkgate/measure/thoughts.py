"""Thinking that stands in the visible text, between tags: an engine without a parser for it sends it so."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


class Thoughts:
    """Tells thinking from what is said, chunk by chunk; a tag may be cut over several chunks.

    Attributes:
        unopened: a closing tag came and no opening one: the template has opened it, and all before it was thinking.
    """

    def __init__(self) -> None:
        self.unopened = False
        self._begun = self._inside = self._opened = False
        self._tail = ""

    def split(self, text: str) -> tuple[str, str]:
        """A piece of visible text → (thinking in it, the rest)."""
        if not self._begun:
            self._begin(text)
        seen = self._tail + text
        self._tail = seen[-(len(CLOSE) - 1) :]
        place = seen.find(CLOSE)
        if place < 0:
            return (text, "") if self._inside else ("", text)
        self.unopened = self.unopened or not self._opened
        self._inside, self._opened, self._tail = False, True, ""
        said = len(seen) - place - len(CLOSE)
        return text[: len(text) - said], text[len(text) - said :] if said else ""

    def _begin(self, text: str) -> None:
        """Only what stands at the very beginning opens it: later it may be spoken of."""
        seen = (self._tail + text).lstrip()
        self._inside = bool(seen) and (seen.startswith(OPEN) or OPEN.startswith(seen))
        self._opened = self._inside
        self._begun = len(seen) >= len(OPEN) or (bool(seen) and not self._inside)
