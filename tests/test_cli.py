"""The command line through its real entry point, in a box."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from box import Box, a_box
from fake_searxng import FakeSearxng, answer, result
from fake_web import FakeWeb, html

from sparkgate.clients.cli import COMMANDS
from sparkgate.clients.hosts import HOSTS
from sparkgate.policy.samples import fill

TOKEN = fill("hf_{mixed:34}")


@pytest.fixture(scope="module")
def used() -> Iterator[tuple[Box, FakeSearxng]]:
    """A box in which three searches have been made from the terminal."""
    with a_box() as box, FakeSearxng() as searxng:
        box.use(searxng.url)
        for query in ("plain words", "cat /home/jane/x.py", f"is {TOKEN} valid"):
            box.command("search", query)
        yield box, searxng


def test_help_lists_every_command_with_a_sentence(box: Box) -> None:
    text = box.command("--help").stdout
    assert all(f"\n  {name} " in text for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_text_with_an_example(box: Box, name: str) -> None:
    run = box.command(name, "--help")
    assert run.returncode == 0 and "Usage:" in run.stdout
    for line in run.stdout.partition("Commands:")[2].splitlines():
        if line.strip():
            assert box.command(name, line.split()[0], "--help").returncode == 0


def test_a_mistyped_command_or_option_is_usage(box: Box) -> None:
    assert box.command("serch").returncode == 2
    assert box.command("search", "x", "--max-result", "3").returncode == 2


def test_search_prints_for_people_and_for_programs(used: tuple[Box, FakeSearxng]) -> None:
    box, _ = used
    run = box.command("search", "words", "-n", "1")
    assert run.returncode == 0 and "Result 1" in run.stdout and "1 of 3" in run.stdout
    assert json.loads(box.command("search", "words", "--json").stdout)["ok"]


def test_a_blocked_search_exits_1_and_says_why_without_the_value(used: tuple[Box, FakeSearxng]) -> None:
    box, _ = used
    run = box.command("search", TOKEN)
    assert run.returncode == 1 and "blocked" in run.stderr and TOKEN not in run.stdout + run.stderr


def test_search_tells_of_failed_engines(used: tuple[Box, FakeSearxng]) -> None:
    box, searxng = used
    searxng.reply = answer(unresponsive_engines=[["alpha", "timeout"]])
    run = box.command("search", "words")
    searxng.reset()
    assert run.returncode == 1 and "alpha (timeout)" in run.stderr


def test_search_reads_the_page_of_a_result(used: tuple[Box, FakeSearxng]) -> None:
    box, searxng = used
    before = box.config.read_text()
    with FakeWeb() as web:
        box.configure(f'{before}\n[pages]\ninner = ["{web.url}"]\n')
        web.pages["/docs"] = html("<h1>Flags</h1><p>Speculative decoding is switched on with a flag.</p>")
        searxng.reply = answer(result(1, url=f"{web.url}/none"), result(2, url=f"{web.url}/docs"))
        run = box.command("search", "a flag", "--read", "2")
        told = json.loads(box.command("search", "a flag", "--read", "2", "--json").stdout)
        missing, beyond = (box.command("search", "a flag", "--read", number) for number in "13")
        fetched = box.command("search", "a flag", "--fetch-top", "2")
    searxng.reset()
    box.configure(before)
    assert run.returncode == 0 and "switched on with a flag" in run.stdout and "characters 1 to" in run.stdout
    assert told["ok"] and "switched on with a flag" in told["text"] and told["kind"] == "html"
    assert (missing.returncode, beyond.returncode) == (1, 1)
    assert "not_found" in missing.stderr and "there is no page 3" in beyond.stderr
    assert "switched on with a flag" in fetched.stdout


def test_audit_list_has_the_promised_keys_newest_first(used: tuple[Box, FakeSearxng]) -> None:
    box, _ = used
    rows = json.loads(box.command("audit", "list", "--limit", "100", "--json").stdout)
    assert [row["id"] for row in rows] == sorted((row["id"] for row in rows), reverse=True)
    first = rows[-1]
    assert list(first) == [
        "id", "at", "session", "host", "tool", "destination", "verdict", "sent", "fields", "findings", "outcome",
    ]  # fmt: skip
    assert (first["host"], first["tool"], first["destination"]) == ("sparkgate-cli", "web_search", "searxng")
    assert [row["verdict"] for row in rows[-3:]] == ["block", "redact", "allow"]
    assert len(json.loads(box.command("audit", "list", "--limit", "2", "--json").stdout)) == 2


def test_audit_list_is_a_table_of_what_left(used: tuple[Box, FakeSearxng]) -> None:
    box, _ = used
    text = box.command("audit", "list", "--limit", "100").stdout
    assert "plain words" in text and "redact" in text and "withheld" in text
    assert TOKEN not in text and "jane" not in text


def test_audit_show_tells_one_row_in_words(used: tuple[Box, FakeSearxng]) -> None:
    box, _ = used
    assert "sparkgate-cli" in box.command("audit", "show", "1").stdout
    assert "Nothing left: it was blocked." in box.command("audit", "show", "3").stdout
    assert json.loads(box.command("audit", "show", "2", "--json").stdout)["sent"] == "cat [home path]/x.py"
    assert box.command("audit", "show", "999").returncode == 1


def test_audit_of_a_new_box_is_empty_and_makes_no_file(box: Box) -> None:
    assert box.command("audit", "list", "--json").stdout.strip() == "[]"
    assert not box.state.exists()


@pytest.mark.parametrize(
    ("text", "verdict", "code"), [("plain words", "allow", 0), ("cat /home/jane/x", "redact", 0), (TOKEN, "block", 1)]
)
def test_policy_check_decides_without_sending_or_logging(box: Box, text: str, verdict: str, code: int) -> None:
    run = box.command("policy", "check", text, "--json")
    decision = json.loads(run.stdout)
    assert (decision["verdict"], run.returncode) == (verdict, code)
    assert (decision["text"] == text) == (verdict == "allow")
    assert box.command("policy", "check", text).returncode == code
    assert box.command("policy", "check", "--json", text=text).returncode == code
    assert not box.state.exists()


def test_policy_check_can_take_searxngs_syntax_out_as_a_search_does(box: Box) -> None:
    plain = json.loads(box.command("policy", "check", "!so x :de", "--json").stdout)
    assert (plain["verdict"], plain["text"]) == ("allow", "!so x :de")
    searched = json.loads(box.command("policy", "check", "!so x :de", "--searxng", "--json").stdout)
    assert (searched["verdict"], searched["text"]) == ("redact", 'so x ":de"')
    assert box.command("policy", "check", "!!g x", "--searxng").returncode == 1


def test_policy_check_explains_the_rule(box: Box) -> None:
    text = box.command("policy", "check", "--explain", f"is {TOKEN} valid").stdout
    assert "huggingface-token (secret, block) at 3–40" in text.replace("\n", " ") and TOKEN not in text


def test_policy_check_jsonl_answers_line_by_line_in_the_stable_form(box: Box) -> None:
    cases = [
        {"id": "a", "text": "plain 🙂 words", "kind": "query", "session": "s"},
        {"id": "b", "text": "🙂 cat /home/jane/x.py", "kind": "text"},
        {"id": "c", "text": TOKEN},
    ]
    run = box.command("policy", "check", "--jsonl", text="\n".join(map(json.dumps, cases)) + "\n\n")
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert [(one["id"], one["verdict"]) for one in answers] == [("a", "allow"), ("b", "redact"), ("c", "block")]
    assert answers[0]["text"] == cases[0]["text"] and answers[2]["text"] == ""
    finding = answers[1]["findings"][0]
    assert cases[1]["text"][finding["start"] : finding["end"]] == "/home/jane"
    assert set(finding) == {"rule", "class", "start", "end"} and all(one["ms"] >= 0 for one in answers)


def test_policy_check_jsonl_refuses_a_line_that_is_no_case(box: Box) -> None:
    run = box.command("policy", "check", "--jsonl", text="not json\n")
    assert run.returncode == 1 and '{"id": 1, "text": "…"}' in run.stderr


def test_policy_rules_and_their_examples_hold(box: Box) -> None:
    listed = json.loads(box.command("policy", "rules", "--json").stdout)
    assert len(listed) > 100 and all(set(one) == {"id", "class", "verdict", "why", "source"} for one in listed)
    assert json.loads(box.command("policy", "test", "--json").stdout) == {"rules": len(listed), "failures": []}


def test_an_operators_rule_is_used_and_its_examples_are_tested(box: Box) -> None:
    rules = box.config.parent / "rules"
    rules.mkdir()
    text = """[[rule]]
id = "ticket"
class = "client"
verdict = "redact"
keywords = ["tick-"]
pattern = '''TICK-\\d+'''
replacement = "[ticket]"
why = "Ticket numbers name a client."
source = "our tracker"
leaks = ["see TICK-123"]
clean = ["tick-tock"]
"""
    (rules / "mine.toml").write_text(text)
    assert json.loads(box.command("policy", "check", "see TICK-9", "--json").stdout)["text"] == "see [ticket]"
    (rules / "mine.toml").write_text(text.replace("see TICK-123", "see ticket"))
    run = box.command("policy", "test")
    assert run.returncode == 1 and "ticket: leak 1 is not caught by it" in run.stdout


def test_config_shows_every_setting_and_where_it_comes_from(box: Box) -> None:
    box.configure('[searxng]\nurl = "http://127.0.0.1:1"\n')
    rows = {row["key"]: row for row in json.loads(box.command("config", "--json").stdout)}
    assert rows["searxng.url"]["origin"] == f"{box.config}:2"
    assert rows["gate.idle_minutes"]["origin"] == "default" and rows["gate.idle_minutes"]["unit"] == "min"
    assert "searxng.url" in box.command("config").stdout


@pytest.mark.parametrize("command", [("config",), ("policy", "check", "x"), ("searxng", "up")])
def test_a_typo_in_the_configuration_is_named_by_every_command(box: Box, command: tuple[str, ...]) -> None:
    box.configure("[gate]\nidle_minute = 3\n")
    run = box.command(*command)
    assert run.returncode == 1 and "config.toml:2: gate.idle_minute" in run.stderr
    assert "did you mean 'idle_minutes'" in run.stderr and "Traceback" not in run.stderr


@pytest.mark.parametrize("name", ["hermes", "openclaw", "codex", "goose"])
def test_register_prints_an_entry_that_starts_the_server(box: Box, name: str) -> None:
    """One host of each notation; every host's text is read again in test_hosts.py."""
    run = box.command("register", "--print", name)
    assert sys.executable in run.stdout and "sparkgate.stdio" in run.stdout
    assert HOSTS[name].title in run.stderr and HOSTS[name].after in run.stderr
    elsewhere = box.command("register", "--print", name, "--config", str(box.root / "my.toml"))
    assert str(box.root / "my.toml") in elsewhere.stdout and "--config" not in run.stdout


def test_register_prints_the_engine_server_when_there_are_engines(box: Box) -> None:
    assert "sparkengine" not in box.command("register", "--print", "hermes").stdout
    box.configure('[engines.main]\nurl = "http://127.0.0.1:8000"\n')
    servers = json.loads(box.command("register", "--print", "openclaw").stdout)["mcp"]["servers"]
    assert list(servers) == ["sparksearch", "sparkengine", "sparkbench"]
    assert "engine" in servers["sparkengine"]["args"] and "bench" in servers["sparkbench"]["args"]


def test_the_entry_for_openclaw_is_json_as_it_stands(box: Box) -> None:
    entry = json.loads(box.command("register", "--print", "openclaw").stdout)["mcp"]["servers"]["sparksearch"]
    host = box.host(entry["command"], *entry["args"])
    assert host.initialize()["serverInfo"]["name"] == "sparksearch"


@pytest.mark.parametrize("extra", [(), ("--in-process",)])
def test_serve_is_the_stdio_server(box: Box, searxng: FakeSearxng, extra: tuple[str, ...]) -> None:
    box.use(searxng.url)
    host = box.host(sys.executable, "-I", "-m", "sparkgate.clients.cli", "serve", "search", *extra)
    host.initialize()
    assert host.search("words")["ok"]
    assert host.close() == 0
    assert len(box.gate_pids()) == (0 if extra else 1)
