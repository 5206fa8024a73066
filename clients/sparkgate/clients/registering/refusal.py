"""Why a file of a host is left as it is."""

from __future__ import annotations


class Refused(Exception):
    """Nothing was written; the message says why, and what to do where something can be done."""


class Changed(Exception):
    """Somebody else has written the file since it was read."""
