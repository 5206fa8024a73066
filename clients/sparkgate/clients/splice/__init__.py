"""Exact edits of other programs' configuration files; see `splicing`."""

from __future__ import annotations

from sparkgate.clients.splice.edit import CannotEdit, Edit, Span
from sparkgate.clients.splice.splicing import drop, put, read, where

__all__ = ["CannotEdit", "Edit", "Span", "drop", "put", "read", "where"]
