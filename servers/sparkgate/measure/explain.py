"""Why a measured number differs from a published one, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkgate.measure.reference import APART, Claim, Difference, Near, Row

SAME_SHARE = 0.1
NEAREST = 2

_VERBS = {"community": "were reported", "estimate": "were estimated", "claim": "were claimed", "derived": "follow"}
_WORDS: Mapping[str, Callable[[Any], str]] = {
    "engine": lambda value: f"on {value or 'another engine'}",
    "hardware": lambda value: f"on {value}",
    "devices": lambda value: f"on {value} machines" if value > 1 else "on one machine",
    "engine_version": lambda value: f"in version {value}",
    "quantization": lambda value: f"in {value}",
    "speculation": lambda value: f"with {value}" if value else "without speculation",
    "max_num_seqs": lambda value: f"with up to {value} sequences",
    "cuda_graphs": lambda value: "with CUDA graphs" if value else "without CUDA graphs",
    "thinking": lambda value: f"with thinking {'on' if value else 'off'}",
    "concurrency": lambda value: "at one stream" if value == 1 else f"at {value} streams",
    "prompt_tokens": lambda value: f"with {value} prompt tokens",
    "family": lambda value: f"writing {value}",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured here; `unit` as in the reference ("tok/s", "ms")."""

    value: float
    unit: str = "tok/s"


def explain(measured: Measured, rows: Sequence[Near]) -> list[str]:
    """At most three sentences on published numbers: both values, what differs, and whether that explains it.

    `rows` come nearest first. Told are the two nearest and the next that is better than ours on the same engine and
    hardware; of rows that differ in the same settings, only the nearest. A rate is better when it is higher, a time
    when it is lower.
    """
    told = {frozenset(one.name for one in near.differences): near for near in reversed(rows) if near.row.bounds}
    different = [near for near in rows if near in told.values()]
    better = [near for near in different[NEAREST:] if _better(measured, near) and not _apart(near)]
    return [_sentence(measured, near) for near in different[:NEAREST] + better[:1]]


def _apart(near: Near) -> bool:
    return any(one.name in APART for one in near.differences)


def _same(measured: Measured, near: Near) -> bool:
    low, high = near.row.bounds or (0.0, 0.0)
    return low * (1 - SAME_SHARE) <= measured.value <= high * (1 + SAME_SHARE)


def _better(measured: Measured, near: Near) -> bool:
    """Whether the published number is better than ours."""
    low, _ = near.row.bounds or (0.0, 0.0)
    return not _same(measured, near) and (measured.value < low) is (measured.unit == "tok/s")


def _sentence(measured: Measured, near: Near) -> str:
    verb = _VERBS.get(near.row.kind, "were published")
    theirs = _joined([_WORDS[one.name](one.theirs) for one in near.differences])
    ours = _joined([_WORDS[one.name](one.ours) for one in near.differences])
    published = " ".join(filter(None, (f"{_amount(near.row)} {verb}", theirs)))
    own = " ".join(filter(None, (f"you have {measured.value:.3g}", ours)))
    return f"{published} ({near.row.id}); {own}: {_verdict(measured, near)}"


def _amount(row: Row) -> str:
    low, high = row.bounds or (0.0, 0.0)
    told = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return f"{told} {row.unit}"


def _joined(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _verdict(measured: Measured, near: Near) -> str:
    if _same(measured, near):
        return "the same within 10 %"
    return _cause(near.differences, "theirs" if _better(measured, near) else "ours")


def _cause(differences: Sequence[Difference], better: str) -> str:
    if any(one.favours == better for one in differences):
        return "that explains it"
    if any(not one.favours for one in differences):
        return "that may explain it"
    if differences:
        return "what differs does not explain it"
    return "nothing that is known differs, so there is a cause to look for"


def describe(claim: Claim) -> str:
    """One sentence on a published rate that breaks the roofline."""
    row = claim.row
    allowed = f"{claim.ratio:.1f} times what the memory allows without speculation ({claim.ceiling_tok_s:.1f} tok/s)"
    return f"{_amount(row)} for {row.model} on {row.engine} ({row.id}, {row.kind}) is {allowed}"
