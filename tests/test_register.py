"""`sparkgate register` and `unregister` on files of hosts, through the real command."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from box import Box
from register_box import CURSOR, FILES, OPENCLAW, copies, on_a_terminal, put, register, report, unregister

from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.entry import SERVER_NAMES
from sparkgate.clients.hosts.host import Where
from sparkgate.clients.registering.interpreter import is_temporary, passing
from sparkgate.clients.registering.values import at
from sparkgate.clients.splice import drop, read, where

pytestmark = pytest.mark.registering

ALL = ",".join(SERVER_NAMES)


@pytest.mark.parametrize("host", FILES)
def test_an_entry_goes_in_and_comes_out_and_no_other_byte_changes(box: Box, host: str) -> None:
    file = put(box, host)
    before = file.read_bytes()
    assert register(box, host, "--server", ALL).returncode == 0
    text = file.read_text()
    target = HOSTS[host].targets(Where(box.root, {}))[0]
    servers = at(read(text, target.format), target.key)
    assert list(servers) == ["other", *SERVER_NAMES.values()]
    assert sys.executable in servers["sparksearch"]["command"]
    for server in reversed(SERVER_NAMES.values()):
        assert where(text, target.format, (*target.key, server))
        text = drop(text, target.format, (*target.key, server)).text
    assert text.encode() == before
    assert unregister(box, host).returncode == 0
    assert file.read_bytes() == before


@pytest.mark.parametrize("host", FILES)
def test_a_second_register_writes_nothing(box: Box, host: str) -> None:
    file = put(box, host)
    register(box, host)
    state, record = file.stat(), (box.state / "registrations.json").stat()
    again = register(box, host, "--json")
    assert again.returncode == 0 and report(again)["servers"] == {"sparksearch": "same"}
    assert not report(again)["changed"] and len(copies(box.state, file)) == 1
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (state.st_mtime_ns, state.st_ino)
    assert (box.state / "registrations.json").stat().st_ino == record.st_ino


def test_a_dry_run_shows_the_change_without_secrets_and_tells_by_its_exit_code(box: Box) -> None:
    file = put(box, "openclaw")
    run = register(box, "openclaw", "--dry-run", yes=False)
    assert run.returncode == 2 and "+" in run.stdout and "sparkgate.stdio" in run.stdout
    assert "abcd-efgh-1234-5678" not in run.stdout and "OTHER_API_KEY" in run.stdout
    assert file.read_text() == OPENCLAW and copies(box.state, file) == [] and not box.state.exists()
    register(box, "openclaw")
    assert register(box, "openclaw", "--dry-run", yes=False).returncode == 0
    assert box.command("unregister", "--host", "openclaw", "--dry-run").returncode == 2
    assert "sparksearch" in file.read_text()


def test_nothing_is_written_before_somebody_says_yes(box: Box) -> None:
    file = put(box, "cursor")
    assert box.command("register", "--host", "cursor", "--any-interpreter", "--json").returncode == 2
    silent = box.command("register", "--host", "cursor", "--any-interpreter")
    no = box.command("register", "--host", "cursor", "--any-interpreter", text="n\n")
    assert (silent.returncode, no.returncode) == (1, 1) and "--yes" in silent.stderr
    assert file.read_text() == CURSOR
    assert box.command("register", "--host", "cursor", "--any-interpreter", text="y\n").returncode == 0
    assert "sparksearch" in file.read_text()


def test_which_servers_are_registered_follows_the_configuration(box: Box) -> None:
    put(box, "cursor")
    assert list(report(register(box, "cursor", "--dry-run", "--json"))["servers"]) == ["sparksearch"]
    box.configure('[engines.main]\nurl = "http://127.0.0.1:8000"\n')
    assert list(report(register(box, "cursor", "--dry-run", "--json"))["servers"]) == [*SERVER_NAMES.values()]
    assert list(report(register(box, "cursor", "--dry-run", "--json", "--server", "bench"))["servers"]) == [
        "sparkbench"
    ]
    assert register(box, "cursor", "--server", "serch").returncode == 2
    assert box.command("register").returncode == 2


def test_what_a_user_adds_to_our_entry_stays_through_an_update(box: Box) -> None:
    file = put(box, "openclaw")
    register(box, "openclaw")
    mine = 'sparksearch: { enabled: false, env: { MINE: "1" },'
    file.write_text(file.read_text().replace("sparksearch: {", mine))
    old = file.read_text()
    assert register(box, "openclaw", "--config", str(box.root / "other.toml"), "--json").returncode == 0
    entry = read(file.read_text(), "json5")["mcp"]["servers"]["sparksearch"]
    assert entry["enabled"] is False and entry["env"] == {"MINE": "1"}
    assert entry["args"][-2:] == ["--config", str(box.root / "other.toml")]
    assert register(box, "openclaw").returncode == 0 and file.read_text() == old


def test_what_a_user_changes_in_our_entry_stays_until_replaced(box: Box) -> None:
    file = put(box, "openclaw")
    register(box, "openclaw")
    written = file.read_text()
    file.write_text(written.replace("120000", "300000"))
    run = register(box, "openclaw", "--config", str(box.root / "other.toml"), "--json")
    told = report(run)
    assert run.returncode == 0 and told["servers"] == {"sparksearch": "update"}
    assert "requestTimeoutMs" in told["why"] and "other.toml" in file.read_text() and "300000" in file.read_text()
    kept = report(register(box, "openclaw", "--config", str(box.root / "other.toml"), "--json"))
    assert kept["servers"] == {"sparksearch": "keep"} and not kept["changed"]
    assert register(box, "openclaw", "--replace").returncode == 0 and file.read_text() == written


def test_a_foreign_entry_of_our_name_is_refused_until_replaced(box: Box) -> None:
    text = '{"mcpServers": {"sparksearch": {"command": "theirs"}}}'
    file = put(box, "cursor", text)
    run = register(box, "cursor", "--server", "search,engine", "--json")
    told = report(run)
    assert run.returncode == 1 and told["servers"] == {"sparksearch": "refuse", "sparkengine": "add"}
    assert "not sparkgate's" in told["why"] and "--replace" in told["why"] and file.read_text() == text
    assert unregister(box, "cursor").returncode == 1 and file.read_text() == text
    assert register(box, "cursor", "--replace").returncode == 0
    assert json.loads(file.read_text())["mcpServers"]["sparksearch"]["command"] == sys.executable
    other = ("--config", str(box.root / "other.toml"))
    assert register(box, "cursor", *other).returncode == 0 and register(box, "cursor").returncode == 0
    told = report(unregister(box, "cursor", "--json"))
    assert file.read_text() == text and "is there again" in told["why"] and "theirs" not in told["diff"]


def test_an_entry_that_was_pasted_is_taken_as_ours(box: Box) -> None:
    printed = box.command("register", "--print", "cursor").stdout
    file = put(box, "cursor", printed)
    assert report(register(box, "cursor", "--json"))["servers"] == {"sparksearch": "same"}
    (box.state / "registrations.json").unlink()
    file.write_text(printed.replace('"search",', '"search", "--mine",'))
    assert report(register(box, "cursor", "--json"))["servers"] == {"sparksearch": "keep"}
    assert unregister(box, "cursor").returncode == 0
    assert json.loads(file.read_text())["mcpServers"] == {}


def test_doors_are_closed_when_asked_for_and_opened_again_as_they_were(box: Box) -> None:
    for host in ("openclaw", "hermes"):
        file = put(box, host)
        before = file.read_bytes()
        left = report(register(box, host, "--json", "--dry-run"))
        assert [one["state"] for one in left["doors"] if one["code"] == "web_tools"] == ["open"]
        closed = report(register(box, host, "--json", "--close-doors"))
        assert [one["state"] for one in closed["doors"] if one["code"] == "web_tools"] == ["closed"]
        assert "memory" in file.read_text() and "web" in file.read_text()
        again = report(register(box, host, "--json", "--close-doors"))
        assert not again["changed"] and "web_tools" not in [one["code"] for one in again["doors"]]
        assert unregister(box, host).returncode == 0 and file.read_bytes() == before


def test_a_door_that_the_user_has_changed_since_stays_as_it_is(box: Box) -> None:
    file = put(box, "openclaw")
    register(box, "openclaw", "--close-doors")
    file.write_text(file.read_text().replace('"group:web"', '"group:web", "browser"'))
    told = report(unregister(box, "openclaw", "--json"))
    assert "tools.deny has been changed since" in told["why"]
    assert read(file.read_text(), "json5")["tools"]["deny"] == ["memory", "group:web", "browser"]
    assert "sparksearch" not in file.read_text()


def test_doors_in_another_file_of_the_host_are_closed_there(box: Box) -> None:
    _claude(box)
    settings = box.root / ".claude" / "settings.json"
    before = '{\n  "permissions": {"deny": ["Bash(curl:*)"]}\n}\n'
    settings.write_text(before)
    assert register(box, "claude_code", "--close-doors").returncode == 0
    assert json.loads(settings.read_text())["permissions"]["deny"] == ["Bash(curl:*)", "WebSearch", "WebFetch"]
    assert unregister(box, "claude_code").returncode == 0 and settings.read_text() == before


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{\n  "mcpServers": {,}\n}', "mcp.json:2:18: "),
        (b'{\n  "a": "\xff"\n}', "mcp.json:2:9: not UTF-8"),
        (b'{"mcpServers": []}', "mcp.json:1:"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_place(box: Box, data: bytes, said: str) -> None:
    file = put(box, "cursor", data)
    run = register(box, "cursor")
    assert run.returncode == 1 and said in run.stdout and "Traceback" not in run.stderr
    assert file.read_bytes() == data and copies(box.state, file) == []
    assert unregister(box, "cursor").returncode in (0, 1) and file.read_bytes() == data


def test_a_host_that_is_not_installed_gets_no_folder(box: Box) -> None:
    run = register(box, "cursor")
    assert run.returncode == 1 and "not installed" in run.stdout
    assert not (box.root / ".cursor").exists()
    assert box.command("register", "--all-detected", "--yes", "--any-interpreter").returncode == 1


def test_a_missing_file_is_made_and_goes_again_unless_somebody_else_has_used_it(box: Box) -> None:
    file = box.root / ".cursor" / "mcp.json"
    file.parent.mkdir()
    register(box, "cursor")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert unregister(box, "cursor").returncode == 0 and not file.exists()
    register(box, "cursor")
    data = json.loads(file.read_text())
    data["mcpServers"]["other"] = {"command": "other"}
    file.write_text(json.dumps(data))
    assert unregister(box, "cursor").returncode == 0
    assert json.loads(file.read_text())["mcpServers"] == {"other": {"command": "other"}}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.rstrip("\n").encode(),
    ],
    ids=["CRLF", "BOM", "no last line end"],
)
@pytest.mark.parametrize("host", ["hermes", "openclaw", "codex"])
def test_line_ends_and_byte_order_marks_stay(box: Box, host: str, change: object) -> None:
    assert callable(change)
    file = put(box, host, change(FILES[host][1]))
    before = file.read_bytes()
    assert register(box, host).returncode == 0
    after = file.read_bytes()
    assert after.startswith(b"\xef\xbb\xbf") == before.startswith(b"\xef\xbb\xbf")
    assert (after.count(b"\r\n") == after.count(b"\n")) == (b"\r\n" in before)
    unregister(box, host)
    assert file.read_bytes() == before


def test_a_symbolic_link_stays_one_and_modes_stay(box: Box) -> None:
    real = box.root / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    real.write_text(CURSOR)
    real.chmod(0o640)
    link = box.root / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to("../dotfiles/mcp.json")
    assert register(box, "cursor").returncode == 0
    assert link.is_symlink() and "sparksearch" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert stat.S_IMODE(copies(box.state, link)[0].stat().st_mode) == 0o600
    real.parent.chmod(0o777)
    run = unregister(box, "cursor")
    assert run.returncode == 1 and "others can write" in run.stdout and "sparksearch" in real.read_text()


def test_what_is_not_a_file_of_ours_is_refused(box: Box) -> None:
    file = put(box, "cursor")
    os.chown(file, 12345, 12345)
    assert "belongs to user 12345" in register(box, "cursor").stdout
    file.unlink()
    file.mkdir()
    run = register(box, "cursor")
    assert run.returncode == 1 and "is a folder" in run.stdout


def test_an_interpreter_in_a_temporary_folder_is_registered_with_a_word_about_it(box: Box) -> None:
    put(box, "cursor")
    run = box.command("register", "--host", "cursor", "--yes")
    assert run.returncode == 0
    assert ("temporary folder" in run.stderr) == is_temporary(sys.executable)


@pytest.mark.parametrize(
    ("path", "refused", "temporary"),
    [
        ("/home/j/.cache/uv/archive-v0/x1/bin/python", True, False),
        ("/home/j/.cache/uv/environments-v2/x/bin/python", True, False),
        ("/home/j/.local/pipx/.cache/x/bin/python", True, False),
        ("/home/j/app/.tox/py311/bin/python", True, False),
        ("/tmp/venv/bin/python", False, True),
        ("/private/var/folders/x/bin/python", False, True),
        ("/home/j/.venv/bin/python", False, False),
        ("/home/j/.local/share/uv/tools/sparkgate/bin/python", False, False),
        ("/home/j/.local/share/pipx/venvs/sparkgate/bin/python", False, False),
    ],
)
def test_an_interpreter_of_a_cache_is_refused(path: str, refused: bool, temporary: bool) -> None:
    assert (bool(passing(path)), is_temporary(path)) == (refused, temporary)


def test_restore_puts_the_newest_copy_back(box: Box) -> None:
    file = put(box, "cursor")
    none = box.command("register", "--restore", "--host", "cursor", "--yes")
    assert none.returncode == 1 and "there is no copy" in none.stdout
    register(box, "cursor")
    registered = file.read_text()
    assert box.command("register", "--restore", "--host", "cursor", "--dry-run").returncode == 2
    assert box.command("register", "--restore", "--host", "cursor", "--yes").returncode == 0
    assert file.read_text() == CURSOR and len(copies(box.state, file)) == 2
    assert "sparksearch" not in (box.state / "registrations.json").read_text()
    box.command("register", "--restore", "--host", "cursor", "--yes")
    assert file.read_text() == registered
    assert unregister(box, "cursor").returncode == 0 and file.read_text() == CURSOR


def test_status_tells_what_is_where(box: Box) -> None:
    file = put(box, "cursor")

    def state() -> tuple[int, object]:
        run = box.command("register", "--status", "--json")
        found = [one for one in json.loads(run.stdout) if one["host"] == "cursor"]
        return run.returncode, found[0]["servers"]

    assert state() == (0, {"sparksearch": "absent"})
    register(box, "cursor")
    assert state() == (0, {"sparksearch": "registered"})
    file.write_text(file.read_text().replace('"--host", "cursor"', '"--host", "mine"'))
    assert state() == (0, {"sparksearch": "edited"})
    file.write_text(CURSOR)
    assert state() == (1, {"sparksearch": "missing"})
    file.write_text("{")
    assert state() == (1, {})
    assert "~/.cursor/mcp.json" in box.command("register", "--status").stdout
    assert json.loads(box.command("register", "--status", "--json", "--host", "hermes").stdout) == []


def test_several_hosts_are_each_told_of_and_one_failure_is_the_exit_code(box: Box) -> None:
    put(box, "hermes")
    put(box, "cursor", "{")
    run = register(box, "hermes", "--host", "cursor", "--json")
    assert run.returncode == 1
    assert [(one["host"], one["changed"], one["failed"]) for one in json.loads(run.stdout)] == [
        ("hermes", True, False),
        ("cursor", False, True),
    ]
    keys = {"host", "profile", "file", "servers", "doors", "backup", "changed", "why"}
    assert all(keys <= set(one) for one in json.loads(run.stdout))
    assert box.command("register", "--all-detected", "--dry-run", "--json", "--any-interpreter").returncode == 1


def test_a_profile_of_a_host_has_its_own_file(box: Box) -> None:
    usual = put(box, "hermes")
    other = box.root / ".hermes" / "profiles" / "work" / "config.yaml"
    other.parent.mkdir(parents=True)
    assert register(box, "hermes", "--profile", "work").returncode == 0
    assert "sparksearch" in other.read_text() and "sparksearch" not in usual.read_text()
    unknown = register(box, "hermes", "--profile", "play")
    assert unknown.returncode == 1 and "there are work" in unknown.stderr


def test_a_host_whose_file_is_not_ours_is_told_of_and_not_written(box: Box) -> None:
    run = register(box, "nemoclaw")
    assert run.returncode == 1 and "--print nemoclaw" in run.stdout
    assert box.command("register", "--print", "nemoclaw").returncode == 0


def test_a_host_with_a_command_of_its_own_is_told_by_it(box: Box) -> None:
    calls = _claude(box)
    state = box.root / ".claude.json"
    state.write_text('{"numStartups": 7, "mcpServers": {"other": {"command": "x"}}}')
    assert register(box, "claude_code", "--dry-run", yes=False).returncode == 2
    assert register(box, "claude_code").returncode == 0
    assert list(json.loads(state.read_text())["mcpServers"]) == ["other", "sparksearch"]
    said = calls.read_text()
    assert register(box, "claude_code").returncode == 0 and calls.read_text() == said
    other = ("--config", str(box.root / "other.toml"))
    assert register(box, "claude_code", *other).returncode == 0
    assert "other.toml" in state.read_text()
    assert unregister(box, "claude_code").returncode == 0
    assert json.loads(state.read_text()) == {"numStartups": 7, "mcpServers": {"other": {"command": "x"}}}


def test_a_command_that_fails_or_is_not_there_is_a_failure(box: Box) -> None:
    (box.root / ".claude").mkdir()
    box.environment["PATH"] = str(box.root / "bin")
    run = register(box, "claude_code")
    assert run.returncode == 1 and "no claude on PATH" in run.stdout
    program = box.root / "bin" / "claude"
    program.parent.mkdir()
    for script, said in (("echo no >&2; exit 3", "ended with 3: no"), ("exit 0", "does not hold sparksearch")):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        run = register(box, "claude_code")
        assert run.returncode == 1 and said in run.stdout.replace("\n", " ")


CLAUDE = """#!{python}
import json, os, pathlib, sys
file = pathlib.Path(os.environ["HOME"], ".claude.json")
data = json.loads(file.read_text()) if file.exists() else {{}}
servers = data.setdefault("mcpServers", {{}})
with open(os.path.join(os.environ["HOME"], "calls"), "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
match sys.argv[1:]:
    case ["mcp", "add-json", name, entry, "-s", "user"]:
        if name in servers:
            sys.exit("already exists")
        servers[name] = json.loads(entry)
    case ["mcp", "remove", name, "-s", "user"]:
        if name not in servers:
            sys.exit("no such server")
        del servers[name]
    case _:
        sys.exit("unknown")
file.write_text(json.dumps(data))
"""


def _claude(box: Box) -> Path:
    """A `claude` on PATH that does to its file what the real one does; its calls are in the answer."""
    (box.root / ".claude").mkdir()
    program = box.root / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(CLAUDE.format(python=sys.executable))
    program.chmod(0o755)
    box.environment["PATH"] = f"{program.parent}:{box.environment['PATH']}"
    return box.root / "calls"


def test_a_file_of_one_long_line_is_shown_by_its_change_alone(box: Box) -> None:
    data = {"history": "words " * 5000, "mcpServers": {"other": {"env": {"API_KEY": "abcd-efgh-1234-5678"}}}}
    file = put(box, "cursor", json.dumps(data))
    told = report(register(box, "cursor", "--json"))
    assert "words" not in told["diff"] and "abcd" not in told["diff"] and "sparkgate.stdio" in told["diff"]
    unregister(box, "cursor")
    assert file.read_text() == json.dumps(data)


@pytest.mark.parametrize(
    ("answers", "code", "closed", "written"), [("yy", 0, True, True), ("ny", 0, False, True), ("yn", 1, False, False)]
)
def test_on_a_terminal_it_asks_about_doors_and_about_the_change(
    box: Box, answers: str, code: int, closed: bool, written: bool
) -> None:
    file = put(box, "openclaw")
    run, shown = on_a_terminal(box, answers, "register", "--host", "openclaw", "--any-interpreter")
    assert run == code and "Close these in its file?" in shown and "Write this?" in shown
    assert ("group:web" in file.read_text(), "sparksearch" in file.read_text()) == (closed, written)
    run, shown = on_a_terminal(box, "y", "register", "--host", "openclaw", "--any-interpreter", "--leave-doors")
    assert run == 0 and "Close these" not in shown and "sparksearch" in file.read_text()


SECRETS = {
    "cursor": """{"mcpServers": {
  "other": {
    "args": [
      "--api-key",
      "hunter2-abcdef"
    ],
    "headers": {"Authorization": "Bearer hunter2-abcdef"}
  }
}}""",
    "hermes": """mcp_servers:
  other:
    command: other
    args: [--api-key, 'hunter2-abcdef']
    env:
      KEY: |
        hunter2-abcdef
        rest: hunter2-abcdef
# hunter2-abcdef
""",
    "codex": """[mcp_servers.other]
command = "other"
args = [
  "--api-key", "hunter2-abcdef",
  'hunter2-abcdef',
]
text = '''
hunter2-abcdef = 1
'''
""",
}


@pytest.mark.parametrize("host", SECRETS)
@pytest.mark.parametrize("long", [False, True])
def test_no_value_of_anybody_else_is_shown(box: Box, host: str, long: bool) -> None:
    text = SECRETS[host]
    if long:
        text = text.replace("hunter2-abcdef", "hunter2-abcdef" * 200)
    file = put(box, host, text)
    runs = [
        register(box, host, "--dry-run", yes=False),
        register(box, host, "--json", "--close-doors"),
        box.command("register", "--restore", "--host", host, "--dry-run"),
        unregister(box, host, "--json"),
    ]
    assert [run.returncode for run in runs] == [2, 0, 2, 0] and file.read_text() == text
    assert all("hunter2" not in run.stdout + run.stderr for run in runs)
    assert all("sparkgate.stdio" in run.stdout and sys.executable in run.stdout for run in runs)


def test_an_entry_from_another_machine_is_brought_up_to_date(box: Box) -> None:
    printed = box.command("register", "--print", "cursor").stdout
    file = put(box, "cursor", printed.replace(sys.executable, "/home/old/venv/bin/python"))
    status = box.command("register", "--status", "--host", "cursor", "--json")
    assert status.returncode == 1 and json.loads(status.stdout)[0]["servers"] == {"sparksearch": "dead"}
    assert report(register(box, "cursor", "--json"))["servers"] == {"sparksearch": "update"}
    assert file.read_text() == printed
    file.write_text(printed.replace(sys.executable, "/home/old/venv/bin/python"))
    run = register(box, "cursor", "--json")
    assert run.returncode == 1 and report(run)["servers"] == {"sparksearch": "refuse"}
    assert "/home/old/venv/bin/python, which is not there" in report(run)["why"]
    assert register(box, "cursor", "--replace").returncode == 0 and file.read_text() == printed


def test_a_program_that_only_mentions_ours_is_foreign(box: Box) -> None:
    text = (
        '{"mcpServers": {"sparksearch": {"command": "./evil.sh", "args": ["-I", "-m", "sparkgate.stdio", "search"]}}}'
    )
    file = put(box, "cursor", text)
    assert register(box, "cursor").returncode == 1 and file.read_text() == text
    assert unregister(box, "cursor").returncode == 1 and file.read_text() == text
    assert register(box, "cursor", "--replace").returncode == 0
    file.write_text(file.read_text().replace(sys.executable, "./evil.sh"))
    run = register(box, "cursor", "--json")
    assert run.returncode == 1 and report(run)["servers"] == {"sparksearch": "refuse"}


def test_copies_are_where_nobody_else_can_put_one(box: Box) -> None:
    file = put(box, "cursor")
    file.with_name("mcp.json.sparkgate-99991231T235959Z.bak").write_text('{"mcpServers": {"evil": {}}}')
    assert "there is no copy" in box.command("register", "--restore", "--host", "cursor", "--yes").stdout
    register(box, "cursor")
    assert sorted(path.name for path in file.parent.iterdir()) == [
        "mcp.json",
        "mcp.json.sparkgate-99991231T235959Z.bak",
    ]
    written = file.read_text()
    (copy,) = copies(box.state, file)
    copy.chmod(0o666)
    run = box.command("register", "--restore", "--host", "cursor", "--yes")
    assert run.returncode == 1 and "others may have written it" in run.stdout and file.read_text() == written
    copy.chmod(0o600)
    file.parent.chmod(0o777)
    run = box.command("register", "--restore", "--host", "cursor", "--yes")
    assert run.returncode == 1 and "others can write" in run.stdout and file.read_text() == written
    assert register(box, "cursor", "--replace").returncode == 1
    file.parent.chmod(0o755)
    assert box.command("register", "--restore", "--host", "cursor", "--yes").returncode == 0
    assert file.read_text() == CURSOR


def test_a_secret_of_an_entry_reaches_no_command_line(box: Box) -> None:
    calls = _claude(box)
    state = box.root / ".claude.json"
    text = '{"mcpServers": {"sparksearch": {"url": "https://x", "headers": {"Authorization": "Bearer hunter2"}}}}'
    state.write_text(text)
    run = register(box, "claude_code", "--replace")
    assert run.returncode == 1 and "headers of yours" in run.stdout and "hunter2" not in run.stdout
    assert state.read_text() == text and not calls.exists()
    state.write_text('{"mcpServers": {}}')
    assert register(box, "claude_code").returncode == 0
    assert copies(box.state, state)[0].read_text() == '{"mcpServers": {}}'


def test_all_detected_takes_hosts_that_are_here_and_no_file_of_other_programs(box: Box) -> None:
    cursor = put(box, "cursor")
    other = box.root / "app" / "config.yaml"
    moved = box.root / "app" / "hermes" / "config.yaml"
    moved.parent.mkdir(parents=True)
    for file in (other, moved):
        file.write_text("mine: 1\n")
    (box.root / "app" / "librechat.yaml").write_text("mine: 1\n")
    (box.root / ".openwebui").mkdir()
    box.environment |= {"CONFIG_PATH": str(other), "HERMES_HOME": str(moved.parent)}
    run = box.command("register", "--all-detected", "--yes", "--any-interpreter", "--json")
    assert run.returncode == 0 and [one["host"] for one in json.loads(run.stdout)] == ["cursor"]
    assert "sparksearch" in cursor.read_text() and other.read_text() == moved.read_text() == "mine: 1\n"
    box.environment["CONFIG_PATH"] = str(box.root / "app" / "librechat.yaml")
    run = box.command("register", "--all-detected", "--yes", "--any-interpreter", "--json")
    assert [one["host"] for one in json.loads(run.stdout)] == ["cursor"]
    (box.root / ".hermes" / "profiles" / "work").mkdir(parents=True)
    (moved.parent / "profiles" / "work").mkdir(parents=True)
    run = box.command("register", "--all-detected", "--profile", "work", "--dry-run", "--any-interpreter", "--json")
    assert [(one["host"], one["profile"]) for one in json.loads(run.stdout)] == [("hermes", "work")]


def test_the_first_place_that_is_there_is_taken(box: Box) -> None:
    own = box.root / ".cline" / "data" / "settings"
    older = box.root / ".cache" / "lm-studio"
    for folder in (own, older):
        folder.mkdir(parents=True)
    for host, folder in (("cline", own), ("lmstudio", older)):
        told = report(register(box, host, "--json"))
        assert told["changed"] and Path(told["file"]).parent == folder
