"""Addresses of the web: what may be asked for, in one spelling, and which IP addresses are nobody's web site.

Ranges: the special-purpose registries of IANA (RFC 6890) with what was registered since, and forms of IPv6 that hold an
IPv4 address. Numbers for hosts are read as the URL standard of WHATWG reads them, as libraries below us do.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import idna

PORTS = frozenset({80, 443})
MAX_CHARS = 2000
SPECIAL: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "this network (RFC 791)"),
    ("10.0.0.0/8", "private (RFC 1918)"),
    ("100.64.0.0/10", "shared by customers of a provider (RFC 6598)"),
    ("127.0.0.0/8", "this machine (RFC 1122)"),
    ("169.254.0.0/16", "link-local (RFC 3927), where clouds tell credentials"),
    ("172.16.0.0/12", "private (RFC 1918)"),
    ("192.0.0.0/24", "protocol assignments (RFC 6890)"),
    ("192.0.2.0/24", "documentation (RFC 5737)"),
    ("192.31.196.0/24", "AS112 (RFC 7535)"),
    ("192.52.193.0/24", "AMT (RFC 7450)"),
    ("192.88.99.0/24", "6to4 relays (RFC 7526)"),
    ("192.168.0.0/16", "private (RFC 1918)"),
    ("192.175.48.0/24", "AS112 (RFC 7534)"),
    ("198.18.0.0/15", "benchmarks (RFC 2544)"),
    ("198.51.100.0/24", "documentation (RFC 5737)"),
    ("203.0.113.0/24", "documentation (RFC 5737)"),
    ("224.0.0.0/4", "multicast (RFC 5771)"),
    ("240.0.0.0/4", "reserved (RFC 1112)"),
    ("::/96", "no address, this machine, or IPv4-compatible (RFC 4291)"),
    ("::ffff:0:0/96", "IPv4-mapped (RFC 4291)"),
    ("::ffff:0:0:0/96", "IPv4-translated (RFC 2765)"),
    ("64:ff9b::/96", "NAT64 (RFC 6052)"),
    ("64:ff9b:1::/48", "local NAT64 (RFC 8215)"),
    ("100::/64", "discarded (RFC 6666)"),
    ("100:0:0:1::/64", "dummy prefix (RFC 9780)"),
    ("2001::/23", "protocol assignments, Teredo among them (RFC 2928, 4380)"),
    ("2001:db8::/32", "documentation (RFC 3849)"),
    ("2002::/16", "6to4 (RFC 3056)"),
    ("2620:4f:8000::/48", "AS112 (RFC 7534)"),
    ("3fff::/20", "documentation (RFC 9637)"),
    ("5f00::/16", "segment routing (RFC 9602)"),
    ("fc00::/7", "private (RFC 4193)"),
    ("fe80::/10", "link-local (RFC 4291)"),
    ("fec0::/10", "site-local (RFC 3879)"),
    ("ff00::/8", "multicast (RFC 4291)"),
)
"""Network → what it is for instead of web sites."""
INNER_NAMES = (
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "home.arpa",
    "localdomain",
)
"""Ends of names that no public DNS has."""

AS_IT_IS = "%/?:@!$&'()*+,;=-._~"
"""Signs of path and query that stay as they are (RFC 3986)."""
_NETWORKS = [(ipaddress.ip_network(network), why) for network, why in SPECIAL]
_GLOBAL_V6 = ipaddress.ip_network("2000::/3")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
BLANK = re.compile(r"[\x00-\x20\x7f\\]")


class BadAddress(ValueError):
    """Nothing that may be asked for; `code` is stable, the message never holds the address."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class WebAddress:
    """One spelling of an address.

    Attributes:
        scheme: `http` or `https`.
        host: lower case ASCII without a dot at its end; an IPv6 address without brackets.
        target: path and query as they are sent; without the fragment, which is not.
    """

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return f"{self.scheme}://{host}" + ("" if self.port == usual else f":{self.port}")

    @property
    def url(self) -> str:
        return self.origin + self.target


def web_address(text: str, ports: Collection[int] = PORTS) -> WebAddress:
    """The address in one spelling.

    Args:
        ports: those that may be connected to.

    Raises:
        BadAddress: it is none of the web, or one of this machine or network by its name or number.
    """
    if len(text) > MAX_CHARS:
        raise BadAddress("too_long", f"an address has {MAX_CHARS} characters at most")
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise BadAddress("no_address", "this is no address of the web") from error
    if parts.scheme not in ("http", "https"):
        raise BadAddress("scheme", "only http and https addresses can be read")
    if "@" in parts.netloc:
        raise BadAddress("user_info", "an address with a user name or password in it is not asked for")
    if BLANK.search(text.strip()) or not parts.netloc:
        raise BadAddress("no_address", "this is no address of the web")
    port = port if port is not None else {"http": 80, "https": 443}[parts.scheme]
    if port not in ports:
        raise BadAddress("port", f"only the ports {', '.join(map(str, sorted(ports)))} are connected to")
    host = _host(parts.netloc, parts.hostname or "")
    return WebAddress(parts.scheme, host, port, target(parts.path, parts.query))


def _host(netloc: str, hostname: str) -> str:
    if netloc.startswith("["):
        return _public(_ipv6(hostname))
    name = unicodedata.normalize("NFKC", hostname).lower().replace("\u3002", ".").removesuffix(".")
    if "%" in name or not name:
        raise BadAddress("no_address", "this is no address of the web")
    number = _ipv4(name)
    if number is not None:
        return _public(number)
    try:
        name = name if name.isascii() else idna.encode(name, uts46=True).decode()
    except idna.IDNAError as error:
        raise BadAddress("no_address", "this host name cannot be looked up") from error
    labels = name.split(".")
    if len(name) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise BadAddress("no_address", "this host name cannot be looked up")
    if len(labels) < 2 or any(name == inner or name.endswith(f".{inner}") for inner in INNER_NAMES):
        raise BadAddress("inner_name", "a name of this machine or network is not asked for")
    return name


def _ipv6(text: str) -> str:
    try:
        return str(ipaddress.IPv6Address(text.partition("%")[0]))
    except ValueError as error:
        raise BadAddress("no_address", "this is no address of the web") from error


def _ipv4(name: str) -> str | None:
    """The address that a host of numbers is: one to four of them, decimal, octal or hexadecimal. None for a name."""
    labels = name.split(".")
    if not _NUMBER.fullmatch(labels[-1]):
        return None
    try:
        *firsts, last = map(_value, labels)
        if len(labels) > 4 or any(one > 255 for one in firsts) or last >= 256 ** (5 - len(labels)):
            raise ValueError
    except ValueError as error:
        raise BadAddress("no_address", "this is no address of the web") from error
    return str(ipaddress.IPv4Address(sum(one << (24 - 8 * place) for place, one in enumerate(firsts)) + last))


def _value(label: str) -> int:
    """One number of a host. Raises ValueError."""
    if label[:2].lower() == "0x":
        return int(label[2:] or "0", 16)
    if not label.isascii() or not label.isdigit():
        raise ValueError
    return int(label, 8) if len(label) > 1 and label[0] == "0" else int(label)


def _public(address: str) -> str:
    if why := special(address):
        raise BadAddress("special_address", f"this address is for something else: {why}")
    return address


def special(address: str) -> str:
    """What an IP address is for, when it is no web site's; "" for one that may be.

    Raises:
        ValueError: not an IP address.
    """
    at = ipaddress.ip_address(address.partition("%")[0])
    found = next((why for network, why in _NETWORKS if at.version == network.version and at in network), "")
    if not found and at.version == 6 and at not in _GLOBAL_V6:
        return "not assigned to anybody (RFC 4291)"
    return found


def target(path: str, query: str) -> str:
    """Path and query as they are sent: without dot segments, and with percent codes for all that RFC 3986 has not.

    What is judged and logged then is what goes over the wire, whatever a library below us would make of it.
    """
    told = quote(_without_dots(path or "/"), safe=AS_IT_IS, errors="replace")
    return told + (f"?{quote(query, safe=AS_IT_IS, errors='replace')}" if query else "")


def _without_dots(path: str) -> str:
    """RFC 3986, section 5.2.4; a percent code of a dot is a dot, as in the URL standard of WHATWG."""
    kept: list[str] = []
    *firsts, last = path.split("/")[1:]
    for segment in (*firsts, last):
        plain = segment.lower().replace("%2e", ".")
        if plain == "..":
            kept[-1:] = []
        elif plain != ".":
            kept.append(segment)
    ends_in_dots = last.lower().replace("%2e", ".") in (".", "..")
    return "/" + "/".join(kept) + ("/" if ends_in_dots and kept else "")
