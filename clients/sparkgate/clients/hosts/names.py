"""How hosts name a tool to their models, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Named:
    """`form` with the names in it, other characters than `allowed` replaced, cut to `most` in the host's own way.

    Attributes:
        middle: what stands for the cut-out middle; "" where the end is cut off.
        head: characters kept before `middle`.
    """

    form: str
    allowed: str = "A-Za-z0-9_-"
    instead: str = "_"
    most: int | None = None
    middle: str = ""
    head: int = 0

    def __call__(self, server: str, tool: str) -> str:
        server, tool = (re.sub(f"[^{self.allowed}]", self.instead, name) for name in (server, tool))
        name = self.form.format(server=server, tool=tool)
        if self.most is None or len(name) <= self.most:
            return name
        if not self.middle:
            return name[: self.most]
        return name[: self.head] + self.middle + name[-(self.most - self.head - len(self.middle)) :]


PLAIN = Named("{tool}")
