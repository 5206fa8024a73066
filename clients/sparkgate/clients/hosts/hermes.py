"""Hermes Agent: `mcp_servers` in config.yaml (run as 0.19.0; read in tools/mcp_tool.py, tools_config.py, toolsets.py).

Its filter of the environment is `_SAFE_ENV_KEYS`; the names of its tools are not cut, but providers take 64 characters.
`web.keyless_fallback` came after 0.19.0, which ignores it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sparkgate.clients.hosts.doors import Confined, Listed, Switched, doors
from sparkgate.clients.hosts.filters import Kept, names
from sparkgate.clients.hosts.gates import Denied, SwitchedOff, gates, servers_in
from sparkgate.clients.hosts.host import Data, Gate, Host, Target, Ways, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.places import local, moved
from sparkgate.clients.hosts.reading import at, table, words
from sparkgate.clients.hosts.shapes import CALL_S, Shape

KEY = ("mcp_servers",)
DISABLED = ("agent", "disabled_toolsets")
ENTRY = Shape(
    after={"timeout": CALL_S, "connect_timeout": 60, "tools": {"resources": False, "prompts": False}},
)
WINDOWS = names(
    "ALLUSERSPROFILE APPDATA COMMONPROGRAMFILES COMMONPROGRAMFILES(X86) COMMONPROGRAMW6432 COMPUTERNAME COMSPEC "
    "HOMEDRIVE HOMEPATH LOCALAPPDATA NUMBER_OF_PROCESSORS OS PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES "
    "PROGRAMFILES(X86) PROGRAMW6432 PUBLIC SYSTEMDRIVE SYSTEMROOT TEMP TMP USERDOMAIN USERNAME USERPROFILE WINDIR"
)
FILTER = Kept(names("HOME LANG LC_ALL PATH SHELL TERM TMPDIR USER"), ("XDG_",), WINDOWS)


def _targets(where: Where) -> list[Target]:
    """The file of the profile that Hermes starts with, then the usual one and that of each profile."""
    usual = local(where) / "hermes" if where.system == "windows" else where.home / ".hermes"
    home = moved(where, "HERMES_HOME", usual)
    profiles = sorted(path for path in (home / "profiles").glob("*") if path.is_dir())
    targets = [_target(home), *(_target(folder, folder.name) for folder in profiles)]
    active = "" if home.parent.name == "profiles" else _active(usual if home.is_relative_to(usual) else home)
    return sorted(targets, key=lambda target: not active or target.profile != active)


def _active(root: Path) -> str:
    """The profile of `hermes profile use`; "" for the usual one (`_apply_profile_override`)."""
    try:
        name = (root / "active_profile").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return "" if name == "default" else name


def _target(folder: Path, profile: str = "") -> Target:
    return Target(folder / "config.yaml", "yaml", KEY, folder, profile)


def _platforms(data: Data, ours: Sequence[str]) -> Iterable[Gate]:
    """A list of a platform that names any server shows only those it names; `no_mcp` shows none."""
    servers = set(servers_in(data, *KEY)) | set(ours)
    for platform, listed in table(at(data, "platform_toolsets")).items():
        toolsets = set(words(listed))
        for name in ours:
            shown = {name, f"mcp-{name}"} & toolsets
            if "no_mcp" in toolsets:
                yield _hidden(platform, name, "has no_mcp", "remove no_mcp from it")
            elif servers & toolsets and not shown:
                yield _hidden(platform, name, "names other servers only", f"add {name} to it")


def _hidden(platform: object, name: str, why: str, way_out: str) -> Gate:
    return Gate("platform_toolsets", f"`platform_toolsets.{platform}` {why}, which hides {name} there.", way_out)


def _safe_mode(environment: Mapping[str, str]) -> list[Gate]:
    if environment.get("HERMES_SAFE_MODE", "").strip().lower() not in {"1", "true", "yes", "on"}:
        return []
    return [Gate("safe_mode", "HERMES_SAFE_MODE is set: Hermes starts no servers.", "unset HERMES_SAFE_MODE")]


HERMES = Host(
    name="hermes",
    title="Hermes Agent",
    targets=_targets,
    entry=ENTRY,
    owned=ENTRY.owned,
    tool_name=Named("mcp__{server}__{tool}", allowed="A-Za-z0-9_"),
    environment=FILTER,
    gates=gates(SwitchedOff(KEY), _platforms, Denied(DISABLED, ("{server}", "mcp-{server}"), "disabled_toolsets")),
    around=_safe_mode,
    doors=doors(
        Listed("web_tools", "Its own web_search and web_extract go past the policy and the log.", DISABLED, ("web",)),
        Switched(
            "keyless_fallback",
            "Later versions search by a service of their own when no search is set up.",
            ("web", "keyless_fallback"),
            shut=False,
        ),
        Confined("shell", "Its shell reaches whatever this machine reaches.", DISABLED, ("terminal",)),
        Confined("code", "The code that it runs reaches whatever this machine reaches.", DISABLED, ("code_execution",)),
        Confined("browser", "Its browser reaches the network.", DISABLED, ("browser",)),
    ),
    grace_s=1.5,
    call_s=CALL_S,
    after="Hermes on a terminal takes it within 5 s; a gateway needs /reload-mcp or a restart.",
    ways=Ways(expands=True, finds_beside=True),
    seen="run",
    binaries=("hermes",),
    minds=("A toolset of servers that platform_toolsets lists by name shows no others: add these to it.",),
)
