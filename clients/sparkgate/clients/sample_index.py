"""A dozen pages and a loopback server that searches them: what the tour's SearXNG asks instead of the web."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit

PAGES: tuple[tuple[str, str, str], ...] = (
    ("vllm/out-of-memory", "vLLM runs out of memory at start", "Lower gpu-memory-utilization or max-model-len."),
    ("vllm/speculative", "Speculative decoding in vLLM", "A draft model proposes, the large model checks."),
    ("torch/cuda-error", "FileNotFoundError while loading a model with torch", "Were the weights downloaded?"),
    ("torch/aarch64", "PyTorch on an aarch64 workstation", "Wheels with CUDA exist for Arm servers and desktops."),
    ("hub/401", "Why a model hub answers 401 for a gated model", "Accept the licence with the account of the token."),
    ("hub/cache", "Where downloaded models are kept", "One folder of blobs, with links for every revision."),
    ("llamacpp/kv", "Size of the KV cache in llama.cpp", "Context length times layers times heads, in bytes."),
    ("llamacpp/slots", "Several users on one llama.cpp server", "Slots share the context; each gets a part of it."),
    ("searxng/formats", "Switching JSON on in SearXNG", "Add json to the formats list of the search section."),
    ("mcp/stdio", "How a stdio server talks to its host", "One JSON object a line on standard input and output."),
    ("memory/unified", "Unified memory and large models", "What a server process holds, the model cannot have."),
    ("bench/prefill", "Prefill and decode are two numbers", "One grows with the prompt, the other with the answer."),
)  # fmt: skip

ENGINE = """\
engines:
  - name: sample
    engine: json_engine
    shortcut: sample
    categories: [general]
    enable_http: true
    search_url: "http://127.0.0.1:{port}/?q={{query}}"
    results_query: hits
    url_query: url
    title_query: title
    content_query: text
"""


def find(query: str) -> list[dict[str, str]]:
    """Pages that share a word with the query, the most words first."""
    words = set(re.findall(r"\w+", query.lower()))
    scored = [
        (len(words & set(re.findall(r"\w+", f"{title} {text}".lower()))), path, title, text)
        for path, title, text in PAGES
    ]
    hits = sorted((row for row in scored if row[0]), key=lambda row: -row[0])
    return [{"url": f"https://sample.invalid/{path}", "title": title, "text": text} for _, path, title, text in hits]


class SampleIndex:
    """Serves `find` on a free loopback port and remembers the queries that arrived."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.queries))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def engine_yaml(self) -> str:
        """The engine of SearXNG's settings that asks this index."""
        return ENGINE.format(port=self._server.server_port)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(queries: list[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query).get("q", [""])[0]
            queries.append(query)
            body = json.dumps({"hits": find(query)}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler
