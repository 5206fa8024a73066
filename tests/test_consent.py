"""Where the policy wants a person to be asked, the host asks, and without a yes nothing leaves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from box import Box, Host
from fake_searxng import FakeSearxng

MAIL = "jane.roe@alder-bank.com"
CLIENT = {"name": "asking", "version": "1"}


def asked_about(host: Host, query: str, reply: dict[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """The question that the host was asked while it searched ("" when none), and the answer of the tool."""
    capabilities: dict[str, Any] = {} if reply is None else {"elicitation": {}}
    told = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": CLIENT}
    host.ask("initialize", told)
    host.send("notifications/initialized", notify=True)
    wanted, question = host.send("tools/call", {"name": "web_search", "arguments": {"query": query}}), ""
    while (message := host.read()).get("id") != wanted or "method" in message:
        if message.get("method") == "elicitation/create":
            question = message["params"]["message"]
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": reply}
            host.send_bytes(json.dumps(answer).encode() + b"\n")
    return question, dict(message["result"]["structuredContent"])


@pytest.fixture
def asking(box: Box, searxng: FakeSearxng) -> Host:
    """A host whose operator wants to be asked about addresses."""
    box.use(searxng.url)
    (box.config.parent / "profiles.toml").write_text('[[profile]]\nemail-address = "ask"\n')
    return box.host()


def test_a_yes_lets_the_text_leave_and_the_log_says_who_agreed(asking: Host, box: Box, searxng: FakeSearxng) -> None:
    question, answer = asked_about(asking, f"who is {MAIL}", {"action": "accept", "content": {"send": True}})
    assert f"who is {MAIL}" in question and "email-address" in question
    assert answer["ok"] and searxng.queries() == [f"who is {MAIL}"]
    (row,) = [row for row in box.rows() if row["tool"] == "web_search"]
    assert row["sent"] == f"who is {MAIL}" and "person-agreed" in str(row["findings"])


@pytest.mark.parametrize(
    "reply", [{"action": "accept", "content": {"send": False}}, {"action": "decline"}, {"action": "cancel"}]
)
def test_every_answer_but_a_yes_is_a_no(reply: dict[str, Any], asking: Host, searxng: FakeSearxng) -> None:
    question, answer = asked_about(asking, f"who is {MAIL}", reply)
    assert question and answer["code"] == "blocked" and MAIL not in str(answer) and searxng.queries() == []


def test_a_host_that_cannot_ask_is_told_no(asking: Host, searxng: FakeSearxng) -> None:
    question, answer = asked_about(asking, f"who is {MAIL}", None)
    assert (question, answer["code"], answer["classes"]) == ("", "blocked", ["pii"]) and searxng.queries() == []


def test_nobody_is_asked_about_what_may_leave_anyway(asking: Host, searxng: FakeSearxng) -> None:
    question, answer = asked_about(asking, "vllm on a spark", {"action": "decline"})
    assert (question, answer["ok"]) == ("", True) and searxng.queries() == ["vllm on a spark"]
