"""The file of credentials for SearXNG: who may read it, what stands in it, and to which instance each is sent."""

from __future__ import annotations

import base64
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

MAX_BYTES = 65_536
SHAPE = "ADDRESS basic USER:PASSWORD, ADDRESS bearer TOKEN or ADDRESS header NAME: VALUE; * is every address"
NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
VALUE = re.compile(r"[\x20-\x7e]{1,4096}")
_OURS = """
    accept accept-encoding accept-language connection content-encoding content-length content-type expect forwarded
    host http2-settings keep-alive proxy-connection range te trailer transfer-encoding upgrade user-agent via x-real-ip
"""
OURS = frozenset(_OURS.split())
"""Headers that say how a request is read or where it comes from."""
OURS_BEGIN = ("x-forwarded-", "sec-", "x-http-method", "x-method-")
PORTS = {"http": 80, "https": 443}


class AuthFileError(ValueError):
    """The file cannot be used. The message names it and the way out, and nothing that stands in it."""


@dataclass(frozen=True, slots=True)
class Logins:
    """Headers by origin, "*" for every instance. `fault`: why the file cannot be used; then nothing is sent."""

    headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    fault: str = ""

    def for_url(self, url: str) -> dict[str, str]:
        """What the instance at this base URL is sent; its own before what all are sent."""
        return {**self.headers.get("*", {}), **self.headers.get(origin(url), {})}


def origin(url: str) -> str:
    """`https://host:port`, in one spelling. Raises ValueError: no address of the web."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname or "@" in parts.netloc:
        raise ValueError("no address")
    return f"{parts.scheme}://{parts.hostname}:{parts.port or PORTS[parts.scheme]}"


def read_logins(path: str) -> Logins:
    """The credentials of the file; none without a path. Never raises: a fault is told with every search."""
    if not path:
        return Logins()
    try:
        return Logins(logins_of(_text(Path(path).expanduser()), path))
    except AuthFileError as error:
        return Logins(fault=str(error))


def _text(path: Path) -> str:
    """Raises AuthFileError: it is not there, or not its user's alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise AuthFileError(f"searxng.auth_file {path} cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            raise AuthFileError(f"searxng.auth_file {path} must be a file of your own")
        if status.st_mode & 0o077:
            raise AuthFileError(f"searxng.auth_file {path} can be read by others; run: chmod 600 {path}")
        return os.read(descriptor, MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise AuthFileError(f"searxng.auth_file {path} is no UTF-8 text") from error
    finally:
        os.close(descriptor)


def logins_of(text: str, name: str = "the file") -> dict[str, dict[str, str]]:
    """Lines → headers by origin.

    Raises:
        AuthFileError: a line cannot be used; it is named by its number.
    """
    found: dict[str, dict[str, str]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            address, header, value = _entry(line)
        except ValueError as error:
            told = str(error) if isinstance(error, AuthFileError) else f"is not {SHAPE}"
            raise AuthFileError(f"searxng.auth_file {name}: line {number} {told}") from None
        found.setdefault(address, {})[header] = value
    return found


def _entry(line: str) -> tuple[str, str, str]:
    """(origin, header, value). Raises ValueError."""
    address, kind, value = line.strip().split(None, 2)
    header, value = HEADERS[kind.lower()](value) if kind.lower() in HEADERS else ("", "")
    if not NAME.fullmatch(header) or not VALUE.fullmatch(value):
        raise ValueError("no header")
    if header.lower() in OURS or header.lower().startswith(OURS_BEGIN):
        raise AuthFileError("names a header that says how a request is read or where it comes from; it is not sent")
    return address if address == "*" else origin(address), header, value


def _basic(value: str) -> tuple[str, str]:
    user, colon, password = value.partition(":")
    if not (user and colon and password):
        raise ValueError("no password")
    return "Authorization", f"Basic {base64.b64encode(value.encode()).decode('ascii')}"


def _bearer(value: str) -> tuple[str, str]:
    return ("Authorization", f"Bearer {value}") if " " not in value else ("", "")


def _header(value: str) -> tuple[str, str]:
    header, colon, rest = value.partition(":")
    return (header.strip(), rest.strip()) if colon else ("", "")


HEADERS = {"basic": _basic, "bearer": _bearer, "header": _header}
