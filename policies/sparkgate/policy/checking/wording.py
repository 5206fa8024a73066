"""Whether a value looks like a secret, or like a placeholder, a word of a language or a name made of words."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from itertools import pairwise


def words(text: str) -> frozenset[str]:
    """A text as the set of its words."""
    return frozenset(text.split())


FILLER = re.compile(
    r"example|placeholder|redacted|change_?-?(?:me|it)|(?:(?<!\w)\w{0,40})?your[_-]\w{1,60}|your\w|[x#]{4,}|\*\*\*|\.\.\.|…|dummy"
    r"|not-?_?needed|123456789|abcdefgh[i-z]*|\b(?:insert|replace|my)[_-]|test[_-]?(?:key|token|secret)|[_-]here\b"
    r"|wjalrxutnfemi/k7mdeng/bpxrficy",
    re.IGNORECASE,
)
PLAIN_FILLER = ("example", "placeholder", "redacted", "change", "your", "xxxx", "####", "***", "...", "…", "dummy")
FILLER_SIGNS = (
    *PLAIN_FILLER,
    *("needed", "123456789", "abcdefgh", "insert", "replace", "my", "test", "here", "wjalr"),
)
"""One of these stands in whatever `FILLER` finds."""
PLACEHOLDER = re.compile(
    r"[{<\[]\W{0,2}\w[^>}\]]{0,80}(?:[>}\]]|$)|%\w+%$|\$\w+$|%s$|%\(|https?://"
    r"|(?:sha|md|base|utf|oauth|aes|rs|hs|es|rsa|http|ipv|argon)[-_]?\d{1,4}[a-z_-]{0,10}$"
    r"|(?:~|\.\.?)?/(?:home|usr|etc|run|var|opt|tmp|root|path|app|mnt|data|srv)/"
    r"|(?-i:[a-zA-Z_][\w.]*(?:\(|\?\.[a-z]\w*(?:[.(\[]|$)|\[[\w\"':]*(?:\]|$)))|!(?:secret|vault|env|ref|sub|getatt)(?:[\s(\[]|$)",
    re.IGNORECASE,
)
"""How a value begins that stands for another."""
VARIABLES = words(
    """{{ %{ ${ $( os.environ getenv process.env secret. secrets. xxxxxxxx ######## ******
    eyjzdwiioiixmjm0nty3odkw"""
)
"""Signs, in lower case, that a value is or holds a variable, a mask or the sample of jwt.io."""
STANDS_IN = re.compile(
    r"[$%]?\{\{?[^{}]{0,80}\}?\}?|\$\([^()]{0,80}\)?|[<\[]\W{0,2}\w[^>\]]{0,80}[>\]]|x{8,}|#{8,}|\*{6,}", re.IGNORECASE
)
"""What stands for another value, or hides a part of one."""
ENVIRONMENT = re.compile(r"os\.environ|getenv|process\.env|secrets?\.", re.IGNORECASE)
ANGLED = re.compile(r"<[a-zA-Z][\w -]{0,40}>")
EMPTY_WORDS = words(
    """1234 12345 123456 1234567 12345678 admin administrator anoncvs anonymous apikey changeit credentials default
    empty false foobar guest hunter2 incorrect invalid key lambda letmein minioadmin missing mongo mypass
    mypassword mysecret mysecretpassword mysql nil none null optional p@ssw0rd pass pass123 passw0rd passwd
    password password1 password123 passwort postgres pw pwd redis required root s3cr3t s3cret secret secret123
    jbswy3dpehpk3pxp string supersecret test token true ultrasecretkey undefined unknown user username value
    verysecret"""
)
SLUG_PART = re.compile(r"[a-z0-9]{1,11}|[A-Z]{0,6}[a-z]{0,10}\d{0,5}[A-Za-z]{0,2}")
UUID_SHAPED = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}", re.IGNORECASE)
JUMBLED = re.compile(r"[\d!#$%&*+?@^~=]|[a-z][A-Z][a-z]?[A-Z].*[a-z][A-Z][a-z]?[A-Z]")
SMALL_RUN = re.compile(r"[a-z]{4,}")
STRONG = re.compile(r"[!#$%&*+?@^~=]")
COMMON_WORDS = words(
    """account accounts algorithm always another argument available because before between boolean breach breaches
    browser button cannot cannotbe changes characters checker cleartext clipboard command complete component
    confirm context cracker credential database defaults different directory disabled doesnt elsewhere enabled
    encryption endpoint environment everything example expired expires failed failure fallback fields forgot
    forgotten format generate generator github gitlab google guidelines handler hashed hashing hidden history
    identifier identity immediately implementation inherit input instead integer interface internal issues
    kerberos keychain keyring labels laptop length letters linux login logged longer lowercase macos manager
    managers mandatory matches maximum method minimum mismatch nothing number numbers object offline online
    otherwise parameter phishing plaintext please policies policy problem prompt prompts property protection
    provider provided question readonly reader recovery regex remember reminder repeat requirements resets reuse
    rotation safari screen security server service services session settings should solution somewhere standard
    status storage strength strings submit sudoers support system template textfield through toggle unchanged
    unlock unlocked updated uppercase username usernames validator vaults warning whatever whether windows
    within without wizard wordlist wrong yourself"""
)
DERIVED = re.compile(
    r"(?:ing|ed|tion|sion|ment|ness|able|ible|ally|ly|ity|ance|ence|ive|ful|less|ous|ical|ers|ors|ism)$"
)
IDENTIFIER = re.compile(r"[a-z]+(?:[A-Z][a-z]+)+|(?:[A-Z][a-z]+){2,}")
PUBLIC_WORD = re.compile(
    r"(?:sha(?:1|256|384|512)|h1|md5|blake\w{1,3})[-_=]|AAAA[BCE]3|_Z|ssh-|pk[_-]|req_|sb_publishable_|phc_|pub",
    re.IGNORECASE,
)
"""Starts of digests, public keys and mangled symbols."""
URL_SIGNS = str.maketrans("-_", "+/")


def entropy_bits(value: str) -> float:
    """Shannon entropy of the characters of `value`, in bits per character."""
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())


def real(value: str) -> bool:
    """Not a placeholder, a variable or a documentation value; `example` beside a whole key does not hide the key."""
    low = value.lower()
    if len(set(value)) < 5 or low in EMPTY_WORDS:
        return False
    if PLACEHOLDER.match(value) or any(map(low.__contains__, VARIABLES)):
        return _beside_another(value)
    if "<" in value and ANGLED.search(value):
        return False
    if len(value) >= 16 and entropy_bits(value) < 2:
        return False
    if not any(map(low.__contains__, FILLER_SIGNS)):
        return True
    rest = FILLER.sub("", value)
    return rest == value or _whole_key(rest)


def _beside_another(value: str) -> bool:
    """A key of its own beside what stands for another value, so that nothing is freed by a variable behind it."""
    named = ENVIRONMENT.search(value) is not None
    rest = ENVIRONMENT.sub("", STANDS_IN.sub("", value))
    return rest != value and (random(rest) or (not named and not slug(rest) and _whole_key(rest)))


def _whole_key(rest: str) -> bool:
    """What stands beside a placeholder is long, random and of several kinds of characters."""
    kinds = any(c.isdigit() for c in rest) or (any(c.islower() for c in rest) and any(c.isupper() for c in rest))
    return len(rest) >= 20 and entropy_bits(rest) >= 3.5 and kinds


def filled(value: str) -> bool:
    """Less than real: repeated letters and alphabets count, where a prefix says plainly what the value is."""
    low = value.lower()
    if slug(value):
        return False
    if not any(map(low.__contains__, (*VARIABLES, *PLAIN_FILLER))):
        return True
    rest = FILLER.sub("", value)
    return len(rest) >= 24 and any(c.isdigit() for c in rest) and _whole_key(rest)


def mixed(value: str) -> bool:
    """Letters with digits, strong signs or jumbled case, and not a name made of short words."""
    return bool(JUMBLED.search(value)) and any(c.isalpha() for c in value) and not slug(value)


def slug(value: str) -> bool:
    """A name made of short words, such as a model, a branch or a host has. No backtracking across the words."""
    parts = re.split(r"[-_./:]", value)
    return len(parts) > 1 and not UUID_SHAPED.match(value) and all(SLUG_PART.fullmatch(part) for part in parts)


def dense(value: str) -> bool:
    """Lower case, upper case and digits all occur."""
    return any(map(str.islower, value)) and any(map(str.isupper, value)) and any(map(str.isdigit, value))


def scrambled(value: str) -> bool:
    """No name in camel case: less than half of it stands in runs of four and more small letters."""
    return 2 * sum(map(len, SMALL_RUN.findall(value))) < len(value)


def strong(value: str) -> bool:
    """Looks like a password even without `is` or `=` before it."""
    odd = STRONG.search(value) or (dense(value) and not re.fullmatch(r"[A-Z]+[a-z]+[\d.]+", value))
    return bool(odd) and any(c.isdigit() for c in value) and mixed(value)


def wordy(value: str) -> bool:
    """A word of a language or an identifier of code; letters only."""
    low = value.lower()
    return low in COMMON_WORDS or bool(DERIVED.search(low)) or bool(IDENTIFIER.fullmatch(value))


def random(value: str) -> bool:
    """No person wrote it: every kind of character, much entropy, and the kinds change often. Digests are not meant."""
    if not dense(value) or slug(value) or PUBLIC_WORD.match(value) or entropy_bits(value) < 3.9:
        return False
    kinds = [c.isdecimal() * 2 + c.isupper() for c in value if c.isalnum()]
    changes = sum(one != other for one, other in pairwise(kinds))
    return changes >= 0.42 * len(kinds) and not readable(value)


def readable(value: str) -> bool:
    """Base64 of a text; what that says is judged by itself."""
    try:
        inside = base64.b64decode(value.translate(URL_SIGNS) + "=" * (-len(value) % 4), validate=True)
    except ValueError:
        return False
    return sum(32 <= byte < 127 or byte in b"\t\r\n" for byte in inside) >= 0.9 * len(inside)
