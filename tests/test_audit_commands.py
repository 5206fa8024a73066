"""`sparkgate audit` as a person and a script use it, and the agent's own view, over one log of a real gate."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from box import Box, Host, a_box
from fake_searxng import FakeSearxng

from sparkgate.policy.samples import fill
from sparkgate.policy.trail.when import NotAMoment, moment_us, seconds_of

TOKEN = fill("hf_{mixed:34}")
NOW = datetime(2026, 11, 30, 10, 0, tzinfo=timezone(timedelta(hours=1)))


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Box, Host]]:
    """A gate that was asked five things: one clean, one redacted, two blocked, one clean."""
    with a_box() as box, FakeSearxng() as searxng:
        box.use(searxng.url)
        host = box.host()
        host.initialize(name="hermes")
        host.search("vllm gated model")
        host.search("why does jane.roe@alder.com bounce")
        host.search(f"why is {TOKEN} refused")
        host.search(f"decode {TOKEN.encode().hex()}")
        host.search("nvfp4 on spark")
        yield box, host


@pytest.fixture
def box(opened: tuple[Box, Host]) -> Box:
    return opened[0]


def lines(box: Box, *arguments: str, text: str = "", code: int = 0) -> list[str]:
    ran = box.command("audit", *arguments, text=text)
    assert ran.returncode == code, ran.stderr
    return ran.stdout.splitlines()


def found(box: Box, *arguments: str, text: str = "") -> list[Any]:
    rows: list[Any] = json.loads("\n".join(lines(box, *arguments, "--json", text=text)))
    return rows


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ((), [5, 4, 3, 2, 1]),
        (("--limit", "2"), [5, 4]),
        (("--verdict", "block"), [4, 3]),
        (("--rule", "email-address"), [2]),
        (("--class", "secret", "--limit", "1"), [4]),
        (("--host", "hermes", "--tool", "web_search", "--destination", "searxng"), [5, 4, 3, 2, 1]),
        (("--host", "nobody"), []),
        (("--outcome", "withheld"), [4, 3]),
        (("--since", "2h"), [5, 4, 3, 2, 1]),
        (("--until", "2h"), []),
        (("--since", "yesterday", "--verdict", "redact"), [2]),
    ],
)
def test_list_shows_the_rows_that_are_meant_the_newest_first(
    box: Box, arguments: tuple[str, ...], ids: list[int]
) -> None:
    assert [row["id"] for row in found(box, "list", *arguments)] == ids


def test_a_moment_that_is_none_is_refused_with_those_there_are(box: Box) -> None:
    ran = box.command("audit", "list", "--since", "tomorrowish")
    assert ran.returncode == 2
    assert "'tomorrowish' is no moment; write one such as 45m, 2h, 7d, today, yesterday" in ran.stderr


def test_list_is_a_table_that_fits_the_terminal(box: Box) -> None:
    shown = lines(box, "list")
    assert all(len(line) <= 80 for line in shown)
    assert "vllm gated model" in " ".join(" ".join(shown).split())


def test_find_finds_what_was_sent_by_its_words(box: Box) -> None:
    assert [row["id"] for row in found(box, "find", "MODEL gated")] == [1]
    assert found(box, "find", "jane") == []
    assert lines(box, "find", "jane") == ["nothing with these words has left"]


def test_find_finds_a_withheld_value_without_keeping_it(box: Box) -> None:
    rows = found(box, "find", "--value-stdin", text=f"{TOKEN}\n")
    assert [(row["id"], row["how"]) for row in rows] == [(4, "in hex"), (3, "as it is")]
    assert [row["id"] for row in found(box, "find", "--value-stdin", text="jane.roe@alder.com")] == [2]
    assert found(box, "find", "--value-stdin", text="another") == []


def test_a_value_is_not_taken_from_the_command_line(box: Box) -> None:
    assert box.command("audit", "find").returncode == 2
    assert box.command("audit", "find", "x", "--value-stdin").returncode == 2


def test_show_tells_one_row_in_words(box: Box) -> None:
    told = " ".join(lines(box, "show", "2"))
    assert "called web_search." in told and "left: why does [email] bounce" in told
    assert "Rule email-address (pii) matched." in told and "Outcome: answered with status 200" in told
    assert re.search(r"The decision took [\d.]+ ms under policy [0-9a-f]{16}\.", told)
    assert "Nothing left: it was blocked." in " ".join(lines(box, "show", "3"))


def test_a_row_that_is_not_there_is_said_to_be_none(box: Box) -> None:
    ran = box.command("audit", "show", "99")
    assert ran.returncode == 1 and "there is no row 99" in ran.stderr


def test_stats_count_by_day_tool_host_and_rule(box: Box) -> None:
    told: Any = found(box, "stats")
    assert told["rows"] == 5 and told["blocked_share"] == 0.4
    assert told["verdicts"] == {"allow": 2, "redact": 1, "block": 2}
    assert told["tools"] == {"web_search": {"allow": 2, "redact": 1, "block": 2}}
    assert told["rules"] == {"huggingface-token": 2, "email-address": 1}
    assert [one["id"] for one in told["slowest"]] == [
        row["id"] for row in sorted(found(box, "list"), key=lambda row: -detail(box, row["id"])["decision_us"])
    ]
    shown = lines(box, "stats")
    assert shown[0] == "5 rows: 2 left as they were, 1 left redacted, 2 blocked (40.0 % blocked)"
    assert any("█" in line for line in shown)
    assert found(box, "stats", "--verdict", "block")["rules"] == {"huggingface-token": 2}  # type: ignore[call-overload]


def detail(box: Box, row: int) -> dict[str, Any]:
    told: Any = found(box, "show", str(row))
    return dict(told)


def test_verify_proves_the_log_and_says_where_it_ends(box: Box) -> None:
    told: Any = found(box, "verify")
    assert told["intact"] and told["records"] == told["head"]["seq"] == 1 + 5 + 5
    assert lines(box, "verify")[-1].startswith("intact: 11 records")
    head = f"{told['head']['seq']}:{told['head']['mac']}"
    assert found(box, "verify", "--head", head)["intact"]  # type: ignore[call-overload]
    assert box.command("audit", "verify", "--head", "what").returncode == 2


@pytest.fixture
def own() -> Iterator[tuple[Box, Host]]:
    """A box for a test that asks more, with one question asked."""
    with a_box() as box, FakeSearxng() as searxng:
        box.use(searxng.url)
        host = box.host()
        host.initialize(name="hermes")
        host.search("a first question")
        yield box, host


def test_follow_shows_each_row_as_it_ends(own: tuple[Box, Host]) -> None:
    box, host = own
    argv = [sys.executable, "-m", "sparkgate.clients.cli", "audit", "list", "--follow", "--json", "--limit", "1"]
    follower = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=box.environment)
    with closing(follower.stdout) as told:  # type: ignore[type-var]
        assert told is not None
        first = json.loads(told.readline())
        host.search("a late question")
        late = json.loads(told.readline())
        assert (late["id"], late["sent"], late["outcome"]) == (first["id"] + 1, "a late question", "answered")
    follower.terminate()
    follower.wait()


def test_an_agent_sees_the_rows_of_its_own_session_and_no_others(own: tuple[Box, Host]) -> None:
    box, _ = own
    other = box.host()
    other.initialize(name="other")
    assert other.call("outbound_log", {}) == {"ok": True, "shown": "0 of 0", "rows": []}
    other.search("one of the other")
    other.search(f"and {TOKEN}")
    told = other.call("outbound_log", {"limit": 5})
    assert told["shown"] == "2 of 2"
    assert [row.get("sent", "") for row in told["rows"]] == ["", "one of the other"]
    assert told["rows"][0]["rules"] == ["huggingface-token"] and TOKEN not in json.dumps(told)
    blocked = other.call("outbound_log", {"verdict": "block"})
    assert [row["verdict"] for row in blocked["rows"]] == ["block"]
    other.close()


def test_before_anything_was_asked_the_commands_say_so() -> None:
    with a_box() as empty:
        assert lines(empty, "list") == ["nothing has been asked to leave yet"]
        assert found(empty, "list") == []
        for command in (("stats",), ("find", "x"), ("show", "1"), ("verify",)):
            ran = empty.command("audit", *command)
            assert ran.returncode == 1 and "there is no log" in ran.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", NOW - timedelta(seconds=90)),
        ("2h", NOW - timedelta(hours=2)),
        ("7d ago", NOW - timedelta(days=7)),
        ("2w", NOW - timedelta(days=14)),
        ("today", NOW.replace(hour=0)),
        ("Yesterday", NOW.replace(day=29, hour=0)),
        ("2026-11-28", NOW.replace(day=28, hour=0)),
        ("2026-11-28T10:15", NOW.replace(day=28, hour=10, minute=15)),
        ("2026-11-28T10:15Z", datetime(2026, 11, 28, 10, 15, tzinfo=UTC)),
    ],
)
def test_moments_are_read_as_people_say_them(text: str, expected: datetime) -> None:
    assert moment_us(text, NOW) == int(expected.timestamp() * 1e6)


@pytest.mark.parametrize("text", ["", "soon", "2", "2x", "-2h", "2026-13-01"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(NotAMoment):
        moment_us(text, NOW)
    with pytest.raises(NotAMoment):
        seconds_of(text)
