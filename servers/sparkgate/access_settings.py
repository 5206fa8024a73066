"""The settings of `[access]`: who may use which toolset of a gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkgate.arguments import TOOLSETS

MODELS = "models"
"""The engines of the configuration, with the operator's keys, behind the doors of a confinement."""
GIVABLE = (*TOOLSETS, MODELS)
"""What may stand in the lists of `[access]`."""


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """User or group, by name or number → what it may use, of `GIVABLE`. Both empty: the gate serves its user alone."""

    users: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict,
        metadata={
            "unit": "toolset",
            "meaning": 'What this user may use, such as ["search"]: toolsets, and "models" for its confinements.',
        },
    )
    groups: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict,
        metadata={"unit": "toolset", "meaning": "The same for everybody in this group."},
    )

    @property
    def given(self) -> bool:
        """Whether the operator has said anything of others."""
        return bool(self.users or self.groups)


TABLES = ("users", "groups")
"""The tables of `[access]`."""
