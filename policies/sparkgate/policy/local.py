"""The other door: asks the services this machine's owner configured, and reaches nothing else.

It is for health probes, status pages and the like. It must never carry text that came from an agent or a
page: nothing here is judged by the policy or written to the log. Agent text leaves through `egress` only.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Any, Literal, Self

import httpx

from sparkgate.policy.guard import Guard
from sparkgate.policy.kill_switch import KillSwitch, LockedNow, is_loopback

Origin = tuple[str, str, int]
Reason = Literal["refused", "unreachable", "timeout", "too_large", "locked"]
_PORTS = {"http": 80, "https": 443}
SERVICE_PORTS = range(20_000, 32_768)
"""Below the kernel's usual range for outgoing connections, `net.ipv4.ip_local_port_range`."""
TRIES = 50
_LOCKED = "{name} is not on this machine's loopback, and nothing leaves while sparkgate is locked"


class LocalDoorError(Exception):
    """No usable answer: `reason` is `refused`, `unreachable`, `timeout`, `too_large` or `locked`.

    The message names scheme, host and port at most.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: HTTP status, media type in lower case without parameters, body read as UTF-8."""

    status: int
    content_type: str
    text: str


class LocalDoor:
    """A client for the listed origins, such as `http://127.0.0.1:8888`; scheme, host and port must be equal.

    Environment proxies are ignored and redirects are not followed. `timeout_s` (seconds) bounds a whole call,
    `cap_bytes` the body, `headers` go with every request. Use it in a `with` statement or call `close`.

    While the switch is locked, only origins on this machine's loopback are asked: by address or as `localhost`, as no
    name is looked up then.

    Raises:
        LocalDoorError: an origin that is not an http(s) URL with a host.
    """

    def __init__(
        self,
        origins: Iterable[str],
        timeout_s: float = 5.0,
        cap_bytes: int = 1_000_000,
        guard: Guard | None = None,
        headers: Mapping[str, str] | None = None,
        switch: KillSwitch | None = None,
    ) -> None:
        self._guard = guard
        self._switch = switch or KillSwitch()
        self._origins = frozenset(_origin(origin) for origin in origins)
        self._timeout_s = timeout_s
        self._cap_bytes = cap_bytes
        # Reading the certificate store takes 25 ms, ten times as long as most answers: only for those that need it.
        self._client = httpx.Client(
            verify=any(scheme == "https" for scheme, *_ in self._origins) and ssl.create_default_context(),
            trust_env=False,
            follow_redirects=False,
            limits=httpx.Limits(max_keepalive_connections=0),
            timeout=timeout_s,
            headers={**(headers or {}), "accept-encoding": "identity"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def get(self, url: str) -> Answer:
        """Fetch `url`. Raises LocalDoorError."""
        return self._ask("GET", url, None)

    def post_form(self, url: str, fields: Mapping[str, str]) -> Answer:
        """Send `fields` as a form to `url`. Raises LocalDoorError."""
        return self._ask("POST", url, dict(fields))

    def post_json(self, url: str, body: Mapping[str, object]) -> Answer:
        """Send `body` as JSON to `url`. Raises LocalDoorError."""
        return self._ask("POST", url, None, dict(body))

    def ask(
        self, method: str, url: str, body: Mapping[str, object] | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request with a constant body and headers of ours. Raises LocalDoorError."""
        return self._ask(method, url, None, None if body is None else dict(body), headers)

    @contextmanager
    def _open_guard(self, origin: Origin) -> Iterator[None]:
        """Where this process has a connection guard, open it for the addresses of one origin."""
        if self._guard is None:
            yield
            return
        _, host, port = origin
        with self._guard.name(host):
            found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
            with self._guard.addresses([(address, port) for address in found]):
                yield

    @contextmanager
    def _unlocked(self, origin: Origin, deadline: _Deadline) -> Iterator[None]:
        """Nothing of another machine while it is locked; what is under way is cut. Raises LockedNow."""
        if is_loopback(origin[1]):
            yield
            return
        with self._switch.cutting(deadline.lock):
            yield
            if deadline.locked:  # an answer that was cut may look whole
                self._switch.check()

    def _ask(
        self,
        method: str,
        url: str,
        fields: dict[str, str] | None,
        body: dict[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        origin = _origin(url)
        if origin not in self._origins:
            raise LocalDoorError("refused", f"{_name(origin)} is not a configured service")
        deadline = _Deadline(self._timeout_s)
        extensions = {"trace": deadline.trace}
        with (
            _told(origin, deadline),
            self._unlocked(origin, deadline),
            deadline,
            self._open_guard(origin),
            self._client.stream(
                method, url, data=fields, json=body, headers=headers, extensions=extensions
            ) as response,
        ):
            return Answer(response.status_code, _media_type(response), self._body(response, origin))

    def _body(self, response: httpx.Response, origin: Origin) -> str:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise LocalDoorError("too_large", f"{_name(origin)} compressed its answer unasked")
        deadline = monotonic() + self._timeout_s
        body = bytearray()
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > self._cap_bytes:
                raise LocalDoorError("too_large", f"{_name(origin)} answered more than {self._cap_bytes} bytes")
            if monotonic() > deadline:
                raise LocalDoorError("timeout", f"{_name(origin)} did not finish within {self._timeout_s:g} s")
        return body.decode("utf-8", errors="replace")


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port of `host` that nobody listens on now, and that no outgoing connection will be given (ip(7))."""
    for _ in range(TRIES):
        port = SERVICE_PORTS.start + secrets.randbelow(len(SERVICE_PORTS))
        if is_free(port, host):
            return port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen on `port` of `host` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


class _Deadline:
    """Cuts the connection of a call that takes longer than `timeout_s`, also one whose headers trickle in.

    httpx bounds each read; a peer that sends a byte now and then would never be late.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timer = threading.Timer(timeout_s, self._cut)
        self._timer.daemon = True
        self._stream: Any = None
        self.passed = self.locked = False

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """httpcore's trace extension: takes note of the connection."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._stream = info["return_value"]
            if self.locked or self.passed:
                self._hang_up()

    def lock(self) -> None:
        """Cut it now, or as soon as there is a connection."""
        self.locked = True
        self._hang_up()

    def _cut(self) -> None:
        self.passed = True
        self._hang_up()

    def _hang_up(self) -> None:
        connection = self._stream and self._stream.get_extra_info("socket")
        if connection:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def _told(origin: Origin, deadline: _Deadline) -> Iterator[None]:
    try:
        yield
    except LockedNow as error:
        raise LocalDoorError("locked", _LOCKED.format(name=_name(origin))) from error
    except httpx.TimeoutException as error:
        raise LocalDoorError("timeout", f"{_name(origin)} did not answer in time") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        if deadline.locked:
            raise LocalDoorError("locked", _LOCKED.format(name=_name(origin))) from error
        if deadline.passed:
            raise LocalDoorError("timeout", f"{_name(origin)} did not answer in time") from error
        raise LocalDoorError("unreachable", f"{_name(origin)} cannot be reached ({type(error).__name__})") from error


def _origin(url: str) -> Origin:
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise LocalDoorError("refused", "not a URL") from error
    if parts.scheme not in _PORTS or not parts.host or parts.userinfo:
        raise LocalDoorError("refused", "only http and https URLs with a host and without a user name are served")
    return parts.scheme, parts.host, parts.port or _PORTS[parts.scheme]


def _name(origin: Origin) -> str:
    scheme, host, port = origin
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _media_type(response: httpx.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
