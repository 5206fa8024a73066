"""Which agent asked: what hosts say of a call in `_meta` is in its row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from box import Box
from fake_searxng import FakeSearxng

from sparkgate.asked_by import call_ids

CODEX = {"session_id": "s-1", "thread_id": "t-2", "turn_id": "u-3", "model": "gpt-x", "cwd": "/home/jane"}
METAS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "Claude Code": ({"claudecode/toolUseId": "toolu_01", "progressToken": 7}, {"tool_use": "toolu_01"}),
    "Codex": (
        {"x-codex-turn-metadata": CODEX, "callId": "call_9"},
        {"call": "call_9", "host_session": "s-1", "thread": "t-2", "turn": "u-3", "model": "gpt-x"},
    ),
    "Codex, as text": (
        {"x-codex-turn-metadata": json.dumps(CODEX)},
        {"host_session": "s-1", "thread": "t-2", "turn": "u-3", "model": "gpt-x"},
    ),
    "nothing": ({}, {}),
    "other things": ({"traceparent": "00-1", "x": {"y": 1}, "callId": ["a"], "x-codex-turn-metadata": 5}, {}),
    "hostile": (
        {"callId": "a\nb\x1b[31m\u202e" + "c" * 500, "x-codex-turn-metadata": "[" * 5000},
        {"call": "a…"},
    ),
}


@pytest.mark.parametrize("host", METAS)
def test_ids_of_a_call_are_kept_by_name_in_short_and_nothing_else(host: str) -> None:
    meta, wanted = METAS[host]
    assert call_ids(meta) == wanted


def test_the_ids_of_a_call_stand_in_its_row_and_in_its_story(box: Box, searxng: FakeSearxng) -> None:
    box.use(searxng.url)
    host = box.host()
    host.initialize(name="codex")
    meta = {"x-codex-turn-metadata": CODEX, "callId": "call_9"}
    host.ask("tools/call", {"name": "web_search", "arguments": {"query": "llamas"}, "_meta": meta})
    assert box.rows()[-1]["call_ids"]["turn"] == "u-3"
    story = box.command("audit", "show", "1").stdout
    assert "thread t-2" in story and "call call_9" in story
    assert json.loads(box.command("audit", "verify", "--json").stdout)["intact"]
