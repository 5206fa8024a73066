"""Files of hosts under other writers, at once and through kills: nobody's text is lost."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from box import PATIENCE_S, Box
from register_box import CURSOR, copies, put, register, start, unregister

from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.entry import SERVER_NAMES, Launch
from sparkgate.clients.hosts.host import Change, Door, Where
from sparkgate.clients.registering import apply, backup, write
from sparkgate.clients.registering.doors import cut
from sparkgate.clients.registering.exchange import exchange
from sparkgate.clients.registering.interpreter import passing
from sparkgate.clients.registering.plan import Plan, Site, Wish, adding, removing
from sparkgate.clients.registering.reading import Found, find
from sparkgate.clients.registering.record import Closed, Entry, Record, Registration, both, load, locked
from sparkgate.clients.registering.refusal import Changed, Refused
from sparkgate.clients.registering.values import is_ours

pytestmark = pytest.mark.registering

CAREFUL = """
import json, pathlib, sys, time
from sparkgate.clients.registering import reading, refusal, write
file = pathlib.Path(sys.argv[1])
for number in range(int(sys.argv[3])):
    while True:
        found = reading.find(file, file.parent)
        data = json.loads(found.data)
        data["mcpServers"][f"{sys.argv[2]}{number}"] = {"command": "x"}
        try:
            write.replace(found, json.dumps(data).encode())
            break
        except refusal.Changed:
            continue
    time.sleep(float(sys.argv[4]))
"""
"""A program that adds its servers one after another, and looks at what it replaces."""
PLAIN = """
import json, os, pathlib, sys, time
file = pathlib.Path(sys.argv[1])
for number in range(int(sys.argv[3])):
    data = json.loads(file.read_text())
    data["mcpServers"][f"{sys.argv[2]}{number}"] = {"command": "x"}
    fresh = file.with_name("plain.tmp")
    fresh.write_text(json.dumps(data))
    os.replace(fresh, file)
    time.sleep(float(sys.argv[4]))
"""
"""One that does not look: it may lose what others write, and nobody may lose what it writes."""
ROUNDS = 40
KILLED = """
import os, signal, sys
from sparkgate.clients.registering import write
from sparkgate.clients.cli import main
def end(*_):
    os.kill(os.getpid(), signal.SIGKILL)
write.{function} = end
sys.argv = ["sparkgate", "register", "--host", "cursor", "--yes", "--any-interpreter"]
main()
"""
"""A register that is killed when it comes to one function: with the new text written, before or after it stands."""


def _register_at_once(box: Box, times: int) -> list[subprocess.Popen[str]]:
    servers = list(SERVER_NAMES)
    options = ["-I", "-m", "sparkgate.clients.cli", "register", "--host", "cursor", "--yes", "--any-interpreter"]
    return [start(box, *options, "--server", servers[number % 3]) for number in range(times)]


def _ended(processes: list[subprocess.Popen[str]]) -> list[str]:
    """What those that failed have said."""
    said = [process.communicate(timeout=PATIENCE_S * 4)[0] for process in processes]
    return [text for process, text in zip(processes, said, strict=True) if process.returncode]


def _writer(box: Box, script: str, file: Path, name: str, rounds: int, pause_s: float) -> subprocess.Popen[str]:
    return start(box, "-c", script, str(file), name, str(rounds), str(pause_s))


def _written(name: str, rounds: int) -> list[str]:
    return [f"{name}{number}" for number in range(rounds)]


@pytest.mark.parametrize("times", [2, 8])
def test_registers_at_once_and_a_writer_meanwhile_lose_nothing(box: Box, times: int) -> None:
    file = put(box, "cursor")
    writer = _writer(box, CAREFUL, file, "theirs", ROUNDS, 0.15)
    assert _ended([writer, *_register_at_once(box, times)]) == []
    ours = list(SERVER_NAMES.values())[:times]
    servers = list(json.loads(file.read_text())["mcpServers"])
    assert sorted(servers) == sorted(["other", *_written("theirs", ROUNDS), *ours])
    assert _left_over(file) == [] and len(copies(box.state, file)) <= backup.KEPT
    assert sorted(_recorded(box)) == sorted(ours)


def test_a_writer_that_does_not_look_loses_nothing_to_a_register(box: Box) -> None:
    file = put(box, "cursor")
    writer = _writer(box, PLAIN, file, "theirs", ROUNDS, 0.15)
    assert _ended([writer, *_register_at_once(box, 6)]) == []
    assert register(box, "cursor", "--server", "search").returncode == 0
    servers = set(json.loads(file.read_text())["mcpServers"])
    assert {"other", "sparksearch", *_written("theirs", ROUNDS)} <= servers


def test_writers_without_a_pause_lose_nothing_to_each_other(box: Box) -> None:
    file = put(box, "cursor")
    careful = [_writer(box, CAREFUL, file, name, 60, 0) for name in ("a", "b", "c")]
    assert _ended(careful) == []
    servers = list(json.loads(file.read_text())["mcpServers"])
    assert sorted(servers) == sorted(["other", *(one for name in "abc" for one in _written(name, 60))])
    plain = [
        _writer(box, PLAIN, file, "plain", 60, 0.01),
        *(_writer(box, CAREFUL, file, name, 60, 0) for name in "de"),
    ]
    assert _ended(plain) == []
    assert set(_written("plain", 60)) <= set(json.loads(file.read_text())["mcpServers"])


@pytest.mark.parametrize("function", ["_swap", "_flush_folder"])
def test_a_kill_between_the_new_text_and_its_place_leaves_a_whole_file_and_a_way_on(box: Box, function: str) -> None:
    file = put(box, "cursor")
    killed = start(box, "-c", KILLED.format(function=function))
    killed.communicate(timeout=PATIENCE_S)
    assert killed.returncode == -9
    placed = function == "_flush_folder"
    assert ("sparksearch" in file.read_text()) == placed and (placed or file.read_text() == CURSOR)
    assert len(_left_over(file)) == 1
    assert register(box, "cursor").returncode == 0
    assert list(json.loads(file.read_text())["mcpServers"]) == ["other", "sparksearch"]
    assert _left_over(file) == []
    assert unregister(box, "cursor").returncode == 0 and file.read_text() == CURSOR


def _left_over(file: Path) -> list[Path]:
    return [path for path in file.parent.iterdir() if path.name.endswith((".tmp", "-conflict"))]


def _recorded(box: Box) -> list[str]:
    return [one.server for known in load(box.state / "registrations.json").all() for one in known.entries]


def test_a_plan_is_made_again_from_the_new_text_and_given_up_after_some_tries(tmp_path: Path) -> None:
    file, seen = tmp_path / "file", list[str | None]()

    def busy(times: int) -> Callable[[str | None, Registration], Plan]:
        def make(text: str | None, known: Registration) -> Plan:
            seen.append(text)
            if len(seen) <= times:
                file.write_text(f"{text}x")
            return Plan(f"{text}!", known)

        return make

    file.write_text("a")
    done = apply.carry_out(apply.Work("h", "", file, tmp_path, busy(2)), tmp_path / "state" / "r.json")
    assert done.changed and file.read_text() == "axx!" and seen == ["a", "ax", "axx"]
    seen.clear()
    with pytest.raises(Refused, match="another program at each of 5 tries"):
        apply.carry_out(apply.Work("h", "", file, tmp_path, busy(99)), tmp_path / "state" / "r.json")
    assert file.read_text() == "axx!xxxxx" and len(seen) == apply.TRIES
    assert len(copies(tmp_path / "state", file)) == 1 and _left_over(file) == []


def test_a_writer_between_the_comparison_and_the_exchange_gets_its_text_back(tmp_path: Path) -> None:
    file, fresh = tmp_path / "file", tmp_path / "fresh"
    file.write_bytes(b"theirs")
    fresh.write_bytes(b"ours")
    late = Found(file, b"older")
    with pytest.raises(Changed):
        write.replace(late, b"ours")
    assert exchange(fresh, file) and (file.read_bytes(), fresh.read_bytes()) == (b"ours", b"theirs")
    with pytest.raises(Changed):
        write.give_back(fresh, file, b"ours")
    assert file.read_bytes() == b"theirs"
    fresh.write_bytes(b"second")
    file.write_bytes(b"third")
    with pytest.raises(Changed):
        write.give_back(fresh, file, b"ours")
    assert file.read_bytes() == b"third" and file.with_name("file.sparkgate-conflict").read_bytes() == b"second"


def test_mode_and_attributes_of_a_file_stay(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a")
    file.chmod(0o604)
    try:
        os.setxattr(file, "user.mine", b"kept")
    except OSError as error:
        pytest.skip(f"files here have no attributes of users: {error}")
    write.replace(find(file, tmp_path), b"b")
    assert file.read_bytes() == b"b" and stat.S_IMODE(file.stat().st_mode) == 0o604
    assert os.getxattr(file, "user.mine") == b"kept"


def test_a_new_file_never_replaces_one_that_came_meanwhile(tmp_path: Path) -> None:
    missing = find(tmp_path / "file", tmp_path)
    assert missing.data is None
    missing.real.write_bytes(b"theirs")
    with pytest.raises(Changed):
        write.replace(missing, b"ours")
    assert missing.real.read_bytes() == b"theirs"
    found = find(tmp_path / "file", tmp_path)
    missing.real.write_bytes(b"newer")
    with pytest.raises(Changed):
        write.remove(found)
    assert missing.real.read_bytes() == b"newer"
    write.remove(find(tmp_path / "file", tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_cannot_be_written_is_told_of(tmp_path: Path) -> None:
    script = """
import os, pathlib, sys
from sparkgate.clients.registering import reading, write
os.setuid(65534)
file = pathlib.Path(sys.argv[1])
write.replace(reading.find(file, file.parent), b"new")
"""
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.write_bytes(b"old")
    os.chown(file, 65534, 65534)
    for folder in (tmp_path, *list(tmp_path.parents)[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    run = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=False)
    assert "Refused: cannot write" in run.stderr and "Permission denied" in run.stderr
    assert file.read_bytes() == b"old"
    file.chmod(0)
    run = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=False)
    assert "cannot be read: Permission denied" in run.stderr


def test_links_that_go_in_a_circle_or_through_a_folder_of_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(Refused, match="circle"):
        find(tmp_path / "a", tmp_path)
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "file").write_text("x")
    (tmp_path / "link").symlink_to(shared / "file")
    assert find(tmp_path / "link", tmp_path).real == shared / "file"
    shared.chmod(0o1777)
    with pytest.raises(Refused, match="others can write"):
        find(tmp_path / "link", tmp_path)


def test_copies_never_replace_each_other_and_the_newest_five_stay(tmp_path: Path) -> None:
    folder, now = tmp_path / "backups" / "x", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    for number in range(12):
        backup.save(folder, "file", b"%d" % number, now)
    assert [backup.load(path) for path in backup.copies(folder)] == [b"%d" % number for number in range(11, -1, -1)]
    later = backup.save(folder, "file", b"later", datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC))
    assert later.name == "20260102T030406Z-file.bak" and stat.S_IMODE(later.stat().st_mode) == 0o600
    backup.prune(folder)
    assert [path.read_bytes() for path in backup.copies(folder)] == [b"later", b"11", b"10", b"9", b"8"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    later.chmod(0o644)
    with pytest.raises(OSError, match="others may have written it"):
        backup.load(later)


@pytest.mark.parametrize(
    ("path", "lasts"),
    [
        ("/home/u/.local/share/uv/tools/sparkgate/bin/python", True),
        ("/home/u/.local/share/pipx/venvs/sparkgate/bin/python", True),
        ("/opt/sparkgate/bin/python3", True),
        ("/usr/bin/python3", True),
        ("/home/u/.cache/uv/archive-v0/Ab_c/bin/python", False),
        ("/home/u/.cache/uv/environments-v2/x/bin/python", False),
        ("/home/u/.cache/pipx/1a2b/bin/python", False),
        ("/home/u/work/.tox/py311/bin/python", False),
        ("/home/u/work/.nox/tests/bin/python", False),
        ("/tmp/venv/bin/python", True),
    ],
)
def test_an_interpreter_that_passes_is_known_by_its_place(path: str, lasts: bool) -> None:
    assert (passing(path) == "") == lasts


def test_the_record_survives_a_round_trip_and_is_written_only_on_a_change(tmp_path: Path) -> None:
    file = tmp_path / "state" / "registrations.json"
    closed = Closed("web", ["tools", "deny"], [["x"]], "h", 1, ["a", "b"])
    known = Registration("h", "p", "/f", (Entry("s", 2, {"command": ["1"]}),), (closed,), True, "t", "1", "now")
    with locked(file) as record:
        record.put(Registration("h", "", "/none"))
        assert not file.exists()
        record.put(known)
    assert load(file).all() == [known] and stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.stat().st_ino
    with locked(file) as record:
        record.put(known)
    assert file.stat().st_ino == before
    file.write_text("{")
    with pytest.raises(Refused, match="cannot be read"):
        load(file)


def test_one_at_a_time_holds_the_record(tmp_path: Path) -> None:
    file = tmp_path / "state" / "registrations.json"
    with locked(file), pytest.raises(Refused, match="at work"), locked(file, patience_s=0):
        pass


def test_before_a_write_the_record_is_true_for_both_texts() -> None:
    old = Registration("h", "", "/f", (Entry("a", 1, {"x": ["1"]}), Entry("b", 0, {})))
    new = Registration("h", "", "/f", (Entry("a", 1, {"x": ["2"]}), Entry("c", 0, {"y": ["3"]})))
    told = both(old, new)
    assert [(one.server, one.owned) for one in told.entries] == [
        ("a", {"x": ["1", "2"]}),
        ("c", {"y": ["3"]}),
        ("b", {}),
    ]


def test_two_doors_that_share_a_list_are_both_closed_and_opened_exactly() -> None:
    def doors(data: Any) -> list[Door]:
        has = data.get("deny", [])
        return [
            Door(word, "", "", (Change(("deny",), [*has, word]),)) for word in ("search", "fetch") if word not in has
        ]

    site = Site("json", ("s",), lambda launch: {"command": launch.command}, frozenset({"command"}), doors)
    for text in ('{"deny": [ "mine" ]}', "{ }", '{\n\t"a": 1\n}\n'):
        known = Registration("h", "", "/f")
        launches = [Launch("sparksearch", "/p/python", ())]
        plan = adding(site, launches, Wish(close_doors=True), text, known)
        assert plan.text and plan.shut == ("search", "fetch") and plan.steps[0].action == "add"
        assert json.loads(plan.text)["deny"][-2:] == ["search", "fetch"]
        gone = removing(site, (), Wish(replace=True), plan.text, plan.registration)
        assert gone.text == text and gone.registration.is_empty and gone.opened


def test_the_part_of_two_texts_that_differs() -> None:
    assert cut("[ a ]", "[a, b]") == [" a ", "a, b"]
    assert cut("ab", "ab") == ["", ""] and cut("", "x") == ["", "x"] and cut("aa", "a") == ["a", ""]


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        ({"command": "/v/bin/python", "args": ["-I", "-m", "sparkgate.stdio", "search"]}, True),
        ({"command": ["/v/bin/python", "-I", "-m", "sparkgate.stdio", "search"], "type": "local"}, True),
        ({"command": "/v/bin/sparkgate", "args": ["serve", "search"]}, True),
        ({"command": "./evil.sh", "args": ["sparkgate.stdio"]}, False),
        ({"command": "firejail", "args": ["/v/bin/python", "-I", "-m", "sparkgate.stdio", "search"]}, False),
        ({"command": "uvx", "args": ["other"], "description": "not sparkgate.stdio"}, False),
        ({"url": "https://example.org/serve", "enabled": True}, False),
    ],
)
def test_an_entry_is_ours_by_what_it_starts(entry: dict[str, Any], ours: bool) -> None:
    assert is_ours(entry) == ours


def test_an_unknown_hash_is_a_users_and_a_known_one_is_ours(tmp_path: Path) -> None:
    owned = frozenset({"command", "args", "t"})
    site = Site("json", ("s",), lambda one: {"command": one.command, "args": list(one.arguments), "t": 1}, owned)
    known = Registration("h", "", "/f")
    arguments = ("-I", "-m", "sparkgate.stdio", "search")
    for name in ("python", "python3"):
        (tmp_path / name).touch()
    old, new = (Launch("n", str(tmp_path / name), arguments) for name in ("python", "python3"))
    first = adding(site, [old], Wish(), "{}", known)
    assert first.text is not None
    moved = adding(site, [new], Wish(), first.text, first.registration)
    assert moved.steps[0].action == "update" and new.command in (moved.text or "")
    without = adding(site, [new], Wish(), first.text, known)
    assert without.steps[0].action == "keep" and without.text == first.text
    Path(old.command).unlink()
    dead = adding(site, [new], Wish(), first.text, known)
    assert dead.steps[0].action == "update" and dead.steps[0].dead and dead.text == moved.text
    record = Record(tmp_path / "r.json", [first.registration])
    assert record.of("h", Path("/f")) == first.registration


TEXTS = {
    "json": ["", "{}", "{}\n", '{\n\t"a": 1\n}', '{"a": {"b": []}}', '{\r\n  "a": 1\r\n}\r\n'],
    "jsonc": ["// mine\n{\n  // none\n}\n", '{\n  "a": 1, // one\n}\n', "{} // end"],
    "json5": ["// mine\n{ a: 'x', }\n", "{\n  a: [1, 2,],\n  /* end */\n}\n"],
    "yaml": ["", "# mine\n", "a: 1\n", "a: 1", "a:\n    - b  # c\n\n\n# end\n", "---\na: &x {b: 1}\nc: *x\n"],
    "toml": ["", "# mine\n", 'a = 1\n[b]\nc = "d"  # e\n\n\n[f]\n', "a = 1"],
}
TEXTS |= {"jsonc": TEXTS["json"] + TEXTS["jsonc"], "json5": TEXTS["json"] + TEXTS["jsonc"] + TEXTS["json5"]}
SITES = [
    (f"{host.name} {target.file.name}", Site(target.format, target.key, host.entry, host.owned, doors))
    for host in HOSTS.values()
    for where in [Where(Path("/home/u"), {}, project=Path("/home/u/work"))]
    for targets, doors in [(host.targets, host.doors), *((one.targets, one.doors) for one in host.beside)]
    for target in targets(where)
]


@pytest.mark.parametrize("site", [site for _, site in SITES], ids=[name for name, _ in SITES])
def test_for_every_host_what_was_there_comes_back_to_the_byte(site: Site) -> None:
    servers = tuple(SERVER_NAMES.values())
    argv = ("-I", "-m", "sparkgate.stdio")
    launches = [Launch(server, "/v/bin/python", (*argv, toolset)) for toolset, server in SERVER_NAMES.items()]
    for text in TEXTS[site.format]:
        known = Registration("h", "", "/f")
        plan = adding(site, launches, Wish(close_doors=True), text, known)
        assert plan.text and [step.action for step in plan.steps] == ["add"] * 3
        again = adding(site, launches, Wish(close_doors=True), plan.text, plan.registration)
        assert (again.text, again.registration) == (plan.text, plan.registration)
        gone = removing(site, servers, Wish(), plan.text, plan.registration)
        assert gone.text == text and gone.registration.is_empty
    made = adding(site, launches, Wish(close_doors=True), None, Registration("h", "", "/f"))
    assert removing(site, servers, Wish(), made.text, made.registration).text is None
