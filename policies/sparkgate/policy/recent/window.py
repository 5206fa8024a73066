"""What left a moment ago, so that a secret cut into pieces is stopped at the piece that completes it.

Of a text that left, only those words are kept that may be pieces, and in memory alone: after a restart they are taken
from the log, which holds what left anyway. Pieces of several texts are put together in a bounded number of ways, and
a finding counts that reaches over two texts, the newest being one of them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import monotonic, perf_counter

from sparkgate.policy.audit import Caller
from sparkgate.policy.decision import Decision
from sparkgate.policy.finding import Named, Overrun, Withheld
from sparkgate.policy.recent.assemble import Part
from sparkgate.policy.recent.hold import Held, held, refused
from sparkgate.policy.recent.joint import Find, first_finding
from sparkgate.policy.recent.mails import addresses, halves
from sparkgate.policy.recent.pieces import Cut, Piece, cut

JOINED = "joined-texts"
"""Reason of a block that the text by itself does not give rise to."""
MAX_HELD = 32
"""Most texts held back that one lane remembers."""
MAX_HALVES = 4
"""Most texts with halves of addresses that one lane remembers; after so many others they are forgotten."""
Halves = tuple[float, tuple[Piece, ...]]
"""When a text left, and its halves of addresses."""


def lanes_of(caller: Caller) -> tuple[str, str]:
    """The session, and the person: who connects again has another session, and a host may call itself anything."""
    return f"session {caller.session}", f"uid {caller.uid}"


@dataclass(frozen=True, slots=True)
class Left:
    """What is kept of a text that left."""

    at_s: float
    cut: Cut

    @property
    def size_chars(self) -> int:
        return sum(len(piece.text) for piece in self.cut.pieces)


@dataclass(slots=True)
class Lane:
    """Of one session or person, the oldest first."""

    left: deque[Left] = field(default_factory=deque)
    halves: deque[Halves] = field(default_factory=lambda: deque(maxlen=MAX_HALVES))
    held: deque[Held] = field(default_factory=lambda: deque(maxlen=MAX_HELD))


class Window:
    """The texts with odd words that left last, by lane. Safe to use from several threads.

    Args:
        queries: most texts looked back at.
        chars: most characters of their pieces.
        minutes: how long a text is looked back at.
        lanes: most sessions and persons; the one that sent nothing for the longest time is forgotten first.
    """

    def __init__(self, *, queries: int = 12, chars: int = 6000, minutes: float = 30, lanes: int = 256) -> None:
        self.queries = queries
        self.chars = chars
        self.seconds = minutes * 60
        self.lanes = lanes
        self._lanes: OrderedDict[str, Lane] = OrderedDict()
        self._lock = threading.Lock()

    def admit(
        self, lanes: Sequence[str], sent: str, now_s: float, find: Find, *, given: str = "", deadline_s: float = 0.25
    ) -> Decision | None:
        """None when `sent` may leave, and it counts as having left from then on; else a block. Never raises.

        Args:
            lanes: whose window it is; a finding in one of them is enough.
            sent: what is about to leave.
            now_s: seconds of a clock that does not go back.
            find: the rules.
            given: the text that it was made from, in which spans are told; `sent` when empty.
            deadline_s: seconds for all of it; past them the answer is a block.
        """
        start = perf_counter()
        try:
            decision = self._admit(lanes, sent, now_s, find, monotonic() + deadline_s)
        except Overrun:
            decision = Decision("block", "", reason="policy-deadline")
        except Exception:
            decision = Decision("block", "", reason="policy-fault")
        if decision is None:
            return None
        return _told_in(replace(decision, elapsed_us=round((perf_counter() - start) * 1e6)), sent, given or sent)

    def remember(self, lanes: Sequence[str], sent: str, at_s: float) -> None:
        """A text that left before, the oldest first: what the log tells after a restart."""
        kept, parts = cut(sent), halves(sent)
        if kept or parts:
            with self._lock:
                self._keep(lanes, kept, parts, at_s)

    def _admit(self, lanes: Sequence[str], sent: str, now_s: float, find: Find, deadline: float) -> Decision | None:
        kept, parts = cut(sent), halves(sent)
        with self._lock:
            if not (kept or parts or any(name in self._lanes and self._lanes[name].held for name in lanes)):
                return None
            stopped = self._stopped(lanes, sent, kept, now_s, find, deadline)
            if stopped:
                return self._held(lanes, *stopped)
            address = self._address(lanes, parts, now_s, find, deadline) if parts else None
            if address:
                return _block(*address)
            self._keep(lanes, kept, parts, now_s)
        return None

    def _stopped(
        self, lanes: Sequence[str], sent: str, kept: Cut | None, now_s: float, find: Find, deadline: float
    ) -> tuple[Held, bool] | None:
        """What of the text is held back, and whether it is to be remembered as that."""
        judged: list[Sequence[Cut]] = []
        for lane in map(self._lane, lanes):
            recent = self._recent(lane, now_s)
            again = refused(lane.held, sent)
            if again:
                return again
            found = first_finding(recent, kept, find, deadline) if kept and recent not in judged else None
            judged.append(recent)
            if found:
                rule, mine, whole = found
                holding = held(now_s, rule, mine, [part.piece for part in whole])
                self._taken(lanes, whole if holding.alphabet else ())
                return holding, True
        return None

    def _taken(self, lanes: Sequence[str], parts: Sequence[Part]) -> None:
        """What was said with the parts is looked back at no more: what may follow them is refused by itself."""
        for lane in map(self._lane, lanes):
            lane.left = deque(left for left in lane.left if not any(left.cut is part.cut for part in parts))

    def _held(self, lanes: Sequence[str], stopped: Held, new: bool) -> Decision:
        for lane in map(self._lane, lanes) if new else ():
            lane.held.append(stopped)
        return _block(stopped.rule, stopped.pieces)

    def _address(
        self, lanes: Sequence[str], parts: Sequence[Piece], now_s: float, find: Find, deadline: float
    ) -> tuple[Named, tuple[Piece, ...]] | None:
        """Somebody's address that a half of the text completes. Halves say nothing by themselves, so none is held."""
        for lane in map(self._lane, lanes):
            before = [halves for at_s, halves in lane.halves if at_s >= now_s - self.seconds]
            for address, mine in addresses(before, parts):
                hits = find(address, deadline)
                whole = [hit for hit in hits if hit.rule.cls == "pii" and hit.end - hit.start > len(mine.text)]
                if whole and not any(hit.rule.verdict == "allow" for hit in hits):
                    return whole[0].rule, (mine,)
        return None

    def _lane(self, name: str) -> Lane:
        lane = self._lanes.setdefault(name, Lane())
        self._lanes.move_to_end(name)
        while len(self._lanes) > self.lanes:
            self._lanes.popitem(last=False)
        return lane

    def _recent(self, lane: Lane, now_s: float) -> list[Cut]:
        """What is looked back at; what is too old is dropped."""
        while lane.left and lane.left[0].at_s < now_s - self.seconds:
            lane.left.popleft()
        while lane.held and lane.held[0].at_s < now_s - self.seconds:
            lane.held.popleft()
        while len(lane.left) > self.queries or sum(one.size_chars for one in lane.left) > self.chars:
            lane.left.popleft()
        return [one.cut for one in lane.left]

    def _keep(self, lanes: Sequence[str], kept: Cut | None, parts: tuple[Piece, ...], at_s: float) -> None:
        for lane in map(self._lane, lanes):
            if kept:
                # Time that seems to go back is the time it was.
                lane.left.append(Left(max(at_s, lane.left[-1].at_s) if lane.left else at_s, kept))
            if parts:
                lane.halves.append((at_s, parts))


def _block(rule: Named, pieces: Sequence[Piece]) -> Decision:
    start, end = min(piece.start for piece in pieces), max(piece.end for piece in pieces)
    finding = Withheld(rule.id, rule.cls, start, end, "", "block", rule.why)
    return Decision("block", "", (finding,), reason=JOINED, spans=tuple((one.start, one.end) for one in pieces))


def _told_in(decision: Decision, sent: str, given: str) -> Decision:
    """The same with its spans in the text as it was given, and over all of it when they cannot be told."""
    if sent == given:
        return decision

    def place(start: int, end: int) -> tuple[int, int]:
        at = given.find(sent[start:end])
        return (at, at + end - start) if at >= 0 else (0, len(given))

    found = []
    for one in decision.findings:
        start, end = place(one.start, one.end)
        found.append(replace(one, start=start, end=end))
    return replace(decision, findings=tuple(found), spans=tuple(place(*span) for span in decision.spans))
