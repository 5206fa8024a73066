"""The connection guard, each time in a process of its own, beside a listener that must see nothing."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

PATIENCE_S = 30.0

PRELUDE = """
import asyncio, contextlib, json, os, socket, sys, threading
import http.client, urllib.request
import httpx
from sparkgate.policy.guard import ConnectionRefusedByPolicy, Guard

PORT, UDP, UNIX = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
HERE = ("127.0.0.1", PORT)
guard = Guard()
guard.install()


def refused(act):
    # The word for what came of `act`: "refused", or what it gave or raised instead.
    try:
        return f"did: {act()!r}"
    except BaseException as error:
        while error is not None:
            if isinstance(error, ConnectionRefusedByPolicy):
                return "refused" if not told(error) else f"told: {error}"
            error = error.__cause__ or error.__context__
        return f"raised: {sys.exc_info()[1]!r}"


def told(error):
    words = f"{error!r} {error.args} {error.filename}"
    return any(word in words for word in ("127.0.0.1", "localhost", str(PORT), UNIX))


def tcp(family=socket.AF_INET, kind=socket.SOCK_STREAM):
    made = socket.socket(family, kind)
    made.settimeout(5)
    return made


def say(address, family=socket.AF_INET):
    with tcp(family) as made:
        made.connect(address)
        made.sendall(b"hello")


def answer(value):
    print(json.dumps(value))
"""


@dataclass
class Listeners:
    """Everything on loopback that could hear something."""

    tcp: socket.socket
    udp: socket.socket
    unix: socket.socket
    path: str

    @property
    def arguments(self) -> list[str]:
        return [str(self.tcp.getsockname()[1]), str(self.udp.getsockname()[1]), self.path]

    def heard(self) -> list[str]:
        """Names of the listeners that something reached. What was accepted is closed again."""
        found = []
        for name, listener in (("tcp", self.tcp), ("unix", self.unix)):
            try:
                listener.accept()[0].close()
                found.append(name)
            except BlockingIOError:
                continue
        try:
            self.udp.recv(100)
            found.append("udp")
        except BlockingIOError:
            pass
        return found


@pytest.fixture
def listeners(tmp_path: Any) -> Iterator[Listeners]:
    path = str(tmp_path / "s")
    tcp, udp, unix = socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
    with closing(tcp), closing(udp), closing(unix):
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        unix.bind(path)
        tcp.listen()
        unix.listen()
        for one in (tcp, udp, unix):
            one.setblocking(False)
        yield Listeners(tcp, udp, unix, path)


def run(listeners: Listeners, program: str) -> Any:
    """What the guarded program gave to `answer`."""
    done = subprocess.run(
        [sys.executable, "-I", "-W", "ignore", "-c", PRELUDE + program, *listeners.arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


WAYS = {
    "connect": "tcp().connect(HERE)",
    "connect_ex": "tcp().connect_ex(HERE)",
    "create_connection": "socket.create_connection(HERE, 5)",
    "connect without blocking": "(made := tcp(), made.setblocking(False), made.connect(HERE))",
    "connect of the C module": "__import__('_socket').socket().connect(HERE)",
    "a bytes address": "tcp().connect((b'127.0.0.1', PORT))",
    "a short spelling": "tcp().connect(('127.1', PORT))",
    "no address": "tcp().connect(('', PORT))",
    "all addresses": "tcp().connect(('0.0.0.0', PORT))",
    "UDP sendto": "tcp(kind=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', UDP))",
    "UDP sendmsg": "tcp(kind=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('127.0.0.1', UDP))",
    "UDP connect": "tcp(kind=socket.SOCK_DGRAM).connect(('127.0.0.1', UDP))",
    "TCP fast open": "tcp().sendto(b'x', 0x20000000, HERE)",
    "unix socket": "tcp(socket.AF_UNIX).connect(UNIX)",
    "unix socket as bytes": "tcp(socket.AF_UNIX).connect(UNIX.encode())",
    "unix datagram": "tcp(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', UNIX)",
    "IPv6": "tcp(socket.AF_INET6).connect(('::1', PORT))",
    "IPv4 mapped": "tcp(socket.AF_INET6).connect(('::ffff:127.0.0.1', PORT))",
    "urllib": "urllib.request.urlopen(f'http://127.0.0.1:{PORT}/', timeout=5)",
    "http.client": "http.client.HTTPConnection('127.0.0.1', PORT, timeout=5).request('GET', '/')",
    "httpx": "httpx.get(f'http://127.0.0.1:{PORT}/', trust_env=False)",
    "httpx through a proxy": "httpx.get('http://nowhere.invalid/', proxy=f'http://127.0.0.1:{PORT}')",
    "httpx over a unix socket": "httpx.Client(transport=httpx.HTTPTransport(uds=UNIX)).get('http://h/')",
    "httpx async": "asyncio.run(httpx.AsyncClient(trust_env=False).get(f'http://127.0.0.1:{PORT}/'))",
    "asyncio streams": "asyncio.run(asyncio.open_connection('127.0.0.1', PORT))",
    "asyncio unix": "asyncio.run(asyncio.open_unix_connection(UNIX))",
    "getaddrinfo": "socket.getaddrinfo('localhost', PORT)",
    "getaddrinfo of nothing": "socket.getaddrinfo(None, PORT)",
    "gethostbyname": "socket.gethostbyname('localhost')",
    "gethostbyname_ex": "socket.gethostbyname_ex('localhost')",
    "gethostbyaddr": "socket.gethostbyaddr('127.0.0.1')",
    "getnameinfo": "socket.getnameinfo(HERE, 0)",
    "urllib by name": "urllib.request.urlopen(f'http://localhost:{PORT}/', timeout=5)",
}


def test_without_a_permit_no_way_to_a_listener_is_open(listeners: Listeners) -> None:
    program = f"answer({{name: refused(lambda: eval(code)) for name, code in {WAYS!r}.items()}})"
    assert run(listeners, program) == dict.fromkeys(WAYS, "refused")
    assert listeners.heard() == []


@pytest.mark.parametrize(
    "way",
    [
        "tcp().connect(('n0such.invalid', 80))",
        "tcp().connect_ex(('n0such.invalid', 80))",
        "tcp(kind=socket.SOCK_DGRAM).sendto(b'x', ('n0such.invalid', 53))",
        "tcp(kind=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('n0such.invalid', 53))",
        "tcp().bind(('n0such.invalid', 0))",
    ],
)
def test_a_name_in_the_place_of_an_address_is_not_looked_up(listeners: Listeners, way: str) -> None:
    """The C code asks the resolver before the event of the call is raised, and a look-up can carry a secret."""
    assert run(listeners, f"answer(refused(lambda: {way}))") == "refused"


def test_another_thread_is_refused_as_well(listeners: Listeners) -> None:
    program = """
found = []
thread = threading.Thread(target=lambda: found.append(refused(lambda: say(HERE))))
thread.start(); thread.join()
answer(found)
"""
    assert run(listeners, program) == ["refused"]
    assert listeners.heard() == []


def test_a_subinterpreter_is_no_way_around(listeners: Listeners) -> None:
    """Audit hooks of Python code belong to one interpreter."""
    program = """
def act():
    try:
        import _xxsubinterpreters as sub
    except ImportError:
        import _interpreters as sub
    sub.run_string(sub.create(), f"import socket; socket.create_connection({HERE!r}, 5).sendall(b'x')")
answer(refused(act))
"""
    assert run(listeners, program) == "refused"
    assert listeners.heard() == []


def test_a_permit_opens_one_address_and_port_and_nothing_beside_it(listeners: Listeners) -> None:
    program = """
with guard.addresses(frozenset({HERE})):
    say(HERE)
    other = [refused(lambda a=a, f=f: say(a, f)) for a, f in (
        (("127.0.0.1", UDP), socket.AF_INET), (("127.0.0.2", PORT), socket.AF_INET), (("127.1", PORT), socket.AF_INET),
        (("::ffff:127.0.0.1", PORT), socket.AF_INET6), (UNIX, socket.AF_UNIX))]
    other.append(refused(lambda: socket.getaddrinfo("localhost", PORT)))
    other.append(refused(lambda: socket.getaddrinfo("127.0.0.1", PORT)))
after = refused(lambda: say(HERE))
answer([other, after])
"""
    assert run(listeners, program) == [["refused"] * 7, "refused"]
    assert listeners.heard() == ["tcp"]


@pytest.mark.parametrize(
    "address",
    [
        "(type('Host', (str,), {'__str__': lambda self: '127.0.0.1'})('127.0.0.2'), PORT)",
        "(type('Raw', (bytes,), {'decode': lambda self, *_: '127.0.0.1'})(b'127.0.0.2'), PORT)",
        "type('Pair', (tuple,), {'__getitem__': lambda self, index: HERE[index]})(('127.0.0.2', PORT))",
    ],
    ids=["str", "bytes", "tuple"],
)
def test_an_address_that_lies_about_itself_is_refused_under_a_permit(listeners: Listeners, address: str) -> None:
    program = f"""
with guard.addresses(frozenset({{HERE}})), tcp() as other:
    other.bind(("127.0.0.2", PORT)); other.listen()
    answer(refused(lambda: tcp().connect({address})))
"""
    assert run(listeners, program) == "refused"


def test_a_permit_ends_with_its_context_even_when_the_context_fails(listeners: Listeners) -> None:
    program = """
with contextlib.suppress(ZeroDivisionError), guard.addresses(frozenset({HERE})), guard.name("localhost"):
    1 / 0
answer([refused(lambda: say(HERE)), refused(lambda: socket.getaddrinfo("localhost", PORT))])
"""
    assert run(listeners, program) == ["refused", "refused"]
    assert listeners.heard() == []


def test_of_two_permits_for_one_address_the_outer_holds_after_the_inner_has_ended(listeners: Listeners) -> None:
    program = """
pair = frozenset({HERE})
with guard.addresses(pair), guard.name("localhost"):
    with guard.addresses(pair), guard.name("localhost"):
        pass
    say(HERE)
    socket.getaddrinfo("localhost", PORT)
answer([refused(lambda: say(HERE)), refused(lambda: socket.getaddrinfo("localhost", PORT))])
"""
    assert run(listeners, program) == ["refused", "refused"]
    assert listeners.heard() == ["tcp"]


def test_permits_that_overlap_without_nesting_each_hold_to_their_own_end(listeners: Listeners) -> None:
    program = """
pair = frozenset({HERE})
first, second = guard.addresses(pair), guard.addresses(pair)
first.__enter__(); second.__enter__()
first.__exit__(None, None, None)
say(HERE)
second.__exit__(None, None, None)
answer(refused(lambda: say(HERE)))
"""
    assert run(listeners, program) == "refused"


def test_permits_of_many_threads_leave_nothing_open(listeners: Listeners) -> None:
    program = """
sys.setswitchinterval(1e-6)
def work():
    for _ in range(3000):
        with guard.addresses(frozenset({HERE})), guard.name("localhost"):
            pass
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
answer([refused(lambda: say(HERE)), refused(lambda: socket.getaddrinfo("localhost", PORT))])
"""
    assert run(listeners, program) == ["refused", "refused"]


def test_a_name_permit_opens_the_look_up_of_that_name_only(listeners: Listeners) -> None:
    program = """
with guard.name("localhost"):
    found = socket.getaddrinfo("LocalHost", PORT) and socket.getaddrinfo(b"localhost", PORT)
    answer([bool(found), refused(lambda: say(HERE)), refused(lambda: socket.getaddrinfo("localhost.", PORT)),
            refused(lambda: socket.getaddrinfo("local", PORT))])
"""
    assert run(listeners, program) == [True, "refused", "refused", "refused"]


CHILDREN = {
    "another program": "subprocess.run(['/bin/false'])",
    "more words": "subprocess.run(['/bin/echo', 'one', 'two'])",
    "fewer words": "subprocess.run(['/bin/echo'])",
    "a shell": "subprocess.run('/bin/echo one', shell=True)",
    "another program under its name": "subprocess.run(['/bin/echo', 'one'], executable='/bin/false')",
    "a bytes word": "subprocess.run([b'/bin/echo', b'one'])",
    "os.system": "os.system('/bin/echo one')",
    "os.posix_spawn": "os.posix_spawn('/bin/echo', ['/bin/echo', 'one'], {})",
    "os.fork": "os.fork()",
}


def test_a_child_is_started_only_with_exactly_the_words_of_its_permit(listeners: Listeners) -> None:
    program = f"""
import subprocess
echo = lambda: subprocess.run(["/bin/echo", "one"], stdout=subprocess.PIPE).stdout.decode()
before = refused(echo)
with guard.child(["/bin/echo", "one"]):
    inside = echo()
    others = {{name: refused(lambda: eval(code)) for name, code in {CHILDREN!r}.items()}}
answer([before, inside, others, refused(echo)])
"""
    before, inside, others, after = run(listeners, program)
    assert (before, inside, after) == ("refused", "one\n", "refused")
    assert others == dict.fromkeys(CHILDREN, "refused")


def test_installing_twice_changes_nothing(listeners: Listeners) -> None:
    program = """
guard.install()
with guard.addresses(frozenset({HERE})):
    say(HERE)
answer(refused(lambda: say(HERE)))
"""
    assert run(listeners, program) == "refused"


def test_what_needs_no_network_still_works(listeners: Listeners) -> None:
    program = """
import sqlite3, tempfile
a, b = socket.socketpair(); a.sendall(b"x"); a.sendmsg([b"y"])
async def loop(): return await asyncio.to_thread(sqlite3.connect, ":memory:")
asyncio.run(loop())
server = socket.socket(socket.AF_UNIX); server.bind(UNIX + "2"); server.listen()
answer(b.recv(9).decode())
"""
    assert run(listeners, program) == "xy"
