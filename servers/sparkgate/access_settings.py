"""The settings of `[access]`: who may use which toolset of a gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """User or group, by name or number → the toolsets it may use. Both empty: the gate serves its own user alone."""

    users: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict,
        metadata={"unit": "toolset", "meaning": 'Toolsets that this user may use, such as ["search"].'},
    )
    groups: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict,
        metadata={"unit": "toolset", "meaning": "Toolsets that everybody in this group may use."},
    )

    @property
    def given(self) -> bool:
        """Whether the operator has said anything of others."""
        return bool(self.users or self.groups)


TABLES = ("users", "groups")
"""The tables of `[access]`."""
