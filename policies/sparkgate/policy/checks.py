"""Named checks a rule may ask for, beyond its pattern. Each judges the matched value in its text."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address, IPv6Address

Check = Callable[[str, str, int], bool]
"""(value, text, start of the value in the text) → whether the match stands."""

PLACEHOLDER = re.compile(
    r"example|placeholder|redacted|change_?-?(?:me|it)|your[_-]?\w|xxxx|\*\*\*|\.\.\.|…|dummy|not-?_?needed|123456789"
    r"|abcdefgh|\b(?:insert|replace|my)[_-]|test[_-]?(?:key|token|secret)|eyjzdwiioiixmjm0nty3odkw|[{<]\w|os\.environ"
    r"|getenv|process\.env|secrets?\.|^\$[a-z_({]|^%\w+%?$|^%\(|^(?:sha|md|base|utf|oauth|aes|rs|hs|es|rsa|http|ipv|argon)"
    r"[-_]?\d|(?-i:^[a-z][a-z0-9_.]+[(\[][a-z0-9_.\[\]-]*\)?$)",
    re.IGNORECASE,
)
EMPTY_WORDS = frozenset(
    ["password", "passwort", "passwd", "pass", "pwd", "pw", "secret", "token", "key", "apikey", "api_key", "empty", "none", "null", "nil", "true", "false", "test", "testing", "admin", "administrator", "root", "postgres", "mysql", "mariadb", "mongo", "mongodb", "redis", "rabbitmq", "guest", "user", "username", "changeit", "letmein", "mysecretpassword", "mysecret", "mypassword", "mypass", "mytoken", "supersecret", "ultrasecretkey", "verysecret", "hunter2", "minioadmin", "string", "value", "foobar", "default", "required", "optional", "undefined", "unset", "missing", "invalid", "incorrect", "password1", "password123", "p@ssw0rd", "p@ssword", "passw0rd", "pass123", "pass1234", "secret123", "test123", "test1234", "admin123", "qwerty123", "1234", "12345", "123456", "1234567", "12345678", "s3cret", "s3cr3t", "hidden", "masked", "removed", "sanitized", "lambda", "unknown", "user:password", "user:pass", "credentials", "authtoken"]
)
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
SLUG = re.compile(r"[a-z0-9]{1,11}(?:[-_./:][a-z0-9]{1,11})+", re.IGNORECASE)
STRONG = re.compile(r"[!#$%&*+?@^~=]")
GENERIC_USERS = frozenset(
    ["user", "users", "username", "user1", "user_name", "your", "yourname", "your_name", "your-name", "your_user", "you", "me", "name", "myuser", "myname", "ubuntu", "debian", "fedora", "centos", "ec2-user", "admin", "administrator", "root", "runner", "app", "appuser", "node", "jovyan", "vscode", "codespace", "vagrant", "pi", "docker", "nonroot", "dev", "developer", "build", "builder", "jenkins", "circleci", "gitlab-runner", "github", "linuxbrew", "shared", "public", "default", "guest", "someone", "somebody", "foo", "bar", "test", "tester", "testuser", "xxx", "nvidia", "ollama", "vllm", "sandbox", "coder", "container", "host", "server"]
) | {"all users", "default user", "<user>", "<username>", "your name"}
GENERIC_HOSTS = frozenset(
    ["host", "hostname", "localhost", "server", "machine", "remote", "myhost", "my-host", "myserver", "my-server", "ubuntu", "debian", "fedora", "raspberrypi", "container", "node", "node1", "computer", "pc", "laptop", "example", "box", "vm", "ip", "github", "desktop", "archlinux"]
)
GENERIC_DIRS = frozenset(
    ["models", "model", "data", "db", "cache", "hub", "hf", "huggingface", "docker", "volumes", "volume", "c", "d", "nvme", "ssd", "disk", "hdd", "usb", "mongodb", "mysql", "postgres", "postgresql", "minio", "www", "http", "html", "checkpoints", "logs", "log", "tmp", "temp", "datasets", "dataset", "config", "configs", "app", "apps", "src", "lib", "bin", "cdrom", "storage", "backup", "backups", "share", "shared", "media", "nfs", "sdcard", "output", "outputs", "input", "inputs", "results", "ftp", "git", "x", "y", "foo", "bar", "path", "to", "file", "dir", "folder", "mount", "external", "redis", "weights", "downloads", "documents", "desktop", "pictures", "music", "videos", "projects", "code", "work", "dev", "go", "workspace", "venv", "ollama", "vllm", "comfyui", "llama.cpp"]
)
SYSTEM_ROOTS = ("/usr", "/etc", "/proc", "/dev", "/sys", "/var", "/opt", "/lib", "/bin", "/sbin", "/tmp", "/path", "/app")
PUBLIC_HOSTS = re.compile(
    r"(?:[\w-]+\.)*(?:docker|containers|orb)\.internal|metadata\.google\.internal|instance-data\.ec2\.internal"
    r"|(?:kubernetes|kube-dns|coredns)\.[\w.-]+|(?:[\w-]+\.)*(?:svc\.)?cluster\.local|(?:raspberrypi|homeassistant|example"
    r"|myhost|hostname|host|my-?server|server|foo|mydomain|domain|corp|internal)\.\w+|(?:[\w-]+\.)?example\.\w+",
    re.IGNORECASE,
)
NOT_HOSTS = frozenset(
    ["threading", "thread", "settings", "config", "docker-compose", "compose", "env", "application", "appsettings", "values", "rc", "this", "self", "user", "java", "path", "pathlib", "os", "sys", "com", "org", "net", "io", "jdk", "sun", "javax", "kotlin", "torch", "tf", "tensorflow", "tornado", "gevent", "werkzeug", "asgiref", "dist", "parsed", "librt", "args", "opts", "options", "ctx", "context", "obj", "event", "cfg", "conf", "module", "package", "crate", "super", "std", "zone", "ip-up", "hosts", "init", "vimrc", "bashrc", "zshrc", "tmux", "exim4", "jail", "fail2ban", "usr", "$home", "scope", "var", "let", "go", "google", "golang", "android", "app", "node", "process", "window", "document", "override", "makefile", "dockerfile", "local-storage", "storage"]
)
MAIL_PLACES = re.compile(
    r"v?\d+\.\d.*|(?:.*\.)?(?:example|test|invalid|localhost|local)(?:\.\w+)?|users\.noreply\.github\.com|(?:your|my)?-?(?:domain|company|"
    r"host|server|mail|email|site)\.\w+|acme\.com|foo\.\w+|bar\.com|(?:[\w-]+\.)*(?:py|js|ts|md|json|yaml|yml|service|socket"
    r"|target|timer|whl|git|txt|toml|conf|png|jpg|svg)",
    re.IGNORECASE,
)
MAIL_ROLES = frozenset(["git", "hg", "svn", "noreply", "no-reply", "donotreply", "do-not-reply", "user", "you", "name", "username"])
CALLING = re.compile(
    r"1[2-9]\d{2}[2-9]\d{6}|7[3489]\d{9}|(?:2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58])\d{7,11}"
    r"|(?:2[1-689]|3[578]|42|50|59|6[789]|8[058]|9[679])\d{7,11}"
)
ISSUERS = re.compile(
    r"4\d{15}(?:\d{3})?|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}|6(?:011|5\d\d|4[4-9]\d)\d{12}"
    r"|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|62\d{14,17}|220[0-4]\d{12}"
)
VERSION_WORD = re.compile(r"(?:version|release|build|firmware|driver|cuda|cudnn|tensorrt|oracle|[=<>~]=|\bv)[ :]*$", re.IGNORECASE)
KNOWN_IPS = frozenset(["169.254.169.254", "172.17.0.1", "100.100.100.100", "100.100.100.200"])
RESOLVERS = frozenset(
    ["8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1", "9.9.9.9", "149.112.112.112", "208.67.222.222", "208.67.220.220", "1.2.3.4", "4.4.4.4", "94.140.14.14", "4.2.2.2", "76.76.2.0", "114.114.114.114", "223.5.5.5"]
)
KNOWN_MACS = frozenset(["001122334455", "aabbccddeeff", "deadbeefcafe", "010203040506", "123456789abc", "0123456789ab"])
LANDMARKS = ("downing street", "baker street", "pennsylvania avenue", "wall street", "elm street", "main street", "abbey road", "51 franklin street")


def entropy_bits(value: str) -> float:
    """Shannon entropy of the characters of `value`, in bits per character."""
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())


def digits_of(value: str) -> list[int]:
    """The decimal digits in `value`, everything else left out."""
    return [int(c) for c in value if c in "0123456789"]


def real(value: str, _text: str, _start: int) -> bool:
    """Not a placeholder, a variable or a documentation value."""
    return len(set(value)) >= 5 and value.lower() not in EMPTY_WORDS and not PLACEHOLDER.search(value)


def mixed(value: str, _text: str, _start: int) -> bool:
    """Letters with digits or strong signs, and not a name made of short words."""
    signs = any(c.isdigit() for c in value) or STRONG.search(value)
    return bool(signs) and any(c.isalpha() for c in value) and (not SLUG.fullmatch(value) or bool(UUID.fullmatch(value)))


def dense(value: str, _text: str, _start: int) -> bool:
    """Lower case, upper case and digits all occur."""
    return any(c.islower() for c in value) and any(c.isupper() for c in value) and any(c.isdigit() for c in value)


def strong(value: str, text: str, start: int) -> bool:
    """Looks like a password even without `is` or `=` before it: a sign inside, a digit, a letter."""
    return bool(STRONG.search(value)) and any(c.isdigit() for c in value) and mixed(value, text, start)


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
    if len(groups) > 1:
        return 7 <= len("".join(groups)) <= 12 and min(map(len, groups)) >= 2 and not re.match(r"\d{4}[-.]\d\d[-.]\d\d", value)
    return bool(re.fullmatch(r"0\d{8,11}|[2-9]\d{9}|1[3-9]\d{9}", groups[0]))


def mail(value: str, _text: str, _start: int) -> bool:
    """An address of somebody, not an example, a robot or a file name."""
    name, _, place = value.rpartition("@")
    return name.lower() not in MAIL_ROLES and not MAIL_PLACES.fullmatch(place)


def mac(value: str, _text: str, _start: int) -> bool:
    """A hardware address of one machine: no broadcast, zero, multicast or textbook address."""
    plain = re.sub(r"[:-]", "", value).lower()
    return plain not in KNOWN_MACS and len(set(plain)) > 2 and not plain.startswith(("01005e", "3333"))


def private_ipv4(value: str, text: str, start: int) -> bool:
    """A complete private address that is no version, no network in CIDR notation and no well-known one."""
    after = text[start + len(value) :][:3]
    try:
        ends_in_zero = int(IPv4Address(value)) % 256 == 0
    except AddressValueError:
        return False
    known = value in KNOWN_IPS or (ends_in_zero and (after.startswith("/") or value.endswith(".0.0")))
    return not known and not VERSION_WORD.search(text[max(0, start - 12) : start])


def private_ipv6(value: str, text: str, start: int) -> bool:
    """A complete private IPv6 address, not a bare prefix."""
    try:
        address = IPv6Address(value)
    except AddressValueError:
        return False
    return int(address) % 2**64 != 0 and (address.is_private or address.is_link_local)


def public_ipv4(value: str, _text: str, _start: int) -> bool:
    """A routed address that is no well-known resolver."""
    try:
        return IPv4Address(value).is_global and value not in RESOLVERS
    except AddressValueError:
        return False


def own_home(value: str, _text: str, _start: int) -> bool:
    """The user in a home path is a person, not `user`, `ubuntu` or `runner`."""
    found = re.search(r"(?:home|users|documents and settings)[\\/]{1,2}([^\\/]+)", value, re.IGNORECASE)
    return found is not None and found[1].strip(" .,").lower() not in GENERIC_USERS


def own_path(value: str, _text: str, _start: int) -> bool:
    """Some directory in the path is particular to this site."""
    parts = [part.lower().strip(".,") for part in re.split(r"[\\/]+", value)[2 if value[0] == "/" else 1 :]]
    parts = [part for part in parts if part]
    named = [part for part in parts if part.rstrip("0123456789") not in GENERIC_DIRS and len(part) > 1]
    return bool(named) and parts[0] not in {"models", "huggingface", "hub", "hf", "path", "mongodb", "llama.cpp", "vllm", "library"}


def no_system_path(value: str, _text: str, _start: int) -> bool:
    """Not below a directory every machine has."""
    return not value.startswith(SYSTEM_ROOTS)


def inner_host(value: str, text: str, start: int) -> bool:
    """A host of this network, not a code name, a file name or a name every installation has."""
    labels, before = value.lower().split("."), text[max(0, start - 2) : start]
    code = labels[0] in NOT_HOSTS or len(labels[0]) + len(labels) < 4 or (before.endswith("/") and before != "//")
    return not code and not PUBLIC_HOSTS.fullmatch(value)


def own_login(value: str, _text: str, _start: int) -> bool:
    """user@host names a person or a machine; `root` in a container does not."""
    found = re.match(r"\[?([^@]+)@([^:\s\]]+)", value)
    if found is None:
        return False
    host = found[2].lower()
    return not (found[1].lower() in GENERIC_USERS and (host in GENERIC_HOSTS or re.fullmatch(r"[0-9a-f]{12}", host)))


def serial(value: str, _text: str, _start: int) -> bool:
    """At least four digits, and not the date-like serial of a DNS zone."""
    return len(digits_of(value)) >= 4 and not re.fullmatch(r"20\d{2}[01]\d[0-3]\d\d{0,2}", value)


def no_landmark(value: str, _text: str, _start: int) -> bool:
    """Not one of the streets everybody writes about."""
    return not value.lower().endswith(LANDMARKS)


def nhs(value: str, _text: str, _start: int) -> bool:
    """Modulus 11 of an NHS number."""
    digits = digits_of(value)
    return len(digits) == 10 and (11 - sum(d * w for d, w in zip(digits, range(10, 1, -1), strict=False)) % 11) % 11 == digits[9]


def steuer(value: str, _text: str, _start: int) -> bool:
    """ISO 7064 mod 11,10 of a German tax id."""
    product = 10
    for digit in digits_of(value)[:10]:
        product = (((digit + product) % 10 or 10) * 2) % 11
    return (11 - product) % 10 == digits_of(value)[-1]


def pesel(value: str, _text: str, _start: int) -> bool:
    """Weighted sum of a Polish PESEL."""
    return sum(d * w for d, w in zip(digits_of(value), (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1), strict=False)) % 10 == 0


def dni(value: str, _text: str, _start: int) -> bool:
    """Control letter of a Spanish DNI or NIE."""
    plain = re.sub(r"[ .-]", "", value.upper())
    number = plain[:-1].translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == plain[-1]


def verhoeff(value: str, _text: str, _start: int) -> bool:
    """Verhoeff sum (dihedral group D5) of an Aadhaar number."""
    state, permuted = 0, list(range(10))
    for digit in reversed(digits_of(value)):
        state = _dihedral(state, permuted[digit])
        permuted = [permuted[i] for i in (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)]
    return state == 0


def _dihedral(a: int, b: int) -> int:
    turned = (a + b if a < 5 else a - b) % 5
    return turned if (a < 5) == (b < 5) else turned + 5


CHECKS: dict[str, Check] = {
    function.__name__.replace("_", "-"): function
    for function in (real, mixed, dense, strong, user_and_password, luhn, card, iban, phone_abroad, phone_here, mail, mac)
    + (private_ipv4, private_ipv6, public_ipv4, own_home, own_path, no_system_path, inner_host, own_login, serial)
    + (no_landmark, nhs, steuer, pesel, dni, verhoeff)
}


def parse_check(text: str) -> Check:
    """`"luhn"` or `"entropy:3.0"` → the check.

    Raises:
        ValueError: no check of that name.
    """
    name, _, number = text.partition(":")
    if name == "entropy":
        floor = float(number or 3.0)
        return lambda value, _text, _start: entropy_bits(value) >= floor
    if name not in CHECKS or number:
        raise ValueError(f"no check is called {text!r} (known: entropy:BITS, {', '.join(sorted(CHECKS))})")
    return CHECKS[name]
