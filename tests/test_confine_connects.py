"""Who is confined reaches the sockets of its own network namespace and no other, however it names them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confined_box import USERS, case, case_command, command, confined, environment, open_folder, refusals

from sparkgate.confine.callers import FOREIGN, MAGIC, OTHER_NETWORK, UNOWNED, path_of

pytestmark = [pytest.mark.confining, pytest.mark.parametrize("uid", USERS)]
UNIX = b"\1\0"
ADDRESSES = [
    (UNIX + b"/run/a", b"/run/a"),
    (UNIX + b"a\0b", b"a"),
    (UNIX + b"a" * 108, b"a" * 108),
    (UNIX + b"a" * 109, None),
    (UNIX + b"\0abstract", None),
    (UNIX, None),
    (b"\1", None),
    (b"", None),
    (b"\2\0/run/a", None),
    (b"\0\0/run/a", None),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


class Foreign:
    """A socket of the network namespace of the tests."""

    def __init__(self, server: socket.socket) -> None:
        self.server = server

    @property
    def reached(self) -> bool:
        try:
            self.server.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@contextmanager
def foreign(address: str) -> Iterator[Foreign]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        if address.startswith("/"):
            Path(address).chmod(0o777)
        server.listen(4096)
        server.setblocking(False)
        yield Foreign(server)


@contextmanager
def started(line: list[str], given: object) -> Iterator[subprocess.Popen[str]]:
    """A case that has begun and waits for a line."""
    pipe = subprocess.PIPE
    with subprocess.Popen(line, env=environment(), text=True, stdin=pipe, stdout=pipe, stderr=pipe) as running:
        assert running.stdin and running.stdout
        running.stdin.write(json.dumps(given) + "\n")
        running.stdin.flush()
        assert running.stdout.readline() == "ready\n"
        yield running


@pytest.mark.parametrize(("address", "path"), ADDRESSES)
def test_an_address_has_a_path_exactly_when_the_kernel_would_look_for_a_file(
    uid: int | None, address: bytes, path: bytes | None
) -> None:
    assert path_of(address) == path


def test_a_socket_of_its_own_is_reached_by_every_name(uid: int | None, folder: Path) -> None:
    found, refused = case(uid, "own", str(folder))
    assert found == {"found": ["done"] * 9, "user": True, "tcp": True}
    assert refused == []


def test_a_connect_ends_as_it_would_have_without_a_supervisor(uid: int | None) -> None:
    with open_folder() as one, open_folder() as other:
        free, _ = case(uid, "as_the_kernel", str(one), options=("--open",))
        supervised, refused = case(uid, "as_the_kernel", str(other))
    assert supervised == free
    assert {"done", "ENOENT", "ENOTDIR", "ECONNREFUSED", "EINVAL", "EFAULT", "EBADF", "ENOTSOCK", "EISCONN"} <= set(
        free
    )
    assert refused == [UNOWNED, UNOWNED]


def test_a_foreign_socket_is_out_of_reach_by_every_name(uid: int | None, folder: Path) -> None:
    path = str(folder / "foreign")
    (folder / "sub").mkdir()
    (folder / "mounted").touch()
    (folder / "link").symlink_to("foreign")
    (folder / "absolute").symlink_to(path)
    names = [path, "../foreign", "../link", "../absolute", "../hard", str(folder / "mounted")]
    by_proc = [f"/proc/self/root{path}", "/proc/self/cwd/../foreign", "/proc/self/fd/HANDLE", f"/proc/1/root{path}"]
    given = {"folder": str(folder / "sub"), "paths": names + by_proc, "handle": path}
    with foreign(path) as there:
        (folder / "hard").hardlink_to(path)
        found, refused = case(uid, "reach", given, options=("--bind", path, str(folder / "mounted")))
        assert not there.reached
    assert found[: len(names)] == ["EACCES"] * len(names)
    assert set(found[len(names) :]) <= {"EACCES", "ENOENT"}
    assert refused[: len(names)] == [FOREIGN] * len(names)
    assert set(refused[len(names) :]) <= {MAGIC}


def test_a_foreign_socket_that_comes_later_is_out_of_reach(uid: int | None, folder: Path) -> None:
    path = str(folder / "late")
    line = command(uid, *case_command(uid, "reach"))
    with ExitStack() as held, started(line, {"folder": "/", "paths": [path], "wait": True}) as running:
        there = held.enter_context(foreign(path))
        out, said = running.communicate("go\n")
        assert not there.reached
    assert out.strip() == '["EACCES"]'
    assert refusals(said) == [FOREIGN]


def test_an_allowed_socket_is_reached_by_every_name_and_no_other_is(uid: int | None, folder: Path) -> None:
    one, other = str(folder / "one"), str(folder / "other")
    for name in ("link", "later"):
        (folder / name).symlink_to("one")
    options = ("--allow", str(folder / "link"), "--allow", str(folder / "gone" / "no"))
    with foreign(one) as allowed, foreign(other) as there:
        found, refused = case(uid, "reach", {"folder": "/", "paths": [one, other, str(folder / "later")]}, options)
        assert allowed.reached and not there.reached
    assert (found, refused) == (["done", "EACCES", "done"], [FOREIGN])


def test_an_allowed_socket_may_come_later_but_a_link_may_not(uid: int | None, folder: Path) -> None:
    late, other = str(folder / "late"), str(folder / "other")
    line = command(uid, *case_command(uid, "reach"), options=("--allow", late, "--allow", str(folder / "swapped")))
    given = {"folder": "/", "paths": [late, str(folder / "swapped")], "wait": True}
    with ExitStack() as held, started(line, given) as running:
        allowed, there = held.enter_context(foreign(late)), held.enter_context(foreign(other))
        (folder / "swapped").symlink_to(other)
        out, said = running.communicate("go\n")
        assert allowed.reached and not there.reached
    assert (out.strip(), refusals(said)) == ('["done", "EACCES"]', [FOREIGN])


def test_an_abstract_name_is_of_its_own_network(uid: int | None, folder: Path) -> None:
    name = f"sg-{os.getpid()}"
    with foreign(f"\0{name}") as there:
        found, refused = case(uid, "reach", {"folder": "/", "paths": [f"\\0{name}"]})
        assert not there.reached
    assert found == ["ECONNREFUSED"]
    assert refused == []


def test_a_socket_that_was_made_outside_connects_to_nothing(uid: int | None, folder: Path) -> None:
    name = f"\0sg-{os.getpid()}"
    with (
        foreign(name) as there,
        socket.socket() as tcp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket() as server,
    ):
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        given = {"sockets": [[tcp.fileno(), server.getsockname()], [unix.fileno(), name]]}
        found, refused = case(uid, "inherited", given, pass_fds=(tcp.fileno(), unix.fileno()))
        assert not there.reached and not Foreign(server).reached
    assert found == ["EACCES", "EACCES"]
    assert refused == [OTHER_NETWORK, OTHER_NETWORK]


@pytest.mark.parametrize("race", ["swapped_address", "swapped_link", "swapped_descriptor"])
def test_changing_what_is_being_judged_wins_nothing(uid: int | None, folder: Path, race: str) -> None:
    path = str(folder / "foreign")
    with foreign(path) as there:
        counts, refused = case(uid, race, {"good": str(folder / "good"), "foreign": path})
        assert not there.reached
    assert sum(counts.values()) == 3000
    assert counts.get("EACCES", 0) == refused.count(FOREIGN)


def test_connects_that_wait_hold_up_nobody_and_are_bounded(uid: int | None, folder: Path) -> None:
    found, _ = case(uid, "waiting", str(folder))
    assert found == {"in progress": "EINPROGRESS", "full": "EAGAIN", "too many": ["EAGAIN"] * 6, "let in": ["done"]}


def test_a_caller_that_dies_in_mid_call_leaves_the_others_served(uid: int | None, folder: Path) -> None:
    found, _ = case(uid, "killed", str(folder))
    assert found == ["done", "ENOENT"]


def test_threads_connect_at_once(uid: int | None, folder: Path) -> None:
    found, refused = case(uid, "crowd", str(folder))
    assert found == ["done"] * 8
    assert refused == []


def test_a_thread_with_descriptors_of_its_own_connects_its_own_socket(uid: int | None, folder: Path) -> None:
    try:
        os.close(os.pidfd_open(os.getpid(), os.O_EXCL))
    except OSError:
        pytest.skip("this kernel has no pidfd of a thread")
    assert case(uid, "own_table", str(folder)) == ("done", [])


NODE = """
const net = require("net"), dgram = require("dgram"), path = process.argv[1] + "/node";
const say = (name) => (socket) => { socket.end(name); };
const read = (options) => new Promise((done) => {
  let text = ""; const client = net.connect(options, () => {});
  client.on("data", (some) => text += some).on("error", (error) => done(error.code)).on("end", () => done(text));
});
const one = net.createServer(say("path")).listen(path, () => {
  const two = net.createServer(say("port")).listen(0, "127.0.0.1", async () => {
    const port = {port: two.address().port, host: "localhost"};
    const found = [await read({path}), await read(port), await read({path: process.argv[2]})];
    console.log(JSON.stringify(found)); one.close(); two.close();
  });
});
"""


def test_node_reaches_its_own_sockets_only(uid: int | None, folder: Path) -> None:
    node = shutil.which("node", path="/usr/bin:/usr/local/bin")
    if not node:
        pytest.skip("no node that every user can start")
    path = str(folder / "foreign")
    with foreign(path) as there:
        ran = confined(uid, node, "-e", NODE, str(folder), path)
        assert not there.reached
    assert ran.stdout.strip() == '["path","port","EACCES"]', ran.stderr
    assert refusals(ran.stderr) == [FOREIGN]
