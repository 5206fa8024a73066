"""What a robots.txt says (RFC 9309). Its wildcards become regular expressions, so it is read where time is limited."""

from __future__ import annotations

from typing import Any

MAX_BYTES = 512_000
"""RFC 9309 asks for 500 KiB at least; what follows is not read."""


def verdict(data: bytes, url: str, agent: str) -> dict[str, Any]:
    """`allowed`: whether a user agent may ask for a URL."""
    from protego import Protego

    rules = Protego.parse(data[:MAX_BYTES].decode("utf-8-sig", "replace"))
    return {"allowed": rules.can_fetch(url, agent)}
