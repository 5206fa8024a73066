"""Text from the web, made safe to show to a model: what nobody sees is out, what looks like orders is marked."""

from __future__ import annotations

from sparkgate.untrusted.incoming import Incoming

__all__ = ["Incoming"]
