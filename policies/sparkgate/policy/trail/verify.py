"""The proof of the log: every link made again, in one pass, and what was done to a log that does not hold."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sparkgate.policy.trail.chain import ADDED, COVERED, FORM, MARK, OUTBOUND, OUTCOME, START, TABLES, Chain, Head, Kind
from sparkgate.policy.trail.head import Anchor
from sparkgate.policy.trail.index import differing

Fault = Literal["edited", "missing", "inserted", "fork", "truncated", "unanchored", "index"]
MEANING: dict[Fault, str] = {
    "edited": "its content is not what was written",
    "missing": "it was taken away",
    "inserted": "it was not written by the log",
    "fork": "the log went another way than the one that was kept track of: a copy written on, or rows made anew",
    "truncated": "everything after it was taken away, or was lost with the power",
    "unanchored": "nothing outside the file says how far the log went, so its end is not proven",
    "index": "it does not hold what the rows hold, so that rows are not found; `sparkgate audit reindex` makes it anew",
}
BATCH = 5000
"""Links read at once; a longer read would keep the writer's WAL from being used again."""


@dataclass(frozen=True, slots=True)
class Broken:
    """One place where the log does not hold.

    Attributes:
        seq: of the link.
        table, row: the record; row 0 when it cannot be told.
        content: a digest of what stands there now, so that accepting it accepts nothing that is put there later.
    """

    fault: Fault
    seq: int
    table: str = ""
    row: int = 0
    detail: str = ""
    content: str = ""

    def told(self) -> str:
        where = f"{self.table} {self.row}" if self.row else self.table or f"link {self.seq}"
        return f"{where}: {MEANING[self.fault]}{f' ({self.detail})' if self.detail else ''}"

    def key(self) -> list[Any]:
        return [self.fault, self.seq, self.table, self.row, self.detail, self.content]


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
    """What pruning took: all links up to `seq`, whose MAC was `mac`.

    Attributes:
        loose: links behind it whose outcome went with its row.
    """

    seq: int = 0
    mac: bytes = START
    loose: frozenset[int] = frozenset()


def verify(
    connection: sqlite3.Connection, chain: Chain, kept: Anchor | None, others: Sequence[Anchor] = ()
) -> Iterator[Proof]:
    """The proof as far as it got, once a batch; the last one is whole.

    Args:
        kept: the head that was kept beside the log; None when there is none that was signed.
        others: heads from elsewhere, such as the journal.
    """
    anchors = [*([kept] if kept else []), *others]
    first = tombstone(connection)
    proof = Proof(head=Head(first.seq, first.mac), pruned=first.seq)
    walk = _Walk(chain, proof, anchors)
    while walk.batch(connection):
        yield proof
    walk.finish(connection, anchors, is_kept=kept is not None)
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


def _values(row: Sequence[Any], kind: Kind, form: int) -> Sequence[Any] | None:
    """What the link of a record covers; None when it has a form that is not known.

    Columns that came later must hold what they were given then: no link speaks for them. Else all of it is returned,
    which no link of that form covers.
    """
    if form not in COVERED:
        return None
    names, last = COVERED[form][kind], _SELECTED[kind]
    values = row[_OFFSETS[kind] : _OFFSETS[kind] + len(last)]
    untouched = all(
        value in (None, ADDED[name]) for name, value in zip(last[len(names) :], values[len(names) :], strict=True)
    )
    return values[: len(names)] if untouched else values


class _Walk:
    """One pass over the links."""

    def __init__(self, chain: Chain, proof: Proof, anchors: Sequence[Anchor]) -> None:
        self.chain = chain
        self.proof = proof
        self.kept: dict[int, set[bytes]] = {}
        for anchor in anchors:
            self.kept.setdefault(anchor.head.seq, set()).add(anchor.head.mac)
        self.rows: dict[Kind, int] = {OUTBOUND: 0, OUTCOME: 0, MARK: 0}
        self.accepted: list[Any] = []
        self.tombstone = Tombstone()

    def batch(self, connection: sqlite3.Connection) -> bool:
        """The next links with the newest tombstone, as both stand at one moment; whether there were any."""
        connection.execute("BEGIN")
        try:
            self.tombstone = tombstone(connection)
            rows = connection.execute(_QUERY, (self.proof.head.seq, BATCH)).fetchall()
        finally:
            connection.execute("COMMIT")
        for row in rows:
            self._take(tuple(row))
        return bool(rows)

    def _take(self, row: tuple[Any, ...]) -> None:
        seq, kind, ref, form, mac = row[:5]
        if self.proof.head.seq < seq - 1 == self.tombstone.seq:
            # Pruned since the last batch; the mark that says so has a link of its own, behind this one.
            self.proof.head, self.proof.pruned = Head(seq - 1, self.tombstone.mac), seq - 1
        values = _values(row, kind, form)
        gap = seq - self.proof.head.seq - 1
        if gap:
            detail = f"{gap} link{'s' if gap > 1 else ''}, up to {seq - 1}"
            self._break("missing", self.proof.head.seq + 1, detail=detail, values=values)
        if values is None:
            self._break("edited", seq, TABLES[kind], ref)
        elif values[0] is None:
            if seq not in self.tombstone.loose:
                self._break("missing", seq, TABLES[kind], ref)
        else:
            self.rows[kind] += 1
            self._check(seq, kind, form, mac, values, gap)
        if seq in self.kept and self.kept[seq] != {mac}:
            self._break("fork", seq, TABLES[kind], ref)
        self.proof.links += 1
        self.proof.head = Head(seq, mac)

    def _check(self, seq: int, kind: Kind, form: int, mac: bytes, values: Sequence[Any], gap: int) -> None:
        holds = not gap and self.chain.mac(self.proof.head.mac, seq, kind, form, values) == mac
        if not holds and not gap:
            self._break("edited", seq, TABLES[kind], values[0], values=values)
        if kind == MARK and holds:
            self._note(seq, values)

    def _note(self, seq: int, values: Sequence[Any]) -> None:
        """What the log says of itself, once it is proven that the log said it."""
        what, told = values[2], json.loads(values[3])
        if what == "accepted":
            self.accepted += told["broken"]
        elif what == "behind":
            detail = f"records {told['found'] + 1} to {told['kept']}, noticed at link {seq}"
            self._break("truncated", told["found"], detail=detail)
        elif what == "other":
            self._break("fork", told["kept"], detail=f"noticed at link {seq}")
        elif what == "headless":
            self._break("unanchored", seq, detail="what was kept had been removed when the log was opened")

    def finish(self, connection: sqlite3.Connection, anchors: Sequence[Anchor], *, is_kept: bool) -> None:
        """What no link tells: rows without one, an end that is not the end, and what rows are found by."""
        for kind, table in TABLES.items():
            if connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] != self.rows[kind]:
                self._find_inserted(connection, kind, table)
        last = self.proof.head.seq
        furthest = max((anchor.head.seq for anchor in anchors), default=0)
        if furthest > last:
            self._break("truncated", last, detail=f"the log went on to link {furthest}")
        if last and not is_kept:
            self._break("unanchored", last)
        for table in differing(connection):
            self._break("index", 0, table)
        known = [one for one in self.accepted if isinstance(one, list)]
        self.proof.accepted = [one for one in self.proof.broken if one.key() in known]
        self.proof.broken = [one for one in self.proof.broken if one.key() not in known]

    def _find_inserted(self, connection: sqlite3.Connection, kind: Kind, table: str) -> None:
        names = COVERED[FORM][kind]
        linked = f"SELECT ref FROM chain WHERE kind = {kind}"
        query = f"SELECT {', '.join(names)} FROM {table} WHERE {names[0]} NOT IN ({linked}) ORDER BY 1"
        for row in connection.execute(query):
            self._break("inserted", 0, table, row[0], values=tuple(row))

    def _break(
        self,
        fault: Fault,
        seq: int,
        table: str = "",
        row: int = 0,
        detail: str = "",
        values: Sequence[Any] | None = None,
    ) -> None:
        content = self.chain.mac(START, seq, 0, FORM, values).hex() if values else ""
        self.proof.broken.append(Broken(fault, seq, table, row, detail, content))


def tombstone(connection: sqlite3.Connection) -> Tombstone:
    """The last one. It is believed no further than the link of its mark, which is checked as every other."""
    row = connection.execute("SELECT detail FROM mark WHERE what = 'pruned' ORDER BY id DESC LIMIT 1").fetchone()
    try:
        told: Mapping[str, Any] = json.loads(row[0]) if row else {}
        return Tombstone(told["seq"], bytes.fromhex(told["mac"]), frozenset(told["loose"])) if told else Tombstone()
    except (ValueError, KeyError, TypeError):
        return Tombstone()
