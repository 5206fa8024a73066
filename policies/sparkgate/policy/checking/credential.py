"""Whether a value that stands behind a name such as `api_key` is the secret itself.

The name decides how much the value must look like one: behind `password` almost anything is, behind a bare `key` only
what no person would write.
"""

from __future__ import annotations

import re

from sparkgate.policy.checking.wording import (
    UUID_SHAPED,
    dense,
    entropy_bits,
    mixed,
    random,
    readable,
    real,
    slug,
    strong,
    words,
    wordy,
)

LOOK_BACK = 160
BACKWARDS = re.compile(r"[\"'`]{0,3}[rbufRBUF]?(?:[^\w$]{1,60}|^)(?:(?i:eulav)[^\w$]{1,12})?([\w$.@-]{1,80})")
"""The name, read from the value's start to the left."""
NAMED_BY = re.compile(
    r"(.*)(?i:key|token|secret|pass(?:wor[dt]|wd|phrase|code)?|pwd|pw|kennwort|credential|auth|dsn)s?(.*)", re.DOTALL
)
"""What a name has before and behind its last such word."""
ABOUT = re.compile(
    r"name|type|kind|len|length|size|count|ur[il]s?|path|file|dir|days?|hours?|seconds?|policy|bucket|fields?|header"
    r"|params?|parameters?|prefix|suffix|regex|pattern|expir\w*|ttl|time\w*|limit|format|env|var|refs?|arn|alias|labels?"
    r"|index|column|hash|algo\w*|method|endpoint|host|server|issuer|audience|scopes?|mode|status|state|errors?|message"
    r"|rotation|class|provider|store|manager|mgr|vault|version|usage|budget|rate|ids?|required|enabled|text|callback"
    r"|function|func|fn|generator|validator|input|binding|email|mail|sha\d*|md5|checksum|digest|fingerprint|types?",
    re.IGNORECASE,
)
"""The last part of a name that says something about a secret."""
OTHER_WORD = re.compile(
    r"(?:i[dz]es?|i[sz]ers?|i[sz]ation|board|words?|stone|note|frame|ors?|ority|ing|ed|ers?|chain|ring|port|age)(?![a-z])",
    re.IGNORECASE,
)
"""What makes another word of `key`, `token` or `auth`, as in keyboard, tokenizer and author."""
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[0-9]+")
TYPE_NAME = re.compile(
    r"[A-Za-z]{0,6}\d{0,2}(?:[A-Z][a-z]{2,12}){2,6}(?:8|16|32|64)?"
    r"|(?=\w{0,40}(?:Passw|Secret|Token|Key|Credential))[A-Za-z]{0,6}(?:[A-Z][a-z]{2,12}){2,6}\d{0,3}"
)
RESOURCE = re.compile(
    r"arn:aws[\w-]{0,10}:[a-z][a-z0-9-]{1,20}:[a-z0-9-]{0,20}:(?:\d{12})?:[\w-]{2,20}[:/]"
    r"(?:[A-Za-z]{1,20}(?:-[A-Za-z0-9]{1,6})*|[0-9a-f]{8}(?:-[0-9a-f]{4,12}){4})"
)
"""Where something is kept in a cloud."""
PUBLIC_PARTS = words(
    """public publishable cache primary foreign sort partition idempotency object etag group event lookup dedup
    composite unique csrf xsrf page next continuation sync bos eos pad unk max min num total stop prompt completion
    translation map row site host sub mon tur hoc joc don whis"""
)
"""What stands right before `key` or `token` in the name of what everybody may know."""
SHORT = frozenset({"pass", "pw", "pwd"})
NUMBERED = re.compile(
    r"(?:x-amz-(?:id-2|cf-id|version-id)|cf-ray|e-?tag|(?:request|trace|span|correlation|transaction|message)[ _-]?id"
    r"|traceparent)(?:\W{0,4}(?:W/\W{0,3})?|\W{1,2}(?:is|was|=)\W{1,2})$",
    re.IGNORECASE,
)
"""Headers and names of what a server counts or traces, right before the value."""
LISTED = re.compile(r"[\"'`]{1,3}\s{0,4},")
BARE = frozenset({"key", "keys", "auth", "authorization", "token", "tokens"})
PASSWORD = re.compile(
    r"passw(?:or[dt]|d)|passphrase|passcode|kennwort|[a-z0-9]_pass\b|[a-z0-9]_?pwd\b|(?-i:[a-z]Pass\b)|:_pass",
    re.I,
)
INTRODUCED = re.compile(
    r"(?:[=:：＝>]|(?<!\w)(?:is|was|lautet|ist|war|est|era|es|é|è|to|hier|это|jest|är)(?=\s)|[是为為は])\s*[\"'`“«]*$",
    re.I,
)
COMPOUND = re.compile(
    r"(?:api|access|secret|auth|master|encryption|signing|client)[_ -]?(?:key|token|secret)[\"']?\s+[\"'`]?$",
    re.I,
)
LENGTH = re.compile(r"\d[- ]?(?:zeichen|stell|ziffern|caract|carácter|char|digit|letter|文字|桁|位|字|자)", re.I)
"""A rule about passwords says how long they are."""
SETTING = re.compile(r"[a-z]+(?:_[a-z]+)+=\d+")
WITH = re.compile(r"\b(?:with|using) (?:the |my )?pass(?:word|phrase) [\"'`]?$", re.I)
WORDS_AND_NUMBER = re.compile(r"(?:[a-z]{3,10}-){2,5}\d{1,4}")
ADVICE = re.compile(
    r"\b(?:must|should|may|can(?:not)?|is|are|was|not|at least|characters?|incorrect|failed|invalid|required|minimum"
    r"|enter|your|user|login|authentication|for|field|muss|mindestens|zeichen|caract\w+|falsch|doit)\b",
    re.I,
)
"""Words of a message about a password, which no quoted passphrase has."""
ERROR = re.compile(r"\b(?:error|exception|api|build)\b", re.I)
OWNED = re.compile(r"\b(?:my|our|mein\w*|mon|mi|got|received)\b", re.I)
CHIP = re.compile(r"\b(?:gpio|adc|dac|pwm|header|pinout|esp32|arduino|raspberry)\b", re.I)
CODES = re.compile(r"(?:19|20)\d\d|0?1234(?:5|56|567|5678)?|(\d)\1+|654321|4321")
PIECE = re.compile(r"[A-Za-z0-9_-]+")
DIGEST = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}")


def credential(value: str, text: str, start: int) -> bool:
    """The value behind a credential's name is a credential: real, and as random as its name asks for."""
    if not real(value) or TYPE_NAME.fullmatch(value) or RESOURCE.fullmatch(value):
        return False
    before = text[max(0, start - LOOK_BACK) : start][::-1]
    found = BACKWARDS.match(before)
    name = found[1][::-1] if found else ""
    if LISTED.match(before) and (found is None or not _argument(value, before[found.end() :])):
        return False
    last = name.rpartition(".")[2] or name
    if last.lower() == "otpauth" and value.startswith("//"):  # a scheme; another rule judges its secret
        return False
    named = NAMED_BY.match(last)
    if named is not None and _about(named[2]):
        return False
    if PASSWORD.search(name):
        return _password(value, before)
    if last.lower() in SHORT and before[:1] == "=" and slug(value):
        return _chosen(value) and dense(value)
    public = named is not None and PARTS.findall(named[1])[-1:]
    return not (public and public[0].lower() in PUBLIC_PARTS) and mixed(value) and _random(value, last.strip("-_$@"))


def _about(rest: str) -> bool:
    """What a name has behind its keyword says that the secret itself is elsewhere."""
    parts = PARTS.findall(rest)
    return bool(OTHER_WORD.match(rest)) or (bool(parts) and ABOUT.fullmatch(parts[-1]) is not None)


def _argument(value: str, before: str) -> bool:
    """Of `("name", "value")`, and no word of a list of words."""
    return before[:2] in ('"(', "'(") and len(value) >= 12 and mixed(value)


def _password(value: str, before: str) -> bool:
    if before[:1] in "[(":
        return strong(value)
    if not value.isalnum():
        return mixed(value) or (before[:1] in "=\"'" and slug(value) and _chosen(value))
    if not value.isalpha():
        return len(value) >= 6
    return len(value) >= 8 and not wordy(value) and entropy_bits(value) >= 2.3


def _chosen(value: str) -> bool:
    """A slug that somebody took for a password: long, or with a digit."""
    return len(value) >= 16 or (len(value) >= 8 and any(map(str.isdigit, value)))


def _random(value: str, name: str) -> bool:
    name = name.lower()
    if name in SHORT:
        return len(value) >= 6
    if name not in BARE:
        return len(value) >= 10
    if name in ("key", "keys", "auth"):
        public = UUID_SHAPED.match(value) or DIGEST.fullmatch(value) or readable(value)
        return len(value) >= 16 and not public and entropy_bits(value) >= 3
    return len(value) >= 10 and entropy_bits(value) >= 2.5


def said_password(value: str, text: str, start: int) -> bool:
    """Real where a verb or a sign introduces it; right after the word it must look like a password by itself."""
    if not real(value) or TYPE_NAME.fullmatch(value) or LENGTH.search(value):
        return False
    if strong(value) or INTRODUCED.search(text[max(0, start - 12) : start]):
        return True
    return bool(WORDS_AND_NUMBER.fullmatch(value) and WITH.search(text[max(0, start - 30) : start]))


def said_phrase(value: str, _text: str, _start: int) -> bool:
    """Words and a digit in quotation marks that say nothing about passwords."""
    return " " in value.strip() and any(map(str.isdigit, value)) and not ADVICE.search(value)


def app_password(value: str, text: str, start: int) -> bool:
    """Four times four letters: no words, unless the name says that a program made them."""
    odd = sum(not re.search(r"[aeiouy]", part) or "q" in part.replace("qu", "") for part in value.split())
    return odd >= 1 and (odd >= 2 or text[:start].rstrip(" \"'")[-1:] in ("=", ":", "d"))


def one_time(value: str, text: str, start: int) -> bool:
    """Digits that were sent or chosen, not counted: no year, no number of an error or of a pin of a chip."""
    before, after = text[max(0, start - 60) : start], text[start + len(value) :][:40]
    counted = CHIP.search(before) or CHIP.search(after) or (len(value) != 6 and ERROR.search(after))
    return CODES.fullmatch(value) is None and not (counted and OWNED.search(before) is None)


def said_key(value: str, text: str, start: int) -> bool:
    """Real and mixed where a verb introduces it; right after the name it must be long and of one piece."""
    if not real(value) or not mixed(value) or SETTING.fullmatch(value):
        return False
    before = text[max(0, start - LOOK_BACK) : start]
    if INTRODUCED.search(before):
        return True
    piece = len(value) >= 24 and PIECE.fullmatch(value) is not None
    return piece and bool(COMPOUND.search(before) or (dense(value) and entropy_bits(value) >= 3.5))


def unknown_key(value: str, text: str, start: int) -> bool:
    """Random letters that are no part of a public key or a certificate, and no number of a request."""
    if not (random(value) and real(value)) or readable(value):
        return False
    marks = ("PUBLIC KEY", "CERTIFICATE", "BEGIN PGP SIGNATURE")
    return not (any(mark in text for mark in marks) or NUMBERED.search(text[max(0, start - 40) : start]))
