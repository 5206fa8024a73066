"""Named checks a rule may ask for, beyond its pattern. Each judges the matched value in its text."""

from __future__ import annotations

import base64
import math
import operator
import re
from collections import Counter
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

Check = Callable[[str, str, int], bool]
"""(value, text, start of the value in the text) → whether the match stands."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FILLER = re.compile(
    r"example|placeholder|redacted|change_?-?(?:me|it)|your[_-]?\w|x{4,}|\*\*\*|\.\.\.|…|dummy|not-?_?needed|123456789"
    r"|abcdefgh|\b(?:insert|replace|my)[_-]|test[_-]?(?:key|token|secret)|wjalrxutnfemi/k7mdeng/bpxrficy",
    re.IGNORECASE,
)
PLACEHOLDER = re.compile(
    r"eyjzdwiioiixmjm0nty3odkw|[{<]\w|os\.environ|getenv|process\.env|secrets?\.|^\$[{(]|^\$\w+$|^%\w+%$|^%s$|^%\(|^https?://"
    r"|^(?:sha|md|base|utf|oauth|aes|rs|hs|es|rsa|http|ipv|argon)[-_]?\d{1,4}[a-z_-]{0,10}$"
    r"|^(?:~|\.\.?)?/(?:home|usr|etc|run|var|opt|tmp|root|path|app|mnt|data|srv)/"
    r"|(?-i:^[a-z][a-z0-9_.]+[(\[][a-z0-9_.\[\]:=,-]*\)?$)",
    re.IGNORECASE,
)
EMPTY_WORDS = _words(
    """1234 12345 123456 1234567 12345678 admin administrator apikey changeit credentials default empty false foobar
    guest hunter2 incorrect invalid key lambda letmein minioadmin missing mongo mypass mypassword mysecret
    mysecretpassword mysql nil none null optional p@ssw0rd pass pass123 passw0rd passwd password password1 password123
    passwort postgres pw pwd redis required root s3cr3t s3cret secret secret123 string supersecret test token true
    ultrasecretkey undefined unknown user username value verysecret"""
)
SLUG_PART = re.compile(r"[a-z0-9]{1,11}|[A-Z]{0,6}[a-z]{0,10}\d{0,5}[A-Za-z]{0,2}")
UUID_SHAPED = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}", re.IGNORECASE)
JUMBLED = re.compile(r"[\d!#$%&*+?@^~=]|[a-z][A-Z][a-z]?[A-Z].*[a-z][A-Z][a-z]?[A-Z]")
STRONG = re.compile(r"[!#$%&*+?@^~=]")
GENERIC_USERS = _words(
    """<user> <username> admin administrator app appuser bar build builder centos circleci coder codespace container
    debian default dev developer docker ec2-user fedora foo github gitlab-runner guest host jenkins jovyan linuxbrew
    me myname myuser name node nonroot nvidia ollama pi public root runner sandbox server shared test testuser ubuntu
    user user_name username vagrant vllm vscode xxx you your your-name your_name your_user yourname"""
) | {"all users", "default user", "your name"}
GENERIC_HOSTS = _words(
    """archlinux box computer container debian desktop example fedora github host hostname ip laptop localhost machine
    my-host my-server myhost myserver node node1 pc raspberrypi remote server ubuntu vm"""
)
GENERIC_DIRS = _words(
    """app apps backup bar bin c cache cdrom checkpoints code config d data datasets db desktop dev dir disk docker
    documents downloads external file folder foo ftp git go hdd hf html http hub huggingface input lib llama.cpp log
    logs media minio model models mongodb mount mysql nfs nvme ollama output path postgres postgresql projects redis
    results share shared src ssd storage temp tmp to usb venv vllm volume weights work workspace www x y"""
)
MODEL_DIRS = _words("models huggingface hub hf path mongodb llama.cpp vllm library")
PUBLIC_HOSTS = re.compile(
    r"(?:[\w-]+\.)*(?:docker|containers|orb)\.internal|metadata\.google\.internal|instance-data\.ec2\.internal"
    r"|(?:kubernetes|kube-dns|coredns)\.[\w.-]+|(?:[\w-]+\.)*(?:svc\.)?cluster\.local|(?:[\w-]+\.)?example\.\w+"
    r"|(?:raspberrypi|homeassistant|myhost|hostname|host|my-?server|server|foo|mydomain|domain|corp|internal)\.\w+",
    re.IGNORECASE,
)
NOT_HOSTS = _words(
    """$home android app application appsettings args cfg com compose conf config context crate ctx dist
    docker-compose dockerfile document env event fail2ban go golang google hosts init io ip-up jail java javax jdk
    kotlin let librt local-storage makefile module net node obj options opts org os override package parsed path
    pathlib process rc scope self settings std storage sun super sys tensorflow tf this thread threading torch tornado
    user usr values var window zone"""
)
MAIL_PLACES = re.compile(
    r"v?\d+\.\d.*|(?:.*\.)?(?:example|test|invalid|localhost|local)(?:\.\w+)?|users\.noreply\.github\.com"
    r"|(?:your|my)?-?(?:domain|company|host|server|mail|email|site)\.\w+|foo\.\w+|bar\.com"
    r"|(?:[\w-]+\.)*(?:py|js|ts|md|json|ya?ml|service|socket|target|timer|whl|git|txt|toml|conf|png|jpg|svg)",
    re.IGNORECASE,
)
MAIL_ROLES = _words("do-not-reply donotreply git hg name no-reply noreply svn user username you")
CALLING = re.compile(
    r"1[2-9]\d{2}[2-9]\d{6}|7[3489]\d{9}|(?:2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58])\d{7,11}"
    r"|(?:2[1-689]|3[578]|42|50|59|6[789]|8[058]|9[679])\d{7,11}"
)
ISSUERS = re.compile(
    r"4\d{15}(?:\d{3})?|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}|220[0-4]\d{12}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|62\d{14,17}"
)
VERSION_WORD = re.compile(r"(?:version|release|build|firmware|driver|cuda|[=<>~]=|\bv)[ :]*$", re.IGNORECASE)
KNOWN_IPS = _words("100.100.100.100 100.100.100.200 169.254.169.254 172.17.0.1 1.1.1.1 1.0.0.1 8.8.8.8 8.8.4.4 9.9.9.9")


def entropy_bits(value: str) -> float:
    """Shannon entropy of the characters of `value`, in bits per character."""
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())


def digits_of(value: str) -> list[int]:
    """The decimal digits in `value`, everything else left out."""
    return [int(c) for c in value if c.isdecimal()]


def real(value: str, _text: str, _start: int) -> bool:
    """Not a placeholder, a variable or a documentation value; `example` beside a whole key does not hide the key."""
    if len(set(value)) < 5 or value.lower() in EMPTY_WORDS or PLACEHOLDER.search(value):
        return False
    rest = FILLER.sub("", value)
    return rest == value or (len(rest) >= 20 and entropy_bits(rest) >= 3.5 and any(c.isdigit() for c in rest))


def mixed(value: str, _text: str, _start: int) -> bool:
    """Letters with digits, strong signs or jumbled case, and not a name made of short words."""
    return bool(JUMBLED.search(value)) and any(c.isalpha() for c in value) and not slug(value)


def slug(value: str) -> bool:
    """A name made of short words, such as a model, a branch or a host has. No backtracking across the words."""
    parts = re.split(r"[-_./:]", value)
    return len(parts) > 1 and not UUID_SHAPED.match(value) and all(SLUG_PART.fullmatch(part) for part in parts)


def dense(value: str, _text: str, _start: int) -> bool:
    """Lower case, upper case and digits all occur."""
    return any(c.islower() for c in value) and any(c.isupper() for c in value) and any(c.isdigit() for c in value)


def strong(value: str, text: str, start: int) -> bool:
    """Looks like a password even without `is` or `=` before it."""
    odd = STRONG.search(value) or (dense(value, text, start) and not re.fullmatch(r"[A-Z]+[a-z]+[\d.]+", value))
    return bool(odd) and any(c.isdigit() for c in value) and mixed(value, text, start)


def user_and_password(value: str, _text: str, _start: int) -> bool:
    """Base64 of `user:password`."""
    try:
        return bool(re.match(rb"[ -~]+:", base64.b64decode(value + "=" * (-len(value) % 4))))
    except ValueError:
        return False


def luhn(value: str, _text: str, _start: int) -> bool:
    """The Luhn sum is a multiple of ten."""
    odd, even = digits_of(value)[-1::-2], digits_of(value)[-2::-2]
    return (sum(odd) + sum(sum(divmod(2 * d, 10)) for d in even)) % 10 == 0


def card(value: str, text: str, start: int) -> bool:
    """A payment card: an issuer's prefix and length, and Luhn."""
    plain = re.sub(r"\D", "", value)
    return bool(ISSUERS.fullmatch(plain)) and len(set(plain)) > 1 and luhn(value, text, start)


def iban(value: str, _text: str, _start: int) -> bool:
    """The remainder modulo 97 is one (ISO 13616)."""
    plain = re.sub(r"[^A-Z0-9]", "", value.upper())
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


def phone_abroad(value: str, _text: str, _start: int) -> bool:
    """A known calling code and as many digits as a number has there."""
    plain = "".join(map(str, digits_of(value)))
    return bool(CALLING.fullmatch(plain.removeprefix("00"))) and "123456789" not in plain


def phone_here(value: str, _text: str, _start: int) -> bool:
    """A number without calling code: grouped, or of the length and first digits such numbers have."""
    groups = re.findall(r"\d+", value)
    if len(groups) == 1:
        return bool(re.fullmatch(r"0\d{8,11}|[2-9]\d{9}|1[3-9]\d{9}", groups[0]))
    date = re.match(r"\d{4}[-.]\d\d[-.]\d\d", value)
    return 7 <= sum(map(len, groups)) <= 12 and min(map(len, groups)) >= 2 and not date


def mail(value: str, _text: str, _start: int) -> bool:
    """An address of somebody, not an example, a robot or a file name."""
    name, _, place = value.rpartition("@")
    return name.lower() not in MAIL_ROLES and not MAIL_PLACES.fullmatch(place)


def mac(value: str, _text: str, _start: int) -> bool:
    """A hardware address of one machine: no broadcast, zero, multicast or textbook address."""
    plain = re.sub(r"[:-]", "", value).lower()
    return len(set(plain)) > 2 and not plain.startswith(("01005e", "3333", "00112233", "aabbccddee", "010203"))


def _address(value: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(value)
    except ValueError:
        return None


def private_ipv4(value: str, text: str, start: int) -> bool:
    """A complete private address that is no version, no network in CIDR notation and no well-known one."""
    network = value.endswith(".0.0") or (value.endswith(".0") and text[start + len(value) :].startswith("/"))
    version = VERSION_WORD.search(text[max(0, start - 12) : start])
    return _address(value) is not None and value not in KNOWN_IPS and not network and not version


def private_ipv6(value: str, _text: str, _start: int) -> bool:
    """A complete private IPv6 address, not a bare prefix."""
    address = _address(value)
    return address is not None and address.is_private and int(address) % 2**64 != 0


def public_ipv4(value: str, _text: str, _start: int) -> bool:
    """A routed address that is no well-known resolver."""
    address = _address(value)
    return address is not None and address.is_global and value not in KNOWN_IPS


def own_home(value: str, _text: str, _start: int) -> bool:
    """The user in a home path is a person, not `user`, `ubuntu` or `runner`."""
    found = re.search(r"(?:home|users|documents and settings)[\\/]{1,2}([^\\/]+)", value, re.IGNORECASE)
    return found is not None and found[1].strip(" .,").lower() not in GENERIC_USERS


def own_path(value: str, _text: str, _start: int) -> bool:
    """Some directory in the path is particular to this site."""
    parts = [part.lower().strip(".,") for part in re.split(r"[\\/]+", value)[2 if value[0] == "/" else 1 :]]
    parts = [part for part in parts if part]
    named = [part for part in parts if part.rstrip("0123456789") not in GENERIC_DIRS and len(part) > 1]
    return bool(named) and parts[0] not in MODEL_DIRS


def inner_host(value: str, text: str, start: int) -> bool:
    """A host of this network, not a code name, a file name or a name every installation has."""
    labels, before = value.lower().split("."), text[max(0, start - 2) : start]
    code = labels[0] in NOT_HOSTS or len(labels[0]) + len(labels) < 4 or (before.endswith("/") and before != "//")
    return not code and not PUBLIC_HOSTS.fullmatch(value)


def own_login(value: str, _text: str, _start: int) -> bool:
    """user@host names a person or a machine; `root` in a container does not."""
    user, host = re.split(r"[@:\s\]]", value.lower().lstrip("["))[:2]
    return user not in GENERIC_USERS or not (host in GENERIC_HOSTS or re.fullmatch(r"[0-9a-f]{12}", host))


def weighted(weights: str, modulus: int) -> Check:
    """A check: the digits times `weights` add up to a multiple of `modulus`."""
    factors = [int(factor) for factor in weights.split()]
    return lambda value, _text, _start: sum(map(operator.mul, digits_of(value), factors)) % modulus == 0


_TEXT = (real, mixed, dense, strong, user_and_password)
_PERSON = (luhn, card, iban, phone_abroad, phone_here, mail)
_NETWORK = (mac, private_ipv4, private_ipv6, public_ipv4, inner_host)
_PLACE = (own_home, own_path, own_login)
CHECKS: dict[str, Check] = {
    **{check.__name__.replace("_", "-"): check for check in (*_TEXT, *_PERSON, *_NETWORK, *_PLACE)},
    "nhs": weighted("10 9 8 7 6 5 4 3 2 1", 11),
    "pesel": weighted("1 3 7 9 1 3 7 9 1 3 1", 10),
    "aba": weighted("3 7 1 3 7 1 3 7 1", 10),
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
        return lambda value, _text, _start: entropy_bits(value) >= floor
    if name not in CHECKS or number:
        raise ValueError(f"no check is called {text!r} (known: entropy:BITS, {', '.join(sorted(CHECKS))})")
    return CHECKS[name]
