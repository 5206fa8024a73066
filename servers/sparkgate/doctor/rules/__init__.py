"""The traps the doctor knows, one file a theme, in the order in which they are looked for."""

from __future__ import annotations

from sparkgate.doctor.evidence import Box, Evidence
from sparkgate.doctor.rules import machine, memory, owner, router, serving, talking
from sparkgate.doctor.rules.check import Check

ENGINE_CHECKS: tuple[Check[Evidence], ...] = (
    *serving.CHECKS,
    *talking.CHECKS,
    *memory.CHECKS,
    *owner.CHECKS,
    *router.CHECKS,
)
"""Looked for with each engine."""
BOX_CHECKS: tuple[Check[Box], ...] = machine.CHECKS
"""Looked for once."""
