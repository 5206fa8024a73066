"""Fixtures: a box with folders of its own, and servers on loopback. Nothing here touches the user's files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from box import Box, a_box
from fake_searxng import FakeSearxng


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def box() -> Iterator[Box]:
    with a_box() as made:
        yield made


@pytest.fixture
def searxng() -> Iterator[FakeSearxng]:
    """A loopback server that answers as SearXNG does on its good and bad days."""
    with FakeSearxng() as server:
        yield server
