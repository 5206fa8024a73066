"""Fixtures: a box with folders of its own, and servers on loopback. Nothing here touches the user's files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box
from fake_searxng import FakeSearxng


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def box() -> Iterator[Box]:
    """Folders for one user of sparkgate; the gate they start is ended afterwards."""
    root = Path(tempfile.mkdtemp(prefix="sg-"))  # short, as a socket path has 107 bytes
    made = Box(root)
    yield made
    made.end()
    shutil.rmtree(root)


@pytest.fixture
def searxng() -> Iterator[FakeSearxng]:
    """A loopback server that answers as SearXNG does on its good and bad days."""
    with FakeSearxng() as server:
        yield server
