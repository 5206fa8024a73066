"""`sparkgate audit web`: the log as pages in a browser of this machine."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from sparkgate.clients.audit_rows import log_path, reading
from sparkgate.clients.output import fail

ADDRESS = "127.0.0.1"
"""Nothing else is ever listened on."""
FIRST_PORT, PORTS = 8001, 50
NEEDED = ("datasette", "uvicorn")
CLOSE_WITHIN_S = 2
MAX_CONNECTIONS = 64


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Port; 0 is any free one. [default: 8001 or the next free]"
)
@click.option("--open/--no-open", "opens", default=False, help="Open it in the browser of this machine.")
def web(port: int | None, opens: bool) -> None:
    """Serve the log as pages on 127.0.0.1, read-only, until Ctrl-C. New rows show when a page is loaded again.

    \b
    Examples:
      sparkgate audit web
      sparkgate audit web --port 9000 --open
    """
    if not all(map(find_spec, NEEDED)):
        fail("these pages are made with Datasette, which is not installed: pip install 'sparkgate[web]'")
    with reading() as connection:
        connection.execute("SELECT 1 FROM outbound, outcome, finding, outbound_text WHERE 0")
    serve(log_path(), port, opens=opens)


def serve(path: Path, port: int | None, *, opens: bool) -> None:
    """Answer until a signal comes."""
    listening = _listening([port] if port is not None else range(FIRST_PORT, FIRST_PORT + PORTS))
    url = f"http://{ADDRESS}:{listening.getsockname()[1]}/"
    click.echo(f"The log is at {url} for you alone, read-only. Ctrl-C ends it.")
    if opens:
        import webbrowser

        # A browser in the terminal would hold up the server it waits for.
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    with suppress(KeyboardInterrupt):
        _answer(path, listening)


def _listening(ports: Any) -> Any:
    """A socket on the first of these ports that is free; exits 1 when none is."""
    import uvicorn

    for port in ports:
        try:
            made = uvicorn.Config("", host=ADDRESS, port=port, log_config=None, log_level="critical").bind_socket()
            made.listen()
        except (SystemExit, OSError):
            continue
        return made
    fail(f"port {ports[0]} is taken" if len(ports) == 1 else f"no port from {ports[0]} to {ports[-1]} is free")


def _answer(path: Path, listening: Any) -> None:
    import uvicorn

    from sparkgate.clients.audit_web.peer import for_user
    from sparkgate.clients.audit_web.site import opened_site

    with opened_site(path) as site:
        config = uvicorn.Config(
            for_user(site.app(), os.getuid()),
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            http="h11",
            ws="none",
            loop="asyncio",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=CLOSE_WITHIN_S,
        )
        uvicorn.Server(config).run(sockets=[listening])
