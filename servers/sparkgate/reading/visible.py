"""Characters of a page: which of them nobody sees, and how its lines end."""

from __future__ import annotations

import re

INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ue000-\uf8ff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U0010ffff]"
)
"""Characters that are drawn as nothing and that no language needs (joiners and the emoji selectors stay), and private
ones, which mean something in the page's own fonts only."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def clean(text: str) -> str:
    """With one way to end a line, no half of a character, and with what nobody sees: that is counted later."""
    return _SURROGATE.sub("\ufffd", _LINE_END.sub("\n", text))
