"""The process of the model doors in moments that no client chooses: a lock in mid-judgement, a kernel without room."""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from door_box import CHAT, Engine, door_to, part, post, pss_kib, until

from sparkgate.door import House
from sparkgate.door_loop import Channel, Loop
from sparkgate.policy.guard import Guard
from sparkgate.policy.model_door import fields, screen
from sparkgate.policy.model_door.plan import Door, First, written
from sparkgate.policy.model_door.screen import Engine as Behind


@contextmanager
def house(engine_port: int, lock: Path, *, leads_away: bool) -> Iterator[tuple[House, socket.socket]]:
    """A house in this process whose loop does not run, and a client that waits to be taken."""
    door = Door(Behind("main", "vllm", "x"), "http", "127.0.0.1", engine_port, ("127.0.0.1",), leads_away=leads_away)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        first = First({"main": os.dup(listener.fileno())}, [str(lock)])
        made = House(written([door], first), b"", Guard())
        with made._listeners["main"], socket.create_connection(listener.getsockname()) as client:
            select.select([listener], [], [])
            yield made, client
            for one in list(made._open):
                one.close()


@pytest.mark.parametrize("leads_away", [True, False])
def test_a_lock_that_comes_while_a_request_is_judged_still_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leads_away: bool
) -> None:
    judged = screen.check

    def locked_meanwhile(*given: Any) -> Any:
        (tmp_path / "locked").touch()
        return judged(*given)

    monkeypatch.setattr("sparkgate.door_carry.check", locked_meanwhile)
    with (
        socket.create_server(("127.0.0.1", 0)) as engine,
        house(engine.getsockname()[1], tmp_path / "locked", leads_away=leads_away) as (made, client),
    ):
        client.sendall(post(CHAT))
        made._accept("main")()
        reached, answered = (bool(select.select([one], [], [], 0)[0]) for one in (engine, client))
        assert (reached, answered) == (not leads_away, leads_away)
        assert not answered or b"sparkgate_locked" in client.recv(4096)


def test_a_kernel_that_has_no_room_for_a_connection_ends_that_one_and_no_other(tmp_path: Path) -> None:
    class Full:
        def register(self, *_: Any) -> None:
            raise OSError(errno.ENOSPC, "no room")

    with house(1, tmp_path / "locked", leads_away=False) as (made, client):
        made.loop._epoll = Full()  # type: ignore[assignment]
        before = len(list(Path("/proc/self/fd").iterdir()))
        made._accept("main")()
        assert client.recv(1) == b"" and not made._open
        assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_an_event_is_for_whom_it_was_meant_though_its_descriptor_is_anothers_by_then() -> None:
    loop, told = Loop(), list[str]()
    ones, others = socket.socketpair(), socket.socketpair()
    number = others[0].fileno()
    with ones[0], ones[1], others[0], others[1]:
        stale = Channel(loop, number, lambda: told.append("the old one"))

        def replace() -> None:
            first.want()
            stale.want()
            os.dup2(ones[1].fileno(), number)
            Channel(loop, number, lambda: None, lambda: told.append("the new one")).want(write=True)
            loop.ended = True

        first = Channel(loop, ones[0].fileno(), replace)
        first.want(read=True)
        stale.want(read=True)
        ones[1].send(b"x")
        others[1].close()
        loop.run(lambda: None, lambda: None)
    assert "the new one" not in told


# -- long requests


def test_a_conversation_of_a_hundred_thousand_messages_is_judged_while_its_client_waits() -> None:
    message = {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "x", "cache_control": {}}]}
    with door_to(Engine()) as box:
        assert box.ask(post({**CHAT, "messages": [message] * 100_000})).status == 200
        assert (
            box.ask(post({**CHAT, "messages": [message] * 100_000 + [part(image="http://x")]})).code == "remote_media"
        )


def test_keys_that_are_passed_over_have_no_rule() -> None:
    ruled = {*fields.KEYS, *fields.MEDIA, *fields.ADDRESSES, *fields.DATA, "source", "tools", "format", "input", "env"}
    assert fields.PLAIN and fields.PLAIN.isdisjoint(ruled)


def test_bodies_that_came_at_once_are_given_back_when_their_clients_are_gone() -> None:
    whole = post(b"x" * 900_000)
    with door_to(Engine()) as box:
        links = []
        for number in range(60):
            links.append(box.connect())
            links[-1].sendall(whole[:850_000])
            if number % 10 == 5:
                assert box.ask(post(CHAT)).status == 200
        until(lambda: pss_kib(box.pid) > 50_000, "they are held")
        for link in links:
            link.close()
        until(lambda: box.doors.counts["main"]["open"] == 0, "all are over")
        assert pss_kib(box.pid) < 24_000
