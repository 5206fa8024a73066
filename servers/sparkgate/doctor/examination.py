"""The doctor: looks for known traps of engines and their machine, and tells each with its evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sparkgate import log
from sparkgate.doctor.evidence import Evidence, at_once, gather, read_box
from sparkgate.doctor.rules import BOX_CHECKS, ENGINE_CHECKS
from sparkgate.doctor.rules.check import Check, Level
from sparkgate.engines.spec import line
from sparkgate.failures.diagnosis import without_secrets
from sparkgate.fleet import Fleet
from sparkgate.machine.commands import Run
from sparkgate.machine.memory import PROC

LEVELS: tuple[Level, ...] = ("error", "warning", "info")
EVIDENCE_MAX_CHARS = 300
SECRET_CHARS_MIN = 6
HIDDEN = "***"
_SECRET_NAME = re.compile(r"token|key|passw|secret|credential|auth", re.IGNORECASE)
About = TypeVar("About")


@dataclass(frozen=True, slots=True)
class Finding:
    """A trap that is there. `engine` is "" for one of the whole machine; `evidence` is one line without secrets."""

    id: str
    level: Level
    engine: str
    evidence: str
    text: str
    advice: str


def examine(
    fleet: Fleet, names: Sequence[str], run: Run | None = None, folder: Path | None = None, proc: Path = PROC
) -> list[Finding]:
    """Look for every trap with these engines, and once with the machine; the worst first.

    Engines that generate are asked for one token and a short chat. Waits for a stuck engine: at most 50 s or so.

    Args:
        run: asks kubectl and nvidia-smi about the machine; None leaves the checks that need them out.
        folder: home folder, where hosts of agents have their configuration; None: that of this user.
    """
    box = read_box(fleet, names, run, proc)
    found = look_for(BOX_CHECKS, box, "")
    for evidence in at_once(partial(gather, fleet, box=box, folder=folder), names).values():
        found += examine_engine(evidence)
        found = [hidden(one, evidence) for one in found]
    return sorted(found, key=lambda one: LEVELS.index(one.level))


def examine_engine(evidence: Evidence) -> list[Finding]:
    """The traps of one engine, by what answers and by what the catalogue says it is."""
    kinds = {evidence.status.engine, evidence.entry.engine}
    checks = [one for one in ENGINE_CHECKS if not one.engines or kinds & set(one.engines)]
    return [hidden(one, evidence) for one in look_for(checks, evidence, evidence.name)]


def look_for(checks: Iterable[Check[About]], about: About, engine: str) -> list[Finding]:
    """Run checks; one that fails is left out, as the others may still find something."""
    found = []
    for check in checks:
        try:
            evidence = check.find(about)
        except Exception as error:
            log.error("doctor_fault", check=check.id, **log.describe(error))
            continue
        if evidence:
            told = line(without_secrets(evidence))[:EVIDENCE_MAX_CHARS]
            found.append(Finding(check.id, check.level, engine, told, check.text, check.advice))
    return found


def hidden(finding: Finding, evidence: Evidence) -> Finding:
    """The finding without values that this engine was given by its environment."""
    told = finding.evidence
    for value in sorted(_values(evidence), key=len, reverse=True):
        told = told.replace(value, HIDDEN)
    return replace(finding, evidence=told)


def _values(evidence: Evidence) -> Iterator[str]:
    """Values that the catalogue gives, and those of names that say secret; what is only a number tells nothing."""
    given = "\n".join((*evidence.entry.environment, *evidence.entry.command))
    for name, value in evidence.environment.items():
        secret = _SECRET_NAME.search(name) is not None
        if len(value) >= SECRET_CHARS_MIN and (secret or (f"{name}={value}" in given and not value.isdecimal())):
            yield value


def findings_as_json(found: Iterable[Finding]) -> list[dict[str, Any]]:
    """As the tool and the command tell them; nothing that is empty."""
    return [{name: text for name, text in asdict(one).items() if text} for one in found]
