"""What is tried inside: `python confined_cases.py NAME` reads a line of JSON and prints what it found as another.

Standard library only, and nothing of ours: this is the agent.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import mmap
import multiprocessing
import os
import queue
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_FILES = 0x400
RACES = 3000


def outcome(attempt: Callable[[], Any]) -> str:
    """The name of the errno, "done" without one."""
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


def calls(given: list[list[int]]) -> list[str]:
    """System calls by number with up to six arguments each."""
    found = []
    for call in given:
        result = LIBC.syscall(*(ctypes.c_ulong(value) for value in call))
        found.append(errno.errorcode[ctypes.get_errno()] if result == -1 else "done")
    return found


def sockets(given: list[list[int]]) -> list[str]:
    """Sockets of a family, type and protocol."""
    return [outcome(lambda triple=triple: socket.socket(*triple).close()) for triple in given]  # type: ignore[misc]


def terminal(_: None) -> dict[str, str]:
    """A terminal of its own: characters pushed into it, and its size."""
    ours, theirs = os.openpty()
    pushed = LIBC.ioctl(theirs, ctypes.c_ulong(0x7_0000_5412), b"x")
    found = errno.errorcode[ctypes.get_errno()] if pushed else "done"
    return {"push": found, "size": outcome(lambda: os.get_terminal_size(ours))}


def set_user_id(folder: str) -> dict[str, str]:
    """Every way to make a file that runs as its owner; none of them may leave one in the folder."""
    os.chdir(folder)
    mode, made = 0o4755, os.O_CREAT | os.O_WRONLY
    for name in ("by-name", "by-handle", "from-here", "not-followed"):
        Path(name).touch()
    here, handle = os.open(".", os.O_RDONLY), os.open("by-handle", os.O_RDONLY)
    ways: dict[str, Callable[[], Any]] = {
        "chmod": lambda: Path("by-name").chmod(mode),
        "fchmod": lambda: os.fchmod(handle, mode),
        "fchmodat": lambda: os.chmod("from-here", mode, dir_fd=here),
        "lchmod": lambda: raw(LIBC.fchmodat, here, b"not-followed", mode, 0x100),
        "open": lambda: raw(LIBC.open, b"opened", made, mode),
        "openat": lambda: os.open("opened-at", made, mode, dir_fd=here),
        "unnamed": lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, mode),
        "creat": lambda: raw(LIBC.creat, b"created", mode),
        "mknod": lambda: os.mknod("node", mode | 0o100000),
        "mknodat": lambda: os.mknod("node-at", mode | 0o100000, dir_fd=here),
    }
    return {name: outcome(way) for name, way in ways.items()}


def raw(function: Callable[..., int], *arguments: int | bytes) -> None:
    if function(*arguments) == -1:
        raise OSError(ctypes.get_errno(), "refused")


MODES = """
umask 022; touch plain; chmod 0755 plain; mkdir shared; chmod g+s shared; mkdir shared/below; mkdir -m 2775 of_group
mkfifo -m 600 pipe; install -m 755 plain installed; install -d -m 2750 folder; cp -p plain copied; ln copied linked
mkdir out; tar -cf all.tar plain shared pipe; tar -C out -xpf all.tar; chmod 1777 out
if command -v git; then git init -q --shared of_git; else mkdir -p -m 2775 of_git/.git/objects; fi
"""


def modes(folder: str) -> dict[str, str]:
    """Modes that programs give to files and folders all day."""
    subprocess.run(["sh", "-ec", MODES], cwd=folder, env={"PATH": os.environ["PATH"], "HOME": folder}, check=True)
    return {
        str(path.relative_to(folder)): f"{path.stat().st_mode & 0o7777:o}"
        for path in sorted(Path(folder).rglob("*"))
        if ".git" not in path.parts or path.name == "objects"
    }


def squared(number: int) -> int:
    return number * number


def ordinary(_: None) -> dict[str, Any]:
    """What agents do all day."""
    return {
        "pairs": [outcome(lambda kind=kind: close(*socket.socketpair(socket.AF_UNIX, kind))) for kind in STREAMS],  # type: ignore[misc]
        "asyncio": asyncio.run(echoes()),
        "forkserver": pooled("forkserver"),
        "spawn": pooled("spawn"),
        "manager": managed(),
        "localhost": outcome(lambda: socket.getaddrinfo("localhost", 80)),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "getifaddrs": LIBC.getifaddrs(ctypes.byref(ctypes.c_void_p())),
        "shell": subprocess.run("echo a | tr a b; exit 3", shell=True, capture_output=True, text=True).stdout,
        "threads": threaded(squared, range(8)),
        "compiler": compiled(),
        "git": versioned(),
    }


STREAMS = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)


def close(*ends: socket.socket) -> None:
    for end in ends:
        end.close()


async def echoes() -> list[bytes]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    with tempfile.TemporaryDirectory(prefix="sg") as folder:
        by_path = await asyncio.start_unix_server(echo, f"{folder}/s")
        by_port = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = by_port.sockets[0].getsockname()[1]
        answers = []
        for opened in (asyncio.open_unix_connection(f"{folder}/s"), asyncio.open_connection("localhost", port)):
            reader, writer = await opened
            writer.write(b"hello\n")
            answers.append((await reader.readline()).decode())
            writer.close()
            await writer.wait_closed()
        by_path.close()
        by_port.close()
    return answers  # type: ignore[return-value]


def pooled(method: str) -> list[int]:
    with multiprocessing.get_context(method).Pool(2) as pool:
        return pool.map(squared, range(3))


def managed() -> dict[str, int]:
    with multiprocessing.get_context("spawn").Manager() as manager:
        shared = manager.dict()
        shared["a"] = 1
        return dict(shared)


def threaded(work: Callable[[Any], Any], given: Any) -> list[Any]:
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threads = [threading.Thread(target=lambda item=item: found.put(work(item))) for item in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(found.get() for _ in threads)


def compiled() -> str:
    if not shutil.which("gcc"):
        return "7"
    with tempfile.TemporaryDirectory(prefix="sg") as folder:
        line = ["gcc", "-x", "c", "-", "-o", f"{folder}/a"]
        subprocess.run(line, input=b"int main(){return 7;}", check=True)
        return str(subprocess.run([f"{folder}/a"]).returncode)


def versioned() -> int:
    if not shutil.which("git"):
        return 0
    with tempfile.TemporaryDirectory(prefix="sg") as folder:
        return subprocess.run(
            ["git", "init", "-q", folder], env={"PATH": os.environ["PATH"], "HOME": folder}
        ).returncode


def raw_connect(descriptor: int, address: bytes | ctypes.Array[Any] | int, length: int) -> None:
    where = ctypes.c_void_p(address) if isinstance(address, int) else address
    if LIBC.connect(descriptor, where, length) == -1:
        raise OSError(ctypes.get_errno(), "connect")


def to(path: str, kind: int = socket.SOCK_STREAM) -> str:
    with socket.socket(socket.AF_UNIX, kind) as client:
        return outcome(lambda: client.connect(path))


@contextmanager
def listening(address: Any, family: int = socket.AF_UNIX, backlog: int = 4096) -> Iterator[socket.socket]:
    with socket.socket(family) as server:
        server.bind(address)
        server.listen(backlog)
        yield server


def reach(given: dict[str, Any]) -> list[str]:
    """Connect to each path from a folder; with "wait", first says that it runs and waits for a line."""
    os.chdir(given["folder"])
    if given.get("wait"):
        print("ready", flush=True)
        sys.stdin.readline()
    handle = os.open(given["handle"], os.O_PATH) if "handle" in given else -1
    return [to(path.replace("HANDLE", str(handle)).replace("\\0", "\0")) for path in given["paths"]]


def own(folder: str) -> dict[str, Any]:
    """A socket of one's own, by each of its names, and who the other side sees."""
    os.chdir(folder)
    with listening("own") as server, listening("\0sg-own"), listening(("127.0.0.1", 0), socket.AF_INET) as tcp:
        Path("link").symlink_to("own")
        Path("absolute").symlink_to(f"{folder}/own")
        os.link("own", "hard")
        Path("deep/er").mkdir(parents=True)
        found = [to(name) for name in ("own", "link", "absolute", "hard", f"{folder}/own", "./deep/../own", "\0sg-own")]
        os.chdir("deep/er")
        found += [to("../../own"), to("../../absolute")]
        peer, _ = server.accept()
        user = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        with socket.create_connection(tcp.getsockname()) as client:
            accepted, _ = tcp.accept()
            close(accepted)
            return {"found": found, "user": user == os.getuid(), "tcp": client.getpeername() == tcp.getsockname()}


def as_the_kernel(folder: str) -> list[str]:
    """Connects that succeed or fail in every way there is; to be the same whoever makes them."""
    os.chdir(folder)
    Path("file").touch()
    Path("closed").mkdir(mode=0)
    with listening("left"):
        pass
    unix = struct.pack("=H", socket.AF_UNIX)
    long = "n" * 108
    with listening("own"), listening("\0sg-abstract"), closed_port() as port:
        os.link("own", long)
        inet = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, b"\x7f\0\0\1")
        of_unix = [
            unix + path for path in (b"own", b"own\0", b"own\0more", long.encode(), b"none", b"none/own", b"file")
        ]
        of_unix += [unix + path for path in (b"file/own", b"left", b".", b"/", b"\0sg-abstract", b"\0sg-none")]
        # Root outside may pass where root inside may not.
        of_unix += [unix + b"closed/own"] if os.getuid() else []
        of_unix += [b"", b"\1", unix, unix + b"\0", unix + b"own".ljust(110, b"\0"), inet, struct.pack("=H14x", 0)]
        found = [with_address(family, address) for family in ("stream", "packet") for address in of_unix]
        found += [with_address("tcp", address) for address in (inet, unix + b"own", inet[:7], struct.pack("=H14x", 0))]
        found += [with_address("udp", address) for address in (inet, struct.pack("=H14x", 0), b"", unix + b"own")]
        with socket.socket(socket.AF_UNIX) as client:
            for length in (-1, 0, 2, 129, 1 << 30):
                found.append(outcome(lambda length=length: raw_connect(client.fileno(), unix + b"own", length)))  # type: ignore[misc]
            found.append(outcome(lambda: raw_connect(client.fileno(), 8, 16)))
            found.append(outcome(lambda: raw_connect(client.fileno(), 0, 0)))
            found += [outcome(lambda: client.connect("own")) for _ in range(2)]
        with Path("file").open() as file:
            found.append(outcome(lambda: raw_connect(file.fileno(), unix + b"own", 5)))
            found.append(outcome(lambda: raw_connect(file.fileno(), 8, 16)))
        found += [outcome(lambda number=number: raw_connect(number, 8, 300)) for number in (-1, 999)]  # type: ignore[misc]
    return found


KINDS = {
    "stream": (socket.AF_UNIX, socket.SOCK_STREAM),
    "packet": (socket.AF_UNIX, socket.SOCK_SEQPACKET),
    "tcp": (socket.AF_INET, socket.SOCK_STREAM),
    "udp": (socket.AF_INET, socket.SOCK_DGRAM),
}


def with_address(kind: str, address: bytes) -> str:
    with socket.socket(*KINDS[kind]) as client:
        return outcome(lambda: raw_connect(client.fileno(), address, len(address)))


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that is taken and that nobody listens on."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def waiting(folder: str) -> dict[str, Any]:
    """Connects that do not end at once."""
    os.chdir(folder)
    found: dict[str, Any] = {}
    with listening(("127.0.0.1", 0), socket.AF_INET) as server, socket.socket() as client:
        client.setblocking(False)
        found["in progress"] = errno.errorcode[client.connect_ex(server.getsockname())]
        server.accept()[0].close()
    with listening("full", backlog=0) as server, socket.socket(socket.AF_UNIX) as first:
        first.connect("full")
        with socket.socket(socket.AF_UNIX) as client:
            client.setblocking(False)
            found["full"] = errno.errorcode[client.connect_ex("full")]
        outcomes: queue.SimpleQueue[str] = queue.SimpleQueue()
        for _ in range(70):
            threading.Thread(target=lambda: outcomes.put(to("full"))).start()
        found["too many"] = sorted(outcomes.get() for _ in range(6))
        kept = [server.accept() for _ in range(65)]
        found["let in"] = sorted({outcomes.get() for _ in range(64)})
        close(*(peer for peer, _ in kept))
    return found


def killed(folder: str) -> list[str]:
    """Callers that die in mid-call, and one after them."""
    os.chdir(folder)
    with listening("full", backlog=0), socket.socket(socket.AF_UNIX) as first, listening("free"):
        first.connect("full")
        for _ in range(40):
            told, tell = os.pipe()
            child = os.fork()
            if not child:
                os.write(tell, b"x")
                to("full")
                os._exit(0)
            os.read(told, 1)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            close_all(told, tell)
        return [to("free"), to("none")]


def close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def crowd(folder: str) -> list[str]:
    """Eight threads that connect at once, over path, abstract name and TCP."""
    os.chdir(folder)
    with listening("own"), listening("\0sg-crowd"), listening(("127.0.0.1", 0), socket.AF_INET) as tcp:
        ports = [tcp.getsockname()]

        def many(_: int) -> str:
            found = {to("own") for _ in range(30)} | {to("\0sg-crowd") for _ in range(30)}
            for _ in range(30):
                with socket.socket() as client:
                    found.add(outcome(lambda client=client: client.connect(ports[0])))  # type: ignore[misc]
            return " ".join(sorted(found))

        return threaded(many, range(8))


def own_table(folder: str) -> str:
    """A thread whose descriptors are not those of its process."""
    os.chdir(folder)
    with listening("own"):

        def alone(_: int) -> str:
            assert LIBC.unshare(CLONE_FILES) == 0
            for _ in range(5):
                os.dup(0)
            return to("own")

        return str(threaded(alone, [0])[0])


def inherited(given: dict[str, Any]) -> list[str]:
    """Sockets that were made outside."""
    found = []
    for number, address in given["sockets"]:
        with socket.socket(fileno=number) as client:
            client.setblocking(False)
            name = address if isinstance(address, str) else tuple(address)
            found.append(outcome(lambda client=client, name=name: client.connect(name)))  # type: ignore[misc]
    return found


@contextmanager
def beside(step: Callable[[int], None]) -> Iterator[None]:
    """Another process that does `step` with 0, 1, 0, 1 … until it is ended."""
    child = os.fork()
    if not child:
        while True:
            step(0)
            step(1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def tried(server: socket.socket, attempt: Callable[[socket.socket], Any]) -> dict[str, int]:
    """How often each outcome came; what got in at the good server is let go."""
    server.setblocking(False)
    counts: dict[str, int] = {}
    for _ in range(RACES):
        with socket.socket(socket.AF_UNIX) as client:
            found = outcome(lambda client=client: attempt(client))  # type: ignore[misc]
        counts[found] = counts.get(found, 0) + 1
        with suppress(BlockingIOError):
            server.accept()[0].close()
    return counts


def swapped_address(given: dict[str, str]) -> dict[str, int]:
    """Memory that another process changes between a good and a foreign path."""
    both = [
        struct.pack("=H", socket.AF_UNIX) + os.fsencode(given[name]).ljust(108, b"\0") for name in ("good", "foreign")
    ]
    memory = mmap.mmap(-1, 4096)
    memory[:110] = both[0]

    def write(which: int) -> None:
        memory[:110] = both[which]

    where = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    with listening(given["good"]) as server, beside(write):
        return tried(server, lambda client: raw_connect(client.fileno(), where, 110))


def swapped_link(given: dict[str, str]) -> dict[str, int]:
    """A symbolic link that another process changes between a good and a foreign path."""
    link = f"{given['good']}-link"
    Path(link).symlink_to(given["good"])

    def point(which: int) -> None:
        new = Path(f"{link}-new")
        new.symlink_to(given[("good", "foreign")[which]])
        new.replace(link)

    with listening(given["good"]) as server, beside(point):
        return tried(server, lambda client: client.connect(link))


def swapped_descriptor(given: dict[str, str]) -> dict[str, int]:
    """A descriptor that another thread makes now a TCP socket, now a Unix one."""
    ended = threading.Event()
    slot = os.dup(0)
    address = struct.pack("=H", socket.AF_UNIX) + os.fsencode(given["foreign"])
    sys.setswitchinterval(1e-5)

    def swap() -> None:
        while not ended.is_set():
            for family in (socket.AF_INET, socket.AF_UNIX):
                with socket.socket(family) as one:
                    os.dup2(one.fileno(), slot)

    thread = threading.Thread(target=swap)
    thread.start()
    with listening(given["good"]) as server:
        counts = tried(server, lambda _: raw_connect(slot, address, len(address)))
    ended.set()
    thread.join()
    return counts


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](json.loads(sys.stdin.readline()))))
