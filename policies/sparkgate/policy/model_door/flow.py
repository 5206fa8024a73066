"""One answer on its way: judged by its head, then every byte of it as it came."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkgate.policy.http_framing import Framing
from sparkgate.policy.model_door import router
from sparkgate.policy.model_door.answer import AnswerHead, BadAnswer, HeadReader
from sparkgate.policy.model_door.refusal import Refused
from sparkgate.policy.model_door.screen import Engine

MAX_ERROR_BYTES = 262_144


@dataclass(slots=True)
class Flow:
    """What comes from an engine and what the client gets of it.

    An error of an engine that has a key is read whole before the client sees it, so that the key cannot be in it.

    Attributes:
        engine: as it was when the request was judged.
        is_asked: the request asked a model, which is called `model`.
        has_body: the answer has one; that to HEAD has none, whatever its head says.
        head: None until it is there.
        shown: the client has got something of it.
        ended: it is complete.
        strayed: it does not come from this box, or that cannot be told.
    """

    engine: Engine
    is_asked: bool
    model: str = ""
    has_body: bool = True
    head: AnswerHead | None = None
    shown: bool = False
    ended: bool = False
    strayed: bool = False
    _heads: HeadReader = field(default_factory=HeadReader)
    _framing: Framing = field(default_factory=Framing)
    _error: bytearray | None = None

    def feed(self, data: bytes) -> bytes:
        """What the client gets now, for what has come.

        Raises:
            BadAnswer: it is no HTTP answer.
            Refused: the client gets another answer.
        """
        if self.head is None:
            found = self._heads.feed(data)
            if found is None:
                return b""
            self.head, rest = found
            return self._begun(self.head) + self._body(rest if self.has_body else b"")
        return self._body(data)

    @property
    def copies(self) -> bool:
        """Whether what comes now is shown as it is: it may be sent first, and told to `note` then."""
        return self.shown and self._error is None

    def note(self, data: bytes) -> None:
        """Keep the books of what was sent as it came. Raises BadAnswer."""
        self._frame(data)

    def end(self) -> bytes:
        """What the client gets at the end of the connection. Raises as `feed` does."""
        if self.head is None:
            raise BadAnswer
        self.ended = True
        return self._whole_error()

    def _begun(self, head: AnswerHead) -> bytes:
        self._judge(head)
        if self.has_body:
            self._frame(_lengths(head))
        self.ended = self.ended or not self.has_body
        if head.status >= 400 and self.engine.key:
            self._error = bytearray()
            return b""
        self.shown = True
        return head.shown(self.engine.key)

    def _judge(self, head: AnswerHead) -> None:
        """Where it comes from, before the client sees a byte of it."""
        routing = self.engine.routing
        if routing is None or not routing.headers:
            if router.TELLTALE in head.raw.lower():
                self.strayed = self.is_asked
                raise Refused("hidden_router")
        elif self.is_asked and not router.is_from_home(routing, self.model, head.status, head.headers):
            self.strayed = True
            if routing.stays:
                raise Refused("left_the_box")

    def _frame(self, data: bytes) -> None:
        try:
            self._framing.feed(data)
        except ValueError as error:
            raise BadAnswer from error
        self.ended = self._framing.ended

    def _body(self, data: bytes) -> bytes:
        if data:
            self._frame(data)
        if self._error is None:
            return data
        self._error += data
        if len(self._error) > MAX_ERROR_BYTES:
            raise BadAnswer
        return self._whole_error() if self.ended else b""

    def _whole_error(self) -> bytes:
        if self._error is None or self.head is None:
            return b""
        if self.engine.key.encode() in self._error:
            raise Refused("key_echoed")
        self.shown = True
        return self.head.shown(self.engine.key) + bytes(self._error)


def _lengths(head: AnswerHead) -> bytes:
    """As much of a head as tells where the body ends."""
    kept = [f"{name}: {value}" for name, value in head.pairs if name.lower() in ("content-length", "transfer-encoding")]
    return "\r\n".join([f"HTTP/1.1 {head.status} -", *kept, "", ""]).encode("latin-1")
