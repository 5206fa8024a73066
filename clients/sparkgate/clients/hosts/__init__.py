"""The hosts sparkgate knows, one file each."""

from __future__ import annotations

from sparkgate.clients.hosts.claude_code import CLAUDE_CODE
from sparkgate.clients.hosts.claude_desktop import CLAUDE_DESKTOP
from sparkgate.clients.hosts.cline import CLINE
from sparkgate.clients.hosts.codex import CODEX
from sparkgate.clients.hosts.copilot import COPILOT
from sparkgate.clients.hosts.crush import CRUSH
from sparkgate.clients.hosts.cursor import CURSOR
from sparkgate.clients.hosts.gemini import GEMINI
from sparkgate.clients.hosts.goose import GOOSE
from sparkgate.clients.hosts.hermes import HERMES
from sparkgate.clients.hosts.host import Host
from sparkgate.clients.hosts.librechat import LIBRECHAT
from sparkgate.clients.hosts.lmstudio import LMSTUDIO
from sparkgate.clients.hosts.nanobot import NANOBOT
from sparkgate.clients.hosts.nemoclaw import NEMOCLAW
from sparkgate.clients.hosts.openclaw import OPENCLAW
from sparkgate.clients.hosts.opencode import OPENCODE
from sparkgate.clients.hosts.openwebui import OPENWEBUI
from sparkgate.clients.hosts.qwen import QWEN
from sparkgate.clients.hosts.vscode import VSCODE
from sparkgate.clients.hosts.windsurf import WINDSURF
from sparkgate.clients.hosts.zed import ZED

ALL = (
    HERMES,
    OPENCLAW,
    NEMOCLAW,
    CLAUDE_CODE,
    CLAUDE_DESKTOP,
    CODEX,
    OPENCODE,
    GEMINI,
    QWEN,
    CURSOR,
    VSCODE,
    WINDSURF,
    CLINE,
    ZED,
    GOOSE,
    LMSTUDIO,
    LIBRECHAT,
    CRUSH,
    NANOBOT,
    COPILOT,
    OPENWEBUI,
)
HOSTS: dict[str, Host] = {host.name: host for host in ALL}
