"""Whether a connection of another user is let in: reads `[access]` anew, and keeps a row of who was refused."""

from __future__ import annotations

import grp
import os
import pwd
import time
from collections.abc import Callable

from sparkgate import access, log
from sparkgate.access_settings import AccessSettings
from sparkgate.arguments import TOOLSETS
from sparkgate.link import Peer
from sparkgate.policy.audit import Caller
from sparkgate.refusal_rows import About, note
from sparkgate.services import Services
from sparkgate.settings import SettingsError, load

NOTE_AGAIN_S = 60.0
"""A user that is refused again and again gets no more rows than this, or it could push others out of the log."""
MOST_NOTED = 1000
UNREADABLE = "the configuration of this gate cannot be used, so only its own user may; `sparkgate config` tells why"


class Admission:
    """Decides by what the kernel says of a peer.

    Args:
        services: the configuration and the log.
        confined: name of the confinement that connections come from; "" outside.
        now_s: a clock that only goes forward.
    """

    def __init__(self, services: Services, confined: str = "", now_s: Callable[[], float] = time.monotonic) -> None:
        self._services, self._confined, self._now_s = services, confined, now_s
        self._noted: dict[tuple[int, str], float] = {}

    def refusal(self, peer: Peer, gids: tuple[int, ...] | None, toolset: str, do: str) -> str:
        """Why this connection is refused, or "", and a row of it. Not for the loop, as `objection` is not."""
        reason = self.objection(peer, gids, toolset, do)
        if reason:
            self._note(peer, toolset if toolset in TOOLSETS else "")
        return reason

    def objection(self, peer: Peer, gids: tuple[int, ...] | None, wanted: str, do: str = "") -> str:
        """Why a user may not have a toolset, or the models, or "". Reads files and may ask a directory of users."""
        if peer.uid == os.getuid():
            return ""
        config = str(self._services.config)
        try:
            given, readable = load(self._services.config).access, True
        except SettingsError:
            given, readable = AccessSettings(), False
        who = access.asker(peer.uid, gids, user_name, group_name)
        reason = access.refusal(given, who, wanted, os.getuid(), config, do)
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
        caller = Caller(pid=peer.pid, uid=peer.uid, gid=peer.gid, confined=self._confined)
        about = About("connect", "gate", str(self._services.config))
        note(self._services, caller, about, "access", fields={"toolset": toolset})


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
