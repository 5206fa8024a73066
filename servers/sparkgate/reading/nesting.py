"""Pages whose elements are nested so deep that the parser would need minutes for them."""

from __future__ import annotations

import re

FEW_TAGS = 10_000
MOST_STEPS = 300_000_000
"""Elements that the parser looks through, as it looks at all those around a block that begins: more than a second."""
_TAG = re.compile(
    r"<(\\?/)?(?:"
    r"(?P<block>div|section|article|aside|blockquote|[uod]l|menu|dir|form|nav|figure|fieldset|center|details|main|header"
    r"|footer|address)|(?P<inline>span|font|[bius]|em|strong|small|big|code|tt|label)|p|li|d[dt]|h[1-6]|pre)[\s>/]"
)
"""Elements that have to be closed, and blocks that need not be; a script writes the end of one with a backslash."""


def is_too_deep(text: str) -> bool:
    """An estimate in one pass; what it calls too deep is far beyond what any page is."""
    if text.count("<") < FEW_TAGS:
        return False
    depth = steps = 0
    for tag in _TAG.finditer(text.lower()):
        ends, block, inline = tag.groups()
        if block or inline:
            depth = max(0, depth - 1) if ends else depth + 1
        if not inline and not (block and ends):
            steps += depth
            if steps > MOST_STEPS:
                return True
    return False
