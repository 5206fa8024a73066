"""Named checks a rule may ask for, beyond its pattern. Each judges the matched value in its text."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

from sparkgate.policy.checking import checksums, registry, wording
from sparkgate.policy.checking.credential import (
    app_password,
    credential,
    one_time,
    said_key,
    said_password,
    said_phrase,
    unknown_key,
)
from sparkgate.policy.checking.mail import mail, said_mail
from sparkgate.policy.checking.ordinary import (
    ANY_SERVICE,
    FAMOUS_ADDRESS,
    GENERIC_DIRS,
    GENERIC_HOSTS,
    GENERIC_USERS,
    HOST_PARTS,
    KNOWN_IPS,
    KNOWN_NETWORKS,
    LINK_NETWORKS,
    MODEL_DIRS,
    NAMED_HOST,
    NOT_HOSTS,
    NOT_STREETS,
    PUBLIC_HOSTS,
    PUBLIC_PROJECTS,
    PUBLIC_TRACKERS,
    ROADS_BEFORE,
    SAMPLE_IBANS,
    STREET_BEGINS,
    STREET_ENDS,
    TEST_CARDS,
    TICKET_PREFIXES,
    TRIAL,
)
from sparkgate.policy.checking.phone import owned_phone, phone_abroad, phone_here, phone_word

__all__ = ["CHECKS", "Check", "mail", "own_home", "own_path", "parse_check"]

Check = Callable[[str, str, int], bool]
"""(value, text, start of the value in the text) → whether the match stands."""

ADDRESS_WORD = re.compile(
    r"\b(?:ssh|scp|sftp|rsync|ping|host|server|ip|ipv4|addr(?:ess)?|connect\w*|client|peer|port|ban(?:ned)?|login"
    r"|firewall|vps|router|wan|dns|route|traceroute|mtr|dig|nmap|telnet|rdp|vpn)\b\W{0,3}(?:\w+[ @])?$|@$|://$",
    re.IGNORECASE,
)
VERSION_AFTER = re.compile(
    r"[ /]*(?:version|release|build|firmware|driver|semver|/\d{1,2}\b|\.?x\b)",
    re.IGNORECASE,
)
GENERIC_ROUTE = re.compile(
    r"v\d+\w*|api|models?|chat|completions?|embeddings?|responses|health\w*|ready|live|ping|metrics|docs|openapi\.json|d|ui"
    r"|dashboards?|login|admin|static|status|query|generate|tags|ps|version|info|index\.html?|mcp|sse|ws|search|graph"
    r"|swagger|rerank|tokenize|audio|images?|upload|slots|props|queue|prompt|view|history|lab|tree|notebooks?|\d+|\W+",
)
VERSION_WORD = re.compile(r"(?:version|release|build|firmware|driver|cuda|[=<>~]=|\bv)[ :]*$", re.IGNORECASE)


def user_and_password(value: str, _text: str, _start: int) -> bool:
    """Base64 of `user:password`."""
    try:
        return bool(re.match(rb"[ -~]+:", base64.b64decode(value + "=" * (-len(value) % 4))))
    except ValueError:
        return False


def mac(value: str, text: str, _start: int) -> bool:
    """A hardware address of one machine: no broadcast, zero, multicast or textbook one, and no maker's prefix alone."""
    plain = re.sub(r"[:.-]", "", value).lower()
    if plain == "001a2b3c4d5e" and TRIAL.search(text):
        return False
    if plain[6:] in ("000000", "000001", "111111", "112233", "123456", "aabbcc", "ddeeff", "ffffff"):
        return False
    return len(set(plain)) > 2 and not plain.startswith(("01005e", "3333", "00112233", "aabbccddee", "010203"))


def _address(value: str) -> IPv4Address | IPv6Address | None:
    if ":" in value and "::" not in value and value.count(":") < 6:
        return None  # most are times of day, and the library takes long to say so
    try:
        return ip_address(value)
    except ValueError:
        return None


def private_ipv4(value: str, text: str, start: int) -> bool:
    """A complete private address that is no version, no network in CIDR notation and no well-known one."""
    network = value.endswith(".0.0") or (value.endswith(".0") and text[start + len(value) :].startswith("/"))
    version = VERSION_WORD.search(text[max(0, start - 12) : start])
    known = value in KNOWN_IPS or LINK_NETWORKS.fullmatch(value)
    return _address(value) is not None and not known and not network and not version


def private_ipv6(value: str, _text: str, _start: int) -> bool:
    """A complete private IPv6 address, not a bare prefix, nor the one that every router has."""
    address = _address(value)
    if value.lower() in KNOWN_IPS:
        return False
    return address is not None and address.is_private and int(address) % 2**64 != 0


def public_ipv4(value: str, _text: str, _start: int) -> bool:
    """A routed address that is no well-known resolver and of no network that serves everybody."""
    address = _address(value)
    if address is None or not address.is_global or address.is_multicast or value in KNOWN_IPS:
        return False
    return not any(address in network for network in KNOWN_NETWORKS)


def addressed_ipv4(value: str, text: str, start: int) -> bool:
    """A routed address that the words beside it, a port or its own figures tell from a version."""
    before, after = (
        text[max(0, start - 60) : start],
        text[start + len(value) : start + len(value) + 30],
    )
    if not public_ipv4(value, text, start) or VERSION_WORD.search(before) or VERSION_AFTER.match(after):
        return False
    octets = value.split(".")
    spread = int(octets[0]) > 12 and len(set(octets)) > 1 and sum(len(octet) > 1 for octet in octets) >= 2
    return spread or bool(ADDRESS_WORD.search(before) or re.match(r":\d{2,5}\b", after))


def public_ipv6(value: str, _text: str, _start: int) -> bool:
    """A routed address, or one written in full, that is neither for documentation nor a well-known resolver."""
    address = _address(value)
    if not isinstance(address, IPv6Address) or address.is_private or value.lower() in KNOWN_IPS:
        return False
    hosts = ~int(address) % 2**128
    if hosts & (hosts + 1) == 0:  # a netmask: ones, then zeros
        return False
    return value.count(":") == 7 or (address.is_global and value.count(":") >= 3)


def own_home(value: str, _text: str, _start: int) -> bool:
    """The user in a home path is a person, not `user`, `ubuntu` or `runner`."""
    found = re.search(
        r"(?:home|users|documents and settings)[\\/]{1,2}([^\\/]+)",
        value,
        re.IGNORECASE,
    )
    return found is not None and found[1].strip(" .,").lower() not in GENERIC_USERS


def own_path(value: str, _text: str, _start: int) -> bool:
    """Some directory in the path is particular to this site."""
    parts = [part.lower().strip(".,") for part in re.split(r"[\\/]+", value)[2 if value[0] == "/" else 1 :]]
    parts = [part for part in parts if part]
    return parts[:1] != [] and parts[0] not in MODEL_DIRS and not all(map(_generic_dir, parts))


def _generic_dir(part: str) -> bool:
    """`data`, `ssd2`, `hf-cache`: a word that says what is in a folder or on what disk, or two of them."""
    halves = [half.rstrip("0123456789") for half in re.split(r"[-_]", part, maxsplit=1)]
    return part.rstrip("0123456789") in GENERIC_DIRS or len(part) < 2 or all(half in GENERIC_DIRS for half in halves)


def inner_host(value: str, text: str, start: int) -> bool:
    """A host of this network, not a code name, a file name or a name every installation has."""
    labels, before = value.lower().split("."), text[max(0, start - 2) : start]
    code = labels[0] in NOT_HOSTS or len(labels[0]) + len(labels) < 4 or (before.endswith("/") and before != "//")
    words = set(re.findall(r"[a-z]+", labels[0]))
    any_host = len(labels) == 2 and words <= HOST_PARTS and bool(words & NAMED_HOST)
    return not code and not any_host and not PUBLIC_HOSTS.fullmatch(value)


def lone_host(value: str, _text: str, _start: int) -> bool:
    """A host of one label that is called by a name of its own, not by that of a program or of what it does."""
    words = [word.rstrip("0123456789") for word in re.split(r"[-_.]", value.lower())]
    return not all(word in ANY_SERVICE or word in GENERIC_HOSTS or word in HOST_PARTS for word in words if word)


def own_tilde(value: str, _text: str, _start: int) -> bool:
    """`~user/folder` of a person."""
    return value[1:].partition("/")[0].lower() not in GENERIC_USERS


def position(value: str, text: str, start: int) -> bool:
    """A place on earth, not zero; beside the word `position` alone it must be as exact as a receiver tells it."""
    parts = [part.strip(" -") for part in value.split(",")]
    exact = min(len(part.partition(".")[2]) for part in parts) >= 5
    plot = text[max(0, start - 12) : start].lower().strip(" :=(").endswith("position")
    return any(part.strip("0.") for part in parts) and (exact or not plot)


def postal(value: str, _text: str, _start: int) -> bool:
    """A street and a town with its postcode: no year, no round number and no power of two."""
    code = re.search(r"(?:\d{4} ?[A-Z]{2}|\d{4,5})(?= \D+$)", value)
    street = re.split(r" (?=\d)", value, maxsplit=1)[0].split()
    if code is None or not NOT_STREETS.isdisjoint(street):
        return False
    if not code[0].isdigit():
        return True
    lettered = re.search(r"\d ?[a-z], ", value) or any(word.islower() for word in street)
    if not (lettered or street[0] in STREET_BEGINS or STREET_ENDS.fullmatch(street[-1])):
        return False
    return int(code[0]) % 1000 != 0 and int(code[0]) % 1024 != 0 and not re.fullmatch(r"(?:19|20)\d\d", code[0])


def own_login(value: str, _text: str, _start: int) -> bool:
    """user@host names a person or a machine; `root` in a container does not."""
    user, host = re.split(r"[@:\s\]]", value.lower().lstrip("["))[:2]
    return user not in GENERIC_USERS or not (host in GENERIC_HOSTS or re.fullmatch(r"[0-9a-f]{12}", host))


def ticket(value: str, text: str, start: int) -> bool:
    """The prefix is of a project of somebody: of no product, standard or advisory, nor of one whose tracker is open."""
    prefix = value.partition("-")[0].lower()
    near = text[max(0, start - 60) : start + len(value) + 60]
    return prefix not in TICKET_PREFIXES and prefix not in PUBLIC_PROJECTS and not PUBLIC_TRACKERS.search(near)


def charged(value: str, text: str, _start: int) -> bool:
    """A card that can be charged: none of those published for tests, where a text speaks of testing."""
    plain = re.sub(r"\D", "", value)
    published = plain in TEST_CARDS and TRIAL.search(text)
    return not published and not re.fullmatch(r"4242424242424242|40000[0-9]0000\d{7}|400000\d{10}", plain)


def own_iban(value: str, text: str, _start: int) -> bool:
    """None of the account numbers that stand in manuals, where a text speaks of an example."""
    return checksums.plain_of(value) not in SAMPLE_IBANS or not TRIAL.search(text)


def street(value: str, text: str, start: int) -> bool:
    """A house number and its street, neither famous nor the number of a road."""
    return not FAMOUS_ADDRESS.match(value) and not ROADS_BEFORE.search(text[max(0, start - 12) : start])


def own_login_at(value: str, text: str, start: int) -> bool:
    """user@address: the user is a person and the address or name is one of this network."""
    user, _, host = value.partition("@")
    inner = private_ipv4(host, text, start + len(user) + 1) if host[0].isdigit() else True
    return user.lower() not in GENERIC_USERS and inner


def own_address_path(value: str, text: str, start: int) -> bool:
    """A private address with a path that names something of this site, not of a program."""
    host = re.split(r"[:/]", value)[0]
    parts = [part for part in re.split(r"[/?&=#]", value.partition("/")[2].lower()) if part]
    named = [part for part in parts if not GENERIC_ROUTE.fullmatch(part) and part not in GENERIC_DIRS]
    return private_ipv4(host, text, start) and len(named) > 0


def _by_value(test: Callable[[str], bool]) -> Check:
    return lambda value, _text, _start: test(value)


_VALUE = (
    *(wording.real, wording.filled, wording.mixed, wording.dense, wording.strong, wording.scrambled),
    *(
        checksums.luhn,
        checksums.card,
        checksums.card_named,
        checksums.iban,
        checksums.verhoeff,
        checksums.iso7064,
    ),
    *(
        checksums.french_nir,
        checksums.spanish_dni,
        checksums.finnish_hetu,
        checksums.singapore_nric,
    ),
    *(checksums.born, checksums.personnummer, checksums.identity_number),
    *(registry.brazilian_cpf, registry.ean, registry.russian_snils, registry.russian_inn),
    *(registry.japanese_number, registry.mexican_curp),
)
_TEXT = (
    *(app_password, credential, one_time, said_key, said_password, said_phrase, unknown_key),
    user_and_password,
    phone_abroad,
    phone_here,
    phone_word,
    mail,
    said_mail,
    ticket,
    charged,
    owned_phone,
    own_iban,
    street,
    postal,
    position,
)
_NETWORK = (
    mac,
    private_ipv4,
    private_ipv6,
    public_ipv4,
    addressed_ipv4,
    public_ipv6,
    inner_host,
    lone_host,
)
_PLACE = (own_home, own_tilde, own_path, own_login, own_login_at, own_address_path)
CHECKS: dict[str, Check] = {
    **{check.__name__.replace("_", "-"): _by_value(check) for check in _VALUE},
    **{check.__name__.replace("_", "-"): check for check in (*_TEXT, *_NETWORK, *_PLACE)},
    "nhs": _by_value(checksums.weighted("10 9 8 7 6 5 4 3 2 1", 11)),
    "pesel": _by_value(checksums.weighted("1 3 7 9 1 3 7 9 1 3 1", 10)),
    "aba": _by_value(checksums.weighted("3 7 1 3 7 1 3 7 1", 10)),
    "turkish-id": _by_value(checksums.weighted("1 1 1 1 1 1 1 1 1 1 9", 10)),
}


def parse_check(text: str) -> Check:
    """`"luhn"` or `"entropy:3.0"` → the check.

    Raises:
        ValueError: no check of that name.
    """
    name, _, number = text.partition(":")
    if name == "entropy":
        floor = float(number or 3.0)
        if not 0 < floor < 8:
            raise ValueError(f"{text!r}: entropy lies between 0 and 8 bits")
        return lambda value, _text, _start: wording.entropy_bits(value) >= floor
    if name not in CHECKS or number:
        raise ValueError(f"no check is called {text!r} (known: entropy:BITS, {', '.join(sorted(CHECKS))})")
    return CHECKS[name]
