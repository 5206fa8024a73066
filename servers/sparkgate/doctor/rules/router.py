"""Traps of LiteLLM, which decides where a prompt goes."""

from __future__ import annotations

import re

from sparkgate.doctor.evidence import Evidence
from sparkgate.doctor.rules.check import Check
from sparkgate.routes import words

LITELLM = ("litellm",)
_BUDGET = re.compile(
    r"[\"']?(?:max_budget|soft_budget|provider_budget_config|model_max_budget)[\"']?\s*:\s*(?!null|none|0\b|~)\S", re.I
)
_NO_DATABASE = re.compile(r'"db":\s*"(?:not connected|disconnected)', re.I)


def falls_back_off_box(evidence: Evidence) -> str:
    """Names that are served here, and that something else serves when this fails, which is not here for sure."""
    found = [one for one in evidence.routes or () if one.off_box is not True and one.fallbacks_off_box is not False]
    more = f"; {len(found) - 1} more" if len(found) > 1 else ""
    return words(found[0]) + more if found else ""


def catches_all(evidence: Evidence) -> str:
    found = next((one for one in evidence.routes or () if one.catch_all), None)
    return (
        f"{found.name} takes every name, and sends it to {', '.join(found.via) or 'nobody knows where'}"
        if found
        else ""
    )


def budget_without_database(evidence: Evidence) -> str:
    has_none = _NO_DATABASE.search(evidence.pages.get("/health/readiness", ""))
    source = next((path for path in ("--config", "/model/info") if _BUDGET.search(evidence.pages.get(path, ""))), "")
    where = {"--config": "its configuration", "/model/info": "a model"}.get(source, "")
    return f"{where} sets a budget, and no database is connected" if has_none and where else ""


CHECKS: tuple[Check[Evidence], ...] = (
    Check(
        "litellm.fallback_offbox",
        "warning",
        LITELLM,
        falls_back_off_box,
        "While the engine is down or fails, these requests go to another machine, and nothing says so in the answer.",
        "Take the fallback out, or ask for a name without one where a prompt must stay here.",
    ),
    Check(
        "litellm.star",
        "warning",
        LITELLM,
        catches_all,
        "A wrong model name is answered by another model instead of an error, so that nobody sees it after a swap.",
        "Name the models that there are, and take the catch-all out.",
    ),
    Check(
        "litellm.budget_nodb",
        "warning",
        LITELLM,
        budget_without_database,
        "Without a database budgets are not counted: nothing is ever refused.",
        "Connect a database (DATABASE_URL), or set the limit with the provider.",
    ),
)
