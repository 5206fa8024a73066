"""The answer of a search: what was found, cut to what a small model can read, and how much was left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sparkgate.brief import bounded, fit, listed_bytes, size_bytes
from sparkgate.policy.egress import Sent
from sparkgate.results import (
    Found,
    Shown,
    as_list,
    find_result,
    of_sites,
    plain,
    read_answer,
    read_failed,
    read_infobox,
    without_twins,
)
from sparkgate.searxng import problem
from sparkgate.setting_tables import SearchSettings
from sparkgate.toolset import failure
from sparkgate.untrusted import Incoming
from sparkgate.untrusted.strip import Removed

LAST_PAGE = 50
MOST_READ, MOST_LISTED, MOST_FAILED = 200, 50, 12
"""Of what an instance sends: results, entries of its other lists, engines that failed."""
BYTES_A_TOKEN = 3.6
"""Of an answer of English and JSON, as the vocabularies of 2024 to 2026 cut it; an estimate."""
NAME = re.compile(r"[\w.+-]{1,20}(?: [\w.+-]{1,20}){0,3}")
"""What an engine may be called where its name stands among our own words."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the answer is to be.

    Attributes:
        sites, not_sites: hosts that results are of, and are not of.
        warnings: what the engines cannot do of what was asked.
        engines: those that were named; empty for the instance's own choice.
        start: number of the first result of the page to show.
    """

    max_results: int
    full: bool = False
    sites: tuple[str, ...] = ()
    not_sites: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    page: int = 1
    start: int = 1


def answer(
    data: dict[str, Any], sent: Sent, wanted: Wanted, limits: SearchSettings, boundary: str = ""
) -> dict[str, Any]:
    """SearXNG's JSON → what the model reads, kept within the byte budget."""
    incoming = Incoming(boundary)
    read = [one for item in as_list(data.get("results"))[:MOST_READ] if (one := find_result(item))]
    found = of_sites(without_twins(read), wanted.sites, wanted.not_sites)
    budget_bytes = limits.full_answer_bytes if wanted.full else limits.answer_bytes
    extras = bounded(_extras(data, incoming), budget_bytes // 2)
    if not found and "engines_failed" in extras and not extras.keys() & {"answers", "infobox"}:
        return _all_failed(extras["engines_failed"], incoming)
    page = found[wanted.start - 1 :][: wanted.max_results]
    shown: dict[str, Any] = {
        "ok": True,
        **({"query": sent.decision.released} if wanted.full or sent.decision.verdict != "allow" else {}),
        **_changes(sent),
        "shown": _shown(max(len(page) - 1, 0), len(found), len(read), wanted),
        **({"about_tokens": 99_999} if wanted.full else {}),
        "more": {"page": wanted.page + 1, "start": wanted.start + wanted.max_results},
    }
    notes = [*wanted.warnings, *_others(found, wanted, incoming)]
    snippet_chars = limits.full_snippet_chars if wanted.full else limits.snippet_chars
    results = [one.shown(snippet_chars, with_engines=wanted.full) for one in page]
    shown |= _with_text(results, extras, notes, incoming, budget_bytes - size_bytes(shown))
    shown["shown"] = _shown(len(shown["results"]), len(found), len(read), wanted)
    shown["more"] = _more(len(shown["results"]), len(found), wanted)
    if not shown["more"]:
        del shown["more"]
    if wanted.full:
        shown["about_tokens"] = round(size_bytes(shown) / BYTES_A_TOKEN)
    return shown


def _with_text(
    results: Sequence[Shown], extras: dict[str, Any], notes: list[str], incoming: Incoming, budget_bytes: int
) -> dict[str, Any]:
    """Notes, and then all text from the web with the boundary around it; as many results as fit."""
    parts = [incoming.part(one.removed) for one in results]
    cleaned = [part.tree(one) for part, one in zip(parts, results, strict=True)]

    def told(shown: int) -> dict[str, Any]:
        words = [*notes, *incoming.part().take([incoming, *parts[:shown]]).notes()]
        fields = {"results": cleaned[:shown], **extras}
        return ({"notes": words} if words else {}) | (incoming.fenced(fields) if any(fields.values()) else fields)

    rest = told(len(parts)) | {"results": []}
    cleaned[:1] = [bounded(one, budget_bytes - size_bytes(rest), listed_bytes) for one in cleaned[:1]]
    return told(len(fit(rest, cleaned, budget_bytes)))


def _all_failed(failed: list[dict[str, str]], incoming: Incoming) -> dict[str, Any]:
    told = problem("engines_failed", engines=_names((one["engine"] for one in failed), incoming))
    notes = incoming.notes()
    more = {"notes": notes} if notes else {}
    return failure(told.code, told.message) | more | incoming.fenced({"engines_failed": failed})


def _names(names: Iterable[str], incoming: Incoming) -> str:
    """Names of engines outside the boundary: what could be more than a name is only counted."""
    listed = list(names)
    short = [name for name in listed if NAME.fullmatch(name) and incoming.part().marked(name) == name][:8]
    others = len(listed) - len(short)
    return ", ".join([*short, *([f"{others} more"] if others else [])])


def _others(found: Sequence[Found], wanted: Wanted, incoming: Incoming) -> list[str]:
    """SearXNG may ask other engines than those named, as when an operator has locked the choice."""
    answered = {name.lower() for result in found for name in result.get("engines", ())}
    asked = {name.lower() for name in wanted.engines}
    if not asked or answered <= asked:
        return []
    return [f"engines that were not named have answered: {_names(sorted(answered - asked), incoming)}"]


def _extras(data: dict[str, Any], incoming: Incoming) -> dict[str, Any]:
    """What is beside the results, cleaned, what matters most first."""
    removed = incoming.removed
    boxes = (box for item in as_list(data.get("infoboxes"))[:MOST_LISTED] if (box := read_infobox(item)))
    extras = {
        "answers": [text for item in as_list(data.get("answers"))[:3] if (text := read_answer(item, removed))],
        "infobox": (box := next(boxes, None)),
        "corrections": _words(data.get("corrections"), 3, removed),
        "engines_failed": _failed(as_list(data.get("unresponsive_engines")), removed),
        "suggestions": _words(data.get("suggestions"), 5, removed),
    }
    removed.update(box.removed if box else {})
    shown: dict[str, Any] = incoming.tree({key: value for key, value in extras.items() if value})
    return shown


def _failed(listed: list[Any], removed: Removed) -> list[dict[str, str]]:
    """Engines that did not answer, each once, as SearXNG may name one several times."""
    told = (read_failed(item, removed) for item in listed[:MOST_LISTED])
    named = {(one["engine"], one["reason"]): one for one in told if one}
    return list(named.values())[:MOST_FAILED]


def _words(listed: object, most: int, removed: Removed) -> list[str]:
    """In the order of the alphabet, as SearXNG has none. What is not shown is not counted."""
    kept = sorted((one for one in as_list(listed)[:MOST_LISTED] if plain(one)), key=plain)[:most]
    return [plain(one, removed=removed) for one in kept]


def _changes(sent: Sent) -> dict[str, Any]:
    """What the policy changed, by rule and replacement, so that the model does not take a placeholder for its text."""
    if sent.decision.verdict == "allow":
        return {}
    changed = [f"{finding.rule} became {finding.replacement}" for finding in sent.decision.findings]
    return {"policy": [*dict.fromkeys(changed), *sent.decision.notes]}


def _more(shown: int, found: int, wanted: Wanted) -> dict[str, int]:
    """Arguments that show what follows: the rest of this page, which need not be asked for again, or the next one."""
    end = wanted.start - 1 + shown
    if end < found:
        return {"start": end + 1} | ({"page": wanted.page} if wanted.page > 1 else {})
    return {"page": wanted.page + 1} if found and wanted.page < LAST_PAGE else {}


def _shown(shown: int, found: int, read: int, wanted: Wanted) -> str:
    """`5 of 9`, or `6 to 9 of 9`; what was left out before is told as well, and why fewer are shown than may be."""
    left_out = f" ({read - found} more were the same page, or of other sites)" if read > found else ""
    end = wanted.start - 1 + shown
    numbers = f"{wanted.start} to {end}" if shown and wanted.start > 1 else str(shown)
    short = ", because the answer is kept short" if end < found and shown < wanted.max_results else ""
    return f"{numbers} of {found}{short}{left_out}"
