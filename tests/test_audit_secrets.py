"""Nothing that was withheld stands in any file of ours, in any form: real queries, faults and kills, then a search.

Values are planted in what a host sends to a real pipe and gate. Afterwards every file of the box is searched for them,
with the WAL in place, while the gate runs and after it was killed, and so is what the commands print.
"""

from __future__ import annotations

import base64
import codecs
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest
from box import Box, Host, wait_until_ended
from engine_box import until
from fake_searxng import FakeSearxng, Reply, answer, result, zipped

from sparkgate.policy.samples import fill

TOKEN = fill("hf_{mixed:34}")
PASSWORD = "k7#Vq9zLw2xTb4"
SAID = f"my postgres password is {PASSWORD}"
EMAIL = "orla.pryce77@tessellate-labs.io"
FOLDER = "/home/quillon.vex/halberd-project"
CLIENT = "Quorrix Dynamics"
PLANTED = (TOKEN, PASSWORD, EMAIL, FOLDER, CLIENT, "quillon.vex", "halberd-project", "tessellate-labs")
LONG = 20
"""Characters from which half of a value is looked for as well."""

CODES: Mapping[str, Callable[[str], str]] = {
    "as it is": str,
    "backwards": lambda text: text[::-1],
    "hex": lambda text: text.encode().hex(),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 in another place": lambda text: base64.b64encode(b"x" + text.encode()).decode(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "UTF-16": lambda text: text.encode("utf-16-le").decode("latin-1"),
}
"""How a secret may be written down, in a file or in a query."""
NOT_ASKED = ("UTF-16",)
NOT_BLOCKED = ("backwards", "rot13")
"""Of a password that is told in words: a text that leaves as it is says nothing about what is held back."""
WITHHELD = {
    **{f"token, {name}": (code(TOKEN), "blocked") for name, code in CODES.items() if name not in NOT_ASKED},
    **{
        f"password, {name}": (code(SAID), "blocked")
        for name, code in CODES.items()
        if name not in (*NOT_ASKED, *NOT_BLOCKED)
    },
    "token, base64 twice": (base64.b64encode(CODES["base64"](TOKEN).encode()).decode(), "blocked"),
    "address": (f"ask {EMAIL} about nccl", ""),
    "path": (f"FileNotFoundError {FOLDER}/run.py torch", ""),
    "name": (f"what does {CLIENT} use for inference", ""),
    "all": (f"{EMAIL} {FOLDER}/x.py {CLIENT} nccl", ""),
}
"""What is asked → the code of the answer; "" when the rest of it may leave."""
VALUES = (TOKEN, SAID, EMAIL, f"{FOLDER}/run.py", CLIENT)


def forms(value: str) -> set[bytes]:
    """How a value may be written down, in lower case."""
    raw = value.encode()
    found = {raw, raw[::-1], raw.hex().encode(), quote(value, safe="").encode(), json.dumps(value)[1:-1].encode()}
    found |= {value.encode("utf-16-le"), value.encode("utf-16-be"), codecs.encode(value, "rot13").encode()}
    found |= {"".join(f"%{byte:02x}" for byte in raw).encode(), base64.b32encode(raw).rstrip(b"=")[:-1]}
    for before in range(3):
        # What stands before shifts the bits; the characters that hold none of it are left out.
        packed = base64.b64encode(bytes(before) + raw)[-(-before * 8 // 6) :]
        kept = packed.rstrip(b"=")[:-1]
        found |= {kept, kept.replace(b"+", b"-").replace(b"/", b"_")}
    if len(value) >= LONG:
        found |= {raw[: len(raw) // 2], raw[len(raw) // 2 :]}
    return {form.lower() for form in found}


FORMS = {form: value for value in PLANTED for form in forms(value)}


def planted_in(data: bytes) -> list[str]:
    low = data.lower()
    return [f"{value} as {form!r}" for form, value in FORMS.items() if form in low]


def held(box: Box) -> dict[str, bytes]:
    """Every file of the box but its configuration."""
    files = (path for path in box.root.rglob("*") if path.is_file() and box.config.parent not in path.parents)
    return {str(path.relative_to(box.root)): path.read_bytes() for path in files}


def told(box: Box) -> dict[str, bytes]:
    """What commands that read the log print."""
    rows = (("list", "--json", "--limit", "1000"), ("show", str(box.rows()[-1]["id"]), "--json"))
    return {" ".join(row): box.command("audit", *row).stdout.encode() for row in rows}


def assert_nowhere(box: Box) -> None:
    """Search with the gate running, and again after it was killed and others have read what it left."""
    for pid in (0, *box.gate_pids()):
        if pid:
            os.kill(pid, signal.SIGKILL)
            wait_until_ended([pid])
        found = {**held(box), **(told(box) if pid else {})}
        assert {"audit.db", "audit.head", box.log_file.name} <= {Path(name).name for name in found}
        assert {name: places for name, data in found.items() if (places := planted_in(data))} == {}


@pytest.fixture
def box(box: Box, searxng: FakeSearxng) -> Iterator[Box]:
    """A box with a client to keep secret, whose temporary files are in it as well."""
    box.use(searxng.url)
    (box.config.parent / "terms.toml").write_text(f'[[term]]\nname = "{CLIENT}"\n')
    (box.root / "tmp").mkdir()
    box.environment["TMPDIR"] = str(box.root / "tmp")
    yield box


@pytest.fixture
def host(box: Box) -> Host:
    opened = box.host()
    opened.initialize()
    return opened


def server(box: Box, toolset: str) -> Host:
    opened = box.host(sys.executable, "-I", "-m", "sparkgate.stdio", toolset)
    opened.initialize()
    return opened


@pytest.mark.parametrize("code", CODES)
def test_the_search_finds_a_planted_value_in_every_form(code: str) -> None:
    for value in PLANTED:
        assert planted_in(b"\x00before " + CODES[code](value).encode("latin-1") + b" after")
    assert planted_in(TOKEN[3:].upper().encode()) and not planted_in(b"nothing of all that")


def test_what_queries_held_back_stands_nowhere(host: Host, box: Box, searxng: FakeSearxng) -> None:
    for name, (query, code) in WITHHELD.items():
        assert (name, host.search(query).get("code", "")) == (name, code)
    assert planted_in(repr(searxng.requests).encode()) == []
    assert len(box.rows()) == len(WITHHELD)
    assert_nowhere(box)


def test_what_stands_in_other_arguments_of_a_search_stands_nowhere(host: Host, box: Box) -> None:
    host.search("nccl")
    for value in VALUES:
        for more in ({value: "x"}, {"note": value}, {"language": value}, {"engines": [value]}, {"categories": value}):
            assert host.search("nccl", **more)["ok"] is False
        for name in ("time_range", "safesearch", "max_results", "page"):
            assert host.search("nccl", **{name: value})["code"] == "invalid_argument"
        assert host.call("web_search", value)["ok"] is False and host.call(value, {})["code"] == "unknown_tool"
    assert_nowhere(box)


def test_what_stands_in_arguments_of_the_other_servers_stands_nowhere(box: Box, searxng: FakeSearxng) -> None:
    box.configure(f'[searxng]\nurl = "{searxng.url}"\n[engines.main]\nengine = "llamacpp"\nurl = "{searxng.url}"\n')
    server(box, "search").search("nccl")
    engine, bench = server(box, "engine"), server(box, "bench")
    for value in VALUES:
        for tool in ("engine_load", "engine_swap", "engine_unload", "engine_logs", "engine_doctor", "engine_plan"):
            engine.ask("tools/call", {"name": tool, "arguments": {"name": value, value: value}})
            engine.ask("tools/call", {"name": tool, "arguments": {"name": value}})
        bench.ask("tools/call", {"name": "bench_run", "arguments": {"kind": value, "engine": value}})
        bench.ask("tools/call", {"name": "bench_run", "arguments": {"kind": "speed", "concurrency": value}})
        bench.ask("tools/call", {"name": "bench_compare", "arguments": {"a": value, "b": value}})
        bench.ask("tools/call", {"name": "bench_history", "arguments": {"engine": value, "kind": value}})
        bench.ask("tools/call", {"name": "bench_reference", "arguments": {"model": value}})
    assert_nowhere(box)


def test_what_stands_in_a_message_that_is_none_stands_nowhere(host: Host, box: Box) -> None:
    host.search("nccl")
    call = {"jsonrpc": "2.0", "id": 90, "method": "tools/call"}
    for value in VALUES:
        good = json.dumps(call | {"params": {"name": "web_search", "arguments": {"query": value}}}).encode()
        for line in (
            good[:-9],
            good + good,
            good.replace(b'"2.0"', b'"1.0"'),
            good.replace(b"tools/call", value.encode()),
            good.replace(b"90", json.dumps([value]).encode()),
            good.replace(b'"web_search"', b"{}"),
            good.replace(b'"query"', b"\xff\xfe"),
            json.dumps(value).encode(),
            value.encode(),
            json.dumps(call | {"params": value}).encode(),
            json.dumps(call | {"id": value, "params": {"name": value}}).encode(),
            json.dumps(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": value}}
            ).encode(),
            json.dumps({"jsonrpc": "2.0", "id": value, "result": {"text": value}}).encode(),
        ):
            host.send_bytes(line + b"\n")
        assert host.ask("ping")["result"] == {}
    host.send_bytes(good[:-9])
    host.close()
    assert_nowhere(box)


def dies(_: dict[str, str]) -> Reply:
    raise ConnectionAbortedError


ECHO = answer(result(1, title=f"{TOKEN} {EMAIL}", content=SAID), suggestions=[CLIENT])
BAD_ANSWERS: Mapping[str, Reply | Callable[[dict[str, str]], Reply]] = {
    "dies before it answers": dies,
    "dies in the middle": zipped(ECHO, cut=40),
    "says what is no HTTP": Reply(body=ECHO.body, headers={"Transfer-Encoding": "chunked"}),
    "answers what is no JSON": Reply(body=f"<p>{TOKEN} {SAID} {EMAIL}".encode()),
    "gives an error with text": Reply(500, "text/html", f"{SAID} {FOLDER}/x {EMAIL}".encode()),
    "repeats secrets": ECHO,
    "sends elsewhere": Reply(302, headers={"Location": f"http://127.0.0.1:9/{TOKEN}?q={quote(EMAIL)}"}),
}


def test_what_was_held_back_from_a_searxng_that_fails_stands_nowhere(
    host: Host, box: Box, searxng: FakeSearxng
) -> None:
    for reply in BAD_ANSWERS.values():
        searxng.reply = reply
        host.search(WITHHELD["all"][0])
        host.search(TOKEN)
    assert len(box.rows()) == 2 * len(BAD_ANSWERS)
    assert_nowhere(box)


BAD_POLICIES = {
    "a verdict that is none": f'[[term]]\nname = "{CLIENT}"\nverdict = "stop"\n',
    "a text that does not end": f'[[term]]\nname = "{CLIENT}\n',
    "a name twice": f'[[term]]\nname = "{CLIENT}"\nname = "{CLIENT}"\n',
    "forms that are no list": f'[[term]]\nname = "{CLIENT}"\nforms = "{EMAIL}"\n',
    "a name in the place of a key": f'[[term]]\nname = "xx"\n"{CLIENT}" = true\n',
    "a table of that name twice": f'[term."{CLIENT}"]\nverdict = "block"\n[term."{CLIENT}"]\nverdict = "block"\n',
}


def test_what_was_on_its_way_while_the_policy_broke_stands_nowhere(host: Host, box: Box, searxng: FakeSearxng) -> None:
    other = server(box, "search")
    host.search("nccl")
    for broken in BAD_POLICIES.values():
        searxng.reset()
        searxng.hold.clear()
        call = host.send("tools/call", {"name": "web_search", "arguments": {"query": WITHHELD["all"][0]}})
        searxng.wait_for_request()
        (box.config.parent / "terms.toml").write_text(broken)
        assert other.search(TOKEN)["code"] == "blocked"
        searxng.hold.set()
        assert host.read()["id"] == call
    assert [row["tool"] for row in box.rows()].count("policy_load") == len(BAD_POLICIES)
    assert planted_in(repr(searxng.requests).encode()) == []
    assert_nowhere(box)


def test_what_was_on_its_way_when_the_gate_was_killed_stands_nowhere(
    host: Host, box: Box, searxng: FakeSearxng
) -> None:
    searxng.hold.clear()
    call = host.send("tools/call", {"name": "web_search", "arguments": {"query": WITHHELD["all"][0]}})
    searxng.wait_for_request()
    others = [server(box, "search") for _ in range(2)]
    for other in others:
        other.send("tools/call", {"name": "web_search", "arguments": {"query": TOKEN}})
    (killed,) = box.gate_pids()
    os.kill(killed, signal.SIGKILL)
    wait_until_ended([killed])
    assert host.read()["id"] == call
    assert planted_in(b"".join(held(box).values())) == []
    searxng.hold.set()
    assert host.search(SAID)["code"] == "blocked"
    until(lambda: killed not in box.gate_pids(), "another gate runs")
    assert_nowhere(box)
