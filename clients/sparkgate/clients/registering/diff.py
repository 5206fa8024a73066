"""What would change, as a person reads it."""

from __future__ import annotations

import difflib

from sparkgate.clients.registering.doors import cut
from sparkgate.failures.diagnosis import without_secrets

LINE_MAX = 1000
"""Characters of a line that is shown whole; some hosts keep all they know in one."""


def shown(before: str | None, after: str | None, name: str) -> str:
    """A unified diff without what looks like a secret, also in the lines around a change."""
    old, new = ("/dev/null" if text is None else name for text in (before, after))
    if max(map(len, [*(before or "").splitlines(), *(after or "").splitlines()]), default=0) > LINE_MAX:
        return "\n".join([f"--- {old}", f"+++ {new}", *_within(before or "", after or "")])
    lines = difflib.unified_diff((before or "").splitlines(), (after or "").splitlines(), old, new, lineterm="")
    return "\n".join(line[:1] + without_secrets(line[1:]) for line in lines)


def _within(before: str, after: str) -> list[str]:
    """Only what is not the same, of each text one part."""
    parts = zip("-+", cut(before, after), strict=True)
    return ["@@ within long lines @@", *(f"{sign}{without_secrets(_short(part))}" for sign, part in parts)]


def _short(part: str) -> str:
    return part if len(part) <= 2 * LINE_MAX else f"{part[:LINE_MAX]} … {part[-LINE_MAX:]}"
