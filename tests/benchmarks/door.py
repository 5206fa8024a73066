"""What the model door costs: time to the first token and throughput, in one run with and without it. Not a test.

From the top of the checkout, on a machine with two cores that are not busy:

    python tests/benchmarks/door.py                    # against the engine of the tests
    python tests/benchmarks/door.py --stub FILE        # a server of your own, run with --port --ttft-ms --rate
    python tests/benchmarks/door.py --requests 1000 --seconds 10

First tokens are asked for one after the other, in turn straight, through the door and through a copier that judges
nothing, from before the connection is made to the first byte of the body. What the copier adds is what any process
between costs on this machine. Throughput is that of 16 streams of 100 tokens a second, in turn as well. The exit code
is 1 when the door adds more than 1 ms to the median first token, or takes more than 2 % of the throughput.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import select
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlsplit

sys.path.append(str(Path(__file__).parent.parent))

import sim_engine
from door_box import doors, get, pss_kib
from sim_engine import Scenario

from sparkgate.policy.local import free_port, is_free

TTFT_MS, RATE, STREAMS = 20.0, 100.0, 16
BAR_MS, BAR_SHARE = 1.0, 0.98
WARM_UP = 20
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
}
TOOL = {"type": "function", "function": {"name": "read", "description": "reads a file " * 25, "parameters": SCHEMA}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
TURNS = [
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "the lines of a file " * 20}]},
]
PROMPTS: Mapping[str, Mapping[str, Any]] = {
    "a short prompt": {"messages": [{"role": "user", "content": "the words " * 20}]},
    "a long text": {"messages": [{"role": "user", "content": "the words of a long prompt " * 2200}]},
    "an agent's": {"messages": [{"role": "system", "content": "the rules " * 1500}, *TURNS * 20], "tools": [TOOL] * 40},
}
"""The second is as long as what Hermes sends with all its tools, 57 KB; the third has the shape of it as well."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stub", help="a server in place of the engine of the tests")
    parser.add_argument("--requests", type=int, default=300, help="first tokens, each straight and through the door")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a burst of streams")
    parser.add_argument("--bursts", type=int, default=5)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--copy", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.serve)
    if given.copy:
        return copy_all(given.copy)
    with engine(given.stub) as url, behind("--serve", url) as (through, pid):
        straight = urlsplit(url).port or 0
        print(f"the door process holds {pss_kib(pid) / 1024:.1f} MB (PSS) before the first request")
        with behind("--copy", str(straight)) as (copied, _):
            ways = {"straight": straight, "by a copier": copied, "through the door": through}
            fine = [first_tokens(name, body, ways, given.requests) for name, body in PROMPTS.items()]
        fine.append(throughput(straight, through, given.bursts, given.seconds))
        print(f"the door process holds {pss_kib(pid) / 1024:.1f} MB (PSS) after the last")
    return 0 if all(fine) else 1


@contextmanager
def behind(what: str, target: str) -> Iterator[tuple[int, int]]:
    """(port, process) of what stands before an engine; what is measured runs in no process of the client's."""
    argv = [sys.executable, __file__, what, target]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdin and process.stdout
    try:
        port, pid = map(int, process.stdout.readline().split())
        yield port, pid
    finally:
        process.stdin.close()
        process.wait()


def serve(url: str) -> int:
    with doors({"main": f'engine = "openai"\nurl = "{url}"\n'}) as box:
        box.ask(get("/v1/models"))
        print(box.ports["main"], box.pid, flush=True)
        sys.stdin.read()
    return 0


def copy_all(port: int) -> int:
    """Copy one connection after the other to `port` and back, with as little as there can be between."""
    gc.disable()
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], os.getpid(), flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    while True:
        client, _ = listener.accept()
        with client, socket.create_connection(("127.0.0.1", port)) as link:
            for one in (client, link):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            waiting = select.epoll()
            waiting.register(client.fileno(), select.EPOLLIN)
            waiting.register(link.fileno(), select.EPOLLIN)
            copying = True
            while copying:
                for ready, _ in waiting.poll():
                    one, other = (client, link) if ready == client.fileno() else (link, client)
                    data = one.recv(65_536)
                    copying = copying and bool(data)
                    with suppress(OSError):
                        other.sendall(data)
            waiting.close()


@contextmanager
def engine(stub: str | None) -> Iterator[str]:
    """The URL of what streams."""
    if not stub:
        with sim_engine.running(Scenario(ttft_ms=TTFT_MS, rate=RATE)) as running:
            yield running.url
        return
    port = free_port()
    argv = [sys.executable, stub, "--port", str(port), "--ttft-ms", str(TTFT_MS), "--rate", str(RATE)]
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        while is_free(port):
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def request(body: Mapping[str, Any], tokens: int) -> bytes:
    data = json.dumps({"model": "stub", "stream": True, "max_tokens": tokens, **body}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


# -- first tokens


def first_tokens(name: str, body: Mapping[str, Any], ways: Mapping[str, int], count: int) -> bool:
    """Ask by each of the ways, straight first and the door last; whether the door keeps to its bar."""
    sent = request(body, 2)
    times_ms: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(WARM_UP + count):
        for way in list(ways)[:: 1 if number % 2 else -1]:
            times_ms[way].append(first_token_ms(ways[way], sent))
    found = {way: sorted(times[WARM_UP:]) for way, times in times_ms.items()}
    straight, *others = found.values()
    print(f"first token, {name} ({len(sent):,} bytes), {count} each:")
    for way, times in found.items():
        print(f"  {way:17} {shown(times)}")
    added = [median(times) - median(straight) for times in others]
    tails = [b - a for a, b in zip(cuts(straight), cuts(others[-1]), strict=True)]
    print(f"  the door adds     median {added[-1]:+.2f} ms, p90 {tails[0]:+.2f} ms, p99 {tails[1]:+.2f} ms")
    print(
        f"  bar: {BAR_MS} ms; the copier adds {added[0]:+.2f} ms, so the door {added[-1] / added[0]:.1f} times as much"
    )
    return added[-1] <= BAR_MS


def cuts(values: list[float]) -> tuple[float, float]:
    found = quantiles(values, n=100, method="inclusive")
    return found[89], found[98]


def shown(values: list[float]) -> str:
    p90, p99 = cuts(values)
    return f"median {median(values):.2f} ms, p90 {p90:.2f} ms, p99 {p99:.2f} ms"


def first_token_ms(port: int, sent: bytes) -> float:
    began_ns = time.perf_counter_ns()
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.sendall(sent)
        data = b""
        while b"\r\n\r\n" not in data or b"data:" not in data:
            data += received(link)
        took_ns = time.perf_counter_ns() - began_ns
        while not data.endswith(b"0\r\n\r\n"):
            data += received(link)
    return took_ns / 1e6


def received(link: socket.socket) -> bytes:
    data = link.recv(65_536)
    if not data:
        raise SystemExit("a stream ended before its end")
    return data


# -- throughput


def throughput(straight: int, through: int, bursts: int, seconds: float) -> bool:
    tokens = int(RATE * seconds)
    found: dict[int, list[tuple[float, float]]] = {straight: [], through: []}
    for number in range(bursts):
        for port in (straight, through) if number % 2 else (through, straight):
            found[port].append(burst(port, tokens))
    one, other = (median(rate for rate, _ in found[port]) for port in (straight, through))
    print(f"throughput, {STREAMS} streams of {RATE:g} tokens a second, {bursts} bursts of {seconds:g} s each:")
    for words, port, rate in (("straight", straight, one), ("through the door", through, other)):
        gap = median(gap for _, gap in found[port])
        print(f"  {words:17} {rate:.1f} tokens a second, longest gap of a stream {gap:.1f} ms (median of the bursts)")
    print(f"  {'kept':17} {other / one:.2%} (bar: {BAR_SHARE:.0%})")
    return other / one >= BAR_SHARE


def burst(port: int, tokens: int) -> tuple[float, float]:
    """(tokens a second from the first to the last of all streams, longest gap within one in ms)."""
    sent, waiting = request(PROMPTS["a short prompt"], tokens), selectors.DefaultSelector()
    for _ in range(STREAMS):
        link = socket.create_connection(("127.0.0.1", port))
        link.sendall(sent)
        waiting.register(link, selectors.EVENT_READ, [0, 0, 0.0, b""])
    first_ns = last_ns = counted = 0
    longest_ms = 0.0
    while waiting.get_map():
        for key, _ in waiting.select():
            link = key.fileobj  # type: ignore[assignment]
            data, at_ns, state = received(link), time.perf_counter_ns(), key.data
            events = (state[3][-20:] + data).count(b'"content":" the') - state[3][-20:].count(b'"content":" the')
            if events:
                first_ns = first_ns or at_ns
                longest_ms = max(longest_ms, (at_ns - state[1]) / 1e6 if state[1] else 0.0)
                state[1], last_ns, counted = at_ns, at_ns, counted + events
            state[3] = (state[3] + data)[-64:]
            if state[3].endswith(b"0\r\n\r\n"):
                waiting.unregister(link)
                link.close()
    return (counted - STREAMS) / (last_ns - first_ns) * 1e9, longest_ms


if __name__ == "__main__":
    sys.exit(main())
