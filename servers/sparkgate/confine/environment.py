"""What a confined command gets of the environment: names that are known to be needed, and none that holds a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

KEPT = (
    *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "TERM", "COLORTERM", "COLUMNS", "LINES", "LANG", "LANGUAGE", "TZ"),
    *("EDITOR", "VISUAL", "PAGER", "NO_COLOR", "FORCE_COLOR", "CI", "PYTHONUNBUFFERED", "PYTHONUTF8", "VIRTUAL_ENV"),
    *(
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "ANTHROPIC_BASE_URL",
        "OLLAMA_HOST",
    ),
)
KEPT_PREFIXES = ("LC_", "XDG_", "SPARKGATE_", "HERMES_", "OPENCLAW_", "CLAUDE_CODE_", "CODEX_", "QWEN_", "GEMINI_")
"""Of hosts: where their files are, and how they behave."""
SECRET = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|COOKIE|AUTH|BEARER|DSN|WEBHOOK|(?:^|_)(?:PAT|PWD|PIN|PW)(?:_|$)", re.IGNORECASE
)
"""A name that says so holds a secret, whatever its prefix."""
LOGIN = re.compile(r"://[^/@\s]*:[^/@\s]*@")
"""An address with a password in it (RFC 3986, userinfo)."""
NOT_INSIDE = re.compile(r"SOCK|DISPLAY|XDG_SESSION|XDG_SEAT|XDG_VTNR", re.IGNORECASE)
"""Names of what is not reachable inside."""


def scrubbed(environment: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """The variables that a command gets; `more` are names that the operator wants passed on, whatever they hold."""
    wanted = set(more)
    kept = {name: value for name, value in environment.items() if name in wanted or _is_kept(name, value)}
    return kept | {"TMPDIR": "/tmp"}


def _is_kept(name: str, value: str) -> bool:
    if LOGIN.search(value):
        return False
    plain = name.startswith(KEPT_PREFIXES) and not SECRET.search(name) and not NOT_INSIDE.search(name)
    return name in KEPT or plain
