"""Characters that nobody sees and that carry data: tags, variation selectors, runs and rows of zero-width ones."""

from __future__ import annotations

import re
from time import monotonic

from sparkgate.policy.finding import Finding, Label, Overrun
from sparkgate.policy.forms.view import View

LABEL = Label(
    "hidden-text",
    "secret",
    "redact",
    "",
    "Characters that nobody sees can carry a whole text; who receives the query reads it.",
)
ROW = 8
"""So many invisible characters between visible ones are no spelling."""

_FLAG = "\U0001f3f4[\U000e0020-\U000e007e]{1,16}\U000e007f"
_NO_WIDTH = "\u00ad\u034f\u180e\u200b-\u200f\u2060-\u2064\u206a-\u206f\ufeff"
_HIDDEN = re.compile(
    f"(?P<flag>{_FLAG})|[\U000e0000-\U000e007f]+|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{{2,}}|[{_NO_WIDTH}]{{3,}}"
)
_SINGLE = re.compile(f"[{_NO_WIDTH}]")
_NEEDS_JOINERS = re.compile("[\u0600-\u08ff\u0900-\u0dff\u1780-\u17ff\u1800-\u18af]|[\U0001f000-\U0001faff]\u200d")
"""Scripts, and faces, that are written with joiners."""


class HiddenText:
    """Finds what is to be taken out; a single joiner or selector is a spelling."""

    def find(self, view: View, deadline: float) -> list[Finding]:
        if view.is_ascii:
            return []
        text = view.text
        if monotonic() > deadline:
            raise Overrun
        found = [Finding(LABEL, *run.span()) for run in _HIDDEN.finditer(text) if not run["flag"]]
        singles = [one.span() for one in _SINGLE.finditer(text)]
        if len(singles) >= ROW and not _NEEDS_JOINERS.search(text):
            found += [Finding(LABEL, *span) for span in singles]
        return found
