"""Measuring an engine: what to ask (pure), when it answered (I/O), and what that means (pure)."""
