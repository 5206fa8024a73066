"""A real SearXNG whose engines on loopback find twelve results each, as long as results of the web are.

`with searxng() as url:` starts one of your own. Installed as real_searxng.py does it.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

from real_searxng import keeper
from upstream import engines_yaml

WORDS = (
    *(
        "kernel",
        "cache",
        "token",
        "batch",
        "driver",
        "memory",
        "model",
        "layer",
        "thread",
        "socket",
        "buffer",
        "tensor",
    ),
    *("release", "guide", "benchmark", "latency", "compile", "release", "schedule", "paged", "attention", "quantized"),
)


class Engines(BaseHTTPRequestHandler):
    """alpha and beta with twelve results each, of which two are the same page; of the length that results have."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query).get("q", [""])[0]
        if parts.path == "/alpha":
            hits = [{"link": link, "title": title, "text": text} for link, title, text in pages("alpha", query)]
            self.answer("application/json", json.dumps({"hits": hits, "also": []}))
        elif parts.path == "/beta":
            rows = (
                f'<li><a href="{link}">{escape(title)}</a><p>{text}</p></li>' for link, title, text in pages("b", query)
            )
            self.answer("text/html; charset=utf-8", f"<html><body><ol>{''.join(rows)}</ol></body></html>")
        else:
            self.send_error(404)

    def answer(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


def pages(site: str, query: str) -> Iterator[tuple[str, str, str]]:
    """Address, title and snippet, each query with its own."""
    for number in range(12):
        draw = random.Random(f"{query} {number if number < 2 else site + str(number)}")
        host = "both" if number < 2 else site
        slug = "-".join(draw.choices(WORDS, k=5))
        yield (
            f"https://docs.{host}.example/{slug}/{number}",
            f"{query} — {' '.join(draw.choices(WORDS, k=4))}",
            f"{query}: {' '.join(draw.choices(WORDS, k=28))}.",
        )


@contextmanager
def searxng() -> Iterator[str]:
    """Address of a real SearXNG that asks `Engines`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engines)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    root = Path(tempfile.mkdtemp(prefix="sg-searxng-"))
    embedded = keeper(root)
    try:
        yield embedded.up(engines_yaml=engines_yaml(server.server_port)).url.rstrip("/")
    finally:
        embedded.down()
        server.shutdown()
        shutil.rmtree(root)
