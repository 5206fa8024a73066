"""The model door: a process of the gate that carries requests of a confined agent to the configured engines.

Its first line of input names the doors, the descriptors of their listeners and the files of the kill switch, which it
looks at itself; each further line is the state of the doors from then on. It tells what it refuses and counts, one JSON
line each, never with text of an agent, and ends when its input does. It holds the keys of engines, so nothing of it is
on its command line or in its environment.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import socket
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from sparkgate.door_carry import Carried
from sparkgate.door_loop import Channel, Loop
from sparkgate.door_wire import refill
from sparkgate.policy.guard import Guard
from sparkgate.policy.model_door import router
from sparkgate.policy.model_door.flow import Flow
from sparkgate.policy.model_door.lock import is_locked
from sparkgate.policy.model_door.plan import Door, read, read_first
from sparkgate.policy.model_door.refusal import RULES, Refused
from sparkgate.policy.model_door.routes import Route

MAX_CONNECTIONS = 512
SPARE_FILES = 64
MAX_HELD_BYTES = 256_000_000
"""Of requests that are being read or sent, over all connections."""
TELL_S, COUNT_S = 0.1, 1.0
"""How often refusals, and counts, are told at most."""
MAX_TOLD = 1_000_000
COLLECT_AFTER = 64
"""Connections whose objects wait to be freed, in rings, before that is worth milliseconds."""
FILES_WANTED = 4096
METHODS = ("GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT")
_STDIN, _STDOUT = 0, 1


class House:
    """All doors with what goes through them."""

    def __init__(self, line: bytes, rest: bytes, guard: Guard) -> None:
        self.loop, self._guard = Loop(), guard
        self.doors, first = read(line), read_first(line)
        self._switch = tuple(first.switch)
        self._permits = ExitStack()
        self._input = rest
        self._shut: set[tuple[str, str]] = set()
        self._output = bytearray()
        self._told_s = 0.0
        self._refusals: Counter[tuple[str, str, str, str]] = Counter()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._changed = False
        self._held = 0
        self._room = min(MAX_CONNECTIONS, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_FILES) // 2)
        self._open: set[Carried] = set()
        self._ended = 0
        self._permit()
        # A socket says itself of which family it is, which a gate of another network namespace knows as well.
        self._listeners = {name: socket.socket(fileno=descriptor) for name, descriptor in first.listeners.items()}
        self._accepting = {
            name: Channel(self.loop, one.fileno(), self._accept(name)) for name, one in self._listeners.items()
        }
        for listener in self._listeners.values():
            listener.setblocking(False)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what it accepts has it as well
        self._stdin = Channel(self.loop, _STDIN, self._read_input)
        self._stdout = Channel(self.loop, _STDOUT, lambda: None, self._write_output)

    def run(self) -> None:
        """Until the input ends."""
        for descriptor in (_STDIN, _STDOUT):
            os.set_blocking(descriptor, False)
        self._stdin.want(read=True)
        self._take_lines()
        self._welcome()
        self._tell({"event": "open", "doors": sorted(self._listeners)})
        self.loop.run(self._sweep, self._settle)
        self._told_s = -COUNT_S
        os.set_blocking(_STDOUT, True)
        self._settle()

    def _permit(self) -> None:
        """Let the guard pass the addresses of all doors, and no other any more."""
        pairs = [(address, door.port) for door in self.doors.values() for address in door.addresses]
        with ExitStack() as permits:
            # Sockets are made ahead of connections, which takes an address that is allowed; nobody is at port 0.
            permits.enter_context(self._guard.addresses([*pairs, ("127.0.0.1", 0)]))
            self._permits.close()
            self._permits = permits.pop_all()

    # -- connections

    def _accept(self, name: str) -> Callable[[], None]:
        listener = self._listeners[name]

        def accept() -> None:
            try:
                client, _ = listener._accept()  # type: ignore[attr-defined]  # `accept` makes an object of it
            except OSError:
                return
            if name not in self.doors:  # the configuration broke before the first look at it
                os.close(client)
                return
            one = Carried(self, name, client)
            self._open.add(one)
            one.begin()
            self._count(name, "connections")
            if len(self._open) >= self._room:
                self._welcome()

        return accept

    def _welcome(self) -> None:
        """Take connections while there is room; others wait with the kernel."""
        for channel in self._accepting.values():
            channel.want(read=len(self._open) < self._room)

    def ended(self, one: Carried) -> None:
        full = len(self._open) >= self._room
        self._open.discard(one)
        self._ended += 1
        self._changed = True
        self._held -= one.held_bytes
        if full:
            self._welcome()
        refill()

    def hold(self, size: int) -> bool:
        self._held += size
        return self._held <= MAX_HELD_BYTES

    def open_door(self, name: str) -> Door:
        """The door of that name, asked for before each step outwards. Raises Refused."""
        door = self.doors[name]
        if door.state != "open":
            raise Refused(door.state)
        if door.leads_away and is_locked(self._switch):
            raise Refused("locked")
        return door

    def shut(self, name: str, model: str) -> None:
        """Close a model of a router until the gate says otherwise."""
        routing = self.doors[name].engine.routing
        self._shut.add((name, model if routing and model in (routing.models or ()) else router.ALL))
        self._close_shut()

    def _close_shut(self) -> None:
        """What was shut here stays so in a state that the gate wrote before it knew."""
        for name, model in list(self._shut):
            door = self.doors[name]
            routing = door.engine.routing
            if routing:
                routing = replace(routing, closed=routing.closed | {model})
                self.doors[name] = replace(door, engine=replace(door.engine, routing=routing))

    def _sweep(self) -> None:
        if is_locked(self._switch):  # the gate tells it sooner, unless it hangs
            self._cut(lambda door: door.leads_away)
        if self._ended >= COLLECT_AFTER:
            self._ended = 0
            gc.collect()  # rather now than in the middle of an answer
        for one in list(self._open):
            one.overdue(self.loop.now_s)

    # -- the gate

    def _read_input(self) -> None:
        try:
            data = os.read(_STDIN, 65_536)
        except BlockingIOError:
            return
        self.loop.ended = not data
        self._input += data
        self._take_lines()

    def _take_lines(self) -> None:
        *lines, self._input = self._input.split(b"\n")
        for line in lines:
            self._renew(read(line))

    def _renew(self, doors: dict[str, Door]) -> None:
        """Other doors from now on; streams to where nothing may go any more are cut."""
        gone = {name: replace(self.doors[name], state="removed") for name in self.doors.keys() - doors.keys()}
        self.doors = doors | gone
        self._permit()
        known = {(name, model) for name, door in doors.items() for model in _closed(door)}
        self._shut -= known
        self._close_shut()
        self._tell({"event": "renewed", "cut": self._cut(lambda door: door.state == "locked")})

    def _cut(self, is_shut: Callable[[Door], bool]) -> int:
        """End what goes through such doors; how many requests that were."""
        return sum(one.cut() for one in list(self._open) if is_shut(self.doors[one.name]))

    def refused(self, name: str, refused: Refused, method: str, route: Route | None) -> None:
        self._count(name, "refused" if RULES[refused.rule].logged else "failed")
        if RULES[refused.rule].logged:
            method = method if method in METHODS else "other"
            self._refusals[name, refused.rule, method, route.path if route else "other"] += 1

    def carried(self, name: str) -> None:
        self._count(name, "carried")

    def left(self, name: str, model: str, flow: Flow, size: int) -> None:
        """Tell at once that a request left the box; a model by name only when it is one of the router's table."""
        routing, head = flow.engine.routing, flow.head
        known = model if routing and model in (routing.models or ()) else ""
        origin, status = router.came_from(head.headers) if head else "", head.status if head else 0
        told = {"door": name, "model": known, "came_from": origin, "status": status, "size_bytes": size}
        self._tell({"event": "left", **told})

    def _count(self, name: str, what: str) -> None:
        self._counts[name, what] += 1
        self._changed = True

    def _settle(self) -> None:
        """Tell what has come together, not too often."""
        waited_s = self.loop.now_s - self._told_s
        if not self._changed or waited_s < (TELL_S if self._refusals else COUNT_S):
            return
        self._told_s, self._changed = self.loop.now_s, False
        if self._refusals:
            rows = [[*key, count] for key, count in self._refusals.items()]
            self._refusals.clear()
            self._tell({"event": "refused", "rows": rows})
        counts: dict[str, dict[str, int]] = {name: {} for name in self._listeners}
        for (name, what), count in self._counts.items():
            counts[name][what] = count
        for name in counts:
            counts[name]["open"] = sum(one.name == name for one in self._open)
        self._tell({"event": "counts", "doors": counts})

    def fault(self, error: Exception) -> None:
        """Type and place of what went wrong; its text may be an agent's."""
        self._tell(described(error))

    def _tell(self, event: Mapping[str, Any]) -> None:
        if len(self._output) < MAX_TOLD:
            self._output += json.dumps(event, separators=(",", ":")).encode() + b"\n"
        self._write_output()

    def _write_output(self) -> None:
        try:
            del self._output[: os.write(_STDOUT, self._output)]
        except BlockingIOError:
            pass
        except OSError:
            self.loop.ended = True
        self._stdout.want(write=bool(self._output) and not self.loop.ended)


def main() -> int:
    """The exit code: 0 when the input has ended."""
    guard = Guard()
    guard.install()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, FILES_WANTED)), hard))
    line, rest = _first_line()
    if not line:
        return 0
    gc.disable()
    gc.freeze()  # what is here stays, and need not be looked through
    try:
        House(line, rest, guard).run()
    except Exception as error:
        os.set_blocking(_STDOUT, True)
        os.write(_STDOUT, json.dumps(described(error)).encode() + b"\n")
        return 1
    return 0


def described(error: Exception) -> dict[str, Any]:
    """The event of a fault."""
    frames = [f"{one.filename}:{one.lineno}" for one in traceback.extract_tb(error.__traceback__)[-4:]]
    return {"event": "fault", "exception": type(error).__name__, "frames": frames}


def _closed(door: Door) -> frozenset[str]:
    return door.engine.routing.closed if door.engine.routing else frozenset()


def _first_line() -> tuple[bytes, bytes]:
    """(the line, what has come behind it); b"" when the input has ended before."""
    found = bytearray()
    while b"\n" not in found:
        piece = os.read(_STDIN, 65_536)
        if not piece:
            return b"", b""
        found += piece
    line, _, rest = bytes(found).partition(b"\n")
    return line, rest


if __name__ == "__main__":
    sys.exit(main())
