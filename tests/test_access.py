"""Who may use which toolset: decisions as a table, and connections of other users as the kernel names them."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from box import Box, Host
from engine_box import until
from fake_searxng import FakeSearxng

from sparkgate.access import Asker, asker, refusal, toolsets
from sparkgate.access_settings import AccessSettings
from sparkgate.admission import Admission
from sparkgate.link import Peer, peer, peer_groups
from sparkgate.policy.guard import Guard
from sparkgate.policy.trail.read import read_rows
from sparkgate.services import Services
from sparkgate.settings import SettingsError, load, rows
from sparkgate.version import __version__

OWN, ROOT, ALICE, BOB = 990, 0, 41_001, 41_002
AGENTS, FRIENDS = 42_001, 42_002
CONFIG = "/etc/sparkgate/config.toml"
NONE = AccessSettings()
GIVEN = AccessSettings(
    users={"alice": ("search",), "41002": ("bench",)}, groups={"agents": ("engine",), "42002": ("search", "bench")}
)
NAMES = {ALICE: "alice", OWN: "sparkgate", 41_003: "41002"}
GROUPS = {AGENTS: "agents"}


def who(uid: int, *gids: int, told: bool = True) -> Asker:
    return asker(uid, gids if told else None, lambda uid: NAMES.get(uid, ""), lambda gid: GROUPS.get(gid, ""))


ALL = ("search", "engine", "bench")
DECIDED: dict[str, tuple[AccessSettings, Asker, tuple[str, ...]]] = {
    "the gate's own user has everything": (NONE, who(OWN), ALL),
    "also when others are given something": (GIVEN, who(OWN), ALL),
    "also when its groups are not told": (GIVEN, who(OWN, told=False), ALL),
    "nobody else has anything while nothing is given": (NONE, who(ALICE, AGENTS), ()),
    "nor has root": (NONE, who(ROOT), ()),
    "root has everything once something is given": (GIVEN, who(ROOT), ALL),
    "a user by name": (GIVEN, who(ALICE), ("search",)),
    "a user by number": (GIVEN, who(BOB), ("bench",)),
    "a name that looks like a number is nobody's number": (GIVEN, who(41_003), ()),
    "a group by name": (GIVEN, who(BOB, AGENTS), ("engine", "bench")),
    "a group by number": (GIVEN, who(ALICE, FRIENDS), ("search", "bench")),
    "several groups are taken together": (GIVEN, who(41_004, AGENTS, FRIENDS), ALL),
    "who is in none has nothing": (GIVEN, who(41_004, 1, 2), ()),
    "groups that are not told are no way in": (GIVEN, who(41_004, AGENTS, told=False), ()),
    "what a number has depends on no groups": (GIVEN, who(BOB, AGENTS, told=False), ("bench",)),
    "nor does what a name has": (GIVEN, who(ALICE, FRIENDS, told=False), ("search",)),
    "an empty list is nothing": (AccessSettings(users={"alice": ()}), who(ALICE), ()),
}


@pytest.mark.parametrize("case", DECIDED)
def test_who_may_use_what(case: str) -> None:
    given, one, may = DECIDED[case]
    assert tuple(name for name in ALL if not refusal(given, one, name, OWN, CONFIG)) == may


@pytest.mark.parametrize(
    ("one", "do", "may"),
    [
        (who(OWN), "stop", True),
        (who(ROOT), "stop", True),
        (who(ALICE), "stop", False),
        (who(ALICE), "status", True),
        (who(41_004), "status", False),
        (who(41_004), "stop", False),
    ],
)
def test_status_is_for_who_may_use_something_and_the_end_for_the_owner_and_root(one: Asker, do: str, may: bool) -> None:
    assert (not refusal(GIVEN, one, "control", OWN, CONFIG, do)) is may


def test_root_may_control_a_gate_that_gives_nobody_anything() -> None:
    assert not refusal(NONE, who(ROOT), "control", OWN, CONFIG, "stop")
    assert refusal(NONE, who(ALICE), "control", OWN, CONFIG, "status")


def test_a_refusal_names_who_what_and_where_it_is_given() -> None:
    assert refusal(GIVEN, who(ALICE), "engine", OWN, CONFIG) == (
        f"alice may not use engine here; the operator gives it in [access] of {CONFIG}"
    )
    assert refusal(GIVEN, who(41_004), "engine", OWN, CONFIG).startswith("user 41004 may not use this gate; ")
    assert "the kernel does not tell its groups" in refusal(GIVEN, who(ALICE, told=False), "engine", OWN, CONFIG)


def test_a_confinement_is_for_who_may_use_something() -> None:
    assert not refusal(GIVEN, who(ALICE), "confine", OWN, CONFIG)
    assert refusal(GIVEN, who(41_004), "confine", OWN, CONFIG)
    assert toolsets(GIVEN, who(41_004)) == frozenset()


MODELS: dict[str, tuple[AccessSettings, Asker, bool]] = {
    "the gate's own user": (NONE, who(OWN), True),
    "root": (GIVEN, who(ROOT), True),
    "who has toolsets": (AccessSettings(users={"alice": ALL}), who(ALICE), False),
    "who has models": (AccessSettings(users={"alice": ("search", "models")}), who(ALICE), True),
    "who has models alone": (AccessSettings(users={"alice": ("models",)}), who(ALICE), True),
    "by a group": (AccessSettings(groups={"agents": ("models",)}), who(ALICE, AGENTS), True),
    "by a group that is not told": (AccessSettings(groups={"agents": ("models",)}), who(ALICE, told=False), False),
}


@pytest.mark.parametrize("case", MODELS)
def test_who_may_have_the_models(case: str) -> None:
    given, one, may = MODELS[case]
    assert (not refusal(given, one, "models", OWN, CONFIG)) is may


# -- the settings


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


@pytest.mark.parametrize(
    "text",
    [
        '[access.users]\nalice = ["search"]\n1001 = ["bench"]\n[access.groups]\nagents = ["engine", "search"]\n',
        '[access]\nusers.alice = ["search"]\nusers.1001 = ["bench"]\ngroups.agents = ["engine", "search"]\n',
    ],
    ids=["tables", "dotted"],
)
def test_both_ways_of_writing_it_mean_the_same(config: Path, text: str) -> None:
    config.write_text(text)
    given = load(config)
    assert given.access.users == {"alice": ("search",), "1001": ("bench",)}
    assert given.access.groups == {"agents": ("engine", "search")}
    told = {row.key: row for row in rows(given, config) if row.key.startswith("access.")}
    assert set(told) == {"access.users.alice", "access.users.1001", "access.groups.agents"}
    assert told["access.users.alice"].value == ("search",) and told["access.users.alice"].origin == f"{config}:2"
    assert told["access.users.1001"].origin == f"{config}:3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '\n[access.users]\nalice = ["serach"]\n',
            "3: access.users.alice holds 'serach', which nobody can be given; did you mean 'search'?",
        ),
        ('[access]\ngroups.a = ["model"]\n', "holds 'model', which nobody can be given; did you mean 'models'?"),
        (
            '[access]\ngroups.a = ["control"]\n',
            "2: access.groups.a holds 'control', which nobody can be given (known: bench, ",
        ),
        ("[access.users]\nalice = 'search'\n", "2: access.users.alice must be a list of words"),
        ("[access.users]\nalice = true\n", "2: access.users.alice must be a list of words"),
        ('[access.user]\nalice = ["search"]\n', "access.user is not a table of it; did you mean 'users'?"),
        ("[access]\nusers = 5\n", "2: access.users is not a table of it"),
        ("access = 5\n", "1: access holds tables such as [access.users]"),
        ("[acces.users]\nalice = []\n", "did you mean 'access'?"),
    ],
)
def test_a_mistake_in_it_is_told_with_its_line_and_the_nearest_name(config: Path, text: str, said: str) -> None:
    config.write_text(text)
    with pytest.raises(SettingsError) as told:
        load(config)
    assert said in str(told.value) and str(told.value).startswith(f"{config}:")


# -- what the kernel says


def test_the_kernel_tells_of_both_ends_of_a_connection_who_they_are() -> None:
    here, there = socket.socketpair()
    with here, there:
        assert peer(here) == Peer(os.getpid(), os.getuid(), os.getgid())
        groups = peer_groups(there)
        assert groups and set(groups) == {os.getgid(), *os.getgroups()}


def test_groups_of_a_connection_that_has_none_are_not_told() -> None:
    with socket.socket(socket.AF_INET) as unconnected:
        assert peer_groups(unconnected) is None


# -- connections of other users

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be other users")
AS_USER = """
import json, os, socket, sys
uid, gids = int(sys.argv[1]), [int(one) for one in sys.argv[2].split(",")]
os.setgroups(gids[1:]); os.setgid(gids[0]); os.setuid(uid)
"""
SAY = (
    AS_USER
    + """
with socket.socket(socket.AF_UNIX) as link:
    link.settimeout(30)
    link.connect(sys.argv[3])
    link.sendall(sys.argv[4].encode() + b"\\n")
    with link.makefile("rb") as answers:
        print(answers.readline().decode())
"""
)


def hello_of(toolset: str, **more: Any) -> str:
    return json.dumps({"sparkgate": 1, "toolset": toolset, "version": __version__, **more})


class Door:
    """A gate of root in a box, whose folders let others come as far as its socket."""

    def __init__(self, box: Box) -> None:
        self.box = box
        box.host().initialize()
        for folder in (box.root, box.root / "run", box.runtime):
            folder.chmod(0o711)
        box.socket.chmod(0o666)

    def say(self, toolset: str, uid: int, /, *gids: int, **more: Any) -> dict[str, Any]:
        """What the gate answers to a hello of that user."""
        hello = hello_of(toolset, **more)
        groups = ",".join(map(str, gids or (uid,)))
        process = Host(self.started(SAY, str(uid), groups, str(self.box.socket), hello))
        return process.read()

    def started(self, code: str, *words: str) -> Any:
        return self.box.host(sys.executable, "-I", "-c", code, *words).process


@pytest.fixture
def door(box: Box, searxng: FakeSearxng) -> Iterator[Door]:
    box.use(searxng.url)
    yield Door(box)


def give(box: Box, searxng: FakeSearxng, text: str) -> None:
    box.configure(f'[searxng]\nurl = "{searxng.url}"\n[access]\n{text}\n')


@needs_root
def test_who_is_refused_is_told_why_and_leaves_a_row(door: Door) -> None:
    answer = door.say("search", ALICE)
    assert answer["gate"] == "refused"
    assert answer["reason"].endswith(f"the operator gives it in [access] of {door.box.config}")
    row = door.box.rows()[-1]
    told = {name: row[name] for name in ("uid", "gid", "tool", "destination", "verdict", "outcome", "sent")}
    assert told == {
        **{"uid": ALICE, "gid": ALICE, "tool": "connect", "destination": "gate", "verdict": "block"},
        **{"outcome": "withheld", "sent": ""},
    }
    assert row["pid"] > 0 and row["fields"] == {"toolset": "search"} and row["findings"][0]["rule"] == "access"
    assert door.box.events("connection_refused")[-1]["uid"] == ALICE


@needs_root
def test_a_change_of_access_counts_from_the_next_connection_on(door: Door, searxng: FakeSearxng) -> None:
    give(door.box, searxng, f'users.{ALICE} = ["search"]')
    assert door.say("search", ALICE)["gate"] == "ready"
    assert "may not use engine here" in door.say("engine", ALICE)["reason"]
    give(door.box, searxng, f'users.{ALICE} = ["engine"]')
    assert door.say("search", ALICE)["gate"] == "refused"
    assert door.say("engine", ALICE)["gate"] == "ready"


@needs_root
def test_a_group_counts_as_the_kernel_tells_it_and_not_as_a_caller_says(door: Door, searxng: FakeSearxng) -> None:
    give(door.box, searxng, f'groups.{AGENTS} = ["search"]')
    assert door.say("search", ALICE, ALICE, FRIENDS, AGENTS)["gate"] == "ready"
    assert door.say("search", BOB, AGENTS)["gate"] == "ready"
    words = {"uid": 0, "gid": AGENTS, "groups": [AGENTS], "user": "root"}
    assert door.say("search", BOB, BOB, FRIENDS, **words)["gate"] == "refused"


@needs_root
def test_others_ask_for_the_status_when_they_may_use_something_and_end_nothing(
    door: Door, searxng: FakeSearxng
) -> None:
    give(door.box, searxng, f'users.{ALICE} = ["search"]')
    assert door.say("control", ALICE, do="status")["running"]
    assert "may not stop this gate" in door.say("control", ALICE, do="stop")["reason"]
    assert door.say("control", BOB, do="status")["gate"] == "refused"
    assert door.box.gate_status()["running"]


@needs_root
def test_a_pipe_of_another_user_and_version_does_not_end_the_gate(door: Door, searxng: FakeSearxng) -> None:
    give(door.box, searxng, f'users.{ALICE} = ["search"]')
    before = door.box.gate_pids()
    assert door.say("search", ALICE, version="0.0.1")["gate"] == "ready"
    assert door.box.gate_pids() == before


@needs_root
def test_with_a_configuration_that_cannot_be_used_nobody_else_comes_in(door: Door) -> None:
    door.box.configure("[access\n")
    answer = door.say("search", ALICE)
    assert answer["gate"] == "refused" and "cannot be used" in answer["reason"] and "[access\n" not in answer["reason"]


# -- confinements of other users

CONFINE = (
    AS_USER
    + """
path, said, count, place = sys.argv[3], sys.argv[4].encode(), int(sys.argv[5]), sys.argv[6]
links = [socket.socket(socket.AF_UNIX) for _ in range(count)]
def told(link):
    answer = b""
    while not answer.endswith(b"\\n") and (more := link.recv(65536)):
        answer += more
    print(answer.decode().strip(), flush=True)
for link in links:
    link.settimeout(30)
    link.connect(path)
    link.sendall(said + b"\\n")
    told(link)
def hand(link):
    own, door = socket.socket(socket.AF_UNIX), socket.create_server(("127.0.0.1", 0))
    own.bind(place)
    own.listen()
    names = json.dumps({"listeners": [".gate", "main"]}).encode() + b"\\n"
    socket.send_fds(link, [names], [own.fileno(), door.fileno()])
    told(link)
    try:
        socket.socket().connect(door.getsockname())
        print(json.dumps({"door": "connected"}), flush=True)
    except ConnectionRefusedError:
        print(json.dumps({"door": "refused"}), flush=True)
    return own, door
kept = hand(links[-1]) if place else ()
sys.stdin.read()
"""
)


def confining(door: Door, uid: int, count: int = 1, place: Path | str = "") -> Host:
    """Asks for confinements, and hands the listeners of the last one over where there is a place for them."""
    words = (str(uid), str(uid), str(door.box.socket), hello_of("confine"), str(count), str(place))
    return door.box.host(sys.executable, "-I", "-c", CONFINE, *words)


ENGINE = '[engines.main]\nurl = "http://127.0.0.1:9"\nengine = "openai"\n'


@pytest.fixture
def place() -> Iterator[Path]:
    """Where anybody may bind a socket."""
    with TemporaryDirectory(prefix="sga-") as made:
        Path(made).chmod(0o777)
        yield Path(made) / "inside.sock"


@needs_root
def test_a_confinement_of_who_has_no_models_gets_the_gate_and_no_engine(
    door: Door, searxng: FakeSearxng, place: Path
) -> None:
    give(door.box, searxng, f'users.{ALICE} = ["search"]\n{ENGINE}')
    host = confining(door, ALICE, place=place)
    greeting = host.read()
    assert greeting["gate"] == "ready" and greeting["doors"] == []
    reason = f"user {ALICE} may not use models here; the operator gives it in [access] of {door.box.config}"
    assert greeting["refused"] == [reason]
    assert host.read() == {"gate": "open"}
    assert host.read() == {"door": "refused"}
    assert door.box.gate_status()["confinements"][0]["doors"] == {}
    inside = Host(door.started(SAY, str(ALICE), str(ALICE), str(place), hello_of("search")))
    assert inside.read()["gate"] == "ready"
    row = door.box.rows()[-1]
    assert (row["tool"], row["uid"], row["findings"][0]["rule"]) == ("confine", ALICE, "models")


@needs_root
@pytest.mark.parametrize("given", ['users.41001 = ["search", "models"]', 'groups.41001 = ["models"]'])
def test_a_confinement_of_who_has_models_gets_the_engines(
    door: Door, searxng: FakeSearxng, place: Path, given: str
) -> None:
    give(door.box, searxng, f"{given}\n{ENGINE}")
    host = confining(door, ALICE, place=place)
    assert [one["name"] for one in host.read()["doors"]] == ["main"]
    assert host.read() == {"gate": "open"}
    assert host.read() == {"door": "connected"}
    assert list(door.box.gate_status()["confinements"][0]["doors"]) == ["main"]
    assert "no toolset 'models'" in door.say("models", ALICE)["reason"]


@needs_root
def test_a_user_gets_a_part_of_the_confinements_and_others_are_served_meanwhile(
    door: Door, searxng: FakeSearxng
) -> None:
    give(door.box, searxng, f'users.{ALICE} = ["search"]\nusers.{BOB} = ["search"]')
    host = confining(door, ALICE, count=9)
    told = [host.read() for _ in range(9)]
    assert [one["gate"] for one in told] == ["ready"] * 8 + ["refused"]
    assert told[8]["reason"] == "8 confinements of this user run already; end one of them first"
    assert confining(door, BOB).read()["gate"] == "ready"
    own = confining(door, os.getuid(), count=9)
    assert {own.read()["gate"] for _ in range(9)} == {"ready"}
    host.close()
    until(lambda: len(door.box.gate_status()["confinements"]) <= 10, "the eight are gone")
    assert confining(door, ALICE).read()["gate"] == "ready"


def test_who_is_refused_again_and_again_gets_one_row_a_minute(tmp_path: Path) -> None:
    """Else it could push the rows of others out of a log that is kept to a size."""
    now = [100.0]
    state = tmp_path / "state"
    services = Services(tmp_path / "config.toml", state, Guard())
    admission = Admission(services, now_s=lambda: now[0])

    def refused(uid: int, toolset: str) -> int:
        assert admission.refusal(Peer(7, uid, uid), (uid,), toolset, "")
        return len(read_rows(state / "audit.db", limit=100))

    assert [refused(ALICE, "search"), refused(ALICE, "search"), refused(ALICE, "nonsense")] == [1, 1, 2]
    assert [refused(BOB, "search"), refused(ALICE, "search")] == [3, 3]
    now[0] += 61
    assert refused(ALICE, "search") == 4


@needs_root
def test_who_is_in_more_groups_than_can_be_read_counts_as_one_without(box: Box) -> None:
    code = "import os, socket; from sparkgate.link import peer_groups; os.setgroups(range(1, {count})); "
    code += "print(len(peer_groups(socket.socketpair()[0]) or ()))"
    told = [box.host(sys.executable, "-I", "-c", code.format(count=count)).stdout.readline() for count in (257, 300)]
    assert told == [b"257\n", b"0\n"]
