"""Whether a connection of another user is let in: reads `[access]` anew, and keeps a row of who was refused."""

from __future__ import annotations

import grp
import os
import pwd
import time
from collections.abc import Callable
from contextlib import suppress

from sparkgate import access, log
from sparkgate.access_settings import AccessSettings
from sparkgate.arguments import TOOLSETS
from sparkgate.link import Peer
from sparkgate.policy.audit import Caller, Intent, LogUnavailable
from sparkgate.services import NotReady, Services
from sparkgate.settings import SettingsError, load

NOTE_AGAIN_S = 60.0
"""A user that is refused again and again gets no more rows than this, or it could push others out of the log."""
MOST_NOTED = 1000
UNREADABLE = "the configuration of this gate cannot be used, so only its own user may; `sparkgate config` tells why"


class Admission:
    """Decides by what the kernel says of a peer.

    Args:
        services: the configuration and the log.
        now_s: a clock that only goes forward.
    """

    def __init__(self, services: Services, now_s: Callable[[], float] = time.monotonic) -> None:
        self._services, self._now_s = services, now_s
        self._noted: dict[tuple[int, str], float] = {}

    def refusal(self, peer: Peer, gids: tuple[int, ...] | None, toolset: str, do: str) -> str:
        """Why this connection is refused, or "". Reads files and may ask a directory of users: not for the loop."""
        config = str(self._services.config)
        try:
            given, readable = load(self._services.config).access, True
        except SettingsError:
            given, readable = AccessSettings(), False
        who = access.asker(peer.uid, gids, user_name, group_name)
        reason = access.refusal(given, who, toolset, os.getuid(), config, do)
        if reason:
            self._note(peer, toolset if toolset in TOOLSETS else "")
        return reason if readable or not reason else UNREADABLE

    def _note(self, peer: Peer, toolset: str) -> None:
        """A line in the gate's log and a row in the log, where it can be had."""
        now = self._now_s()
        if now - self._noted.get((peer.uid, toolset), -NOTE_AGAIN_S) < NOTE_AGAIN_S:
            return
        if len(self._noted) > MOST_NOTED:
            self._noted.clear()
        self._noted[peer.uid, toolset] = now
        log.info("connection_refused", pid=peer.pid, uid=peer.uid, gid=peer.gid, toolset=toolset)
        with suppress(NotReady, LogUnavailable):
            egress = self._services.live().egress
            egress.log.intend(_refused(peer, toolset, str(self._services.config), egress.policy.digest))


def _refused(peer: Peer, toolset: str, config: str, policy: str) -> Intent:
    return Intent(
        caller=Caller(pid=peer.pid, uid=peer.uid, gid=peer.gid),
        tool="connect",
        destination="gate",
        origin=config,
        verdict="block",
        sent="",
        fields={"toolset": toolset},
        findings=({"rule": "access", "class": "access", "start": 0, "end": 0},),
        withheld=(),
        policy=policy,
        decision_us=0,
    )


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""
