"""The kill switch: two files of which the mere existence stops everything that leaves.

`locked` in the state folder is written by `sparkgate gate lock` and taken away by `sparkgate gate unlock`. The
operator's file is root's; no command of ours takes it away. Nothing else locks or unlocks: there is no verb for it on
any connection, and no tool. What cannot be told to be absent locks.

Code that sends asks `check` before the first byte, as late as it can, and does its sending within `cuts` (asyncio) or
`cutting` (threads), which end it at the moment of locking. That moment is when somebody of the process calls `look`:
the gate does so once a second and when `sparkgate gate lock` asks it to, a process of its own by `watch`. Standard
library only, so that a small child process can use it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

CODE = "locked"
"""The rule of refused rows, the outcome of those cut off, and the code of answers."""
OPERATOR_FILE = Path("/etc/sparkgate/locked")
STATE_NAME = "locked"
"""Name of our own file in the state folder."""
REASON_CHARS = 120
MOST_BYTES = 4096
"""Read of a file at most."""
LOOK_S = 0.5
ENFORCE_S = 3.0
POLL_S = 0.005
UNKNOWN = "its file cannot be looked at"


@dataclass(frozen=True, slots=True)
class Locked:
    """That it is locked: by which file, since when in seconds since the epoch (None: not known), and why.

    `reason` is one line of printable characters, at most `REASON_CHARS` long, and "" when none was given.
    """

    by: str
    since_s: float | None = None
    reason: str = ""
    is_ours: bool = False

    @property
    def since(self) -> str:
        """In UTC to the second, "" when it is not known."""
        return "" if self.since_s is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.since_s))

    @property
    def words(self) -> str:
        """What every answer of a tool says."""
        since = f" since {self.since}" if self.since else ""
        why = f" ({self.reason})" if self.reason else ""
        end = "with `sparkgate gate unlock`" if self.is_ours else f"by removing {self.by}"
        return f"nothing leaves this machine{since}{why}; the operator ends it {end}"

    def as_json(self) -> dict[str, str]:
        return {"by": self.by, "since": self.since, "reason": self.reason}


class LockedNow(Exception):
    """It is locked, so this does not leave, or was cut off."""

    def __init__(self, locked: Locked) -> None:
        super().__init__(locked.words)


class KillSwitch:
    """Tells whether it is locked, and cuts what is under way at the moment of locking. For all threads.

    Args:
        own: our file, in the state folder; None for a process that has none, which obeys the operator's alone.
        operator: root's file.
    """

    def __init__(self, own: Path | None = None, operator: Path = OPERATOR_FILE) -> None:
        self.own, self.operator = own, operator
        self._files = [(str(operator), False), *([(str(own), True)] if own else [])]
        self._cuts: dict[object, Callable[[], None]] = {}
        self._held = threading.Lock()

    def told(self) -> Locked | None:
        """What the files say now, the operator's first; None when both are absent. Two calls of lstat(2)."""
        for file, is_ours in self._files:
            try:
                found = os.lstat(file)
            except FileNotFoundError:
                continue
            except OSError:
                return Locked(file, None, UNKNOWN, is_ours)
            return Locked(file, found.st_mtime, _reason(file, found), is_ours)
        return None

    @property
    def words(self) -> str:
        """What an answer of a tool says of it now, "" when it is not locked."""
        found = self.told()
        return found.words if found else ""

    def check(self) -> None:
        """Raises LockedNow when it is locked."""
        if found := self.told():
            raise LockedNow(found)

    # -- cutting

    @contextmanager
    def cutting(self, cut: Callable[[], None]) -> Iterator[None]:
        """Call `cut` when it is locked while the context is open.

        It is called in the thread of whoever looks, maybe more than once, and maybe just after the context has ended.

        Raises:
            LockedNow: it is locked already.
        """
        key = object()
        with self._held:
            self._cuts[key] = cut
        try:
            self.check()
            yield
        finally:
            with self._held:
                del self._cuts[key]

    @asynccontextmanager
    async def cuts(self) -> AsyncIterator[None]:
        """End what runs in the context when it is locked: the task is cancelled, and that becomes a LockedNow.

        Raises:
            LockedNow: it is locked already, or was while the context was open.
        """
        loop, scope = asyncio.get_running_loop(), asyncio.timeout(None)

        def cut() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(_expire, scope)

        try:
            async with scope:
                with self.cutting(cut):
                    yield
        except TimeoutError as error:
            if scope.expired():
                raise LockedNow(self.told() or Locked(str(self.own or self.operator))) from error
            raise

    def look(self) -> Locked | None:
        """What the files say; when they say locked, everything that is under way in this process is cut."""
        found = self.told()
        if found:
            with self._held:
                cuts = list(self._cuts.values())
            for cut in cuts:
                cut()
        return found

    async def enforce(self, within_s: float = ENFORCE_S) -> tuple[int, int]:
        """`look`, and wait until what was cut has ended: (how much there was, how much of it is left after that)."""
        before = self._under_way()
        if not self.look():
            return 0, 0
        for _ in range(round(within_s / POLL_S)):
            if not before & self._under_way():
                break
            await asyncio.sleep(POLL_S)
        return len(before), len(before & self._under_way())

    def _under_way(self) -> set[object]:
        with self._held:
            return set(self._cuts)

    async def watch(self, every_s: float = LOOK_S) -> None:
        """Look again and again, until cancelled: for a process that nobody tells."""
        while True:
            self.look()
            await asyncio.sleep(every_s)

    # -- the operator's commands

    def lock(self, reason: str = "") -> bool:
        """Write our own file, durably; False when it was there already, which then stays as it is.

        Raises:
            OSError: it is not there, or may be gone after a loss of power; `told` knows which.
        """
        if self.own is None:
            raise FileNotFoundError("this process has no state folder")
        try:
            file = os.open(self.own, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return False
        try:
            with suppress(OSError):  # on a full disk an empty file locks as well
                os.write(file, json.dumps({"reason": one_line(reason)}).encode() + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
        _sync_folder(self.own)
        return True

    def unlock(self) -> bool:
        """Take our own file away, durably; False when there was none. The operator's file stays.

        Raises:
            OSError: it cannot be removed.
        """
        if self.own is None:
            return False
        try:
            os.unlink(self.own)  # noqa: PTH108
        except FileNotFoundError:
            return False
        _sync_folder(self.own)
        return True


@lru_cache(maxsize=8)
def kill_switch_of(state: Path) -> KillSwitch:
    """The switch of a state folder, the same for everybody in this process, so that one look cuts all."""
    return KillSwitch(state / STATE_NAME)


def one_line(text: str) -> str:
    """A reason as it is shown: printable, one line, bounded."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(plain.split())[:REASON_CHARS]


def is_loopback(host: str) -> bool:
    """Whether a host is this machine's loopback, by its address or as `localhost`; no other name is believed."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.lower().removesuffix(".") == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _reason(file: str, found: os.stat_result) -> str:
    """What the file says: a JSON object with a `reason`, or plain text. Anything odd is no reason, and locks."""
    if not stat.S_ISREG(found.st_mode):
        return ""
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        text = os.read(opened, MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(opened)
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return one_line(text)
    reason = told.get("reason", "") if isinstance(told, dict) else text
    return one_line(reason) if isinstance(reason, str) else ""


def _sync_folder(file: Path) -> None:
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _expire(scope: asyncio.Timeout) -> None:
    with suppress(RuntimeError):  # it has just ended by itself
        scope.reschedule(asyncio.get_running_loop().time())
