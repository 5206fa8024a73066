"""What left before counts, through the gate: pieces of secrets, values that are known, budgets."""

from __future__ import annotations

from box import Box, Host
from fake_searxng import FakeSearxng

from sparkgate.policy.samples import fill

TOKEN = fill("ghp_{mixed:36}")
VALUE = fill("{mixed:12}-{mixed:14}")


def opened(box: Box, searxng: FakeSearxng, settings: str = "") -> Host:
    box.configure(f'[searxng]\nurl = "{searxng.url}"\n{settings}')
    host = box.host()
    host.initialize()
    return host


def test_the_piece_that_completes_a_secret_is_refused(box: Box, searxng: FakeSearxng) -> None:
    host = opened(box, searxng)
    assert host.search(f"first part {TOKEN[:20]}")["ok"]
    refused = host.search(f"second part {TOKEN[20:]}")
    assert refused["code"] == "blocked" and {"github-token", "joined-texts"} <= set(refused["rules"])
    assert len(searxng.queries()) == 1 and TOKEN[20:] not in str(refused)


def test_another_session_of_the_same_person_completes_nothing(box: Box, searxng: FakeSearxng) -> None:
    assert opened(box, searxng).search(f"first part {TOKEN[:20]}")["ok"]
    other = box.host()
    other.initialize()
    assert other.search(f"second part {TOKEN[20:]}")["code"] == "blocked"


def test_after_a_restart_of_the_gate_the_first_piece_is_remembered(box: Box, searxng: FakeSearxng) -> None:
    host = opened(box, searxng)
    assert host.search(f"first part {TOKEN[:20]}")["ok"]
    host.close()
    assert box.command("gate", "stop").returncode == 0
    again = box.host()
    again.initialize()
    assert again.search(f"second part {TOKEN[20:]}")["code"] == "blocked" and len(searxng.queries()) == 1


def test_a_value_of_the_environment_file_beside_the_configuration_does_not_leave(
    box: Box, searxng: FakeSearxng
) -> None:
    (box.config.parent / ".env").write_text(f"ZORP_TOKEN={VALUE}\n")
    host = opened(box, searxng)
    refused = host.search(f"why is {VALUE} refused")
    assert refused["code"] == "blocked" and "known-value" in refused["rules"] and VALUE not in str(refused)
    assert searxng.queries() == []


def test_a_budget_that_is_used_up_refuses_and_says_when_it_frees(box: Box, searxng: FakeSearxng) -> None:
    host = opened(box, searxng, "[policy]\nqueries_per_hour = 2\n")
    assert [host.search(f"query {number}")["ok"] for number in range(3)] == [True, True, False]
    refused = host.search("one more")
    assert "budget" in refused["rules"] and "queries" in refused["message"] and len(searxng.queries()) == 2


def test_code_of_an_unreleased_folder_does_not_leave(box: Box, searxng: FakeSearxng) -> None:
    folder = box.root / "secret"
    folder.mkdir()
    code = "def quillRank(tallow, brine):\n    return tallow.gate(brine) * quillSkew + tallowFloor - brineCap * 3\n"
    (folder / "rank.py").write_text(code * 1 + "quillSkew = 7\ntallowFloor = 2\nbrineCap = 4\n")
    host = opened(box, searxng, f'[policy]\nunreleased = ["{folder}"]\n')
    refused = host.search("return tallow.gate(brine) * quillSkew + tallowFloor - brineCap")
    assert refused["code"] == "blocked" and "unreleased-code" in refused["rules"]
    assert host.search("how does a gate rank in python")["ok"]
