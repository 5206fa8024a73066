"""An engine that counts: what it tells of cache and drafts in its answers, and what in its metrics, is chosen apart.

It answers each request at once, a chunk every few milliseconds; it is for what is counted, not for what is timed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "counted-1"
CHUNK_S = 0.002


@dataclass(frozen=True, slots=True)
class Habits:
    """How it behaves.

    Attributes:
        tells_cached: its usage tells cached tokens.
        counts_cached: its metrics do.
        accepted: drafted tokens that every step keeps.
        drafted: tokens that every step drafts; None: it does not draft, and its metrics do not name drafts.
        refuses_after: once so many tokens were asked for in one request, requests for one token fail; 0 for never.
        gauges: further lines of its metrics.
        in_gpu: of 100 bytes of the model, as /api/ps tells them; None when it does not.
    """

    tells_cached: bool = False
    counts_cached: bool = True
    accepted: int = 0
    drafted: int | None = None
    refuses_after: int = 0
    gauges: str = ""
    in_gpu: int | None = None


@dataclass(slots=True)
class Counted:
    """The server's state; `prompts` are those it has in its cache."""

    habits: Habits
    lock: threading.Lock = field(default_factory=threading.Lock)
    prompts: list[list[str]] = field(default_factory=list)
    most_asked: int = 0
    generated: int = 0
    queries: int = 0
    hits: int = 0
    steps: int = 0

    def prompt(self, words: list[str]) -> int:
        """How many tokens of a prompt were there already."""
        with self.lock:
            found = max((_shared(words, one) for one in self.prompts), default=0)
            cached = min(found, len(words) - 1)
            self.prompts.append(words)
            self.queries += len(words)
            self.hits += cached
        return cached

    def metrics(self) -> str:
        """vLLM's names; drafts are named only by an engine that drafts."""
        told = {"num_requests_running": 0, "num_requests_waiting": 0, "generation_tokens_total": self.generated}
        if self.habits.counts_cached:
            told |= {"prefix_cache_queries_total": self.queries, "prefix_cache_hits_total": self.hits}
        if self.habits.drafted is not None:
            told |= {
                "spec_decode_num_drafts_total": self.steps,
                "spec_decode_num_draft_tokens_total": self.steps * self.habits.drafted,
                "spec_decode_num_accepted_tokens_total": self.steps * self.habits.accepted,
            }
        return self.habits.gauges or "".join(f'vllm:{name}{{engine="0"}} {value}\n' for name, value in told.items())

    def answer(self, path: str) -> Any:
        """The JSON of a route that is no stream; None when there is none."""
        share = self.habits.in_gpu
        sizes = {} if share is None else {"size": 100, "size_vram": share}
        return {
            "/v1/models": {"data": [{"id": MODEL, "max_model_len": 65536}]},
            "/version": {"version": "0.99"},
            "/api/version": {"version": "0.99"},
            "/api/ps": {"models": [{"name": MODEL, "context_length": 65536, **sizes}]},
            "/health": {},
        }.get(path)


def _shared(one: list[str], other: list[str]) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _handler(counted: Counted) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self.say(200, counted.metrics().encode(), "text/plain")
                return
            found = counted.answer(self.path)
            self.say(404 if found is None else 200, json.dumps(found).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/chat/completions":
                self.say(404, b"{}")
            elif body["max_tokens"] == 1 and 0 < counted.habits.refuses_after <= counted.most_asked:
                self.say(500, b'{"error":{"message":"no room"}}')
            else:
                counted.most_asked = max(counted.most_asked, body["max_tokens"])
                self.stream(body)

        def stream(self, body: dict[str, Any]) -> None:
            words = " ".join(one["content"] for one in body["messages"]).split()
            cached, left = counted.prompt(words), body["max_tokens"]
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while left:
                count = min(left, 1 + counted.habits.accepted)
                left -= count
                time.sleep(CHUNK_S)
                with counted.lock:
                    counted.generated += count
                    counted.steps += 1
                self.event(choices=[{"index": 0, "delta": {"content": " the" * count}, "finish_reason": None}])
            self.event(choices=[{"index": 0, "delta": {}, "finish_reason": "length"}])
            details = {"prompt_tokens_details": {"cached_tokens": cached}} if counted.habits.tells_cached else {}
            usage = {"prompt_tokens": len(words), "completion_tokens": body["max_tokens"], **details}
            self.event(choices=[], usage=usage)
            self.chunk(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def event(self, **parts: Any) -> None:
            self.chunk(b"data: " + json.dumps({"id": "1", "model": MODEL, **parts}).encode() + b"\n\n")

        def chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

        def say(self, status: int, data: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextmanager
def running(habits: Habits) -> Iterator[str]:
    """Its URL, while it runs on threads of this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(Counted(habits)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
