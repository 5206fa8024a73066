"""Search engines on loopback for a real SearXNG, and the `engines:` that point at them.

    alpha, gamma    JSON, three results and one that beta has too; pages, time ranges, suggestions (gamma: category it)
    beta            HTML
    pedia           the summary API of Wikipedia: an infobox for "python", nothing for anything else
    slow            answers only when the upstream stops
    http500, http429, http403, badjson, refused     what their names say (category broken, as slow)

A query that holds the word `nothing` finds nothing.
"""

from __future__ import annotations

import json
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import parse_qs, quote, unquote, urlsplit

Reply = tuple[int, str, str]
STATUSES = {"/http500": 500, "/http429": 429, "/http403": 403}
BROKEN = ("slow", "http500", "http429", "http403", "badjson")


class Upstream:
    """The engines' side; `requests` lists what arrived as dicts of path, query, headers, in order."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.stopping = Event()
        self._lock = Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        cast(Any, self._server).upstream = self
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def queries(self) -> list[str]:
        """The text each engine was asked for, one entry a request."""
        return [request["query"]["q"] for request in list(self.requests) if "q" in request["query"]]

    def forget(self) -> None:
        self.requests.clear()

    def record(self, path: str, query: dict[str, str], headers: dict[str, str]) -> None:
        with self._lock:
            self.requests.append({"path": path, "query": query, "headers": headers})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        upstream = cast(Upstream, cast(Any, self.server).upstream)
        upstream.record(parts.path, query, dict(self.headers.items()))
        if parts.path == "/slow":
            upstream.stopping.wait(60)
        self._send(*_reply(parts.path, query.get("q", ""), int(query.get("p", "1"))))

    def _send(self, status: int, kind: str, body: str) -> None:
        data = body.encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


def _reply(path: str, q: str, page: int) -> Reply:
    if path in ("/alpha", "/gamma"):
        return 200, "application/json", json.dumps(_found(path[1:], q, page))
    if path == "/beta":
        return 200, "text/html; charset=utf-8", _listed(q, page)
    if path.startswith("/pedia/"):
        return _summary(unquote(path.removeprefix("/pedia/")))
    return STATUSES.get(path, 200), "text/html", "<p>neither JSON nor a result</p>"


def _pages(site: str, q: str, page: int) -> list[tuple[str, str, str]]:
    """Address, title and snippet of each result."""
    if "nothing" in q.split():
        return []
    own = [
        (f"https://{site}.example/{quote(q)}/{page}-{n}", f"{q} at {site}, {page}-{n}", f"What {site} says of {q}.")
        for n in (1, 2, 3)
    ]
    return [("https://both.example/page", f"{q} at both", f"Both engines know this page about {q}."), *own]


def _found(site: str, q: str, page: int) -> dict[str, Any]:
    hits = [{"link": link, "title": title, "text": text} for link, title, text in _pages(site, q, page)]
    return {"hits": hits, "also": [{"term": f"{q} tutorial"}] if hits else []}


def _listed(q: str, page: int) -> str:
    rows = (
        f'<li><a href="{escape(link)}">{escape(title)}</a><p>{escape(text)}</p></li>'
        for link, title, text in _pages("beta", q, page)
    )
    return f"<html><body><ol>{''.join(rows)}</ol></body></html>"


def _summary(title: str) -> Reply:
    if title.lower() != "python":
        return 404, "application/json", json.dumps({"type": "not_found"})
    article = {
        "type": "standard",
        "title": title,
        "titles": {"display": title},
        "description": "programming language",
        "extract": "Python is a language, here an article on loopback.",
        "content_urls": {"desktop": {"page": "https://pedia.example/Python"}},
    }
    return 200, "application/json", json.dumps(article)


def engines_yaml(upstream_port: int) -> str:
    """The `engines:` of a settings.yml whose every engine is on 127.0.0.1:`upstream_port`."""
    base = f"http://127.0.0.1:{upstream_port}"
    blocks = [_json_engine("alpha", "general", base, pages=True), _html_engine("beta", base)]
    blocks += [_json_engine("gamma", "it", base, pages=True), _wikipedia_engine("pedia", base)]
    blocks += [_json_engine(name, "broken", base) for name in BROKEN]
    blocks += [_json_engine("refused", "broken", "http://127.0.0.1:1")]
    return "engines:\n" + "".join(blocks)


def _json_engine(name: str, category: str, base: str, pages: bool = False) -> str:
    paged = f"""\
    paging: true
    search_url: "{base}/{name}?q={{query}}&p={{pageno}}&lang={{lang}}{{time_range}}"
    time_range_support: true
    time_range_url: "&hours={{time_range_val}}"
    suggestion_query: also/term
"""
    return f"""\
  - name: {name}
    engine: json_engine
    shortcut: {name}
    categories: [{category}]
    enable_http: true
    timeout: 1.0
    results_query: hits
    url_query: link
    title_query: title
    content_query: text
""" + (paged if pages else f'    search_url: "{base}/{name}?q={{query}}"\n')


def _html_engine(name: str, base: str) -> str:
    return f"""\
  - name: {name}
    engine: xpath
    shortcut: {name}
    categories: [general]
    enable_http: true
    paging: true
    search_url: "{base}/{name}?q={{query}}&p={{pageno}}"
    results_xpath: //li
    url_xpath: ./a/@href
    title_xpath: ./a
    content_xpath: ./p
"""


def _wikipedia_engine(name: str, base: str) -> str:
    return f"""\
  - name: {name}
    engine: wikipedia
    shortcut: {name}
    categories: [general]
    enable_http: true
    display_type: [infobox]
    rest_v1_summary_url: "{base}/{name}/{{title}}"
"""
