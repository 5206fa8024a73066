"""The events of one answer, folded into a `Sample`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from sparkgate.engines.spec import line
from sparkgate.measure.chunk import Chunk, Dialect, other_fields
from sparkgate.measure.sample import Counts, CountSource, EngineClock, Kind, Notes, Outcome, Sample, TokenEvent
from sparkgate.measure.stream import StreamParser
from sparkgate.measure.thoughts import Thoughts

BURST_BYTES = 0.9
BURST_TIME = 0.05
BURST_TOKENS = 8
"""A stream is none when 90 % of its bytes came in the last 5 % of its time, with 8 tokens or more in each read.

Without the last condition a long prompt and a short answer would look the same.
"""
_GAVE_UP = ("error", "abort")
_NO_TOKEN = "the answer held no token: look at the log of the engine"
_CUT = "the stream ended before the engine had finished: look whether it, or a proxy before it, was stopped"
_ENDED = "the engine ended it with {finish}: look at its log"


class Row(NamedTuple):
    """A chunk that holds generated tokens, or may: how many ids are in it, and the total so far."""

    at_ns: int
    texts: tuple[tuple[Kind, int], ...]
    ids: int | None
    total: int | None


class SampleBuilder:
    """One answer while it comes.

    Attributes:
        headers_ns: set by the caller when it has read the headers.
        error: what the stream itself reported; "" when nothing.
        tokens_seen: so far; a chunk that does not tell its tokens counts as one.
    """

    def __init__(self, t0_ns: int, *, intended_ns: int | None = None, dialect: Dialect = "openai") -> None:
        self.headers_ns: int | None = None
        self.error = ""
        self.tokens_seen = 0
        self._t0_ns, self._intended_ns = t0_ns, intended_ns
        self._parser = StreamParser(dialect)
        self._thoughts = Thoughts()
        self._reads: list[tuple[int, int]] = []
        self._rows: list[Row] = []
        self._ids_before = 0
        self._counts, self._engine = Counts(), EngineClock()
        self._model = self._other_model = self._finish = ""
        self._role_ns: int | None = None
        self._progress_ns: int | None = None
        self._finish_ns: int | None = None
        self._progress_chunks = self._empties = 0

    @property
    def done(self) -> bool:
        """Whether the last event has come: what follows is only for the connection."""
        return self._parser.done

    def feed(self, data: bytes, at_ns: int) -> list[Chunk]:
        """Take the bytes of one read, and tell the events in them."""
        if not self._parser.done:
            self._reads.append((at_ns, len(data)))
        chunks = self._parser.feed(data, at_ns)
        for chunk in chunks:
            self._take(chunk)
        return chunks

    def end(
        self, eof_ns: int | None = None, *, error: str = "", cancelled: bool = False, reconnects: int = 0
    ) -> Sample:
        """The sample of what has come. Called once.

        Args:
            eof_ns: when the answer had ended; None when that was not seen.
            error: why it failed, as far as the caller knows; what the stream reported comes first.
            cancelled: it was given up on purpose.
            reconnects: times it was sent again on a new connection.
        """
        for chunk in self._parser.end():
            self._take(chunk)
        counted = count(self._rows, self._counts, self._engine)
        why = line(error) if cancelled else self.error or line(error) or self._why_failed()
        outcome: Outcome = "cancelled" if cancelled else "failed" if why else "ok"
        return Sample(
            t0_ns=self._t0_ns,
            intended_ns=self._intended_ns,
            headers_ns=self.headers_ns,
            eof_ns=eof_ns,
            events=tuple(_events(self._rows, counted.tokens)),
            finish=self._finish,
            model=self._model,
            counts=counted.counts,
            engine=self._engine,
            outcome=outcome,
            error=why,
            notes=replace(self._notes(counted), reconnects=reconnects),
        )

    def _take(self, chunk: Chunk) -> None:
        if chunk.error is not None:
            self.error = self.error or chunk.error
            return
        if chunk.model and chunk.model != self._model:
            self._take_model(line(chunk.model))
        if chunk.counts:
            self._counts = _newest(self._counts, chunk.counts)
        self._engine = chunk.engine or self._engine
        if chunk.finish and not self._finish:
            self._finish, self._finish_ns = chunk.finish, chunk.at_ns
        self._take_tokens(chunk)

    def _take_model(self, model: str) -> None:
        self._model = self._model or model
        if model != self._model:
            self._other_model = self._other_model or model

    def _without_tags(self, chunk: Chunk) -> Chunk:
        """Thinking between tags is reasoning, as if the engine had told it apart."""
        thought, said = self._thoughts.split(chunk.content)
        if self._thoughts.unopened:
            self._thoughts.unopened = False
            self._rows = [row._replace(texts=_as_reasoning(row.texts)) for row in self._rows]
        return replace(chunk, reasoning=chunk.reasoning + thought, content=said) if thought else chunk

    def _take_tokens(self, chunk: Chunk) -> None:
        chunk = self._without_tags(chunk) if chunk.content else chunk
        total = chunk.counts.completion if chunk.counts else None
        texts, ids = chunk.texts, chunk.token_ids
        if texts or (chunk.has_choice and not (chunk.role or chunk.progress) and (ids or total)):
            self._rows.append(Row(chunk.at_ns, texts, ids if ids is None else ids + self._ids_before, total))
            self._ids_before = 0
            self.tokens_seen = total or self.tokens_seen + (ids or 1)
        elif chunk.progress:
            self._progress_chunks += 1
            self._progress_ns = self._progress_ns or chunk.at_ns
        elif chunk.role_only:
            self._ids_before += ids or 0
            self._role_ns = self._role_ns or chunk.at_ns
        elif chunk.has_choice and not chunk.finish:
            self._empties += 1

    def _why_failed(self) -> str:
        if self._finish in _GAVE_UP:
            return _ENDED.format(finish=self._finish)
        if not any(row.texts for row in self._rows):
            return _NO_TOKEN
        return "" if self._finish or self._parser.done else _CUT

    def _notes(self, counted: Counted) -> Notes:
        parser = self._parser
        return Notes(
            keep_alives=parser.keep_alives,
            role_ns=self._role_ns,
            progress_chunks=self._progress_chunks,
            progress_ns=self._progress_ns,
            empties=self._empties,
            finish_ns=self._finish_ns,
            malformed=parser.malformed,
            no_done=not parser.done and not parser.whole_body,
            not_streaming=parser.whole_body or self._came_at_once(counted.counts.completion),
            counts_disagree=counted.disagree,
            other_model=self._other_model,
            first=other_fields(parser.first),
            last=other_fields(parser.last),
        )

    def _came_at_once(self, tokens: int | None) -> bool:
        arrivals = len({row.at_ns for row in self._rows if row.texts})
        if not arrivals or max(tokens or 0, len(self._rows)) < BURST_TOKENS * arrivals:
            return False
        end = self._reads[-1][0]
        since = end - (end - self._t0_ns) * BURST_TIME
        late = sum(size for at_ns, size in self._reads if at_ns >= since)
        return late >= BURST_BYTES * sum(size for _, size in self._reads)


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens of each row, the counts of the request, and whether two sources tell different numbers of tokens."""

    tokens: Sequence[int | None]
    counts: Counts
    disagree: bool


def count(rows: Sequence[Row], told: Counts, engine: EngineClock) -> Counted:
    """The first source that is whole: ids in each chunk, totals in each chunk, the last total, the engine's clock."""
    ids, totals = _by_ids(rows), _by_totals(rows)
    known: list[tuple[CountSource, int | None, Sequence[int | None]]] = [
        ("token_ids", sum(ids) or None, ids),
        ("usage_deltas", told.completion if totals else None, totals),
        ("usage", told.completion, ()),
        ("engine", engine.predicted_n, ()),
    ]
    nothing: tuple[CountSource, None, Sequence[int | None]] = ("none", None, ())
    source, completion, tokens = next((one for one in known if one[1] is not None), nothing)
    numbers = {number for _, number, _ in known if number is not None}
    # A chunk with text holds a token at least: a smaller number counts something else.
    spoken = sum(bool(row.texts) for row in rows)
    counts = Counts(
        prompt=_prompt(engine) if told.prompt is None else told.prompt,
        completion=completion,
        cached=engine.cache_n if told.cached is None else told.cached,
        reasoning=told.reasoning,
        source=source,
    )
    return Counted(tokens or [None] * len(rows), counts, len(numbers) > 1 or min(numbers, default=spoken) < spoken)


def _as_reasoning(texts: tuple[tuple[Kind, int], ...]) -> tuple[tuple[Kind, int], ...]:
    return tuple(("reasoning" if kind == "content" else kind, chars) for kind, chars in texts)


def _by_ids(rows: Sequence[Row]) -> list[int]:
    """[] unless each row with text tells its ids."""
    whole = all(row.ids is not None for row in rows if row.texts)
    return [row.ids or 0 for row in rows] if whole else []


def _by_totals(rows: Sequence[Row]) -> list[int]:
    """[] unless each row with text tells a total, and the totals grow with most of them."""
    spoken = [row for row in rows if row.texts]
    if not spoken or any(row.total is None for row in spoken):
        return []
    totals = [0]
    for row in rows:
        totals.append(totals[-1] if row.total is None else row.total)
    grown = [after - before for before, after in pairwise(totals)]
    return grown if min(grown) >= 0 and 2 * sum(map(bool, grown)) >= len(spoken) else []


def _newest(old: Counts, new: Counts) -> Counts:
    return Counts(
        old.prompt if new.prompt is None else new.prompt,
        old.completion if new.completion is None else new.completion,
        old.cached if new.cached is None else new.cached,
        old.reasoning if new.reasoning is None else new.reasoning,
    )


def _prompt(engine: EngineClock) -> int | None:
    return None if engine.prompt_n is None or engine.cache_n is None else engine.prompt_n + engine.cache_n


def _events(rows: Sequence[Row], tokens: Sequence[int | None]) -> Iterator[TokenEvent]:
    """A chunk without text is an event only when its tokens are known: something was generated, and not shown."""
    for row, number in zip(rows, tokens, strict=True):
        texts: tuple[tuple[Kind, int], ...] = row.texts or ((("content", 0),) if number else ())
        for place, (kind, chars) in enumerate(texts):
            yield TokenEvent(row.at_ns, kind, 0 if place else number, chars)
