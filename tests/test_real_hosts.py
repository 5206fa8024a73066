"""Real hosts, set up with the entry that `sparkgate register --print` gives, a scripted model and a real SearXNG.

Only the model's settings are added to an entry. OpenClaw hands a server nothing of its environment but HOME and PATH;
the entry carries the folders of the box.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import real_searxng
import scripted_model
from box import Box, a_box
from real_hosts import Ended, Program, hermes, listed_tools, openclaw, run
from scripted_model import ScriptedModel

from sparkgate.policy.samples import fill
from sparkgate.policy.trail.read import read_rows

pytestmark = pytest.mark.host

CLEAN = "vllm mtp flag"
TOKEN = fill("hf_{mixed:34}")
WITH_A_SECRET = tuple(f"why does {TOKEN} give {status}" for status in (401, 403, 429))
CALLS_ITSELF = {"hermes": ("hermes", "mcp 0.1.0"), "openclaw": ("openclaw", "openclaw-bundle-mcp 0.0.0")}
"""The name in the entry, and the clientInfo of each host. Hermes gives that of the SDK it is built with."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one question to a host left behind.

    `asked` is what arrived at the search engines, `callers` the command line of the process that each row names, read
    while the host ran.
    """

    host: str
    ended: Ended
    model: ScriptedModel
    rows: list[dict[str, Any]]
    asked: list[str]
    callers: list[str]
    written: bytes


def entry(box: Box, *arguments: str) -> str:
    """What the real command prints for a host."""
    printed = box.command("register", "--print", *arguments)
    assert printed.returncode == 0, printed.stderr
    return printed.stdout


def set_up(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")


def set_up_hermes(box: Box, model_url: str) -> None:
    name, context = scripted_model.NAME, scripted_model.CONTEXT_TOKENS
    model = {"default": name, "provider": "custom", "base_url": model_url, "api_key": "none", "context_length": context}
    set_up(box.root / ".hermes" / "config.yaml", entry(box, "hermes") + f"model: {json.dumps(model)}\n")


def set_up_openclaw(box: Box, model_url: str) -> None:
    config = json.loads(entry(box, "openclaw"))
    model = {"id": scripted_model.NAME, "name": "Scripted", "contextWindow": scripted_model.CONTEXT_TOKENS}
    provider = {"baseUrl": model_url, "apiKey": "none", "api": "openai-completions", "models": [model]}
    config["models"] = {"providers": {"local": provider}}
    config["agents"] = {"defaults": {"model": {"primary": f"local/{scripted_model.NAME}"}}}
    set_up(box.root / ".openclaw" / "openclaw.json", json.dumps(config))


def ask_hermes(*queries: str) -> Turn:
    """A question to Hermes, whose model searches for each of `queries` in turn."""
    program, model = hermes(), ScriptedModel("sparksearch__web_search", *({"query": query} for query in queries))
    question = ("chat", "-q", "Look it up.", "-Q", "--max-turns", str(len(queries) + 3))
    with a_box() as box:
        return ask("hermes", box, model, set_up_hermes, lambda: run(box, program, *question))


def ask_openclaw(*queries: str) -> Turn:
    """The same of OpenClaw, where a model reaches the tools of servers by way of `tool_call`."""
    program, tool = openclaw(), "sparksearch__web_search"
    model = ScriptedModel("tool_call", *({"id": tool, "args": {"query": query}} for query in queries))
    question = ("agent", "exec", "Look it up.", "--json")
    with a_box() as box:
        return ask("openclaw", box, model, set_up_openclaw, lambda: run(box, program, *question))


def ask(
    host: str,
    box: Box,
    model: ScriptedModel,
    prepare: Callable[[Box, str], None],
    question: Callable[[], Ended],
) -> Turn:
    """Set the host up for `model` and the SearXNG of this run, and let it answer one question."""
    live = real_searxng.shared()
    live.upstream.forget()
    box.use(live.url)
    callers: list[str] = []
    log = box.state / "audit.db"
    model.meanwhile = lambda: callers.extend(command_line(row["pid"]) for row in read_rows(log, limit=1))
    with model:
        prepare(box, model.url)
        ended = question()
    written = b"".join(path.read_bytes() for path in box.state.rglob("*") if path.is_file())
    return Turn(host, ended, model, read_rows(log)[::-1], live.upstream.queries(), callers, written)


def command_line(pid: int) -> str:
    """How a process was started; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


ASK: Mapping[str, Callable[..., Turn]] = {"hermes": ask_hermes, "openclaw": ask_openclaw}


@cache
def searched_by(host: str) -> Turn:
    return ASK[host](CLEAN)


@pytest.fixture(params=list(ASK))
def searched(request: pytest.FixtureRequest) -> Turn:
    """One clean search by each host."""
    return searched_by(request.param)


@pytest.fixture(scope="module", params=list(ASK))
def refused(request: pytest.FixtureRequest) -> Turn:
    """Three searches with a secret by each host, then a clean one."""
    return ASK[request.param](*WITH_A_SECRET, CLEAN)


@pytest.fixture(scope="module")
def set_up_for_openclaw() -> Iterator[Box]:
    """A box with an OpenClaw that knows the server; nobody searches."""
    with a_box() as box:
        box.use("http://127.0.0.1:9")
        set_up_openclaw(box, "http://127.0.0.1:9/v1")
        yield box


def only_row(turn: Turn) -> dict[str, Any]:
    assert len(turn.rows) == 1, turn.ended
    return turn.rows[0]


# -- a whole turn of each host


def test_a_host_gives_its_model_the_results_of_the_search_engines(searched: Turn) -> None:
    assert searched.ended.code == 0, searched.ended
    result = "".join(searched.model.results)
    assert f"What alpha says of {CLEAN}." in result, searched.ended
    assert f"What beta says of {CLEAN}." in result, searched.ended
    assert "https://alpha.example/" in searched.ended.out, searched.ended


def test_what_the_search_engines_are_asked_is_what_the_log_says_was_sent(searched: Turn) -> None:
    row = only_row(searched)
    assert searched.asked == [row["sent"]] * 2 == [CLEAN] * 2, searched.ended
    assert (row["verdict"], row["outcome"], row["tool"]) == ("allow", "answered", "web_search")


def test_the_row_names_the_host_its_session_and_the_process_that_asked(searched: Turn) -> None:
    row = only_row(searched)
    assert (row["host"], row["host_version"]) == CALLS_ITSELF[searched.host], searched.ended
    assert len(row["session"]) == 12 and row["uid"] == os.getuid()
    assert ["-m sparkgate.stdio search" in caller for caller in searched.callers] == [True], searched.ended


def test_nothing_of_a_query_with_a_secret_reaches_a_search_engine(refused: Turn) -> None:
    blocked = refused.rows[:3]
    assert [(row["verdict"], row["sent"]) for row in blocked] == [("block", "")] * 3, refused.ended
    assert refused.asked == [CLEAN] * 2, refused.ended
    assert TOKEN.encode() not in refused.written


def test_the_model_is_told_why_nothing_was_sent(refused: Turn) -> None:
    assert all("huggingface-token" in result for result in refused.model.results[:3]), refused.ended
    assert not any(TOKEN in result for result in refused.model.results)


def test_three_refusals_in_a_row_do_not_make_a_host_give_the_server_up(refused: Turn) -> None:
    """Both hosts close a server for a minute after three failures in a row; a refusal is none."""
    assert len(refused.model.results) == 4, refused.ended
    assert f"What alpha says of {CLEAN}." in refused.model.results[3], refused.ended
    assert refused.rows[3]["outcome"] == "answered"
    assert len({row["session"] for row in refused.rows}) == 1


# -- the engine server


def watching(box: Box, model: ScriptedModel) -> None:
    """A catalogue with the very model that the host lives on."""
    origin = model.url.removesuffix("/v1")
    own = f'[engines.own]\nurl = "{origin}"\nengine = "openai"\nruntime = "process"\ncommand = ["true"]\n'
    box.configure(own + '[engines.other]\nurl = "http://127.0.0.1:9"\nruntime = "process"\ncommand = ["true"]\n')


ENGINE_TURNS: dict[str, tuple[Callable[[], Program], Callable[[Box, str], None], tuple[str, ...], str]] = {
    "hermes": (hermes, set_up_hermes, ("chat", "-q", "Look.", "-Q", "--max-turns", "5"), "sparkengine__engine_status"),
    "openclaw": (openclaw, set_up_openclaw, ("agent", "exec", "Look.", "--json"), "tool_call"),
}


@pytest.mark.parametrize("name", list(ENGINE_TURNS))
def test_a_host_shows_its_model_the_state_of_the_engines(name: str) -> None:
    program, prepare, question, word = ENGINE_TURNS[name]
    call: dict[str, Any] = {"name": "other"}
    call = {"id": "sparkengine__engine_status", "args": call} if word == "tool_call" else call
    model = ScriptedModel(word, call)
    with a_box() as box, model:
        watching(box, model)
        prepare(box, model.url)
        ended = run(box, program(), *question)
    assert ended.code == 0, ended
    assert '"other"' in "".join(model.results) and '"down"' in "".join(model.results), ended


# -- Hermes


def test_hermes_offers_its_model_the_tools_of_the_server_and_no_others_for_it(box: Box) -> None:
    """For a server with resources or prompts it would add tools that list and read those."""
    turn = searched_by("hermes")
    of_servers = {tool for tool in turn.model.offered if tool.startswith("mcp_")}
    assert of_servers == {f"mcp__sparksearch__{tool}" for tool in listed_tools(box)}, turn.ended


def test_hermes_finds_the_tools_with_the_printed_entry(box: Box) -> None:
    set_up(box.root / ".hermes" / "config.yaml", entry(box, "hermes"))
    tested = run(box, hermes(), "mcp", "test", "sparksearch")
    tools = listed_tools(box)
    assert f"Tools discovered: {len(tools)}" in tested.out, tested
    assert all(tool in tested.out for tool in tools), tested


def test_hermes_shows_the_server_as_enabled(box: Box) -> None:
    set_up(box.root / ".hermes" / "config.yaml", entry(box, "hermes"))
    listed = run(box, hermes(), "mcp", "list")
    assert ["enabled" in line for line in listed.out.splitlines() if "sparksearch" in line] == [True], listed


# -- OpenClaw


def test_openclaw_finds_the_tools_with_the_printed_entry(set_up_for_openclaw: Box, box: Box) -> None:
    probed = run(set_up_for_openclaw, openclaw(), "mcp", "probe", "sparksearch", "--json")
    assert probed.code == 0, probed
    found = json.loads(probed.out)
    assert found["tools"] == sorted(f"sparksearch__{tool}" for tool in listed_tools(box)), probed
    assert found["diagnostics"] == [], probed
    assert "approvalHint" not in found["servers"]["sparksearch"], probed


def test_the_doctor_of_openclaw_has_nothing_to_say(set_up_for_openclaw: Box) -> None:
    """It names tools without annotations, among other things."""
    examined = run(set_up_for_openclaw, openclaw(), "mcp", "doctor", "sparksearch", "--probe", "--json")
    assert examined.code == 0, examined
    (server,) = json.loads(examined.out)["servers"]
    assert server == {"name": "sparksearch", "ok": True, "issues": []}, examined
