"""What a confined command can do to the gate it shares with others: fill neither its log nor its places."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from box import Box, wait_until_ended
from test_confine import PIPE, Confined, confined

from sparkgate.link import hello
from sparkgate.policy.audit import Caller
from sparkgate.policy.guard import Guard
from sparkgate.refusal_rows import About, LimitedRows
from sparkgate.services import Services

__all__ = ["confined"]

pytestmark = pytest.mark.confining

ANSWERS = """
import json, socket, sys
path, count, kept, said = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "keep", sys.argv[4].encode()
links, answers = [], []
for _ in range(count):
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    try:
        link.sendall(said)
    except OSError:
        pass
    answer = json.loads(link.makefile().readline())
    answers.append(answer.get("reason", answer["gate"]))
    links += [link] if kept else [link.close()]
print(json.dumps(answers), flush=True)
sys.stdin.read()
"""


def asking(confined: Confined, count: int, kept: str, said: bytes) -> Any:
    """A command inside that says the same `count` times, tells the answers and stays until its input ends."""
    code = (sys.executable, "-I", "-c", ANSWERS, str(confined.box.socket), str(count), kept, said.decode())
    return confined.box.host(*confined.argv(*code))


def told(host: Any) -> Counter[str]:
    return Counter(json.loads(host.line()))


def counted(box: Box) -> list[tuple[str, int]]:
    return [(row["fields"]["tried"], int(row["fields"]["count"])) for row in box.rows() if row["tool"] == "connect"]


def test_a_confinement_gets_a_part_of_the_places_and_others_are_served_meanwhile(confined: Confined) -> None:
    crowd = asking(confined, 70, "keep", hello("search", config=str(confined.box.config)))
    assert told(crowd) == {
        "ready": 64,
        "64 connections of this confinement are open already; close one of them first": 6,
    }
    host = confined.box.host(*PIPE)
    host.initialize()
    assert host.search("a")["ok"]
    other = confined.box.host(*confined.argv(*PIPE))
    other.initialize()
    assert other.search("a")["ok"]
    assert confined.box.gate_status()["sessions"] == 66
    assert [one.close() for one in (crowd, host, other)] == [0, 0, 0]


def test_places_are_given_back_when_a_connection_ends(confined: Confined) -> None:
    crowd = asking(confined, 200, "close", hello("search", config=str(confined.box.config)))
    assert told(crowd) == {"ready": 200}
    assert crowd.close() == 0


def test_what_is_tried_in_a_loop_leaves_few_rows_which_say_how_often(confined: Confined) -> None:
    tries = asking(confined, 300, "close", hello("control", config=str(confined.box.config), do="stop"))
    assert told(tries) == {"a confined command cannot end the gate": 300}
    gates = confined.box.gate_pids()
    assert confined.box.command("gate", "stop").returncode == 0
    wait_until_ended(gates)
    rows = counted(confined.box)
    assert len(rows) < 100 and {what for what, _ in rows} == {"end the gate"}
    assert sum(count for _, count in rows) == 300
    assert tries.close() == 0


@pytest.mark.anyio
async def test_a_kind_is_one_row_in_a_second_and_what_is_left_comes_at_the_end(tmp_path: Path) -> None:
    now = [0.0]
    box = Box(tmp_path)
    box.configure("")
    services = Services(box.config, box.state, Guard())
    rows = LimitedRows(services, About("connect", "gate", ""), lambda: now[0])
    for at_s in (0.0, 0.1, 0.2, 0.9, 1.0, 1.5):
        now[0] = at_s
        await rows.add(Caller(pid=int(at_s * 10)), "confined", "a")
    await rows.add(Caller(), "confined", "b")
    assert counted(box) == [("a", 1), ("a", 4)]
    await rows.flush()
    assert counted(box)[2:] == [("a", 1), ("b", 1)]
    assert [row["pid"] for row in box.rows()] == [0, 10, 15, 0]
