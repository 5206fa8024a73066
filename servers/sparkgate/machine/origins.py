"""Host and port of a URL, with one name for this machine."""

from __future__ import annotations

import platform
from urllib.parse import urlsplit

THIS_MACHINE = "localhost"
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "host.docker.internal"})
PORTS = {"http": 80, "https": 443}


def origin(url: str) -> tuple[str, int]:
    """(host, port) of a URL, this machine always as "localhost"; ("", 0) when it is none."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
    except (ValueError, KeyError):
        return "", 0
    host = (parts.hostname or "").lower()
    return (THIS_MACHINE if host in LOCAL_NAMES or host == platform.node().lower() else host), port


def local_port(url: str) -> int | None:
    """The port of a URL on this machine; None for another machine's."""
    host, port = origin(url)
    return port if host == THIS_MACHINE else None
