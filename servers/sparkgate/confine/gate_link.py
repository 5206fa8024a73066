"""The supervisor's connection to the gate: it hands over the sockets, and does so again to the next gate."""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from contextlib import suppress
from typing import Any

from sparkgate import paths
from sparkgate.link import Barred, connect, hello
from sparkgate.starter import starter_of

STEP_S = 0.05
ANSWER_S = 15.0
FINISH_S = 3.0
MOST_UNTOLD = 1000


class GateRefused(Exception):
    """No gate, or none that serves this; the message says why."""


class GateLink:
    """Says who is confined, learns which doors there are, and hands the listeners over.

    Args:
        config: path of the configuration.
        name: of the confinement.
    """

    def __init__(self, config: str, name: str) -> None:
        self.config, self.name = config, name
        self._socket: socket.socket | None = None
        self._is_open = False
        self._untold: deque[str] = deque(maxlen=MOST_UNTOLD)

    def greet(self) -> dict[str, Any]:
        """Connect, starting a gate where none runs; what it says of the doors.

        Raises:
            GateRefused: it refused, or no gate came.
        """
        link = self._socket = self._connected()
        link.settimeout(ANSWER_S)
        link.sendall(hello("confine", config=self.config, confinement=self.name))
        answer = self._answer()
        if answer.get("gate") == "retiring":
            self.close()
            return self.greet()
        if answer.get("gate") != "ready":
            raise GateRefused(f"the gate refused: {answer.get('reason', 'no reason was given')}")
        return answer

    def hand(self, names: list[str], descriptors: list[int]) -> None:
        """Give the gate the listeners, of which it gets copies. Raises GateRefused."""
        assert self._socket
        message = json.dumps({"listeners": names}).encode() + b"\n"
        try:
            socket.send_fds(self._socket, [message], descriptors)
        except OSError as error:
            raise GateRefused("the gate ended") from error
        answer = self._answer()
        if answer.get("gate") != "open":
            raise GateRefused(f"the gate refused: {answer.get('reason', 'no reason was given')}")
        self._socket.setblocking(False)
        self._is_open = True
        self._tell_all()

    def tell(self, refused: str) -> None:
        """Have it written down that something was tried, by the next gate where there is none now."""
        self._untold.append(refused)
        self._tell_all()

    def _tell_all(self) -> None:
        while self._socket and self._is_open and self._untold:
            try:
                self._socket.send(json.dumps({"refused": self._untold[0]}).encode() + b"\n")
            except OSError:
                return
            self._untold.popleft()

    def fileno(self) -> int:
        return self._socket.fileno() if self._socket else -1

    def is_gone(self) -> bool:
        """Read what came; whether this gate is to be left for another."""
        if self._socket is None:
            return True
        try:
            return not (data := self._socket.recv(4096)) or b'"retiring"' in data
        except BlockingIOError:
            return False
        except OSError:
            return True

    def finish(self) -> None:
        """Wait until the gate has written down what it was told, and close."""
        if self._socket:
            with suppress(OSError):
                self._socket.settimeout(FINISH_S)
                self._socket.shutdown(socket.SHUT_WR)
                while self._socket.recv(4096):
                    pass
        self.close()

    def close(self) -> None:
        self._is_open = False
        if self._socket:
            self._socket.close()
        self._socket = None

    def _connected(self) -> socket.socket:
        starter, path = starter_of(self.config), paths.socket_path(self.config)
        until, told = time.monotonic() + starter.patience_s, paths.where_it_tells(self.config)
        try:
            while time.monotonic() < until:
                problem = ""
                try:
                    return connect(path)
                except Barred as error:
                    raise GateRefused(str(error)) from error
                except BlockingIOError:  # somebody listens and is too busy to accept
                    pass
                except OSError:
                    problem = starter.tick()
                if problem:
                    raise GateRefused(f"no gate: {problem}; see {told}")
                time.sleep(STEP_S)
            raise GateRefused(f"no gate answered within {starter.patience_s:.0f} s; see {told}")
        finally:
            starter.release()

    def _answer(self) -> dict[str, Any]:
        assert self._socket
        data = b""
        try:
            while b"\n" not in data:
                more = self._socket.recv(65_536)
                if not more:
                    raise GateRefused("the gate ended while it was asked")
                data += more
        except OSError as error:
            raise GateRefused("the gate does not answer") from error
        return dict(json.loads(data.partition(b"\n")[0]))
