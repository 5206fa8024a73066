"""Rows of the log for what was refused before it had a text: a connection, a door, a way out of a confinement."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from sparkgate.policy.audit import Caller, Intent, LogUnavailable
from sparkgate.services import NotReady, Services


def note_refusal(
    services: Services,
    caller: Caller,
    *,
    tool: str,
    destination: str,
    origin: str,
    rule: str,
    fields: Mapping[str, str] | None = None,
) -> None:
    """Write that `rule` refused something, where the log can be had. Blocks: not for the loop."""
    with suppress(NotReady, LogUnavailable):
        egress = services.live().egress
        intent = Intent(
            caller=caller,
            tool=tool,
            destination=destination,
            origin=origin,
            verdict="block",
            sent="",
            fields=dict(fields or {}),
            findings=({"rule": rule, "class": "access", "start": 0, "end": 0},),
            withheld=(),
            policy=egress.policy.digest,
            decision_us=0,
        )
        egress.log.intend(intent)
