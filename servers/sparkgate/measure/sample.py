"""The raw record of one streamed request: when what arrived, and what the engine says of it. No rates in here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import accumulate, pairwise
from typing import Any, Literal, get_args

Kind = Literal["content", "reasoning", "tool"]
CountSource = Literal["token_ids", "usage_deltas", "usage", "engine", "none"]
Outcome = Literal["ok", "failed", "cancelled"]
Scalar = str | int | float | bool

VERSION = 1
"""Of the JSON form."""
_LETTERS: Mapping[Kind, str] = {"content": "c", "reasoning": "r", "tool": "t"}
_KINDS: Mapping[str, Kind] = {letter: kind for kind, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """Generated tokens that arrived in one chunk.

    Attributes:
        at_ns: when the bytes that completed it were read, on the monotonic clock.
        kind: what the tokens are. A chunk of several kinds is one event a kind, and all its tokens stand at the first.
        tokens: None when the stream does not tell; 0 for a further kind of the chunk before.
        chars: of its text; 0 when the chunk told of tokens and had no text for them.
    """

    at_ns: int
    kind: Kind
    tokens: int | None
    chars: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens of the request; None for what nobody told.

    `completion` includes `reasoning`, and `prompt` includes `cached`. `source` tells where `completion` is from.
    """

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    source: CountSource = "none"


@dataclass(frozen=True, slots=True)
class EngineClock:
    """What the engine measured itself. `prompt_n` are the prompt tokens it computed, `cache_n` those it had already."""

    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None
    cache_n: int | None = None
    draft_n: int | None = None
    draft_accepted_n: int | None = None
    load_ms: float | None = None
    queue_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Notes:
    """What else was seen of the stream.

    Attributes:
        keep_alives: comments and empty events.
        role_ns: the first chunk that only names the role, on the monotonic clock.
        progress_chunks, progress_ns: chunks that tell how far the prompt is, and when the first came.
        empties: chunks of a choice with nothing in them.
        finish_ns: the first chunk that tells why it ended.
        malformed: events that are not JSON objects.
        no_done: the stream ended without saying so.
        not_streaming: the answer came in one piece, so that no time in it means anything but its end.
        reconnects: times the request was sent again, because a kept connection had gone.
        counts_disagree: two sources tell different numbers of generated tokens.
        other_model: a second model name in the same stream.
        first, last: fields of the first and the last chunk that are not part of the protocol.
    """

    keep_alives: int = 0
    role_ns: int | None = None
    progress_chunks: int = 0
    progress_ns: int | None = None
    empties: int = 0
    finish_ns: int | None = None
    malformed: int = 0
    no_done: bool = False
    not_streaming: bool = False
    reconnects: int = 0
    counts_disagree: bool = False
    other_model: str = ""
    first: Mapping[str, Scalar] = field(default_factory=dict)
    last: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sample:
    """One streamed request. All times are ns of the monotonic clock.

    Attributes:
        t0_ns: just before it was sent.
        intended_ns: when the plan wanted it to be sent; None when it had no such time.
        headers_ns: when the headers of the answer were read.
        eof_ns: when the answer had ended.
        finish: why generation ended, in the engine's word; "" when it did not tell.
        model: the name the engine gives itself.
        error: one line; "" when `outcome` is ok.
    """

    t0_ns: int
    intended_ns: int | None = None
    headers_ns: int | None = None
    eof_ns: int | None = None
    events: tuple[TokenEvent, ...] = ()
    finish: str = ""
    model: str = ""
    counts: Counts = Counts()
    engine: EngineClock = EngineClock()
    outcome: Outcome = "ok"
    error: str = ""
    notes: Notes = Notes()

    @property
    def first_ns(self) -> int | None:
        """When the first token came."""
        return self.events[0].at_ns if self.events else None

    @property
    def last_ns(self) -> int | None:
        """When the last token came."""
        return self.events[-1].at_ns if self.events else None


def to_json(sample: Sample) -> str:
    """The sample as one line of JSON; what is not known is left out, and events stand in columns of differences."""
    told: dict[str, Any] = {"v": VERSION, "events": _columns(sample)}
    for name in (one.name for one in fields(Sample) if one.name != "events"):
        part = _PARTS.get(name)
        value = getattr(sample, name)
        told[name] = _changed(value, part()) if part else value
    return json.dumps({key: value for key, value in told.items() if value not in (None, "", {})}, separators=(",", ":"))


def from_json(text: str) -> Sample:
    """The sample that `to_json` wrote.

    Raises:
        ValueError: it is not a sample, or one of another version.
    """
    try:
        told = json.loads(text)
        if told.pop("v", None) != VERSION:
            raise ValueError(f"a stored request is not of version {VERSION}: an other version of sparkgate wrote it")
        events = _events(told.pop("events"), told["t0_ns"])
        parts = {name: make(**told.pop(name, {})) for name, make in _PARTS.items()}
        if told.get("outcome", "ok") not in get_args(Outcome):
            raise ValueError("its outcome is unknown")
        return Sample(events=events, **parts, **told)
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"a stored request is damaged ({type(error).__name__}): leave it out") from error


def _changed(part: Any, default: Any) -> dict[str, Any]:
    """Only what is not as it would be anyway."""
    usual = asdict(default)
    return {key: value for key, value in asdict(part).items() if value != usual[key]}


_PARTS: Mapping[str, Callable[..., Any]] = {"counts": Counts, "engine": EngineClock, "notes": Notes}


def _columns(sample: Sample) -> dict[str, Any]:
    times = [sample.t0_ns, *(event.at_ns for event in sample.events)]
    return {
        "at": [after - before for before, after in pairwise(times)],
        "kind": "".join(_LETTERS[event.kind] for event in sample.events),
        "tokens": [event.tokens for event in sample.events],
        "chars": [event.chars for event in sample.events],
    }


def _events(columns: Mapping[str, Any], t0_ns: int) -> tuple[TokenEvent, ...]:
    times = list(accumulate(columns["at"], initial=t0_ns))[1:]
    rows = zip(times, columns["kind"], columns["tokens"], columns["chars"], strict=True)
    return tuple(TokenEvent(at_ns, _KINDS[letter], tokens, chars) for at_ns, letter, tokens, chars in rows)
