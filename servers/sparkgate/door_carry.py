"""One connection from inside: its request is read whole and judged, then its answer is copied as it comes."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from sparkgate.door_loop import Channel
from sparkgate.door_wire import READ_BYTES, Lost, Wire, end_writing
from sparkgate.policy.model_door import refusal
from sparkgate.policy.model_door.answer import BadAnswer
from sparkgate.policy.model_door.flow import Flow
from sparkgate.policy.model_door.framing import RequestReader
from sparkgate.policy.model_door.plan import Door
from sparkgate.policy.model_door.refusal import Refused
from sparkgate.policy.model_door.routes import Route
from sparkgate.policy.model_door.screen import check, check_head

if TYPE_CHECKING:
    from sparkgate.door import House

HEAD_S, BODY_IDLE_S, CONNECT_S, DRAIN_S, STALLED_S = 15.0, 60.0, 5.0, 2.0, 300.0
"""Longest time for a head, between two pieces of a body, to connect, to say goodbye, and for a client to read on."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

Stage = Literal["reading", "dialling", "copying", "leaving", "gone"]
"""`leaving`: all has been said, and the client is to hang up."""


class Carried:
    """A connection from its start to its end; the house is told when it has ended.

    `client` is its descriptor, which belongs to this from now on; to make an object around it takes time.
    """

    def __init__(self, house: House, name: str, client: int) -> None:
        self.house, self.name = house, name
        self.stage: Stage = "reading"
        self._client = client
        os.set_blocking(client, False)
        self._inner = Channel(house.loop, client, self._from_client, self._flush, self._failed)
        self._wire: Wire | None = None
        self._outer: Channel | None = None
        self._reader = RequestReader()
        self._route: Route | None = None
        self._door: Door = house.doors[name]
        self._flow: Flow | None = None
        self._model, self._size, self.held_bytes = "", 0, 0
        self._to_engine, self._to_client = memoryview(b""), bytearray()
        self._addresses: list[str] = []
        self._since_s = house.loop.now_s
        self._is_half = False

    # -- from inside

    def begin(self) -> None:
        """Most requests are there with their connection, and on their way before anything else of it is waited for."""
        try:
            self._from_client()
            if self.stage != "gone":
                self._hear_client()
        except Exception as error:
            self._failed(error)

    def _from_client(self) -> None:
        try:
            data = os.read(self._client, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:
            self._half_closed()
            return
        if self.stage == "leaving":
            return
        if self.stage != "reading":  # it sends a second request behind the first
            self.close()
            return
        try:
            self._take(data)
        except Refused as refused:
            self.refuse(refused)

    def _half_closed(self) -> None:
        """The client says no more, and may still listen; when it is gone, the next bytes for it come back."""
        over = self.stage == "reading" or (self.stage == "leaving" and not self._to_client)
        if over or self._is_half:
            self.close()
            return
        self._is_half = True
        self._hear_client()
        if self.stage != "leaving" and not (self._flow and self._flow.shown):
            self._send(CONTINUE)  # any client reads past it, and one that is gone resets the connection for it

    def _hear_client(self) -> None:
        self._inner.want(read=not self._is_half, write=bool(self._to_client), gone=self._is_half)

    def _take(self, data: bytes) -> None:
        knew_head = self._reader.head is not None
        self._reader.feed(data)
        self._hold(len(data))
        head = self._reader.head
        if head is None:
            return
        if not knew_head:
            self._route = check_head(self.house.open_door(self.name).engine, head)
            if self._reader.expects_continue:
                self._send(CONTINUE)
        self._since_s = self.house.loop.now_s
        if self._reader.complete and self._route:
            self._door = self.house.open_door(self.name)
            self.stage, self._addresses = "dialling", list(self._door.addresses)
            if not self._door.leads_away:
                self._reach()  # an engine on this box takes the connection while its request is judged
            passed = check(self._door.engine, head, self._route, self._reader.body)
            self.house.open_door(self.name)  # a long judgement takes a while
            self._reader.body = bytearray()
            self._model, self._size, self._to_engine = passed.model, len(passed.data), memoryview(passed.data)
            self._dial()
            self._flow = Flow(self._door.engine, self._route.kind == "ask", passed.model, self._route.method != "HEAD")

    def _hold(self, size: int) -> None:
        """What waits here is bounded over all connections. Raises Refused."""
        self.held_bytes += size
        if not self.house.hold(size):
            raise Refused("busy")

    def refuse(self, refused: Refused) -> None:
        """Answer for the engine, unless the client has got a part of its answer, and end."""
        self.house.refused(self.name, refused, self._reader.head.method if self._reader.head else "", self._route)
        self._close_outer()
        if (self._flow and self._flow.shown) or self.stage == "gone":
            self.close()
            return
        self.stage, self._since_s = "leaving", self.house.loop.now_s
        answer = refusal.answer(self.name, refused, self._route.shape if self._route else "openai")
        is_bodiless = self._reader.head and self._reader.head.method == "HEAD"
        self._send(answer[: answer.index(b"\r\n\r\n") + 4] if is_bodiless else answer)

    # -- to the engine

    def _reach(self) -> None:
        """Begin a connection to the next address that does not refuse it at once."""
        while self._addresses and self._wire is None:
            with suppress(Lost):
                self._wire = Wire(self._door, self._addresses.pop(0))

    def _dial(self) -> None:
        """Send the request by the next address that connects."""
        while self._wire or self._addresses:
            self._since_s = self.house.loop.now_s
            self._reach()
            wire = self._wire
            if wire is None:
                break
            try:
                self._to_engine = self._to_engine[wire.begin(self._to_engine) :]
            except Lost:
                self._close_outer()
                continue
            self._outer = Channel(self.house.loop, wire.descriptor, self._from_engine, self._into_engine, self._failed)
            if not wire.is_open:
                self._outer.want(write=True)
                return
            self.stage = "copying"
            self._sent()
            return
        self.refuse(Refused("unreachable"))

    def _dial_again(self) -> None:
        """The address did not connect; meanwhile the door may have been closed."""
        self._close_outer()
        try:
            self.house.open_door(self.name)
        except Refused as refused:
            self.refuse(refused)
        else:
            self._dial()

    def _into_engine(self) -> None:
        if not self._wire or not self._outer:
            return
        try:
            if not self._wire.is_open and not self._wire.connected():
                self._outer.want(read=self._wire.waits_to_read, write=not self._wire.waits_to_read)
                return
            self.stage = "copying"
            self._to_engine = self._to_engine[self._wire.send(self._to_engine) :]
        except Lost:
            if self.stage == "dialling":
                self._dial_again()
                return
            self._to_engine = memoryview(b"")  # it may have answered before it heard all
        self._sent()

    def _sent(self) -> None:
        """A request that has been sent whole is kept no longer."""
        if not self._to_engine:
            self.house.hold(-self.held_bytes)
            self.held_bytes, self._to_engine = 0, memoryview(b"")
        self._listen()

    def _listen(self) -> None:
        """Hear the engine unless the client is behind."""
        if self._outer:
            self._outer.want(read=not self._to_client, write=bool(self._to_engine))

    def _from_engine(self) -> None:
        if self._wire and not self._wire.is_open:
            self._into_engine()
            return
        again = True
        while again and self._wire and not self._to_client:
            try:
                data = self._wire.receive()
            except Lost:
                data = b""
            if data is None:
                return
            self._answered(data)
            again = self._wire is not None and self._wire.holds_back

    def _answered(self, data: bytes) -> None:
        flow = self._flow
        if flow is None:
            return
        shown = b""
        try:
            if data and flow.copies:
                self._send(data)
                flow.note(data)
            else:
                shown = flow.feed(data) if data else flow.end()
        except BadAnswer:
            self.refuse(Refused("no_answer"))
            return
        except Refused as refused:
            if flow.strayed:
                self.house.shut(self.name, self._model)
                self.house.left(self.name, self._model, flow, self._size)
            self.refuse(refused)
            return
        if flow.strayed:
            self.house.left(self.name, self._model, flow, self._size)
            flow.strayed = False
        if self.stage == "gone":
            return
        if flow.ended:
            self._close_outer()
            self.house.carried(self.name)
            self.stage, self._since_s = "leaving", self.house.loop.now_s
        if shown or flow.ended:
            self._send(shown)

    # -- to inside

    def _send(self, data: bytes) -> None:
        if self._to_client:
            self._to_client += data
            return
        self._to_client += data[self._try(data) :]
        self._after_send()

    def _flush(self) -> None:
        del self._to_client[: self._try(bytes(self._to_client))]
        self._after_send()
        if not self._to_client and self._wire and self._wire.holds_back:
            self._from_engine()

    def _try(self, data: bytes) -> int:
        """How much was taken; a client that is gone takes all."""
        if self.stage == "gone" or not data:
            return len(data)
        try:
            sent = os.write(self._client, data)
        except BlockingIOError:
            return 0
        except OSError:
            self.close()
            return len(data)
        self._since_s = self.house.loop.now_s
        return sent

    def _after_send(self) -> None:
        if self.stage == "gone":
            return
        self._hear_client()
        if self._wire and self._wire.is_open:
            self._listen()
        if self.stage == "leaving" and not self._to_client:
            end_writing(self._client)

    # -- the end

    def overdue(self, now_s: float) -> None:
        """End what takes too long; an engine may think as long as its client waits."""
        waited_s = now_s - self._since_s
        if self.stage == "reading" and waited_s > (BODY_IDLE_S if self._reader.head else HEAD_S):
            self.refuse(Refused("slow_request"))
        elif self.stage == "dialling" and waited_s > CONNECT_S:
            self._dial_again()
        elif (self._to_client or self.stage == "leaving") and waited_s > (STALLED_S if self._to_client else DRAIN_S):
            self.close()

    def cut(self) -> bool:
        """End a request that may not go on; False for one that is not judged yet, or is over."""
        if self.stage not in ("dialling", "copying"):
            return False
        self.refuse(Refused("locked"))
        return True

    def _failed(self, error: Exception) -> None:
        """A fault ends this connection and no other."""
        self.house.fault(error)
        self.close()

    def _close_outer(self) -> None:
        if self._outer:
            self._outer.want()
            self._outer = None
        if self._wire:
            self._wire.close()
            self._wire = None

    def close(self) -> None:
        """Cut both sides at once, so that the engine stops for a client that is gone."""
        if self.stage == "gone":
            return
        self.stage = "gone"
        # What is closed lies in a ring until it is looked for, and must not hold a long text so long.
        self._reader, self._flow, self._to_client, self._to_engine = RequestReader(), None, bytearray(), memoryview(b"")
        self._close_outer()
        self._inner.want()
        os.close(self._client)
        self.house.ended(self)
