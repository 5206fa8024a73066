"""Real hosts under `sparkgate confine`: their model finds our tools, and nothing of theirs finds the network."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from box import Box, a_box
from fake_searxng import FakeSearxng, answer, result
from real_hosts import Program, cache_folder, hermes, openclaw, place_of_boxes, run
from scripted_model import ScriptedModel, Step
from test_confine import CLI, WALLS
from test_real_hosts import set_up_hermes, set_up_openclaw

pytestmark = pytest.mark.host

DIALS = """
import socket
try:
    socket.create_connection(("127.0.0.1", {port}), timeout=5)
    print("GOT THROUGH")
except OSError as error:
    print("FAILED AS IT SHOULD:", error)
"""


@pytest.fixture
def box() -> Iterator[Box]:
    if not WALLS:
        pytest.skip("nobody here can make namespaces: not this user, and no bubblewrap")
    with a_box(place_of_boxes()) as made:
        yield made


def configure(box: Box, searxng: FakeSearxng, model: ScriptedModel) -> None:
    origin = model.url.removesuffix("/v1")
    box.configure(
        f'[searxng]\nurl = "{searxng.url}"\nper_minute = 0\n[engines.main]\nurl = "{origin}"\nengine = "openai"\n'
    )


def confined(box: Box, program: Program, *options: str) -> Program:
    """The host as a script that confines it, which `run` can start like the host itself."""
    script = box.root / "confined-host"
    shown = ("--read", str(cache_folder()))  # where the hosts are, should that be below /tmp
    command = " ".join([*CLI, "confine", *shown, *options, "--", str(program.executable)])
    script.write_text(f'#!/bin/sh\ncd {box.root}/work\nexec {command} "$@"\n')
    script.chmod(0o700)
    (box.root / "work").mkdir(exist_ok=True)
    return Program(script, program.path)


def test_hermes_answers_by_our_search_and_by_no_other_way(box: Box) -> None:
    with FakeSearxng() as searxng, FakeSearxng() as outside:
        port = int(outside.url.rsplit(":", 1)[1])
        searxng.reply = outside.reply = answer(result(1))
        steps = (
            Step("sparksearch__web_search", {"query": "vllm mtp flag"}),
            Step("web_search", {"query": "past the gate"}),
            Step("terminal", {"command": f"curl -sS -m 5 {outside.url}/ || echo FAILED AS IT SHOULD"}),
            Step("execute_code", {"code": DIALS.format(port=port)}),
        )
        with ScriptedModel("sparksearch__web_search", *steps) as model:
            configure(box, searxng, model)
            set_up_hermes(box, model.url)
            (box.root / ".hermes" / ".env").write_text(f"SEARXNG_URL={outside.url}\n")
            ended = run(box, confined(box, hermes()), "chat", "-q", "Look it up.", "-Q", "--max-turns", "9", "--yolo")
        assert ended.code == 0, ended
        ours, own, shell, code = model.results
        assert "Snippet 1" in ours, ended
        assert outside.requests == [] and "Snippet 1" not in own, ended
        assert "FAILED AS IT SHOULD" in shell and "FAILED AS IT SHOULD" in code and "GOT THROUGH" not in code, ended
    (row,) = (row for row in box.rows() if row["tool"] == "web_search")
    assert row["sent"] == "vllm mtp flag" and row["confined"]


def test_openclaw_answers_by_our_search_under_confinement(box: Box) -> None:
    call = {"id": "sparksearch__web_search", "args": {"query": "vllm mtp flag"}}
    with FakeSearxng() as searxng, ScriptedModel("tool_call", call) as model:
        searxng.reply = answer(result(1))
        configure(box, searxng, model)
        set_up_openclaw(box, model.url)
        ended = run(box, confined(box, openclaw()), "agent", "exec", "Look it up.", "--json")
    assert ended.code == 0, ended
    assert "Snippet 1" in model.results[0], ended
    (row,) = (row for row in box.rows() if row["tool"] == "web_search")
    assert row["confined"] and json.dumps(row["sent"]) == '"vllm mtp flag"'
