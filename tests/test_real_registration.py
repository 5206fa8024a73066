"""`sparkgate register` and `unregister` on files of real hosts, which are full of what people write into them.

The hosts are asked what they make of the file, a scripted model is asked what it was offered, and in the end the file
is as it was, byte for byte. SearXNG and engines are stand-ins on loopback.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import scripted_model
from box import PATIENCE_S, Box, a_box
from engine_box import an_engine_box, until
from fake_searxng import FakeSearxng
from real_hosts import OFFLINE, Ended, Program, from_npm, hermes, listed_tools, on_path, openclaw, run
from register_box import register, unregister
from scripted_model import ScriptedModel, Step

from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.splice import read
from sparkgate.policy.samples import fill

pytestmark = pytest.mark.host

CRASHING = Path(__file__).with_name("crash_in_mid_call.py")
CLEAN = "vllm mtp flag"
TOKEN = fill("hf_{mixed:34}")
SEARCH = "sparksearch__web_search"
FETCH = {"id": "web_fetch", "args": {"url": "http://127.0.0.1:9/"}}
"""OpenClaw's own way to the web, asked for what it does not fetch: an address on this machine."""

HERMES_MODEL = f"""\
model: &local   # the model at home
  default: {scripted_model.NAME}
  provider: custom
  base_url: MODEL_URL
  api_key: none
  context_length: {scripted_model.CONTEXT_TOKENS}
"""
HERMES = f"""\
# my agent
patience: &patience 90\t# a tab, and an anchor
{HERMES_MODEL}x-copy: *local
agent:
    disabled_toolsets: [ memory ]  # mine

mcp_servers:
  other:   # a foreign server
    command: other
    enabled: false
    timeout: *patience
    env: {{OTHER_API_KEY: "abcd-efgh-1234-5678"}}
"""
OPENCLAW = f"""\
// my agent
{{
\tgateway: {{ mode: 'local' }}, // stays
\t"tools": {{ deny: [ "memory" ] }}, /* mine */
\tmodels: {{ providers: {{ local: {{
\t\tbaseUrl: 'MODEL_URL', apiKey: "none", api: "openai-completions",
\t\tmodels: [ {{ id: "{scripted_model.NAME}", name: "Scripted", contextWindow: {scripted_model.CONTEXT_TOKENS} }}, ],
\t}} }} }},
\tagents: {{ defaults: {{ model: {{ primary: "local/{scripted_model.NAME}" }} }} }},
\tmcp: {{
\t\tservers: {{
\t\t\t// a foreign server
\t\t\tother: {{ command: "other", enabled: false, env: {{ OTHER_API_KEY: "abcd-efgh-1234-5678" }} }},
\t\t}},
\t}},
}}
"""


def by_id(query: str) -> dict[str, Any]:
    """How a model of OpenClaw calls a tool of a server."""
    return {"id": SEARCH, "args": {"query": query}}


@dataclass(frozen=True, slots=True)
class Real:
    """A host that a model drives.

    Attributes:
        word: of the tool that its model calls, with each of `calls` while its own doors are open, and then of `shut`.
        looks: what is asked of it without a model: name → arguments.
        keys: a file of keys beside its configuration, without which it offers no web tool of its own.
    """

    program: Callable[[], Program]
    file: str
    text: str
    question: tuple[str, ...]
    word: str
    calls: tuple[Mapping[str, Any], ...]
    shut: tuple[Mapping[str, Any], ...]
    looks: Mapping[str, tuple[str, ...]]
    keys: str = ""


REFUSED = tuple({"query": f"why does {TOKEN} give {status}"} for status in (401, 403, 429))
REAL = {
    "hermes": Real(
        hermes,
        ".hermes/config.yaml",
        HERMES,
        ("chat", "-q", "Look it up.", "-Q", "--max-turns", "8"),
        SEARCH,
        (*REFUSED, {"query": CLEAN}),
        ({"query": CLEAN},),
        {"list": ("mcp", "list"), "test": ("mcp", "test", "sparksearch")},
        "FIRECRAWL_API_KEY=none\n",
    ),
    "openclaw": Real(
        openclaw,
        ".openclaw/openclaw.json",
        OPENCLAW,
        ("agent", "exec", "Look it up.", "--json"),
        "tool_call",
        (by_id(CLEAN), FETCH),
        (by_id(CLEAN), FETCH),
        {"probe": ("mcp", "probe", "sparksearch", "--json")},
    ),
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One question to the host, and the file as it was afterwards."""

    ended: Ended
    offered: list[str]
    results: list[str]
    file: bytes


@dataclass(slots=True)
class Stay:
    """What a host's file was through a whole stay of ours, and what the host did meanwhile.

    Attributes:
        files: before, registered, closed, after.
        looks: what the host said when it was asked without a model.
    """

    host: str
    tools: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    looks: dict[str, Ended] = field(default_factory=dict)
    turns: dict[str, Turn] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def data(self, name: str) -> Any:
        return read(self.files[name].decode(), "yaml" if self.host == "hermes" else "json5")


@cache
def stay(host: str) -> Stay:
    """Register, ask, close doors, ask again, unregister."""
    real, made = REAL[host], Stay(host)
    program = real.program()
    with a_box() as box, FakeSearxng() as searxng, ScriptedModel(real.word) as model:
        box.use(searxng.url)
        file = _put(box, real.file, real.text.replace("MODEL_URL", model.url).replace("\n", "\r\n"))
        (file.parent / ".env").write_text(real.keys)
        made.files["before"] = file.read_bytes()
        _done(register(box, host))
        made.files["registered"], made.tools = file.read_bytes(), listed_tools(box)
        made.looks |= {name: run(box, program, *arguments) for name, arguments in real.looks.items()}
        made.turns["open"] = _turn(box, program, real, model, real.calls, file)
        _done(register(box, host, "--close-doors"))
        made.files["closed"] = file.read_bytes()
        if host == "openclaw":
            made.looks["validate"] = run(box, program, "config", "validate", "--json")
        made.turns["shut"] = _turn(box, program, real, model, real.shut, file)
        _done(unregister(box, host))
        made.files["after"], made.rows, made.asked = file.read_bytes(), box.rows(), searxng.queries()
    return made


def _put(box: Box, name: str, text: str) -> Path:
    file = box.root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return file


def _done(command: Any) -> None:
    assert command.returncode == 0, command.stdout + command.stderr


def _turn(
    box: Box, program: Program, real: Real, model: ScriptedModel, calls: tuple[Mapping[str, Any], ...], file: Path
) -> Turn:
    model.calls = [Step(model.word, call) for call in calls]
    model.offered, model.results = [], []
    ended = run(box, program, *real.question)
    return Turn(ended, model.offered, model.results, file.read_bytes())


@pytest.fixture(params=list(REAL))
def known(request: pytest.FixtureRequest) -> Stay:
    return stay(request.param)


def added(before: bytes, after: bytes) -> str:
    """What has come into a text from which nothing has gone."""
    old, new = before.decode(), after.decode()
    steps = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    assert {tag for tag, *_ in steps} <= {"equal", "insert"}, steps
    return "".join(new[begin:end] for tag, _, _, begin, end in steps if tag == "insert")


# -- Hermes and OpenClaw, from the first register to the last unregister


def test_every_byte_outside_our_entry_stays(known: Stay) -> None:
    entry = added(known.files["before"], known.files["registered"])
    assert "sparkgate.stdio" in entry and "other" not in entry
    assert entry.count("\n") == entry.count("\r\n") > 0


def test_the_host_finds_our_tools_and_still_knows_the_foreign_server(known: Stay) -> None:
    if known.host == "openclaw":
        probed = json.loads(known.looks["probe"].out)
        assert probed["tools"] == sorted(f"sparksearch__{tool}" for tool in known.tools), known.looks["probe"]
        assert probed["diagnostics"] == [], known.looks["probe"]
        return
    lines = known.looks["list"].out.splitlines()
    assert ["enabled" in line for line in lines if "sparksearch" in line] == [True], known.looks["list"]
    assert ["disabled" in line for line in lines if "other" in line] == [True], known.looks["list"]
    assert f"Tools discovered: {len(known.tools)}" in known.looks["test"].out, known.looks["test"]


def test_its_model_searches_by_our_tool_before_and_after_its_doors_are_closed(known: Stay) -> None:
    for turn in known.turns.values():
        assert turn.ended.code == 0, turn.ended
        assert any("Snippet 1" in result for result in turn.results), turn.ended
    assert known.asked == [CLEAN] * 2
    answered = [row for row in known.rows if row["outcome"] == "answered"]
    assert [(row["host"], row["tool"], row["sent"]) for row in answered] == [(known.host, "web_search", CLEAN)] * 2


def test_the_host_leaves_the_file_as_we_wrote_it(known: Stay) -> None:
    """Hosts rewrite files that they find wanting."""
    assert known.turns["open"].file == known.files["registered"]
    assert known.turns["shut"].file == known.files["closed"]


def test_unregister_restores_the_file_byte_for_byte(known: Stay) -> None:
    assert known.files["after"] == known.files["before"]
    assert known.files["closed"] != known.files["registered"] != known.files["before"]


def test_the_doors_of_hermes_are_closed_in_its_file_and_its_model_is_no_longer_offered_them() -> None:
    known = stay("hermes")
    closed = known.data("closed")
    assert closed["agent"]["disabled_toolsets"] == ["memory", "web"]
    assert closed["web"] == {"keyless_fallback": False} and "web" not in known.data("before")
    own = {"web_search", "web_extract"}
    offered, left = (set(known.turns[name].offered) for name in ("open", "shut"))
    assert own <= offered, known.turns["open"].ended
    assert left == offered - own, known.turns["shut"].ended
    assert {f"mcp__sparksearch__{tool}" for tool in known.tools} <= left


def test_the_doors_of_openclaw_are_closed_in_a_file_that_it_accepts_and_its_fetching_is_gone() -> None:
    known = stay("openclaw")
    assert known.data("closed")["tools"] == {"deny": ["memory", "group:web"]}
    validated = json.loads(known.looks["validate"].out)
    assert (validated["valid"], validated["warnings"]) == (True, []), known.looks["validate"]
    fetched = {name: turn.results[1] for name, turn in known.turns.items()}
    assert "private/internal" in fetched["open"], known.turns["open"].ended
    assert "Unknown tool id: web_fetch" in fetched["shut"], known.turns["shut"].ended


# -- what Hermes does to servers that fail, and what it makes of ours


def test_three_refusals_in_a_row_leave_the_server_of_hermes_open() -> None:
    """It counts errors, and closes a server for a minute after three."""
    known = stay("hermes")
    turn = known.turns["open"]
    assert len(turn.results) == 4, turn.ended
    assert all("huggingface-token" in result and TOKEN not in result for result in turn.results[:3]), turn.ended
    assert "Snippet 1" in turn.results[3], turn.ended
    assert [row["verdict"] for row in known.rows[:4]] == ["block"] * 3 + ["allow"]


def test_a_load_whose_gate_is_killed_in_mid_call_is_replayed_by_hermes_and_done_once() -> None:
    """The first answer is lost with the gate, the pipe and the session; Hermes says the call again by itself."""
    load = {"name": "old"}
    model = ScriptedModel("sparkengine__engine_load", load)
    with an_engine_box() as engines, model:
        box, crashed = engines.box, engines.box.root / "crashed"
        file = _put(box, ".hermes/config.yaml", HERMES_MODEL.replace("MODEL_URL", model.url))
        _done(register(box, "hermes", "--server", "engine"))
        crashing = [str(CRASHING), str(crashed), "engine_load", str(engines.folder / "started"), sys.executable, "-I"]
        begins = json.dumps(crashing).removesuffix("]")
        file.write_text(file.read_text().replace('["-I"', begins, 1))
        engines.habit("hold-ready")
        model.meanwhile = lambda: engines.drop("hold-ready")
        ended = run(box, hermes(), "chat", "-q", "Load it.", "-Q", "--max-turns", "5")
        assert crashed.exists() and len(box.events("gate_started")) == 2, ended
        assert len(model.results) == 1 and '"joined": true, "job": 1,' in model.results[0], ended
        until(lambda: engines.job().state == "done", "the load has come to its end")
        assert engines.job().id == 1 and engines.up() == ["old"] and engines.never_two()
        assert len((engines.folder / "started").read_text().splitlines()) == 1
        assert engines.logged() == [("start", "old", "done"), ("end", "old", "done")]


def test_what_hermes_has_given_up_leaves_no_work_behind() -> None:
    """It sends no cancellation: our own deadline ends the search while it stays, and its end does when it goes."""
    searches = [{"query": "slow and patient"}, {"query": "slow and gone"}]
    model, hung_up = ScriptedModel(SEARCH, *searches), []
    with a_box() as box, FakeSearxng() as searxng, model:
        box.use(searxng.url)
        searxng.hold.clear()
        file = _put(box, ".hermes/config.yaml", HERMES_MODEL.replace("MODEL_URL", model.url))
        _done(register(box, "hermes"))
        file.write_text(file.read_text().replace(" timeout: 120", " timeout: 3"))

        def while_hermes_waits_for_its_model() -> None:
            if len(model.results) == 1:
                hung_up.append(searxng.hung_up.acquire(timeout=PATIENCE_S))

        model.meanwhile = while_hermes_waits_for_its_model
        ended = run(box, hermes(), "chat", "-q", "Look it up.", "-Q", "--max-turns", "5")
        assert ["timed out after 3.0s" in result for result in model.results] == [True, True], ended
        assert hung_up == [True], ended
        searxng.wait_for_hang_up()
        until(lambda: box.gate_status()["sessions"] == 0 == box.gate_status()["calls"], "no session and no call")
        assert [row["outcome"] for row in box.rows()] == ["timeout", "cancelled"], ended
        assert searxng.queries() == [search["query"] for search in searches]


# -- hosts that npm brings


@dataclass(frozen=True, slots=True)
class Lister:
    """A host that can be asked whether it reaches its servers.

    Attributes:
        host: name that `sparkgate register` has for it.
        shows: what it prints of a server of ours that it reaches.
        doors: the file that closes its doors, and words of that; "" for the file with our entry.
        beside: other files that it needs, or that hold its doors.
    """

    host: str
    file: str
    text: str
    shows: str
    doors: tuple[str, tuple[str, ...]]
    beside: Mapping[str, str] = field(default_factory=dict)


MCP_SERVERS = """\
{
\t// mine
\t"mcpServers": {
\t\t"other": {"command": "other"} // a foreign server
\t},
\t"mcp": {"excluded": ["other"]}
}
"""
CLAUDE_SETTINGS = '{\r\n\t"permissions": {"deny": ["Read(./.env)"]}\r\n}\r\n'
LISTERS = {
    "claude": Lister(
        "claude_code",
        ".claude.json",
        '{"mcpServers": {"other": {"type": "stdio", "command": "other"}}}',
        r"sparksearch: .* - ✔ Connected",
        (".claude/settings.json", ("WebSearch", "WebFetch")),
        {".claude/settings.json": CLAUDE_SETTINGS},
    ),
    "codex": Lister(
        "codex",
        ".codex/config.toml",
        '# mine\nmodel = "local"  # stays\n\n[mcp_servers.other]\ncommand = "other"\t# a foreign server\n'
        "enabled = false\n\n[tui]\nanimations = false\n",
        r"sparksearch .* enabled",
        ("", ('web_search = "disabled"',)),
    ),
    "opencode": Lister(
        "opencode",
        "config/opencode/opencode.jsonc",
        '{\n\t// mine\n\t"$schema": "https://opencode.ai/config.json",\n\t"autoupdate": false,\n\t"mcp": {\n'
        '\t\t"other": {"type": "local", "command": ["other"], "enabled": false}, // a foreign server\n\t},\n}\n',
        r"✓ sparksearch connected",
        ("", ("webfetch", "websearch")),
    ),
    "qwen": Lister(
        "qwen",
        ".qwen/settings.json",
        MCP_SERVERS,
        r"✓ sparksearch: .* - Connected",
        ("", ("WebFetch", "WebSearch")),
    ),
    "gemini": Lister(
        "gemini",
        ".gemini/settings.json",
        MCP_SERVERS,
        r"✓ sparksearch: .* - Connected",
        ("", ("google_web_search", "web_fetch")),
        {".gemini/trustedFolders.json": ""},
    ),
}
QUIET = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def npm_host(request: pytest.FixtureRequest, box: Box) -> tuple[Box, Program, Lister]:
    """A box with a host that has been used before: some rewrite their file when they first see it."""
    name = request.param
    program, lister = from_npm(name), LISTERS[name]
    reachable = on_path(program.executable.parent, on_path(program.path, box.environment))
    box.environment |= reachable | OFFLINE | QUIET
    box.use("http://127.0.0.1:9")
    for file, text in lister.beside.items():
        _put(box, file, text or json.dumps({str(box.root): "TRUST_FOLDER"}))
    _put(box, lister.file, lister.text.replace("\n", "\r\n"))
    first = run(box, program, "mcp", "list")
    assert first.code == 0 and "sparksearch" not in first.out + first.errors, first
    return box, program, lister


@pytest.mark.parametrize("npm_host", list(LISTERS), indirect=True)
def test_a_host_from_npm_reaches_the_registered_server_and_has_its_file_back_afterwards(
    npm_host: tuple[Box, Program, Lister],
) -> None:
    box, program, lister = npm_host
    doors, words = lister.doors
    files = {box.root / lister.file, box.root / (doors or lister.file)}
    before = {file: file.read_bytes() for file in files}
    _done(register(box, lister.host))
    added(before[box.root / lister.file], (box.root / lister.file).read_bytes())
    _done(register(box, lister.host, "--close-doors"))
    registered = {file: file.read_bytes() for file in files}
    closed = registered[box.root / (doors or lister.file)].decode()
    assert all(word in closed for word in words), closed
    listed = run(box, program, "mcp", "list")
    shown = ESCAPES.sub("", listed.out + listed.errors)
    assert listed.code == 0 and re.search(lister.shows, shown) and "other" in shown, listed
    assert {file: file.read_bytes() for file in files} == registered
    _done(unregister(box, lister.host))
    assert {file: file.read_bytes() for file in files} == before


@pytest.mark.parametrize("npm_host", ["codex"], indirect=True)
def test_codex_reads_our_entry_as_it_was_meant_and_starts_the_server(npm_host: tuple[Box, Program, Lister]) -> None:
    """Its list looks at the file alone; its app server starts what it lists."""
    box, program, lister = npm_host
    _done(register(box, lister.host))
    got = json.loads(run(box, program, "mcp", "get", "sparksearch", "--json").out)
    entry = read((box.root / lister.file).read_bytes().decode(), "toml")["mcp_servers"]["sparksearch"]
    assert {key: got["transport"][key] for key in ("command", "args")} == {
        key: entry[key] for key in ("command", "args")
    }
    assert (got["enabled"], got["tool_timeout_sec"]) == (True, HOSTS["codex"].call_s)
    codex = box.host(str(program.executable), "app-server")
    codex.ask("initialize", {"clientInfo": {"name": "test", "version": "1"}})
    codex.send("initialized", notify=True)
    status = {one["name"]: one for one in codex.ask("mcpServerStatus/list", {})["result"]["data"]}
    assert sorted(status["sparksearch"]["tools"]) == sorted(listed_tools(box))
