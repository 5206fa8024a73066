"""An engine that generates by an exact schedule and writes down itself when it sent what.

It runs in a process of its own. Token k of a stream is due at its start plus `ttft_ms` plus k / rate, whatever was late
before; what is due is sent at once. Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Role = Literal["none", "first", "immediate", "progress"]
TEMPLATE = ("<|turn|>", "user", "<|end|>", "<|turn|>", "assistant")
"""Tokens that stand around every prompt: two before it, three after."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """How it behaves.

    Attributes:
        dialect: `vllm` and `llamacpp` have metrics and a tokenizer; `llamacpp` also its own timings.
        rate: tokens per second of one stream.
        tokens_per_chunk: a chunk is due when its last token is.
        role: when a chunk that only names the role comes; `progress` repeats it while the prompt is computed.
        reasoning: so many tokens are reasoning.
        tagged: so many of its first tokens stand between the tags of thinking, in the visible text.
        held_back: the first chunk holds so many tokens, and comes when the last of them is due.
        cap: it never gives more tokens.
        usage: whether it counts when asked to.
        stall_ms, stall_at: it sends nothing for so long before that token; the schedule goes on behind it.
        error_at: an error within the stream after so many tokens.
        slots: requests that are computed at once; 0 for all.
        cache: `none` computes each prompt anew, `real` shares beginnings, `always` says that it had all.
        prefill_tok_s: prompt tokens per second, beside `ttft_ms`; 0 for at once.
        answers_as: the name it gives itself; "" for the one asked for.
        fail_every: each n-th streamed request is answered with status 500.
        drops_kept: a kept connection is closed at its n-th request, before an answer.
        obeys_length: it knows ignore_eos; otherwise it ends after `cap` with "stop".
    """

    dialect: Literal["openai", "vllm", "llamacpp"] = "openai"
    rate: float = 500.0
    ttft_ms: float = 20.0
    tokens_per_chunk: int = 1
    role: Role = "first"
    reasoning: int = 0
    tagged: int = 0
    held_back: int = 0
    cap: int = 0
    usage: Literal["asked", "never"] = "asked"
    stall_ms: float = 0.0
    stall_at: int = 0
    error_at: int = 0
    slots: int = 0
    cache: Literal["none", "real", "always"] = "none"
    prefill_tok_s: float = 0.0
    answers_as: str = ""
    fail_every: int = 0
    drops_kept: int = 0
    obeys_length: bool = True


@dataclass(slots=True)
class Truth:
    """What one stream really was; times in ns. Handing over a chunk took `slowest_ns` at most."""

    t0_ns: int
    asked: int = 0
    prompt: int = 0
    cached: int = 0
    first_ns: int = 0
    last_ns: int = 0
    tokens: int = 0
    first_tokens: int = 0
    slowest_ns: int = 0
    closed_ns: int = 0
    ended: bool = False
    body: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Sim:
    """The server's state."""

    scenario: Scenario
    truths: list[Truth] = field(default_factory=list)
    prompts: list[list[str]] = field(default_factory=list)
    running: int = 0
    waiting: int = 0
    generated: int = 0
    streams: int = 0
    gate: asyncio.Semaphore | None = None


def prompt_tokens(body: dict[str, Any]) -> list[str]:
    words = " ".join(str(one.get("content", "")) for one in body.get("messages", ())).split()
    return [*TEMPLATE[:2], *words, *TEMPLATE[2:]]


def shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many tokens two prompts begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def event(body: dict[str, Any], sim: Sim, **parts: Any) -> bytes:
    told = {"id": "sim", "model": sim.scenario.answers_as or body.get("model", "sim"), **parts}
    data = b"data: " + json.dumps(told, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def delta(body: dict[str, Any], sim: Sim, finish: str | None = None, **fields: Any) -> bytes:
    return event(body, sim, choices=[{"index": 0, "delta": fields, "finish_reason": finish}])


async def stream(sim: Sim, body: dict[str, Any], truth: Truth, writer: asyncio.StreamWriter) -> None:
    """One answer, from its headers to its end."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    if sim.scenario.role == "immediate":
        writer.write(delta(body, sim, role="assistant", content=""))
    sim.waiting += 1
    async with sim.gate or asyncio.Semaphore():
        sim.waiting -= 1
        sim.running += 1
        try:
            await generate(sim, body, truth, writer)
        finally:
            sim.running -= 1


def plan_prompt(sim: Sim, body: dict[str, Any], truth: Truth) -> float:
    """Fill in the counts of the prompt. Seconds until the first token."""
    tokens, scenario = prompt_tokens(body), sim.scenario
    truth.prompt = len(tokens)
    if scenario.cache == "real":
        truth.cached = max((shared(tokens, one) for one in sim.prompts), default=0)
        sim.prompts.append(tokens)
    truth.cached = truth.prompt - 1 if scenario.cache == "always" else min(truth.cached, truth.prompt - 1)
    computed = truth.prompt - truth.cached
    return scenario.ttft_ms / 1e3 + (computed / scenario.prefill_tok_s if scenario.prefill_tok_s else 0.0)


async def generate(sim: Sim, body: dict[str, Any], truth: Truth, writer: asyncio.StreamWriter) -> None:
    scenario, began = sim.scenario, time.perf_counter()
    ttft_s = plan_prompt(sim, body, truth)
    while scenario.role == "progress" and time.perf_counter() < began + ttft_s:
        role = [{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}]
        writer.write(event(body, sim, choices=role, prompt_progress={"total": truth.prompt, "processed": 1}))
        await asyncio.sleep(ttft_s / 4)
    if scenario.role in ("first", "progress"):
        await asyncio.sleep(max(0.0, began + ttft_s - time.perf_counter()))
        writer.write(delta(body, sim, role="assistant", content=""))
    total = min(truth.asked, scenario.cap or truth.asked)
    while truth.tokens < total:
        if scenario.error_at and truth.tokens >= scenario.error_at:
            data = b'data: {"error":{"message":"the sim gave up","code":500}}\n\n'
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            break
        await send_due(sim, body, truth, writer, began + ttft_s, total)
    finish(sim, body, truth, writer)
    await writer.drain()


async def send_due(
    sim: Sim, body: dict[str, Any], truth: Truth, writer: asyncio.StreamWriter, first_s: float, total: int
) -> None:
    """Wait for the next chunk, and send all that are due by then."""
    scenario, out, before, due_s = sim.scenario, b"", truth.tokens, due(sim.scenario, truth.tokens, total, first_s)
    await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
    now_s = time.perf_counter()
    while truth.tokens < total and due(scenario, truth.tokens, total, first_s) <= max(now_s, due_s):
        count = chunk_tokens(scenario, truth.tokens, total)
        kind = "reasoning_content" if truth.tokens < scenario.reasoning else "content"
        out += delta(body, sim, **{kind: words(scenario, truth.tokens, count)})
        truth.tokens += count
        truth.first_tokens = truth.first_tokens or count
    at_ns = time.perf_counter_ns()
    writer.write(out)
    truth.slowest_ns = max(truth.slowest_ns, time.perf_counter_ns() - at_ns)
    truth.first_ns, truth.last_ns = truth.first_ns or at_ns, at_ns
    sim.generated += truth.tokens - before


def chunk_tokens(scenario: Scenario, sent: int, total: int) -> int:
    return min(scenario.tokens_per_chunk if sent else scenario.held_back or scenario.tokens_per_chunk, total - sent)


def words(scenario: Scenario, sent: int, count: int) -> str:
    """The text of the next tokens; tags are tokens of their own."""
    tags = {0: "<think>", scenario.tagged - 1: "</think>"} if scenario.tagged else {}
    return "".join(tags.get(place, " the") for place in range(sent, sent + count))


def due(scenario: Scenario, sent: int, total: int, first_s: float) -> float:
    """When the chunk after so many tokens is due."""
    last = sent + chunk_tokens(scenario, sent, total) - 1 if sent or scenario.held_back else 0
    stalled = scenario.stall_ms / 1e3 if scenario.stall_at and sent >= scenario.stall_at else 0.0
    return first_s + last / scenario.rate + stalled


def finish(sim: Sim, body: dict[str, Any], truth: Truth, writer: asyncio.StreamWriter) -> None:
    scenario = sim.scenario
    if not scenario.error_at:
        reason = "length" if truth.tokens == truth.asked else "stop"
        parts: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        if scenario.dialect == "llamacpp":
            parts["timings"] = timings(truth)
        writer.write(event(body, sim, **parts))
        if scenario.usage == "asked" and body.get("stream_options", {}).get("include_usage"):
            writer.write(event(body, sim, choices=[], usage=usage(truth)))
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n")
    writer.write(b"0\r\n\r\n")
    truth.ended = True


def usage(truth: Truth) -> dict[str, Any]:
    return {
        "prompt_tokens": truth.prompt,
        "completion_tokens": truth.tokens,
        "prompt_tokens_details": {"cached_tokens": truth.cached},
    }


def timings(truth: Truth) -> dict[str, Any]:
    return {
        "prompt_n": truth.prompt - truth.cached,
        "cache_n": truth.cached,
        "prompt_ms": (truth.first_ns - truth.t0_ns) / 1e6,
        "predicted_n": truth.tokens,
        "predicted_ms": (truth.last_ns - truth.first_ns) / 1e6,
    }


# -- routes


def metrics(sim: Sim) -> str:
    prefix = "vllm:" if sim.scenario.dialect == "vllm" else "llamacpp:"
    names = {
        "vllm:": ("num_requests_running", "num_requests_waiting", "generation_tokens_total"),
        "llamacpp:": ("requests_processing", "requests_deferred", "tokens_predicted_total"),
    }[prefix]
    values = zip(names, (sim.running, sim.waiting, sim.generated), strict=True)
    return "".join(f"{prefix}{name} {value}\n" for name, value in values)


def told(sim: Sim, path: str, body: dict[str, Any]) -> Any:
    """The JSON of a route that is no stream; None when there is none."""
    scenario = sim.scenario
    if path == "/v1/models":
        model = {"id": "sim-1", "owned_by": scenario.dialect, "max_model_len": 65536, "meta": {"n_ctx": 65536}}
        return {"object": "list", "data": [model]}
    if path == "/truth":
        return [asdict(one) for one in sim.truths]
    if path == "/reset":
        sim.truths.clear()
        return {}
    routes: dict[str, dict[str, Any]] = {
        "vllm": {
            "/version": {"version": "0.99"},
            "/tokenize": {"count": len(prompt_tokens(body)), "max_model_len": 65536},
        },
        "llamacpp": {
            "/props": {"total_slots": scenario.slots or 4, "build_info": "b99999"},
            "/apply-template": {"prompt": " ".join(prompt_tokens(body))},
            "/tokenize": {"tokens": list(range(len(str(body.get("content", "")).split())))},
        },
        "openai": {},
    }
    return {} if path == "/health" else routes[scenario.dialect].get(path)


def plain(status: str, data: bytes, kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


async def answer(sim: Sim, path: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    if path == "/book.txt":
        writer.write(plain("200 OK", ("the of and a to in he was that his " * 20_000).encode(), "text/plain"))
    elif path == "/metrics" and sim.scenario.dialect != "openai":
        writer.write(plain("200 OK", metrics(sim).encode(), "text/plain"))
    elif path != "/v1/chat/completions":
        found = told(sim, path, body)
        writer.write(plain("404 Not Found" if found is None else "200 OK", json.dumps(found).encode()))
    elif body.get("stream") is not True:
        said = {"index": 0, "message": {"role": "assistant", "content": "the of"}, "finish_reason": "length"}
        told_of = {"prompt_tokens": len(prompt_tokens(body)), "completion_tokens": 2}
        writer.write(plain("200 OK", json.dumps({"choices": [said], "usage": told_of}).encode()))
    else:
        sim.streams += 1
        if sim.scenario.fail_every and sim.streams % sim.scenario.fail_every == 0:
            writer.write(plain("500 Internal Server Error", b'{"error":{"message":"the sim is out of order"}}'))
        else:
            await streamed(sim, body, writer)
    await writer.drain()


async def streamed(sim: Sim, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    truth = Truth(time.perf_counter_ns(), body.get("max_tokens", 64), body=body)
    if not sim.scenario.obeys_length and sim.scenario.cap:
        truth.asked = max(truth.asked, sim.scenario.cap + 1)
    sim.truths.append(truth)
    work = asyncio.ensure_future(stream(sim, body, truth, writer))
    # Cancelling the wait itself would cancel it for every later request of the connection.
    gone = asyncio.ensure_future(asyncio.shield(asyncio.ensure_future(writer.wait_closed())))
    await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
    if not work.done():
        truth.closed_ns = time.perf_counter_ns()
        work.cancel()
    gone.cancel()
    with suppress(asyncio.CancelledError, ConnectionError):
        await work


async def serve(sim: Sim, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    asked = 0
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = next(
                (int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0
            )
            body = json.loads(await reader.readexactly(size) or b"{}")
            asked += head.startswith("POST /v1/chat")
            if sim.scenario.drops_kept and asked == sim.scenario.drops_kept:
                break
            await answer(sim, head.split()[1], body, writer)
    writer.close()


async def main(scenario: Scenario) -> None:
    sim = Sim(scenario, gate=asyncio.Semaphore(scenario.slots) if scenario.slots else None)

    class Protocol(asyncio.StreamReaderProtocol):
        """Sees at once that the other side is gone, also while it writes."""

        def eof_received(self) -> bool:
            super().eof_received()
            return False

    loop = asyncio.get_running_loop()

    def made() -> Protocol:
        reader = asyncio.StreamReader(limit=16_000_000)
        return Protocol(reader, lambda r, w: serve(sim, r, w))

    server = await loop.create_server(made, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


# -- for tests


@dataclass(frozen=True, slots=True)
class Engine:
    """A running one; `truths` are its streams so far, in the order in which they were asked for."""

    url: str

    def truths(self) -> list[Truth]:
        with urllib.request.urlopen(f"{self.url}/truth", timeout=30) as answered:
            return [Truth(**one) for one in json.load(answered)]


@contextmanager
def running(scenario: Scenario | None = None) -> Iterator[Engine]:
    """An engine in a process of its own."""
    told = json.dumps(asdict(scenario or Scenario()))
    process = subprocess.Popen([sys.executable, __file__, told], stdout=subprocess.PIPE)
    try:
        assert process.stdout
        with process.stdout:
            yield Engine(f"http://127.0.0.1:{int(process.stdout.readline())}")
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    asyncio.run(main(Scenario(**json.loads(sys.argv[1]))))
