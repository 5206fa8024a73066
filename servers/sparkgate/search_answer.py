"""The answer of a search: what was found, cut to what a small model can read, and how much was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkgate.brief import fit, size_bytes
from sparkgate.policy.egress import Sent
from sparkgate.results import (
    Shown,
    as_list,
    of_sites,
    plain,
    read_answer,
    read_infobox,
    read_result,
    without_twins,
)
from sparkgate.searxng import problem, read_unresponsive
from sparkgate.settings import SearchSettings
from sparkgate.toolset import failure

BYTES_A_TOKEN = 3.6
"""Of an answer of English and JSON, as the vocabularies of 2024 to 2026 cut it; an estimate."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the answer is to be.

    Attributes:
        sites, not_sites: hosts that results are of, and are not of.
        warnings: what the engines cannot do of what was asked.
        engines: those that were named; empty for the instance's own choice.
    """

    max_results: int
    full: bool = False
    sites: tuple[str, ...] = ()
    not_sites: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()


def answer(data: dict[str, Any], sent: Sent, wanted: Wanted, limits: SearchSettings) -> dict[str, Any]:
    """SearXNG's JSON → what the model reads, kept within the byte budget."""
    snippet_chars = limits.full_snippet_chars if wanted.full else limits.snippet_chars
    read = [r for item in as_list(data.get("results")) if (r := read_result(item, snippet_chars))]
    found = of_sites(without_twins(read), wanted.sites, wanted.not_sites)
    failed = [f for item in as_list(data.get("unresponsive_engines")) if (f := read_unresponsive(item))]
    extras = _extras(data, failed, [*wanted.warnings, *_others(found, wanted)])
    if not found and failed and not any(extras.get(key) for key in ("answers", "infobox")):
        told = problem("engines_failed", engines=", ".join(f"{one['engine']} ({one['reason']})" for one in failed))
        return failure(told.code, told.message) | {"engines_failed": failed}
    shown = {
        "ok": True,
        "query": sent.decision.released,
        **_changes(sent),
        "shown": "",
        "about_tokens": 0,
        "results": [],
        **extras,
    }
    fitting = fit(shown, found[: wanted.max_results], limits.full_answer_bytes if wanted.full else limits.answer_bytes)
    shown["results"] = fitting
    shown["shown"] = _shown(len(fitting), len(found), len(read), wanted)
    shown["about_tokens"] = round(size_bytes(shown) / BYTES_A_TOKEN)
    return shown


def _others(found: Sequence[Shown], wanted: Wanted) -> list[str]:
    """SearXNG may ask other engines than those named, as when an operator has locked the choice."""
    answered = {name.lower() for result in found for name in result.get("engines", ())}
    asked = {name.lower() for name in wanted.engines}
    if not asked or answered <= asked:
        return []
    return [f"engines that were not named have answered: {', '.join(sorted(answered - asked)[:8])}"]


def _extras(data: dict[str, Any], failed: list[dict[str, str]], warnings: list[str]) -> dict[str, Any]:
    extras = {
        "answers": [text for item in as_list(data.get("answers"))[:3] if (text := read_answer(item))],
        "infobox": next(filter(None, map(read_infobox, as_list(data.get("infoboxes")))), None),
        "corrections": sorted(filter(None, map(plain, as_list(data.get("corrections")))))[:3],
        "suggestions": sorted(filter(None, map(plain, as_list(data.get("suggestions")))))[:5],
        "engines_failed": failed,
        "notes": warnings,
    }
    return {key: value for key, value in extras.items() if value}


def _changes(sent: Sent) -> dict[str, Any]:
    """What the policy changed, by rule and replacement, so that the model does not take a placeholder for its text."""
    if sent.decision.verdict == "allow":
        return {}
    changed = [f"{finding.rule} became {finding.replacement}" for finding in sent.decision.findings]
    return {"policy": [*dict.fromkeys(changed), *sent.decision.notes]}


def _shown(shown: int, found: int, read: int, wanted: Wanted) -> str:
    """`5 of 9, because …`; what was left out before is told as well."""
    left_out = f" ({read - found} more were the same page, or of other sites)" if read > found else ""
    if shown == found:
        return f"{shown} of {found}{left_out}"
    asked = shown == wanted.max_results
    reason = f"max_results is {wanted.max_results}" if asked else "the answer is kept short; ask again with page"
    return f"{shown} of {found}, because {reason}{left_out}"
