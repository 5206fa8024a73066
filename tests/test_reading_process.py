"""The process that reads a page: how it starts, what it is allowed, how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from reading_box import PATIENCE_S, URL, children, html, text_of, told, until, worker_that

from sparkgate.reading.page import unreadable
from sparkgate.reading.reader import Reader, Unreadable

pytestmark = pytest.mark.anyio

SENTENCE = "A page of some words that a person can read. "


@pytest.fixture
def mine() -> Iterator[Callable[[], set[int]]]:
    """The processes that the test has started and that are still there; none must be at its end."""
    before = children()
    yield lambda: children() - before
    left = {pid: Path(f"/proc/{pid}/status").read_text() for pid in children() - before}
    assert not left


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("pass", "reader_failed"),
        ("import os; os.abort()", "reader_failed"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", "too_slow"),
        ("print('{')", "reader_failed"),
        ("print('[]')", "reader_failed"),
        ('print(\'{"read": {"kind": "html"}}\')', "reader_failed"),
        ('print(\'{"code": "no such", "detail": "x"}\')', "reader_failed"),
        ('print(\'{"allowed": 1, "code": []}\')', "reader_failed"),
        ("print('x' * 5_000_000)", "reader_failed"),
        ("import time; time.sleep(600)", "too_slow"),
        ("import os, time; os.close(1); time.sleep(600)", "too_slow"),
    ],
)
async def test_a_process_that_fails_is_told_by_a_code(script: str, code: str, mine: Callable[[], set[int]]) -> None:
    reader = Reader(command=told(script))
    try:
        deadline_s = 0.3 if "sleep" in script else PATIENCE_S
        assert await reader.read(html(SENTENCE), deadline_s) == unreadable(code)
        assert isinstance(await reader.robots(b"", URL, "x", deadline_s), Unreadable)
    finally:
        await reader.aclose()


async def test_a_process_that_cannot_be_started_is_told_by_a_code() -> None:
    reader = Reader(command=("/nonexistent/python",))
    reader.warm()
    assert await reader.read(html(SENTENCE)) == unreadable("reader_failed")
    await reader.aclose()


async def test_the_fault_of_a_process_is_logged_without_anything_of_the_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reader = Reader(command=worker_that("1 / len(body.data[:0])"))
    assert await reader.read(html("a secret of the page")) == unreadable("reader_failed")
    await reader.aclose()
    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "page_fault" and line["exception"] == "ZeroDivisionError"
    assert "secret" not in json.dumps(line) and "division" not in json.dumps(line)


@pytest.mark.parametrize(
    ("expression", "tells"),
    [
        ("socket.socket()", "ConnectionRefusedByPolicy"),
        ("socket.getaddrinfo('localhost', 1)", "ConnectionRefusedByPolicy"),
        ("subprocess.run(['/bin/true'])", "ConnectionRefusedByPolicy"),
        ("os.fork()", "ConnectionRefusedByPolicy"),
        ("os.write(os.open(os.environ.get('HOME', '/tmp') + '/x', os.O_CREAT | os.O_WRONLY), b'x')", "OSError"),
        ("[os.dup(1) for _ in range(99)]", "OSError"),
    ],
)
async def test_the_process_reaches_nothing(
    expression: str, tells: str, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    reader = Reader(command=worker_that(expression.replace("/tmp", str(tmp_path_factory.mktemp("out")))))
    assert await reader.read(html(SENTENCE)) == unreadable("reader_failed")
    await reader.aclose()
    assert json.loads(capsys.readouterr().err)["exception"] == tells


async def test_the_process_takes_no_more_memory_and_time_than_it_is_given() -> None:
    for expression, code in [("bytearray(10**9)", "too_much_memory"), ("max(iter(int, 1))", "too_slow")]:
        reader = Reader(command=worker_that(expression))
        assert await reader.read(html(SENTENCE), 2.0) == unreadable(code)
        await reader.aclose()


async def test_the_process_has_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-process")
    reader = Reader(command=worker_that("sorted(os.environ)"))
    assert text_of(await reader.read(html(SENTENCE))) == "['LC_ALL']"
    await reader.aclose()


async def test_what_a_library_prints_is_no_answer() -> None:
    reader = Reader(command=worker_that("(print('noise'), os.write(1, b'more'))"))
    assert text_of(await reader.read(html(SENTENCE))) == "(None, 4)"
    await reader.aclose()


async def test_each_page_has_a_process_of_its_own_and_the_next_one_waits_already(mine: Callable[[], set[int]]) -> None:
    reader = Reader(command=worker_that("os.getpid()"))
    seen = set()
    for _ in range(3):
        reader.warm()
        await until(lambda: reader.is_warm)
        waiting = mine()
        pid = int(text_of(await reader.read(html(SENTENCE))))
        assert waiting == {pid}
        seen.add(pid)
    assert len(seen) == 3
    await reader.aclose()


async def test_a_process_for_which_no_page_comes_is_ended(mine: Callable[[], set[int]]) -> None:
    reader = Reader(idle_s=0.05)
    reader.warm()
    await until(lambda: reader.is_warm)
    await until(lambda: not mine())
    assert not reader.is_warm
    assert text_of(await reader.read(html(SENTENCE))) == SENTENCE.strip()
    await reader.aclose()


async def test_a_process_that_died_waiting_is_replaced(mine: Callable[[], set[int]]) -> None:
    reader = Reader()
    reader.warm()
    await until(lambda: reader.is_warm)
    (pid,) = mine()
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not reader.is_warm)
    assert text_of(await reader.read(html(SENTENCE))) == SENTENCE.strip()
    await reader.aclose()


async def test_a_cancelled_call_leaves_no_process(mine: Callable[[], set[int]]) -> None:
    reader = Reader(command=told("import time; time.sleep(600)"))
    call = asyncio.create_task(reader.read(html(SENTENCE), PATIENCE_S))
    await until(lambda: bool(mine()))
    (first,) = mine()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert first not in mine()
    await reader.aclose()


GUARDED = """
import asyncio
from sparkgate.policy.guard import Guard
from sparkgate.reading.reader import Body, Reader

guard = Guard()
guard.install()

async def main():
    reader = Reader(guard)
    for _ in range(2):
        print((await reader.read(Body(b"<p>Some words of a page", "text/html", "https://a.example/"), 30.0)).markdown)
    await reader.aclose()

asyncio.run(main())
"""


def test_the_connection_guard_lets_this_process_be_started() -> None:
    done = run([sys.executable, "-I", "-W", "error", "-c", GUARDED])
    assert (done.stdout, done.stderr) == ("Some words of a page\n" * 2, "")


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def test_the_process_ends_when_its_input_does() -> None:
    command = [sys.executable, "-I", "-m", "sparkgate.reading.worker"]
    for sent in ("", '{"job":"page","size":99,"type":"","url":"","seconds":9}\nshort'):
        done = subprocess.run(command, input=sent, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.stdout == ""
