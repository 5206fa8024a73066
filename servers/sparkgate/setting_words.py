"""What the words of a setting may be: addresses, origins, hosts and ports, each told with an example."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit


class BadWords(ValueError):
    """The value is no list of what it should hold; the message says what would be."""


def checked_words(value: Any, unit: str) -> tuple[str, ...]:
    """A list of words, each of the kind that its unit says. Raises BadWords."""
    fits, example = WORD_UNITS.get(unit, (bool, '["llama-server", "-m", "x.gguf"]'))
    if isinstance(value, list) and unit == "port":
        value = [str(word) if isinstance(word, int) and not isinstance(word, bool) else word for word in value]
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise BadWords(f"must be a list of words, such as {example}")
    if unit in WORD_UNITS and not all(map(fits, value)):
        raise BadWords(f"must hold only such as {example}")
    return tuple(value)


def _is_origin(value: str) -> bool:
    return is_base_url(value) and urlsplit(value).path in ("", "/") and value == value.lower()


def _is_host(value: str) -> bool:
    return bool(re.fullmatch(r"(?:[a-z0-9_-]{1,63}\.)+[a-z0-9-]{2,63}", value))


def _is_port(value: str) -> bool:
    return value.isascii() and value.isdigit() and 0 < int(value[:6]) < 65_536


def is_base_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment) and not re.search(r"[\s@\\\x00-\x20]", value)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and plain and port != 0


WORD_UNITS: dict[str, tuple[Callable[[str], bool], str]] = {
    "URL": (is_base_url, '["http://127.0.0.1:8888"] (http or https, no user name, no query)'),
    "origin": (_is_origin, '["http://wiki.lan:8080"] (lower case, no path, no user name)'),
    "host": (_is_host, '["docs.vllm.ai"] (a host name in lower case, no scheme, no star)'),
    "port": (_is_port, "[8080, 8443]"),
    "toolset": (bool, '["search"]'),
}
"""Unit of a list → what each word of it must be, and an example."""
