"""Why a send had no whole answer: every exception of the way out as one stable word, without its text."""

from __future__ import annotations

import errno
import zlib

import h11

from sparkgate.policy.guard import ConnectionRefusedByPolicy
from sparkgate.policy.http_exchange import Broken
from sparkgate.policy.kill_switch import CODE as LOCKED
from sparkgate.policy.kill_switch import LockedNow
from sparkgate.policy.places import NoPlace
from sparkgate.policy.response import TooLarge


class NoAuthorities(Exception):
    """The file of authorities cannot be read, or is none."""


class BadCertificate(Exception):
    """The certificate of an address is none that is trusted here."""


class BadUrl(Exception):
    """The address of a request is none."""


class NotPublic(Exception):
    """A name of the web leads to an address of this machine or network. The address is not in the text."""


class Unreachable(Exception):
    """No connection to an address came about."""


class NotInTime(Unreachable):
    """Nor would it in the time that each address has."""


EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
FAILURES: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedByPolicy, "refused_by_guard"),
    (LockedNow, LOCKED),
    (NotPublic, "special_address"),
    (NoAuthorities, "ca_file"),
    (BadCertificate, "certificate"),
    (NoPlace, "busy"),
    (TooLarge, "too_large"),
    (NotInTime, "timeout"),
    (TimeoutError, "timeout"),
    (Unreachable, "connect"),
    (h11.RemoteProtocolError, "protocol"),
    (BadUrl, "bad_url"),
    (h11.LocalProtocolError, "network"),
    (Broken, "network"),
    (zlib.error, "bad_encoding"),
    (UnicodeError, "name_lookup"),
    (OSError, "name_lookup"),
)


def failure_kind(error: BaseException) -> str:
    """The stable word for an exception of a send, without its text; the guard's refusal counts wherever it hides."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ConnectionRefusedByPolicy):
            return "refused_by_guard"
        if isinstance(seen, OSError) and seen.errno in EXHAUSTED:
            return "exhausted"
        seen = seen.__cause__ or seen.__context__
    return next((kind for kind_of, kind in FAILURES if isinstance(error, kind_of)), "fault")
