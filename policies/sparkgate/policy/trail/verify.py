"""The proof of the log: every link made again, in one pass, and what was done to a log that does not hold."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sparkgate.policy.trail.chain import COVERED, FORM, MARK, OUTBOUND, OUTCOME, START, TABLES, Chain, Head, Kind
from sparkgate.policy.trail.head import Anchor

Fault = Literal["edited", "missing", "inserted", "fork", "truncated", "unanchored"]
MEANING: dict[Fault, str] = {
    "edited": "its content is not what was written",
    "missing": "it was taken away",
    "inserted": "it was not written by the log",
    "fork": "the log went another way than the one that was kept track of: a copy written on, or rows made anew",
    "truncated": "everything after it was taken away, or was lost with the power",
    "unanchored": "nothing outside the file says how far the log went, so its end is not proven",
}
BATCH = 5000
"""Links read at once; a longer read would keep the writer's WAL from being used again."""


@dataclass(frozen=True, slots=True)
class Broken:
    """One place where the log does not hold.

    Attributes:
        seq: of the link.
        table, row: the record; row 0 when it cannot be told.
    """

    fault: Fault
    seq: int
    table: str = ""
    row: int = 0
    detail: str = ""

    def told(self) -> str:
        where = f"{self.table} {self.row}" if self.row else f"link {self.seq}"
        return f"{where}: {MEANING[self.fault]}{f' ({self.detail})' if self.detail else ''}"


@dataclass(slots=True)
class Proof:
    """What was checked, and what does not hold.

    Attributes:
        links: checked one by one.
        head: the last.
        pruned: the last link that was taken away by pruning, which the log itself tells of.
        accepted: breaks that the operator has seen and accepted.
    """

    links: int = 0
    head: Head = field(default_factory=Head)
    pruned: int = 0
    broken: list[Broken] = field(default_factory=list)
    accepted: list[Broken] = field(default_factory=list)

    @property
    def intact(self) -> bool:
        return not self.broken


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What pruning took: all links up to `seq`, whose MAC was `mac`, and all outbound rows up to `outbound`."""

    seq: int = 0
    mac: bytes = START
    outbound: int = 0


def verify(connection: sqlite3.Connection, chain: Chain, anchors: Sequence[Anchor | None]) -> Iterator[Proof]:
    """The proof as far as it got, once a batch; the last one is whole.

    Args:
        anchors: heads that were kept outside the file; None for one that is not there.
    """
    tombstone = _tombstone(connection)
    proof = Proof(head=Head(tombstone.seq, tombstone.mac), pruned=tombstone.seq)
    walk = _Walk(chain, proof, tombstone, {one.head.seq: one.head.mac for one in anchors if one})
    while batch := connection.execute(_QUERY, (proof.head.seq, BATCH)).fetchall():
        for row in batch:
            walk.take(tuple(row))
        yield proof
    walk.finish(connection, [one for one in anchors if one])
    _accept(connection, proof)
    yield proof


_SELECTED = {kind: COVERED[FORM][kind] for kind in (OUTBOUND, OUTCOME, MARK)}
_COLUMNS = ", ".join(f"{TABLES[kind]}.{name}" for kind, names in _SELECTED.items() for name in names)
_OFFSETS = {
    OUTBOUND: 5,
    OUTCOME: 5 + len(_SELECTED[OUTBOUND]),
    MARK: 5 + len(_SELECTED[OUTBOUND]) + len(_SELECTED[OUTCOME]),
}
_QUERY = f"""
SELECT chain.seq, chain.kind, chain.ref, chain.form, chain.mac, {_COLUMNS}
FROM chain
LEFT JOIN outbound ON chain.kind = {OUTBOUND} AND outbound.id = chain.ref
LEFT JOIN outcome ON chain.kind = {OUTCOME} AND outcome.outbound_id = chain.ref
LEFT JOIN mark ON chain.kind = {MARK} AND mark.id = chain.ref
WHERE chain.seq > ? ORDER BY chain.seq LIMIT ?
"""


class _Walk:
    """One pass over the links."""

    def __init__(self, chain: Chain, proof: Proof, tombstone: Tombstone, kept: dict[int, bytes]) -> None:
        self.chain = chain
        self.proof = proof
        self.tombstone = tombstone
        self.kept = kept
        self.rows: dict[Kind, int] = {OUTBOUND: 0, OUTCOME: 0, MARK: 0}
        self.behind: list[Broken] = []

    def take(self, row: tuple[Any, ...]) -> None:
        seq, kind, ref, form, mac = row[:5]
        before, gap = self.proof.head, seq - self.proof.head.seq - 1
        if gap:
            self._break("missing", before.seq + 1, detail=f"{gap} link{'s' if gap > 1 else ''}, up to {seq - 1}")
        values = row[_OFFSETS[kind] : _OFFSETS[kind] + len(_SELECTED[kind])] if form == FORM else None
        if values is None or values[0] is None:
            if not (kind in (OUTBOUND, OUTCOME) and ref <= self.tombstone.outbound):
                self._break("missing" if values else "edited", seq, TABLES[kind], ref)
        else:
            self.rows[kind] += 1
            if not gap:
                self._check(seq, kind, form, mac, values)
            if kind == MARK and values[2] == "behind":
                self._note_behind(seq, values)
        if seq in self.kept and self.kept[seq] != mac:
            self._break("fork", seq, TABLES[kind], ref)
        self.proof.links += 1
        self.proof.head = Head(seq, mac)

    def _check(self, seq: int, kind: Kind, form: int, mac: bytes, values: Sequence[Any]) -> None:
        if self.chain.mac(self.proof.head.mac, seq, kind, form, values) != mac:
            self._break("edited", seq, TABLES[kind], values[0])

    def _note_behind(self, seq: int, values: Sequence[Any]) -> None:
        told = json.loads(values[3])
        detail = f"records {told['found'] + 1} to {told['kept']}, noticed at link {seq}"
        self._break("truncated", told["found"], detail=detail)

    def finish(self, connection: sqlite3.Connection, anchors: Sequence[Anchor]) -> None:
        """What no link tells: rows without one, and an end that is not the end."""
        for kind, table in TABLES.items():
            if connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] != self.rows[kind]:
                self._find_inserted(connection, kind, table)
        last = self.proof.head.seq
        furthest = max((anchor.head.seq for anchor in anchors), default=0)
        if furthest > last:
            self._break("truncated", last, detail=f"the log went on to link {furthest}")
        if not anchors and last:
            self._break("unanchored", last)

    def _find_inserted(self, connection: sqlite3.Connection, kind: Kind, table: str) -> None:
        key = COVERED[FORM][kind][0]
        linked = f"SELECT ref FROM chain WHERE kind = {kind}"
        for (row,) in connection.execute(f"SELECT {key} FROM {table} WHERE {key} NOT IN ({linked}) ORDER BY 1"):
            self._break("inserted", 0, table, row)

    def _break(self, fault: Fault, seq: int, table: str = "", row: int = 0, detail: str = "") -> None:
        self.proof.broken.append(Broken(fault, seq, table, row, detail))


def _tombstone(connection: sqlite3.Connection) -> Tombstone:
    """The last one; its own link is checked as every other."""
    row = connection.execute("SELECT detail FROM mark WHERE what = 'pruned' ORDER BY id DESC LIMIT 1").fetchone()
    if row is None:
        return Tombstone()
    told = json.loads(row[0])
    return Tombstone(told["seq"], bytes.fromhex(told["mac"]), told["outbound"])


def _accept(connection: sqlite3.Connection, proof: Proof) -> None:
    """Move what the operator has accepted before: exactly these breaks, and no others."""
    known: set[str] = set()
    for (detail,) in connection.execute("SELECT detail FROM mark WHERE what = 'accepted'"):
        known.update(json.loads(detail)["broken"])
    proof.accepted = [one for one in proof.broken if one.told() in known]
    proof.broken = [one for one in proof.broken if one.told() not in known]
