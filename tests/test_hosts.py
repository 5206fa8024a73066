"""The hosts as data: where their files are, what stands there for us, what hides it, and what goes past it."""

from __future__ import annotations

import copy
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.entry import SERVER_NAMES, Launch, launches
from sparkgate.clients.hosts.host import Change, Data, Door, Host, System, Target, Where
from sparkgate.clients.hosts.names import Named
from sparkgate.clients.hosts.reading import at
from sparkgate.clients.hosts.snippet import advice, snippet
from sparkgate.paths import default_config_path

HOME = Path("/home/someone")
NAMES = tuple(SERVER_NAMES.values())
SYSTEMS: tuple[System, ...] = ("linux", "darwin", "windows")
MOVES = (
    ("hermes", "HERMES_HOME", "config.yaml"),
    ("openclaw", "OPENCLAW_STATE_DIR", "openclaw.json"),
    ("openclaw", "OPENCLAW_HOME", ".openclaw/openclaw.json"),
    ("openclaw", "OPENCLAW_CONFIG_PATH", ""),
    ("claude_code", "CLAUDE_CONFIG_DIR", ".claude.json"),
    ("codex", "CODEX_HOME", "config.toml"),
    ("opencode", "XDG_CONFIG_HOME", "opencode/opencode.json"),
    ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
    ("qwen", "QWEN_HOME", "settings.json"),
    ("zed", "XDG_CONFIG_HOME", "zed/settings.json"),
    ("goose", "XDG_CONFIG_HOME", "goose/config.yaml"),
    ("goose", "GOOSE_PATH_ROOT", "config/config.yaml"),
    ("crush", "CRUSH_GLOBAL_CONFIG", "crush.json"),
    ("copilot", "COPILOT_HOME", "mcp-config.json"),
    ("vscode", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
)
"""Host, variable, and what follows its value in the first file."""

PLACES = {
    ("hermes", "windows"): "AppData/Local/hermes/config.yaml",
    ("claude_desktop", "linux"): ".config/Claude/claude_desktop_config.json",
    ("claude_desktop", "darwin"): "Library/Application Support/Claude/claude_desktop_config.json",
    ("claude_desktop", "windows"): "AppData/Roaming/Claude/claude_desktop_config.json",
    ("vscode", "darwin"): "Library/Application Support/Code/User/mcp.json",
    ("vscode", "windows"): "AppData/Roaming/Code/User/mcp.json",
    ("zed", "windows"): "AppData/Roaming/Zed/settings.json",
    ("goose", "windows"): "AppData/Roaming/Block/goose/config/config.yaml",
    ("cursor", "linux"): ".cursor/mcp.json",
    ("windsurf", "linux"): ".codeium/windsurf/mcp_config.json",
    ("lmstudio", "linux"): ".lmstudio/mcp.json",
    ("nanobot", "linux"): ".nanobot/config.json",
    ("claude_code", "linux"): ".claude.json",
}
TIMES = {
    "hermes": {"timeout": 120, "connect_timeout": 60},
    "openclaw": {"requestTimeoutMs": 120_000, "connectionTimeoutMs": 30_000},
    "claude_code": {"timeout": 120_000},
    "codex": {"startup_timeout_sec": 30, "tool_timeout_sec": 120},
    "opencode": {"timeout": 120_000},
    "gemini": {"timeout": 120_000},
    "qwen": {"timeout": 120_000},
    "cline": {"timeout": 120},
    "goose": {"timeout": 120},
    "librechat": {"timeout": 120_000, "initTimeout": 30_000},
    "crush": {"timeout": 120},
    "nanobot": {"toolTimeout": 120},
}
"""What an entry says of time, in the unit of its host; the others have no key for it."""


def machine(system: System = "linux", home: Path = HOME, project: Path | None = None) -> Where:
    return Where(home, {}, system, project)


def first(host: str, where: Where) -> Path:
    return HOSTS[host].targets(where)[0].file


def our_launches(host: str) -> tuple[Launch, ...]:
    return launches(host, default_config_path(), tuple(SERVER_NAMES))


def entry(host: Host) -> dict[str, Any]:
    return host.entry(our_launches(host.name)[0])


def program(host: Host) -> list[str]:
    """The command and the arguments of an entry, whichever way the host writes them."""
    told = entry(host)
    command = told["cmd" if "cmd" in told else "command"]
    return command if isinstance(command, list) else [command, *told["args"]]


def with_change(data: Data, change: Change) -> dict[str, Any]:
    whole = copy.deepcopy(dict(data))
    table = whole
    for name in change.key[:-1]:
        table[name] = table.get(name) or {}
        table = table[name]
    table[change.key[-1]] = change.value
    return whole


def door_tables(host: Host) -> list[Any]:
    return [host.doors, *(one.doors for one in host.beside)]


def every_gate(host: Host, data: Any) -> list[Any]:
    found = [*host.gates(data, NAMES)]
    for one in host.beside:
        found += one.gates(data, NAMES)
    return found


def every_door(host: Host, data: Any) -> list[Door]:
    return [door for doors in door_tables(host) for door in doors(data)]


@pytest.fixture(params=list(HOSTS))
def host(request: pytest.FixtureRequest) -> Host:
    return HOSTS[request.param]


# -- where


def test_every_host_has_a_name_and_a_title_of_its_own() -> None:
    assert len(HOSTS) == 21
    assert all(name == host.name and name.isidentifier() for name, host in HOSTS.items())
    assert len({host.title for host in HOSTS.values()}) == len(HOSTS)
    assert {host.seen for host in HOSTS.values()} == {"run", "read", "told"}


@pytest.mark.parametrize("system", SYSTEMS)
def test_files_are_absolute_below_home_and_in_a_folder_of_the_host(host: Host, system: System) -> None:
    project = HOME / "work"
    targets = host.targets(machine(system, project=project))
    assert targets and len({target.file for target in targets}) == len(targets)
    assert len({target.profile for target in targets}) == len(targets)
    for target in [*targets, *(one for beside in host.beside for one in beside.targets(machine(system)))]:
        assert target.file.is_absolute() and target.file.is_relative_to(HOME)
        assert target.folder not in (HOME, Path("/"))
        assert target.file.is_relative_to(target.folder) or target.file == HOME / ".claude.json"


@pytest.mark.parametrize(("place", "path"), PLACES.items(), ids=lambda value: "-".join(value) if value else "")
def test_each_system_has_its_own_place(place: tuple[str, System], path: str) -> None:
    name, system = place
    assert first(name, machine(system)) == HOME / path


@pytest.mark.parametrize(("name", "variable", "rest"), MOVES)
def test_variables_move_the_file(name: str, variable: str, rest: str) -> None:
    usual = first(name, machine())
    wanted = {"/elsewhere/x": Path("/elsewhere/x", rest), "~/x": HOME / "x" / rest, "relative": usual, "  ": usual}
    assert {value: first(name, Where(HOME, {variable: value})) for value in wanted} == wanted


def test_profiles_are_found_where_they_are(tmp_path: Path) -> None:
    (tmp_path / ".hermes" / "profiles" / "work").mkdir(parents=True)
    (tmp_path / ".openclaw-dev").mkdir()
    (tmp_path / ".config" / "Code" / "User" / "profiles" / "-5f3a").mkdir(parents=True)
    found = {name: HOSTS[name].targets(machine(home=tmp_path)) for name in ("hermes", "openclaw", "vscode")}
    assert [target.profile for target in found["hermes"]] == ["", "work"]
    assert [target.profile for target in found["openclaw"]] == ["", "dev"]
    assert [target.profile for target in found["vscode"]] == ["", "-5f3a", "insiders"]
    assert found["openclaw"][1].file == tmp_path / ".openclaw-dev" / "openclaw.json"


def test_the_profile_that_hermes_starts_with_comes_first(tmp_path: Path) -> None:
    home = tmp_path / ".hermes"
    (home / "profiles" / "work").mkdir(parents=True)
    for said, order in (
        ("work\n", ["work", ""]),
        ("default", ["", "work"]),
        ("gone", ["", "work"]),
        ("", ["", "work"]),
    ):
        (home / "active_profile").write_text(said)
        assert [target.profile for target in HOSTS["hermes"].targets(machine(home=tmp_path))] == order
    (home / "active_profile").write_text("work")
    pinned = Where(tmp_path, {"HERMES_HOME": str(home / "profiles" / "work")})
    assert [target.file for target in HOSTS["hermes"].targets(pinned)] == [home / "profiles" / "work" / "config.yaml"]


def test_opencode_is_met_in_the_file_that_it_has(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").touch()
    assert HOSTS["opencode"].targets(machine(home=tmp_path))[0].file == folder / "opencode.jsonc"


def test_a_variable_that_other_programs_use_too_counts_only_with_the_name_of_the_file() -> None:
    usual = HOME / "LibreChat" / "librechat.yaml"
    wanted = {f"/srv/{name}": Path("/srv", name) for name in ("librechat.yaml", "librechat.yml")}
    wanted |= {name: usual for name in ("/srv/app/config.yaml", "/srv/app", "librechat.yaml", "")}
    assert {value: first("librechat", Where(HOME, {"CONFIG_PATH": value})) for value in wanted} == wanted


def test_opencode_is_met_in_the_file_that_a_project_has(tmp_path: Path) -> None:
    (tmp_path / "opencode.jsonc").touch()
    targets = HOSTS["opencode"].targets(machine(project=tmp_path))
    assert [target.file for target in targets if target.profile == "project"] == [tmp_path / "opencode.jsonc"]


def test_a_file_that_opencode_also_reads_is_a_place_of_its_own() -> None:
    targets = HOSTS["opencode"].targets(Where(HOME, {"OPENCODE_CONFIG": "/elsewhere/x.json"}))
    usual = HOME / ".config" / "opencode" / "opencode.json"
    assert [(target.file, target.profile) for target in targets] == [
        (usual, ""),
        (Path("/elsewhere/x.json"), "OPENCODE_CONFIG"),
    ]


def test_a_project_adds_its_file_where_a_host_reads_one() -> None:
    project = HOME / "work"
    with_project = {
        name: [target for target in host.targets(machine(project=project)) if target.profile == "project"]
        for name, host in HOSTS.items()
    }
    reading = {name for name, targets in with_project.items() if targets}
    assert reading == {
        "claude_code", "codex", "opencode", "gemini", "qwen", "cursor", "vscode", "zed", "crush", "copilot",
    }  # fmt: skip
    assert with_project["claude_code"][0].file == project / ".mcp.json"


# -- the entry


def test_an_entry_is_plain_json_with_the_interpreter_and_no_environment(host: Host) -> None:
    told = entry(host)
    assert json.loads(json.dumps(told)) == told
    assert program(host)[:4] == [sys.executable, "-I", "-m", "sparkgate.stdio"]
    assert Path(program(host)[0]).is_absolute()
    assert not {"env", "envs", "environment", "env_keys", "env_vars", "envFile", "cwd"} & set(told)


def test_an_entry_names_its_host_for_the_log(host: Host) -> None:
    words = program(host)
    assert words[words.index("--host") + 1] == host.name


def test_the_keys_of_an_entry_are_ours(host: Host) -> None:
    assert host.owned == set(entry(host))


def test_time_is_written_in_the_unit_of_the_host(host: Host) -> None:
    said = {key: value for key, value in entry(host).items() if "time" in key.lower()}
    assert said == TIMES.get(host.name, {})


def test_a_host_waits_longer_than_the_longest_call(host: Host) -> None:
    """Calls of ours answer within 20 s or are jobs."""
    assert host.call_s is None or host.call_s >= 60
    assert host.grace_s is None or host.grace_s > 0


def test_each_entry_is_made_anew(host: Host) -> None:
    """What one caller changes in it is not in the next."""
    entry(host)["command"] = "changed"
    assert entry(host) == entry(host) and program(host)[0] == sys.executable


@pytest.mark.parametrize("name", ["claude_code"])
def test_a_command_of_the_host_is_given_the_entry(name: str) -> None:
    host, launch = HOSTS[name], our_launches(name)[0]
    assert host.how == "command" and host.commands is not None
    argv = host.commands.add(launch)
    assert argv[:4] == ("claude", "mcp", "add-json", "sparksearch") and argv[-2:] == ("-s", "user")
    assert json.loads(argv[4]) == host.entry(launch)
    assert host.commands.remove("sparksearch") == ("claude", "mcp", "remove", "sparksearch", "-s", "user")
    assert host.commands.show("sparksearch") == ("claude", "mcp", "get", "sparksearch")


def test_only_a_file_that_others_write_all_the_time_or_nobody_reads_is_left_alone() -> None:
    assert {name: host.how for name, host in HOSTS.items() if host.how != "file"} == {
        "claude_code": "command",
        "nemoclaw": "print",
        "openwebui": "print",
    }
    assert all(bool(host.why) == (host.how != "file") for host in HOSTS.values())


# -- the text to paste


def parsed(target: Target, text: str) -> Any:
    if target.format == "yaml":
        return yaml.safe_load(text)
    return tomllib.loads(text) if target.format == "toml" else json.loads(text)


def test_the_text_to_paste_is_a_whole_file_with_the_entries_under_their_key(host: Host) -> None:
    for target in host.targets(machine(project=HOME / "work")):
        text = snippet(host, target.format, target.key, our_launches(host.name))
        if host.instead:
            assert text == host.instead
        else:
            found = at(parsed(target, text), *target.key)
            assert found == {launch.server: host.entry(launch) for launch in our_launches(host.name)}


def test_a_path_of_any_letters_is_written_so_that_it_is_read_again(host: Host) -> None:
    launch = Launch("sparksearch", '/home/ä "b" \\c: #d/python', ("-I", "é'{x}", "yes", "1", "~", "\U0001f600\x7f"))
    target = host.targets(machine())[0]
    if not host.instead:
        text = snippet(host, target.format, target.key, [launch])
        assert at(parsed(target, text), *target.key, "sparksearch") == host.entry(launch)


def test_what_to_mind_tells_how_to_close_each_door(host: Host) -> None:
    told = "\n".join(advice(host))
    assert host.after in told
    assert all(door.what in told for door in every_door(host, {}))


def test_nemoclaw_is_told_plainly_what_is_missing_and_that_it_was_not_run() -> None:
    text = HOSTS["nemoclaw"].instead
    assert "none of it was run against a NemoClaw" in text.splitlines()[0]
    assert "sparkgate serve search --http" in text and "on loopback only and without TLS" in text
    assert "reverse proxy" in text and "host.openshell.internal" in text
    assert "nemoclaw SANDBOX mcp add" in text and "--trusted-private-host HOST" in text


# -- names and environments


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("hermes", "mcp__sparksearch__web_search"),
        ("openclaw", "sparksearch__web_search"),
        ("claude_code", "mcp__sparksearch__web_search"),
        ("codex", "mcp__sparksearch__web_search"),
        ("opencode", "sparksearch_web_search"),
        ("gemini", "mcp_sparksearch_web_search"),
        ("qwen", "mcp__sparksearch__web_search"),
        ("librechat", "web_search_mcp_sparksearch"),
    ],
)
def test_a_tool_is_named_as_the_host_names_it(name: str, shown: str) -> None:
    assert HOSTS[name].tool_name("sparksearch", "web_search") == shown


def test_names_are_cut_and_mended_as_hosts_do() -> None:
    assert HOSTS["hermes"].tool_name("my-server", "a.b") == "mcp__my_server__a_b"
    assert HOSTS["openclaw"].tool_name("my server", "t" * 80) == "my-server__" + "t" * 53
    long = HOSTS["gemini"].tool_name("s" * 40, "t" * 40)
    assert (len(long), long[:30], long[30:33]) == (63, "mcp_" + "s" * 26, "...")
    assert Named("{server}/{tool}", allowed="a-z", most=7)("abc", "defg") == "abc/def"


WHOLE = {
    "HOME": "/home/someone",
    "PATH": "/usr/bin",
    "LANG": "C.UTF-8",
    "XDG_RUNTIME_DIR": "/run/user/7",
    "MY_SECRET_TOKEN": "hidden",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "PYTHONPATH": "/nowhere",
    "SYSTEMROOT": "C:\\Windows",
}


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("hermes", {"HOME", "PATH", "LANG", "XDG_RUNTIME_DIR", "SYSTEMROOT"}),
        ("openclaw", {"HOME", "PATH", "SYSTEMROOT"}),
        ("codex", {"HOME", "PATH", "LANG", "SYSTEMROOT"}),
        ("gemini", set(WHOLE) - {"MY_SECRET_TOKEN"}),
        ("claude_code", set(WHOLE)),
        ("opencode", set(WHOLE)),
        ("nanobot", {"HOME", "PATH", "SYSTEMROOT"}),
    ],
)
def test_a_server_is_started_with_what_its_host_passes_on(name: str, kept: set[str]) -> None:
    assert HOSTS[name].environment(WHOLE) == {key: WHOLE[key] for key in kept}


def test_every_host_passes_on_home_and_path(host: Host) -> None:
    assert {"HOME", "PATH"} <= set(host.environment(WHOLE))


# -- gates


def servers(key: str, **entry: Any) -> dict[str, Any]:
    return {key: {"sparksearch": entry}}


GATES: dict[str, list[tuple[str, Any]]] = {
    "hermes": [
        ("switched_off", servers("mcp_servers", enabled=False)),
        ("switched_off", servers("mcp_servers", enabled="no")),
        ("platform_toolsets", {"platform_toolsets": {"cli": ["web", "no_mcp", "sparksearch"]}}),
        ("platform_toolsets", {"mcp_servers": {"other": {}}, "platform_toolsets": {"cli": ["web", "other"]}}),
        ("disabled_toolsets", {"agent": {"disabled_toolsets": ["sparksearch"]}}),
        ("disabled_toolsets", {"agent": {"disabled_toolsets": ["mcp-sparksearch"]}}),
    ],
    "openclaw": [
        ("switched_off", {"mcp": {"servers": {"sparksearch": {"enabled": False}}}}),
        ("profile", {"tools": {"profile": "minimal"}}),
        ("denied", {"tools": {"deny": ["bundle-mcp"]}}),
        ("denied", {"tools": {"deny": ["sparksearch__*"]}}),
        ("denied", {"tools": {"deny": ["group:plugins"]}}),
        ("not_allowed", {"tools": {"allow": ["read"]}}),
        ("agent_denied", {"agents": {"entries": {"main": {"tools": {"deny": ["bundle-mcp"]}}}}}),
        ("sandbox", {"agents": {"defaults": {"sandbox": {"mode": "all"}}}}),
        ("sandbox_denied", {"tools": {"sandbox": {"tools": {"deny": ["*"]}}}}),
    ],
    "claude_code": [
        ("denied", {"permissions": {"deny": ["mcp__sparksearch"]}}),
        ("denied", {"permissions": {"deny": ["mcp__sparksearch__*"]}}),
        ("project_denied", {"disabledMcpjsonServers": ["sparksearch"]}),
        ("project", {"projects": {"/work": {"disabledMcpjsonServers": ["sparksearch"]}}}),
    ],
    "codex": [
        ("switched_off", servers("mcp_servers", enabled=False, required=True)),
        ("not_required", servers("mcp_servers", command="x")),
    ],
    "opencode": [
        ("switched_off", servers("mcp", enabled=False)),
        ("denied", {"permission": {"sparksearch_*": "deny"}}),
        ("denied", {"tools": {"sparksearch*": False}}),
    ],
    "gemini": [
        ("not_allowed", {"mcp": {"allowed": ["other"]}}),
        ("denied", {"mcp": {"excluded": ["sparksearch"]}}),
        ("admin", {"admin": {"mcp": {"enabled": False}}}),
        ("tools_excluded", {"tools": {"exclude": ["mcp_sparksearch_*"]}}),
    ],
    "qwen": [
        ("not_allowed", {"mcp": {"allowed": []}}),
        ("denied", {"mcp": {"excluded": ["sparksearch"]}}),
        ("permission", {"permissions": {"deny": ["mcp__sparksearch__*"]}}),
    ],
    "vscode": [
        ("mcp_off", {"chat.mcp.access": "none"}),
        ("mcp_off", {"chat.mcp.access": "registry"}),
        ("mcp_off", {"chat.mcp.enabled": False}),
    ],
    "windsurf": [("switched_off", servers("mcpServers", disabled=True))],
    "cline": [("switched_off", servers("mcpServers", disabled=True))],
    "zed": [
        ("switched_off", servers("context_servers", enabled=False)),
        ("profile", {"agent": {"profiles": {"ask": {"enable_all_context_servers": False}}}}),
    ],
    "goose": [("switched_off", servers("extensions", enabled=False))],
    "librechat": [("interface", {"interface": {"mcpServers": {"use": False}}})],
    "crush": [("switched_off", servers("mcp", disabled=True))],
}
HIDING = [(name, code, data) for name, cases in GATES.items() for code, data in cases]

OPEN: dict[str, list[Any]] = {
    "hermes": [
        {"platform_toolsets": {"cli": ["web", "terminal"]}},
        {"mcp_servers": {"other": {}}, "platform_toolsets": {"cli": ["other", *NAMES]}},
        {"mcp_servers": {"other": {"enabled": False}}, "platform_toolsets": {"cli": ["other"]}},
        {"platform_toolsets": {"cli": [f"mcp-{name}" for name in NAMES]}},
    ],
    "openclaw": [
        {"tools": {"profile": "coding", "deny": ["group:web", "other__*"]}},
        {"tools": {"profile": "minimal", "alsoAllow": ["bundle-mcp"]}},
        {"tools": {"allow": ["group:plugins", "read"]}},
        {"tools": {"allow": []}},
        {
            "agents": {"defaults": {"sandbox": {"mode": "all"}}},
            "tools": {"sandbox": {"tools": {"alsoAllow": [f"{name}__*" for name in NAMES]}}},
        },
    ],
    "claude_code": [{"permissions": {"deny": ["WebSearch", "mcp__other"]}}],
    "codex": [{"mcp_servers": {name: {"required": True} for name in NAMES}}],
    "opencode": [{"permission": {"sparksearch_*": "ask", "bash": "deny"}, "tools": {"sparksearch*": True}}],
    "gemini": [{"mcp": {"allowed": list(NAMES), "excluded": ["other"]}}],
    "zed": [{"agent": {"profiles": {"write": {"enable_all_context_servers": True}}}}],
}
SHOWING = [(name, data) for name, cases in OPEN.items() for data in cases]


@pytest.mark.parametrize(("name", "code", "data"), HIDING)
def test_a_gate_is_seen_and_says_the_way_out(name: str, code: str, data: Any) -> None:
    found = [gate for gate in every_gate(HOSTS[name], data) if gate.code == code]
    assert found, every_gate(HOSTS[name], data)
    assert all(gate.what.endswith(".") and gate.way_out and gate.way_out[0].islower() for gate in found)


@pytest.mark.parametrize(("name", "data"), SHOWING)
def test_what_hides_nothing_is_no_gate(name: str, data: Any) -> None:
    assert every_gate(HOSTS[name], data) == []


def test_an_empty_file_hides_nothing(host: Host) -> None:
    assert every_gate(host, {}) == []


def test_a_gate_is_told_for_the_servers_asked_for_only() -> None:
    data = {"tools": {"deny": ["sparkbench__*"]}}
    assert HOSTS["openclaw"].gates(data, ["sparksearch"]) == []
    assert len(HOSTS["openclaw"].gates(data, NAMES)) == 1


def test_hermes_in_its_safe_mode_starts_no_servers() -> None:
    around = HOSTS["hermes"].around
    assert [gate.code for gate in around({"HERMES_SAFE_MODE": "1"})] == ["safe_mode"]
    assert around({}) == around({"HERMES_SAFE_MODE": "0"}) == []


# -- doors

WEB = {
    "hermes": ("web_tools", "keyless_fallback"),
    "openclaw": ("web_tools",),
    "claude_code": ("web_tools",),
    "codex": ("web_search",),
    "opencode": ("webfetch", "websearch"),
    "gemini": ("web_tools",),
    "qwen": ("web_tools",),
    "crush": ("web_tools",),
    "librechat": ("web_tools",),
    "nanobot": ("web_tools",),
}
"""Doors that a file closes."""


@pytest.mark.parametrize("name", WEB)
def test_the_changes_of_a_door_close_it(name: str) -> None:
    """One table of doors is that of one file."""
    for doors in door_tables(HOSTS[name]):
        data: dict[str, Any] = {}
        for door in doors(data):
            for change in door.changes:
                data = with_change(data, change)
        assert not [door for door in doors(data) if door.changes]


@pytest.mark.parametrize("name", WEB)
def test_its_own_web_tools_are_open_in_an_empty_file(name: str) -> None:
    closable = [door.code for door in every_door(HOSTS[name], {}) if door.changes]
    assert tuple(closable) == WEB[name]


def lists_of(host: Host) -> Iterator[tuple[Any, Change]]:
    for doors in door_tables(host):
        for door in doors({}):
            yield from ((doors, change) for change in door.changes if isinstance(change.value, list))


def test_a_list_keeps_what_is_in_it(host: Host) -> None:
    for doors, change in lists_of(host):
        data = with_change({}, Change(change.key, ["mine", change.value[0], {"a": 1}]))
        changes = [one for door in doors(data) for one in door.changes if one.key == change.key]
        wanted = ["mine", change.value[0], {"a": 1}, *change.value[1:]]
        assert [one.value for one in changes] == ([wanted] if len(change.value) > 1 else [])
        others = with_change({}, Change(change.key, ["mine"]))
        [kept] = [one for door in doors(others) for one in door.changes if one.key == change.key]
        assert kept.value == ["mine", *change.value]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("openclaw", {"tools": {"deny": ["*"]}}),
        ("openclaw", {"tools": {"deny": ["web_search", "web_fetch", "x_search"]}}),
        ("qwen", {"permissions": {"deny": ["web_fetch", "web_search"]}}),
        ("codex", {"web_search": "disabled"}),
        ("nanobot", {"tools": {"web": {"enable": False}}}),
        ("goose", {"extensions": {"computercontroller": {"enabled": False}}}),
        ("goose", {}),
    ],
)
def test_other_ways_of_closing_count_too(name: str, data: Any) -> None:
    assert [door for door in every_door(HOSTS[name], data) if door.changes] == []


def test_an_extension_of_goose_that_fetches_pages_is_a_door_while_it_is_on() -> None:
    data = {"extensions": {"computercontroller": {"enabled": True}, "developer": {"enabled": True}}}
    doors = {door.code: door for door in HOSTS["goose"].doors(data)}
    assert doors["computercontroller"].changes == (Change(("extensions", "computercontroller", "enabled"), False),)
    assert doors["shell"].confine


def test_only_confinement_closes_a_shell_and_a_browser(host: Host) -> None:
    for door in every_door(host, {}):
        assert door.confine == (door.code in {"shell", "browser", "code"})
        assert not (door.confine and door.changes)
        assert door.what.endswith(".") and door.way_out and not door.way_out.endswith(".")
    without = {name for name, one in HOSTS.items() if "shell" not in {door.code for door in every_door(one, {})}}
    assert without == {"claude_desktop", "lmstudio", "librechat", "openwebui", "nemoclaw"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("hermes", {"agent": {"disabled_toolsets": ["terminal", "code_execution", "browser"]}}),
        ("openclaw", {"tools": {"deny": ["group:runtime", "group:ui"]}}),
        ("claude_code", {"permissions": {"deny": ["Bash"]}}),
        ("nanobot", {"tools": {"exec": {"enable": False}}}),
    ],
)
def test_a_shell_that_is_switched_off_is_no_door(name: str, data: Any) -> None:
    assert [door for door in every_door(HOSTS[name], data) if door.confine] == []


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("hermes", {"agent": {"disabled_toolsets": "web"}, "web": []}),
        ("openclaw", {"tools": "none"}),
        ("claude_code", {"permissions": {"deny": {"WebSearch": True}}}),
        ("opencode", {"permission": "allow"}),
    ],
)
def test_a_file_of_another_shape_is_left_to_a_person(name: str, data: Any) -> None:
    doors = [door for door in every_door(HOSTS[name], data) if not door.confine]
    assert doors and all(door.changes == () and door.way_out for door in doors)


# -- whatever a file holds

BROKEN: tuple[Any, ...] = (None, [], "x", 7, True, {}, {"x": None}, [None, 3, {"x": []}], {3: 4, None: "x"})


def broken(keys: tuple[str, ...], leaf: Any) -> Mapping[str, Any]:
    data = leaf
    for key in reversed(keys):
        data = {key: data}
    return data if isinstance(data, Mapping) else {}


def keys_of(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every way into a table, so that anything can be put at its end."""
    if path:
        yield path
    if isinstance(data, Mapping):
        for name, inner in data.items():
            yield from keys_of(inner, (*path, name))


def test_nothing_in_a_file_breaks_the_look_for_gates_and_doors(host: Host) -> None:
    shapes = [data for _, data in GATES.get(host.name, [])] + OPEN.get(host.name, [])
    shapes += [broken(change.key, change.value) for door in every_door(host, {}) for change in door.changes]
    ways = {way for shape in shapes for way in keys_of(shape)} | {("x",)}
    for data in [*BROKEN, *(broken(way, leaf) for way in ways for leaf in BROKEN)]:
        every_gate(host, data)
        every_door(host, data)
        every_gate(host, {"x": data})
