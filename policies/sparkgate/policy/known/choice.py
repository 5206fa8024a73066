"""Which of the values in a file are credentials, and in which forms they would show up in a text.

Not taken, and so not found: values shorter than six characters, placeholders and well-known passwords; and, unless the
user names the file or variable himself, plain words (letters of one case, shorter than twelve or known as a word),
numbers shorter than eight digits, and names made of short words, as models, hosts and images have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from sparkgate.policy.checking.wording import EMPTY_WORDS, FILLER, mixed, real, slug, wordy
from sparkgate.policy.known.formats import Pair, decoded, key_lines, logins
from sparkgate.policy.names.words import is_common

Take = Literal["credentials", "dense", "named"]
"""What counts: values under a credential's name; also those that look like one; also words, as the user named them."""
Trust = Literal["named", "sure", "look", "no"]

SHORTEST, LONGEST = 6, 8192
DENSE = 12
LONGEST_FILLER = 200

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
SURE_NAME = re.compile(
    r"(?:password|passwd|passphrase|passcode|secret|token|apikey|credential|privatekey)s?|(?:.*_)?(?:pass|pwd|pw|pat|bearer)"
    r"|.*(?:password|passwd|passphrase|secret|token|apikey|authkey)s?|(?:.*_)?(?:bot|api|access|secret|private|auth|master"
    r"|signing|encryption|service|admin|account|deploy|client|license|shared|session|webhook|storage|subscription"
    r"|virtual|jwt|app|developer|personal)_keys?(?:_data)?"
)
LOOK_NAME = re.compile(
    r"(?:.*_)?(?:keys?|auth|authorization|cookies?|dsn|sas|webhooks?|webhook_url|session|salt|credentials?"
    r"|connection_string|refresh|access|jwt)"
)
PUBLIC_NAME = re.compile(
    r"(?:.*_)?(?:public|pub|gpg|publishable|primary|foreign|sort|hot|cache|partition|host|shortcut|known)_keys?"
    r"|(?:.*_)?(?:eos|bos|pad|unk|mask|sep|cls|stop|special|max|min)_tokens?"
)
TEMPLATE = re.compile(
    r"\$\w+|\$\{.*\}|\$\(.*\)|%\w+%|<.*>|\{\{.*\}\}|\{\w+\}|(?:env|op|vault|secret|keyring|file|ref|ssm|exec)(?:://|:).*"
    r"|!\w+ .*|process\.env\..*|os\.environ.*|(?:~|\.\.?)?/(?:home|usr|etc|run|var|opt|tmp|root|mnt|srv)/.*",
    re.IGNORECASE | re.DOTALL,
)
URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/\s]*@)?([^/?#\s]*)[/?#]?(\S*)", re.IGNORECASE)
HEADER = re.compile(
    r"((?:proxy-)?authorization|cookie|[\w-]*(?:api[-_]?key|token|secret))\s*[:=]\s*(.+)", re.IGNORECASE
)
SCHEME = re.compile(r"(?:bearer|basic|token|apikey|bot)\s+(\S+)", re.IGNORECASE)
ADDRESS = re.compile(r"\d{4}-\d\d-\d\d.*|\S+@\S+\.\w+|(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?(?:/.*)?", re.IGNORECASE)
"""Dates, mail addresses and hosts: mixed enough to look like a credential."""
COMMON_HEADS = (
    (re.compile(r"eyJ[\w-]*\."), 24),
    (re.compile(r"eyJ"), 32),
    (re.compile(r"LS0tLS1CRUdJTi"), 72),
    (re.compile(r"b3BlbnNzaC1rZXktdjEA"), 72),
    (re.compile(r"MI[GIMHE]"), 52),
)
"""How values of one kind all begin, and how many characters after that are still alike: no part to be known by."""

AFTER_SCHEME: dict[Trust, Trust] = {"named": "named", "sure": "sure", "look": "sure", "no": "look"}


@dataclass(frozen=True, slots=True, repr=False)
class Value:
    """A credential on its way to its digests. `common`: leading characters that others of its kind share."""

    text: str
    common: int = 0


def chosen(pairs: Iterable[Pair], take: Take) -> Iterator[Value]:
    """The credentials among the pairs of a file, each in its forms."""
    trusts: dict[str, Trust] = {}
    for name, value in pairs:
        if not SHORTEST <= len(value) <= LONGEST:
            continue
        header = HEADER.fullmatch(value.strip()) if name and (":" in value or "=" in value) else None
        name, value = (header[1], header[2]) if header else (name, value.strip())
        if name not in trusts:
            trusts[name] = trust_of(name, take)
        for form, trust in forms(name, value, trusts[name]):
            if worth(form, trust):
                yield Value(form, _common(form))


def embedded(text: str) -> Iterator[Value]:
    """Credentials that show by themselves: body lines of private keys, and the users and passwords of URLs."""
    yield from (Value(line) for line in key_lines(text) if len(line) >= DENSE)
    for login in logins(text):
        if ":" in login:
            yield from (Value(form) for form, _ in _pair_forms(login))
        elif worth(login, "look"):
            yield Value(login, _common(login))


def trust_of(name: str, take: Take) -> Trust:
    """How far the name alone says that its value is a credential."""
    plain = re.sub(r"[^a-z0-9]+", "_", _CAMEL.sub("_", name).lower()).strip("_")
    if PUBLIC_NAME.fullmatch(plain):
        return "no"
    if not name or SURE_NAME.fullmatch(plain):
        return "named" if take == "named" else "sure"
    return "look" if take != "credentials" or LOOK_NAME.fullmatch(plain) else "no"


def forms(name: str, value: str, trust: Trust) -> Iterator[tuple[str, Trust]]:
    """A value as it may stand in a text: itself, without its scheme word, decoded, the secret part of a URL."""
    if "-----BEGIN" in value:
        return
    url = URL.fullmatch(value) if "://" in value else None
    if url:
        yield from _url_forms(url, trust)
        return
    scheme = SCHEME.fullmatch(value)
    bare = scheme[1] if scheme else value
    yield bare, (AFTER_SCHEME[trust] if scheme else trust)
    if scheme or name.lower().endswith("auth"):
        yield from _pair_forms(decoded(bare))


def _pair_forms(pair: str) -> Iterator[tuple[str, Trust]]:
    user, colon, password = pair.partition(":")
    if colon and worth(password, "sure"):
        yield password, "sure"
        yield unquote(password), "sure"
        if user:
            yield pair, "sure"


def _url_forms(url: re.Match[str], trust: Trust) -> Iterator[tuple[str, Trust]]:
    """Scheme and host are no secret: only what follows them counts, or the host when the user names nothing else."""
    host, rest = url.groups()
    longest = max(re.split(r"[/?&=#]", rest), key=len)
    if trust != "no":
        yield longest, "look"
    for name, equals, value in (part.partition("=") for part in re.split(r"[?&#]", rest)):
        if equals and name:
            yield value, trust_of(name, "credentials")
    if trust == "named":
        yield rest or host, "named"


def worth(value: str, trust: Trust) -> bool:
    """Whether a text that holds this value holds a secret."""
    if trust == "no" or not SHORTEST <= len(value) <= LONGEST or len(set(value)) < 4 or _placeholder(value):
        return False
    if trust == "sure":
        return not _ordinary(value)
    if trust == "look":
        odd = len(value) >= DENSE and real(value) and mixed(value) and " " not in value
        return odd and not ADDRESS.fullmatch(value)
    return True


def _placeholder(value: str) -> bool:
    rest = FILLER.sub("", value) if len(value) <= LONGEST_FILLER else value
    filled = rest != value and not (len(rest) >= DENSE and mixed(rest))
    variable = value.isupper() and value.isidentifier() and "_" in value and trust_of(value, "credentials") != "no"
    return filled or variable or value.lower() in EMPTY_WORDS or TEMPLATE.fullmatch(value) is not None


def _ordinary(value: str) -> bool:
    """A word, a short number, or a name made of short words without a number in it."""
    if value.isdecimal():
        return len(value) < 8
    if value.isalpha() and value in (value.lower(), value.upper(), value.title()):
        return len(value) < 12 or wordy(value) or is_common(value.lower())
    return slug(value) and not (len(value) >= 10 and any(map(str.isdigit, value)))


def _common(value: str) -> int:
    for head, more in COMMON_HEADS:
        found = head.match(value)
        if found:
            return found.end() + more
    return 0
