"""Planted credentials that open nothing: whoever sends one has read what he was not asked to read.

The file holds no value. A line names the kind and a random salt; the value is made from these and the key, the same
every time, so that it can be searched for like any other value. A keyed digest on the line shows a damaged line.
"""

from __future__ import annotations

import json
import os
import random
import secrets
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

from sparkgate.policy.finding import Label
from sparkgate.policy.samples import ALPHABETS

CANARY = Label(
    "canary", "secret", "block", "[known value]", "A planted credential: something read it and tried to send it on."
)
KINDS: dict[str, tuple[tuple[str, int], ...]] = {
    "huggingface": (("hf_", 0), ("mixed", 34)),
    "github": (("ghp_", 0), ("mixed", 30)),
    "nvidia": (("nvapi-", 0), ("url", 64)),
    "openrouter": (("sk-or-v1-", 0), ("hex", 64)),
    "password": (("mixed", 16),),
}
"""What each is made of: (text as it stands, 0) or (alphabet, letters of it)."""
BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class CanaryError(ValueError):
    """A canary that cannot be made; the message says why."""


def make_canary(path: Path, key: bytes, kind: str = "huggingface") -> str:
    """A new believable fake credential; what it takes to know it again is added to the file at `path` (0600).

    Raises:
        CanaryError: no such kind.
        OSError: the file cannot be written.
    """
    if kind not in KINDS:
        raise CanaryError(f"there are canaries of the kinds {', '.join(KINDS)}; {kind!r} is none of them")
    salt = secrets.token_hex(16)
    value = _value(key, kind, salt)
    line = json.dumps({"kind": kind, "salt": salt, "digest": _digest(key, value)}) + "\n"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, line.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return value


def canaries(text: str, key: bytes) -> Iterator[str | None]:
    """The values of a canary file, None for a line that is damaged or was made with another key."""
    return (_canary(line, key) for line in text.splitlines() if line.strip())


def _canary(line: str, key: bytes) -> str | None:
    try:
        told = json.loads(line)
        value = _value(key, told["kind"], told["salt"])
        return value if secrets.compare_digest(_digest(key, value), told["digest"]) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _value(key: bytes, kind: str, salt: str) -> str:
    source = random.Random(blake2b(f"{kind}:{salt}".encode(), key=key[:64], person=b"canary").digest())
    text = "".join("".join(source.choices(ALPHABETS[part], k=size)) if size else part for part, size in KINDS[kind])
    return text + _checksum(text[4:]) if kind == "github" else text


def _checksum(text: str) -> str:
    """Six letters, as tokens of GitHub end in: CRC-32 in base 62."""
    number, letters = crc32(text.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        letters = BASE62[digit] + letters
    return letters


def _digest(key: bytes, value: str) -> str:
    return blake2b(value.encode(), digest_size=16, key=key[:64], person=b"canary value").hexdigest()
