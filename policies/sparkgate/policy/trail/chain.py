"""Links: every record of the log with a keyed MAC over its content and the MAC of the record before it."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal[1, 2, 3]
OUTBOUND: Final[Kind] = 1
OUTCOME: Final[Kind] = 2
MARK: Final[Kind] = 3
FORM = 3
"""What a new link covers. A column that is added later makes a new form; the old ones stay as they are."""
TABLES: Mapping[Kind, str] = {OUTBOUND: "outbound", OUTCOME: "outcome", MARK: "mark"}
UNKNOWN_GID = -1
"""In rows from before the group of who asked was kept."""
_OUTBOUND_1 = (
    *("id", "at_us", "session", "host", "host_version", "pid", "uid", "cwd", "tool", "destination", "origin"),
    *("verdict", "sent", "fields", "findings", "withheld", "policy", "decision_us"),
)
_OUTCOME_1 = ("outbound_id", "at_us", "outcome", "status", "bytes", "elapsed_us")
_MARK_1 = ("id", "at_us", "what", "detail")
COVERED: Mapping[int, Mapping[Kind, tuple[str, ...]]] = {
    1: {OUTBOUND: _OUTBOUND_1, OUTCOME: _OUTCOME_1, MARK: _MARK_1},
    2: {OUTBOUND: (*_OUTBOUND_1, "call_ids"), OUTCOME: _OUTCOME_1, MARK: _MARK_1},
    3: {OUTBOUND: (*_OUTBOUND_1, "call_ids", "gid", "confined"), OUTCOME: _OUTCOME_1, MARK: _MARK_1},
}
"""Form → kind → the columns a link is made over, in this order. A later form begins with those of the one before."""
ADDED: Mapping[str, str | int] = {"call_ids": "{}", "gid": UNKNOWN_GID, "confined": ""}
"""Column of a later form → what it holds in rows of the forms before it."""
MAC_BYTES = 16
"""Half of an HMAC-SHA256 (RFC 2104, section 5)."""
START = bytes(MAC_BYTES)
"""Stands before the first link."""


@dataclass(frozen=True, slots=True)
class Head:
    """The last link: its number and its MAC."""

    seq: int = 0
    mac: bytes = START


class Chain:
    """Makes and checks links.

    Args:
        key: the secret of the log; the one of the chain is derived from it.
    """

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key, b"sparkgate audit chain", hashlib.sha256)

    def mac(self, before: bytes, seq: int, kind: int, form: int, values: Sequence[Any]) -> bytes:
        """The MAC of link `seq` behind one whose MAC is `before`; `values` are integers, texts and None."""
        content = json.dumps([seq, kind, form, *values], separators=(",", ":")).encode()
        return hmac.digest(self._key, before + content, hashlib.sha256)[:MAC_BYTES]

    def signed(self, head: Head) -> str:
        """The MAC of a head that is kept outside the log, hex: only who has the key can make one up."""
        return hmac.digest(self._key, b"head %d %s" % (head.seq, head.mac.hex().encode()), hashlib.sha256).hex()[:32]

    def is_signed(self, head: Head, signature: str) -> bool:
        return hmac.compare_digest(self.signed(head), signature)


def covered(kind: Kind, columns: Mapping[str, Any]) -> list[Any]:
    """The values of a record that its link covers, in order."""
    return [columns[name] for name in COVERED[FORM][kind]]
