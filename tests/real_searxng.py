"""A real SearXNG for tests: installed once into a cache folder, its engines all on loopback.

    from real_searxng import running, shared

`with running(folder) as live:` starts one of your own; `shared()` starts one for the whole test run. Both give
`live.url` and `live.upstream`.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from upstream import Upstream, engines_yaml

from sparkgate.embedded import Embedded
from sparkgate.embedded_files import Progress, silent
from sparkgate.embedded_install import LOCK

# Enough of a SearXNG to be started and probed: what a checkout needs is that `searx.webapp` is a program.
TINY_WEBAPP = """
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, "text/plain", b"OK")
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(400, "application/json", b"{}")
    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(os.environ["SEARXNG_PORT"])), Handler).serve_forever()
"""


@dataclass(frozen=True, slots=True)
class Live:
    """A running SearXNG at `url`, what its engines ask, and its keeper."""

    url: str
    upstream: Upstream
    embedded: Embedded


def ensure_installed() -> Path:
    """The folder with the pinned SearXNG in its environment; the first call of a machine installs it."""
    base = Path(os.environ.get("SPARKGATE_TEST_CACHE", "~/.cache/sparkgate-tests")).expanduser()
    folder = base / f"searxng-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    Embedded(folder).install()
    return folder


def keeper(root: Path) -> Embedded:
    """An Embedded with state of its own and the cached environment."""
    return Embedded(root, installs=ensure_installed())


@contextmanager
def running(root: Path) -> Iterator[Live]:
    """A SearXNG whose state is under `root`; stopped at the end."""
    embedded = keeper(root)
    with Upstream() as upstream:
        try:
            yield Live(embedded.up(engines_yaml=engines_yaml(upstream.port)).url, upstream, embedded)
        finally:
            embedded.down()


@cache
def shared() -> Live:
    """One SearXNG for every test that only asks it; it stops when the interpreter ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    # Not a TemporaryDirectory: at the end of the interpreter that one is gone before `down` can read in it.
    folder = Path(tempfile.mkdtemp(prefix="sparkgate-searxng-"))
    stack.callback(shutil.rmtree, folder)
    return stack.enter_context(running(folder))


def search(url: str, q: str, **more: str) -> dict[str, Any]:
    """The answer of the instance at `url`, asked as a client of ours would."""
    with httpx.Client(trust_env=False, timeout=10) as client:
        answer: dict[str, Any] = client.post(f"{url}/search", data={"q": q, "format": "json", **more}).json()
        return answer


def python_of(folder: Path, program: str) -> str:
    """What `program` prints under the interpreter of the environment in `folder`."""
    argv = [str(folder / "venv" / "bin" / "python"), "-c", program]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def as_json(yaml: str) -> Any:
    """Read YAML with the library SearXNG itself has installed."""
    program = f"import json, yaml; print(json.dumps(yaml.safe_load({yaml!r})))"
    return json.loads(python_of(ensure_installed(), program))


def tiny_checkout(folder: Path) -> Path:
    """A checkout of something that starts and answers like SearXNG, and needs nothing installed."""
    checkout = folder / "checkout"
    (checkout / "searx").mkdir(parents=True)
    (checkout / "searx" / "__init__.py").touch()
    (checkout / "searx" / "webapp.py").write_text(TINY_WEBAPP)
    (checkout / "requirements.txt").touch()
    return checkout


def small(root: Path, tiny: Path, progress: Progress = silent) -> Embedded:
    """An Embedded for the tiny checkout, whose environment is made once for all tests."""
    return Embedded(root, progress, installs=tiny.with_name("installs"))
