"""`sparkgate doctor` on hosts' files in a box, with the real pipe and gate; servers that misbehave are scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box, a_box
from register_box import put, register

from sparkgate.clients.doctoring.child import child_of
from sparkgate.clients.doctoring.finding import Finding
from sparkgate.clients.doctoring.grace import Starts, examine_grace, examine_list, verdict
from sparkgate.clients.doctoring.interpreters import Probe, examine_interpreter
from sparkgate.clients.doctoring.native import CHECKS, Answer, examine_native
from sparkgate.clients.doctoring.spawned import examine_visit
from sparkgate.clients.doctoring.visit import Patience, Visit, visit
from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.entry import SERVER_NAMES
from sparkgate.clients.hosts.host import Where

pytestmark = pytest.mark.registering

SECRET = "not-for-any-log-4711"
LEVELS = ["file", "entry", "interpreter", "spawn", "grace", "gates", "doors", "native"]
REVISIONS = {"hermes": "2025-11-25", "openclaw": "2025-11-25", "codex": "2025-06-18", "claude_code": "2026-07-28"}
STDIO = ["-I", "-m", "sparkgate.stdio", "search"]


def doctor(box: Box, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and reports."""
    run = box.command("doctor", "--json", *options)
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout)


def codes(report: dict[str, Any], level: str, *states: str) -> list[str]:
    wanted = states or ("ok", "warn", "fail", "skip")
    return [one["code"] for one in report["findings"] if one["level"] == level and one["state"] in wanted]


def bad(report: dict[str, Any]) -> list[str]:
    return [f"{one['level']} {one['code']}" for one in report["findings"] if one["state"] == "fail"]


def only(box: Box, *options: str) -> tuple[int, dict[str, Any]]:
    code, reports = doctor(box, *options)
    assert len(reports) == 1, [(one["host"], one["profile"]) for one in reports]
    return code, reports[0]


def with_entry(box: Box, command: str | Path, host: str = "cursor", **more: Any) -> Path:
    """A host whose file has an entry of ours that starts `command`."""
    entry = {"command": str(command), "args": [*STDIO, "--config", str(box.config)], **more}
    text = {
        "cursor": json.dumps({"mcpServers": {"sparksearch": entry}}),
        "hermes": json.dumps({"mcp_servers": {"sparksearch": entry}}),
        "openclaw": json.dumps({"mcp": {"servers": {"sparksearch": entry}}}),
        "codex": "".join(f"mcp_servers.sparksearch.{key} = {_toml(one)}\n" for key, one in entry.items()),
    }
    return put(box, host, text[host])


def _toml(value: Any) -> str:
    pairs = [f"{name} = {json.dumps(one)}" for name, one in value.items()] if isinstance(value, dict) else []
    return f"{{ {', '.join(pairs)} }}" if pairs else json.dumps(value)


def script(box: Box, before: str, name: str = "wrapper") -> Path:
    """A program that does something and becomes the server then."""
    file = box.root / name
    file.write_text(f'#!/bin/sh\n{before}\nexec {sys.executable} "$@"\n')
    file.chmod(0o755)
    return file


@pytest.fixture(scope="module")
def registered() -> Iterator[Box]:
    """Four hosts in which all is as `register` has left it, and a secret in the environment."""
    with a_box() as box:
        box.environment |= {"HOST_API_KEY": SECRET}
        (box.root / ".claude").mkdir()
        for host in ("hermes", "openclaw", "codex"):
            put(box, host)
            assert register(box, host, "--server", ",".join(SERVER_NAMES)).returncode == 0
        assert register(box, "claude_code", "--profile", "project").returncode == 0
        yield box


# -- all is well


def test_hosts_that_register_has_left_are_well_on_every_level(registered: Box) -> None:
    code, reports = doctor(registered)
    assert (
        [bad(report) for report in reports] == [[]] * 4
        and code == 0
        and {one["host"] for one in reports} == {*REVISIONS}
    )
    for report in reports:
        assert list(dict.fromkeys(one["level"] for one in report["findings"])) == LEVELS
        assert set(codes(report, "entry")) == {"same"} and "imports" in codes(report, "interpreter", "ok")
        spoken = [one["words"] for one in report["findings"] if one["level"] == "spawn"]
        assert spoken and all(f"speaks {REVISIONS[report['host']]}," in words for words in spoken)
    searching = [one for one in registered.rows() if one["tool"] == "web_search"]
    assert searching == []


def test_people_read_one_block_a_host_and_doors_that_only_confinement_closes(registered: Box) -> None:
    run = registered.command("doctor", "--no-spawn")
    assert run.returncode == 0
    assert [line.split("  ")[0] for line in run.stdout.splitlines() if line[0] != " "] == [
        HOSTS[name].title + (" (project)" if name == "claude_code" else "")
        for name in ("hermes", "openclaw", "claude_code", "codex")
    ]
    assert "only confinement of the host closes shell, code, browser" in run.stdout
    assert run.stdout.count("not_required") == 1 and "The same with sparkengine and sparkbench" in run.stdout


def test_nothing_is_started_where_nothing_may_be(box: Box) -> None:
    put(box, "cursor")
    register(box, "cursor")
    code, report = only(box, "--no-spawn", "--native")
    assert code == 0 and codes(report, "spawn") == ["not_started"] and codes(report, "grace") == ["not_measured"]
    assert box.gate_pids() == [] and "there" in codes(report, "interpreter")


def test_the_start_that_starts_the_gate_is_measured_apart(box: Box) -> None:
    put(box, "hermes")
    register(box, "hermes")
    measured = [one["facts"] for one in only(box)[1]["findings"] if one["level"] == "grace"]
    assert measured[0]["cold_ms"] > 0 and measured[0]["warm_ms"] > 0 and measured[0]["grace_ms"] == 1500
    again = [one["facts"] for one in only(box)[1]["findings"] if one["level"] == "grace"]
    assert again[0]["cold_ms"] is None and len(box.gate_pids()) == 1


# -- hosts that are not there, or have nothing of ours


def test_without_a_host_it_tells_where_it_has_looked(box: Box) -> None:
    run = box.command("doctor")
    assert run.returncode == 0 and f"Hermes Agent ({box.root}/.hermes)" in run.stdout
    code, report = only(box, "--host", "hermes")
    assert code == 1 and report["state"] == "not installed"
    assert box.command("doctor", "--host", "hermez").returncode == 2
    assert box.command("doctor", "--host", "hermes", "--profile", "no").returncode == 1
    assert box.command("doctor", "--profile", "no").returncode == 1


def test_a_host_without_our_servers_is_no_failure_unless_it_was_named(box: Box) -> None:
    put(box, "hermes")
    code, report = only(box)
    assert code == 0 and report["state"] == "not registered"
    code, report = only(box, "--host", "hermes")
    assert code == 1 and bad(report) == ["entry not_registered"]
    put(box, "hermes", "a: [")
    assert only(box)[0] == 0 and only(box, "--host", "hermes")[0] == 1


def test_each_profile_with_our_servers_has_a_block(box: Box) -> None:
    put(box, "hermes")
    work = box.root / ".hermes" / "profiles" / "work"
    work.mkdir(parents=True)
    register(box, "hermes")
    assert [one["profile"] for one in doctor(box, "--no-spawn")[1]] == [""]
    register(box, "hermes", "--profile", "work")
    assert [one["profile"] for one in doctor(box, "--no-spawn")[1]] == ["", "work"]
    assert [one["profile"] for one in doctor(box, "--no-spawn", "--profile", "work")[1]] == ["work"]


# -- level 1: the file


def test_a_broken_file_is_told_with_line_and_column(box: Box) -> None:
    file = put(box, "openclaw", '{\n  mcp: { servers: { sparksearch: { command: "x" "y" } } },\n}\n')
    code, report = only(box)
    (found,) = report["findings"]
    assert code == 1 and found["code"] == "broken" and f"{file}:2:" in found["words"]
    assert found["facts"]["line"] == 2 and found["facts"]["column"] > 40


def test_a_file_that_others_can_write_is_a_failure(box: Box) -> None:
    with_entry(box, sys.executable).chmod(0o666)
    assert bad(only(box, "--no-spawn")[1]) == ["file writable"]
    (box.root / ".cursor" / "mcp.json").chmod(0o600)
    (box.root / ".cursor").chmod(0o777)
    assert bad(only(box, "--no-spawn")[1]) == ["file folder_writable"]
    (box.root / ".cursor" / "mcp.json").write_bytes(b"{}\n\xffsparkgate")
    assert bad(only(box, "--no-spawn")[1]) == ["file unreadable"]


# -- level 2: the entry


def test_an_edited_entry_and_an_older_one_are_told_apart(box: Box) -> None:
    file = put(box, "openclaw")
    register(box, "openclaw")
    written = file.read_text()
    file.write_text(written.replace("120000", "90000"))
    code, report = only(box, "--no-spawn")
    (edited,) = [one for one in report["findings"] if one["level"] == "entry"]
    assert (code, edited["code"]) == (0, "edited") and "requestTimeoutMs" in edited["words"]
    file.write_text(written)
    box.environment["XDG_RUNTIME_DIR"] = str(box.root / "elsewhere")
    (older,) = [one for one in only(box, "--no-spawn")[1]["findings"] if one["level"] == "entry"]
    assert older["code"] == "outdated" and "other arguments" in older["words"]


def test_an_entry_of_another_interpreter_is_told(box: Box) -> None:
    with_entry(box, "/usr/bin/python3")
    (found,) = [one for one in only(box, "--no-spawn")[1]["findings"] if one["level"] == "entry"]
    assert found["code"] == "edited" and "another interpreter (/usr/bin/python3" in found["words"]


def test_an_entry_that_is_gone_or_not_ours_is_a_failure(box: Box) -> None:
    file = put(box, "cursor")
    register(box, "cursor")
    file.write_text('{"mcpServers": {}}')
    code, report = only(box)
    assert code == 1 and codes(report, "entry") == ["missing"]
    file.write_text('{"mcpServers": {"sparksearch": {"command": "other"}}}')
    code, report = only(box)
    assert code == 1 and codes(report, "entry") == ["foreign"] and codes(report, "spawn") == []


def test_a_number_as_a_variable_is_told_where_the_host_does_not_take_it(box: Box) -> None:
    with_entry(box, sys.executable, "hermes", env={"FLAG": 1})
    assert bad(only(box, "--no-spawn")[1]) == ["entry not_text"]
    with_entry(box, sys.executable, "openclaw", env={"FLAG": 1})
    assert bad(only(box, "--no-spawn", "--host", "openclaw")[1]) == []


# -- level 3: the interpreter


def test_an_interpreter_that_is_gone_or_cannot_be_started_is_a_failure(box: Box) -> None:
    gone = box.root / "python3"
    gone.symlink_to(box.root / "removed")
    with_entry(box, gone)
    code, report = only(box)
    assert code == 1 and bad(report) == ["interpreter absent"] and codes(report, "spawn") == ["not_started"]
    gone.unlink()
    gone.write_text("#!/bin/sh\n")
    (found,) = [one for one in only(box)[1]["findings"] if one["level"] == "interpreter"]
    assert "not executable" in found["words"]
    with_entry(box, "python3.99")
    assert "not on the PATH" in only(box)[1]["findings"][2]["words"]


def test_an_interpreter_without_sparkgate_is_a_failure_on_two_levels(box: Box) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(box.root / "other")], check=True)
    with_entry(box, box.root / "other" / "bin" / "python")
    code, report = only(box)
    assert code == 0 and codes(report, "spawn") == ["not_trusted"] and "there" in codes(report, "interpreter")
    assert bad(only(box, "--trust")[1]) == ["interpreter no_sparkgate", "spawn initialize"]


@pytest.mark.parametrize(
    ("version", "path", "expected"),
    [
        ("0.0.1", "/opt/venv/bin/python", ["other_version"]),
        ("", "/opt/venv/bin/python", ["no_sparkgate"]),
        ("", "/home/x/.cache/uv/archive-v0/a/bin/python", ["passing", "no_sparkgate"]),
    ],
)
def test_other_versions_and_interpreters_that_will_not_last(version: str, path: str, expected: list[str]) -> None:
    made = child_of(HOSTS["cursor"], {"command": path, "args": STDIO}, Where(Path("/"), {}))
    there = type(made)(made.argv, path, made.environment, made.folder)
    found = examine_interpreter("sparksearch", there, Probe(version), True, "")
    assert [one.code for one in found] == expected


# -- level 4: as the host starts it


def test_a_server_gets_what_its_host_hands_on_and_what_its_entry_says(box: Box) -> None:
    box.environment |= {"HOST_API_KEY": SECRET, "PYTHONPATH": "/x", "LANG": "C.UTF-8", "SSL_CERT_FILE": "/ca"}
    seen = box.root / "seen"
    wrapper = script(box, f"pwd > {seen}; env >> {seen}")
    started = {}
    for host in ("hermes", "openclaw", "codex", "cursor"):
        with_entry(box, wrapper, host, env={"MINE": "1", "PYTHONPATH": "/y"}, cwd=str(box.root / "config"))
        assert bad(only(box, "--trust", "--host", host)[1]) == []
        folder, *lines = seen.read_text().splitlines()
        started[host] = folder, dict(line.split("=", 1) for line in lines if "=" in line)
    names = {host: set(environment) for host, (_, environment) in started.items()}
    assert all({"MINE", "PATH", "HOME"} <= one for one in names.values())
    assert {host for host in names if "HOST_API_KEY" in names[host]} == {"cursor"}
    assert {host for host in names if "PYTHONPATH" in names[host]} == {"hermes", "codex", "cursor"}
    assert {host for host in names if "SSL_CERT_FILE" in names[host]} == {"codex", "cursor"}
    assert {host for host in names if "LANG" in names[host]} == {"hermes", "codex", "cursor"}
    assert {host for host, (folder, _) in started.items() if folder == str(box.root / "config")} == {
        "openclaw",
        "codex",
    }
    assert started["hermes"][1]["PATH"].startswith(f"{box.root}:")


def test_texts_of_an_entry_are_expanded_where_the_host_does_that() -> None:
    whole = {"WHERE": "/opt", "TOKEN_OF_MINE": SECRET, "PATH": "/bin"}
    entry = {"command": "~/p", "args": ["${WHERE}", "${env:NOWHERE}", "${NONE:-usual}"], "env_vars": ["WHERE"]}
    hermes, codex = (child_of(HOSTS[name], entry, Where(Path("/home/x"), whole)) for name in ("hermes", "codex"))
    assert hermes.argv == ("/home/x/p", "/opt", "${env:NOWHERE}", "usual")
    assert codex.argv[1] == "${WHERE}" and codex.environment["WHERE"] == "/opt"


def test_a_folder_that_is_not_there_is_a_failure(box: Box) -> None:
    with_entry(box, sys.executable, "codex", cwd="/nowhere")
    code, report = only(box)
    assert code == 1 and bad(report) == ["spawn start"]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("echo welcome", ["spawn noise"]),
        ("env >&2", ["spawn leak"]),
        ("exit 3", ["spawn initialize"]),
        ('echo "{}"; exit', ["spawn initialize", "spawn noise"]),
    ],
)
def test_what_breaks_hosts_is_told_without_what_was_printed(box: Box, before: str, expected: list[str]) -> None:
    box.environment["HOST_API_KEY"] = SECRET
    with_entry(box, script(box, before))
    run = box.command("doctor", "--json", "--trust")
    (report,) = json.loads(run.stdout)
    assert run.returncode == 1 and sorted(bad(report)) == sorted(expected)
    assert SECRET not in run.stdout and "welcome" not in run.stdout


STUB = """#!{python} -I
import json, signal, sys
hints = {{"readOnlyHint": {reads}, "openWorldHint": False}}
answers = {{
    "initialize": {{"protocolVersion": "2024-11-05"}},
    "tools/list": {{"tools": [{{"name": "outbound_log", "annotations": hints, "description": "x" * 1300}}]}},
    "tools/call": {{"isError": True, "content": [{{"type": "text", "text": "no"}}]}},
}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and asked["method"] in answers:
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]}}), flush=True)
{then}
"""
Stub = Callable[..., Visit]


@pytest.fixture
def stub(tmp_path: Path) -> Stub:
    """Visit a server that answers wrongly, or does not end."""

    def visited(protocol: str = "2025-11-25", reads: bool = False, then: str = "", **more: Any) -> Visit:
        file = tmp_path / "stub"
        file.write_text(STUB.format(python=sys.executable, reads=reads, then=then))
        file.chmod(0o755)
        child = child_of(HOSTS["cursor"], {"command": str(file)}, Where(tmp_path, {"PATH": "/bin"}))
        return visit(child, "sparksearch", protocol, **more)

    return visited


def found_by(seen: Visit, host: str = "openclaw") -> list[str]:
    return [one.code for one in examine_visit(HOSTS[host], "sparksearch", seen)]


def test_a_server_of_another_revision_with_too_long_descriptions_is_warned_of(stub: Stub) -> None:
    assert found_by(stub()) == ["revision", "long_description", "speaks"]


def test_only_a_tool_that_says_it_reads_is_called(stub: Stub) -> None:
    assert stub().tested == "" and stub().failed == ""
    assert found_by(stub(reads=True))[0] == "self_test"


def test_a_server_that_does_not_end_is_told_and_killed(stub: Stub) -> None:
    seen = stub(then="signal.pause()", patience=Patience(end_s=0.2))
    assert not seen.ended and found_by(seen)[1] == "does_not_end"


def test_a_server_that_does_not_answer_is_given_up(stub: Stub) -> None:
    seen = stub(protocol="", patience=Patience(answer_s=0.2))
    assert (seen.failed, seen.why) == ("discover", "no answer within 0.2 s")


def test_names_longer_than_the_host_takes_are_a_failure() -> None:
    seen = Visit(revision="2025-11-25", tools=({"name": "x" * 60},))
    assert found_by(seen, "cursor") == ["long_name"] and found_by(Visit(), "cursor") == ["no_tools"]


MODULE = ["-m", "sparkgate.stdio", "search"]
HOSTILE: dict[str, dict[str, Any]] = {
    "program": {"command": "./evil", "args": ["sparkgate.stdio"]},
    "program_with_our_arguments": {"command": "./evil", "args": STDIO},
    "name_of_an_interpreter": {"command": "./python", "args": STDIO},
    "absolute": {"command": "{folder}/python", "args": STDIO},
    "our_script": {"command": "{folder}/sparkgate-search", "args": []},
    "our_command": {"command": "{folder}/sparkgate", "args": ["serve", "search"]},
    "code": {"command": sys.executable, "args": ["-c", "open('{mark}', 'w')", "-m", "sparkgate.stdio"]},
    "code_behind": {"command": sys.executable, "args": ["-I", "-c", "open('{mark}', 'w')", "-I", *MODULE]},
    "not_isolated": {"command": sys.executable, "args": MODULE, "env": {"PYTHONPATH": "{folder}"}},
    "variable": {"command": sys.executable, "args": STDIO, "env": {"PYTHONPATH": "{folder}", "LD_PRELOAD": "./evil"}},
    "startup": {"command": sys.executable, "args": STDIO, "environment": {"PATH": "{folder}"}},
    "folder": {"command": sys.executable, "args": MODULE, "cwd": "{folder}"},
    "folder_beside": {"command": sys.executable, "args": STDIO, "cwd": "."},
    "environment_of_python": {"command": "{folder}/venv/bin/python", "args": STDIO},
    "configuration": {"command": sys.executable, "args": [*STDIO, "--config", "{folder}/config.toml"]},
    "folders_of_ours": {"command": sys.executable, "args": [*STDIO, "--env", "XDG_STATE_HOME={folder}"]},
    "list": {"command": ["{folder}/python", *STDIO]},
    "two_commands": {"command": sys.executable, "cmd": "./evil", "args": STDIO},
}


def a_clone(box: Box, entry: dict[str, Any]) -> Path:
    """A folder of work with programs and modules that leave a mark, and files of hosts that name them."""
    mark, folder = box.root / "mark", box.root / "clone"
    for name in ("evil", "python", "sparkgate", "sparkgate-search", "venv/bin/python"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\ntouch {mark}\n")
        file.chmod(0o755)
    for name in ("sparkgate/stdio.py", "json.py", "sitecustomize.py"):
        file = folder / "modules" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"open({str(mark)!r}, 'w')\n")
    text = json.dumps(entry).replace("{folder}", str(folder)).replace("{mark}", str(mark))
    text = text.replace(f'"PYTHONPATH": "{folder}"', f'"PYTHONPATH": "{folder}/modules"')
    for name, key in ((".mcp.json", "mcpServers"), ("opencode.json", "mcp"), ("crush.json", "mcp")):
        (folder / name).write_text(f'{{"{key}": {{"sparksearch": {text}, "sparkengine": {text}}}}}')
    return mark


@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_that_a_clone_names_is_started(box: Box, kind: str) -> None:
    mark = a_clone(box, HOSTILE[kind])
    (box.root / ".claude").mkdir()
    run = box.command("doctor", "--json", "--native", folder=box.root / "clone")
    reports = [one for one in json.loads(run.stdout) if one["profile"] == "project"]
    assert not mark.exists() and box.gate_pids() == [] and {one["host"] for one in reports} >= {"claude_code"}
    found = [one["code"] for report in reports for one in report["findings"]]
    assert {"foreign", "not_trusted"} & set(found) and not {"speaks", "imports", "content"} & set(found)
    assert "--replace" in run.stdout


def test_a_clone_is_started_when_the_user_says_so(box: Box) -> None:
    mark = a_clone(box, HOSTILE["absolute"])
    (box.root / ".claude").mkdir()
    run = box.command("doctor", "--trust", "--host", "claude_code", folder=box.root / "clone")
    assert mark.exists() and run.returncode == 1
    assert "with your rights" in " ".join(box.command("doctor", "--help").stdout.split())


def test_what_register_has_written_is_started_as_long_as_it_says_the_same(box: Box) -> None:
    file = put(box, "hermes")
    register(box, "hermes", "--config", str(box.root / "other.toml"))
    assert codes(only(box)[1], "spawn", "ok") == ["speaks"]
    file.write_text(file.read_text().replace("other.toml", "third.toml"))
    assert codes(only(box)[1], "spawn") == ["not_trusted"]


def test_an_entry_of_a_clone_that_is_this_sparkgate_and_no_more_is_started(box: Box) -> None:
    a_clone(box, {"command": sys.executable, "args": [*STDIO, "--host", "claude_code"], "env": {"LANG": "C.UTF-8"}})
    (box.root / ".claude").mkdir()
    run = box.command("doctor", "--json", "--host", "claude_code", folder=box.root / "clone")
    (report,) = json.loads(run.stdout)
    assert codes(report, "spawn") == ["speaks", "speaks"]


# -- level 5: grace


def test_the_start_is_measured_to_the_list_of_tools(stub: Stub) -> None:
    ticks = iter([10.0, 11.0, 12.5])
    seen = stub(clock=lambda: next(ticks))
    assert (seen.listed_ms, seen.list_ms) == (2500, 1500)


@pytest.mark.parametrize(
    ("host", "cold", "warm", "expected"),
    [
        ("codex", 400, 40, "ok in_time"),
        ("codex", 700, 40, "warn close"),
        ("codex", 1700, 40, "warn over_cold"),
        ("codex", None, 1001, "fail over"),
        ("hermes", None, 1400, "warn close"),
        ("hermes", 1501, 20, "warn over_cold"),
        ("openclaw", 9000, 9000, "ok in_time"),
        ("cursor", 9000, 9000, "ok waits"),
        ("hermes", None, None, "skip not_measured"),
    ],
)
def test_a_start_is_held_against_the_patience_of_the_host(
    host: str, cold: float | None, warm: float | None, expected: str
) -> None:
    found = examine_grace(HOSTS[host], "sparksearch", {}, Starts(cold, warm))
    assert f"{found.state} {found.code}" == expected


@pytest.mark.parametrize(
    ("host", "ms", "expected"),
    [
        ("openclaw", 20, ["list_in_time"]),
        ("openclaw", 800, ["list_close"]),
        ("openclaw", 1501, ["list_over"]),
        ("openclaw", None, []),
        ("cursor", 9000, []),
    ],
)
def test_the_list_of_tools_has_a_time_of_its_own(host: str, ms: float | None, expected: list[str]) -> None:
    assert [one.code for one in examine_list(HOSTS[host], "sparksearch", ms)] == expected


def test_a_host_that_greets_twice_is_told_that_the_server_refuses(box: Box) -> None:
    (box.root / ".copilot").mkdir()
    assert register(box, "copilot").returncode == 0
    code, report = only(box)
    assert code == 1 and bad(report) == ["spawn second_greeting"]
    (found,) = [one for one in report["findings"] if one["code"] == "second_greeting"]
    assert "-32022" in found["words"] and "use a version of Copilot CLI" in found["way_out"]
    assert report["notes"] == list(HOSTS["copilot"].minds) and report["notes"][0] in box.command("doctor").stdout


def test_codex_waits_for_a_server_that_its_file_says_it_needs() -> None:
    found = examine_grace(HOSTS["codex"], "sparksearch", {"required": True}, Starts(9000, 9000))
    assert found.code == "waits" and [verdict(ms, 100) for ms in (50, 51, 101)] == ["ok", "close", "over"]


# -- levels 6 and 7: gates and doors


def test_what_hides_the_tools_is_a_failure(box: Box) -> None:
    file = with_entry(box, sys.executable, "hermes", enabled=False)
    data = json.loads(file.read_text()) | {"platform_toolsets": {"cli": ["web", "no_mcp"]}}
    file.write_text(json.dumps(data))
    box.environment["HERMES_SAFE_MODE"] = "1"
    code, report = only(box, "--no-spawn")
    assert code == 1 and bad(report) == ["entry switched_off", "gates platform_toolsets", "gates safe_mode"]


def test_files_beside_count_and_one_that_does_not_read_is_told(registered: Box) -> None:
    settings = registered.root / ".claude" / "settings.json"
    settings.write_text('{"permissions": {"deny": ["mcp__sparksearch", "WebSearch", "WebFetch", "Bash"]}}')
    code, report = only(registered, "--no-spawn", "--host", "claude_code")
    assert code == 1 and bad(report) == ["gates denied"] and codes(report, "doors") == ["shut"]
    settings.write_text("{")
    assert bad(only(registered, "--no-spawn", "--host", "claude_code")[1]) == ["gates unreadable"]
    settings.unlink()


def test_open_doors_are_warned_of_until_they_are_closed(box: Box) -> None:
    put(box, "openclaw")
    register(box, "openclaw", "--leave-doors")
    before = only(box, "--no-spawn")[1]
    assert codes(before, "doors", "warn") == ["web_tools", "only_confinement", "only_confinement"]
    way_out = next(one["way_out"] for one in before["findings"] if one["code"] == "web_tools")
    assert "sparkgate register --host openclaw --close-doors" in way_out
    register(box, "openclaw", "--close-doors")
    assert codes(only(box, "--no-spawn")[1], "doors", "warn") == ["only_confinement", "only_confinement"]


# -- level 8: the host's own check

SEARCH = "sparksearch"
SAID = [
    ("hermes", Answer(0, "  ✓ Connected (1896ms)\n  ✓ Tools discovered: 4\n"), "content"),
    ("hermes", Answer(0, "  ✗ Connection failed (31ms): Connection closed\n"), "refused"),
    ("hermes", Answer(0, "  ✗ Server 'sparksearch' not found in config.\n"), "refused"),
    ("openclaw", Answer(0, '{"servers": {"sparksearch": {"tools": 4}}, "diagnostics": []}'), "content"),
    ("openclaw", Answer(0, 'warning\n{"servers": {"sparksearch": {"tools": 4}}, "diagnostics": []}'), "content"),
    ("openclaw", Answer(1, '{"servers": {}, "diagnostics": [{"server": "sparksearch"}]}'), "refused"),
    ("openclaw", Answer(1, "Error: no such server"), "refused"),
    ("claude_code", Answer(0, "sparksearch: /x/python -I -m sparkgate.stdio search - ✔ Connected\n"), "content"),
    ("claude_code", Answer(0, "sparksearch: /x/python - ⏸ Pending approval (run `claude`)\n"), "refused"),
    ("claude_code", Answer(0, "sparksearch: /x/python - ✗ Failed to connect\n"), "refused"),
    ("claude_code", Answer(0, "other: /x - ✔ Connected\n"), "refused"),
    ("codex", Answer(0, '{"name": "sparksearch", "enabled": true}'), "content"),
    ("codex", Answer(0, '{"name": "sparksearch", "enabled": false}'), "refused"),
    ("codex", Answer(1, ""), "refused"),
    ("qwen", Answer(0, "✓ sparksearch: /x/python -I -m sparkgate.stdio (stdio) - Connected\n"), "content"),
    ("qwen", Answer(0, "✗ sparksearch: /x/python (stdio) - Disconnected\n"), "refused"),
    ("qwen", Answer(None, "there is no qwen on PATH"), "not_run"),
    ("cursor", None, "none"),
    ("codex", None, "not_asked"),
]


@pytest.mark.parametrize(("host", "answer", "expected"), SAID)
def test_what_hosts_say_of_themselves_is_understood(host: str, answer: Answer | None, expected: str) -> None:
    found: Finding = examine_native(HOSTS[host], SEARCH, answer)
    assert found.code == expected and set(CHECKS) <= set(HOSTS)


def test_the_host_is_asked_with_its_profile_and_an_exit_code_of_0_is_no_proof(box: Box) -> None:
    program = box.root / "bin" / "hermes"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {box.root}/asked\necho "  \x1b[31m✗ Connection failed\x1b[0m"\n')
    program.chmod(0o755)
    box.environment["PATH"] = f"{program.parent}:{box.environment['PATH']}"
    (box.root / ".hermes" / "profiles" / "work").mkdir(parents=True)
    register(box, "hermes", "--profile", "work")
    code, report = only(box, "--native")
    assert code == 1 and bad(report) == ["native refused"]
    assert (box.root / "asked").read_text() == "-p work mcp test sparksearch\n"
    program.unlink()
    assert codes(only(box, "--native")[1], "native") == ["not_run"]


# -- as the host


def test_what_a_host_would_start_is_printed_without_values_that_may_be_secrets(box: Box) -> None:
    box.environment |= {"HOST_API_KEY": SECRET, "COLORTERM": "truecolor"}
    with_entry(box, sys.executable, env={"MINE": SECRET})
    run = box.command("doctor", "--as-host", "cursor")
    assert run.returncode == 0 and f"HOME={box.root}" in run.stdout and SECRET not in run.stdout
    assert all(f"{name}=***" in run.stdout for name in ("HOST_API_KEY", "MINE", "COLORTERM"))
    told = json.loads(box.command("doctor", "--as-host", "codex", "--json").stdout)
    assert not told[0]["registered"] and told[0]["argv"][:3] == [sys.executable, "-I", "-m"]
    assert "HOST_API_KEY" not in told[0]["environment"] and box.gate_pids() == []
