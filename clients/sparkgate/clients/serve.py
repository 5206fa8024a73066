"""`sparkgate serve`: the stdio server, as a host starts it; or, when asked for, the same by HTTP on loopback."""

from __future__ import annotations

from pathlib import Path

import click

from sparkgate.arguments import TOOLSETS, parse_arguments


@click.command(short_help="The stdio server a host starts.")
@click.argument("toolset", type=click.Choice(TOOLSETS))
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
@click.option("--in-process", is_flag=True, help="Serve without a gate, for debugging: needs more memory and start-up.")
@click.option("--http", "port", type=click.IntRange(0, 65535), help="MCP by HTTP on 127.0.0.1 at this port; 0: any.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --http: the bearer token, in a file that is yours alone (0600); made when missing.",
)
@click.option(
    "--allow-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="With --http: a name a reverse proxy passes on as Host.",
)
@click.option("--host", metavar="NAME", help="The host's name in the log; with --http it is `http` unless told.")
def serve(
    toolset: str,
    config_file: str | None,
    in_process: bool,
    port: int | None,
    token_file: Path | None,
    allowed: tuple[str, ...],
    host: str | None,
) -> None:
    """Serve TOOLSET over standard input and output.

    Hosts start faster with `python -I -m sparkgate.stdio TOOLSET`, which is the same server.

    \b
    Example:
      sparkgate serve search

    --http is for hosts that take nothing else. It OPENS A PORT on 127.0.0.1 (never on another address): every user
    and every program of this machine that has the token can use these tools in your name. There is no TLS; a
    reverse proxy in front of it adds that, and hands on Authorization. MCP is at /mcp.

    \b
    Example:
      sparkgate serve search --http 8765 --token-file ~/.config/sparkgate/http.token
    """
    arguments = [toolset, *(["--config", config_file] if config_file else []), *(["--host", host] if host else [])]
    if port is not None:
        if token_file is None or in_process:
            raise click.UsageError("--http needs --token-file, and a gate (no --in-process)")
        _serve_http(arguments, port, token_file, allowed)
        return
    if token_file is not None or allowed:
        raise click.UsageError("--token-file and --allow-host go with --http")
    if not in_process:
        from sparkgate import stdio

        raise SystemExit(stdio.main(arguments))
    from sparkgate.gate import serve_in_process

    serve_in_process(*parse_arguments(arguments))


def _serve_http(arguments: list[str], port: int, token_file: Path, allowed: tuple[str, ...]) -> None:
    import asyncio

    from sparkgate.clients import http_bridge
    from sparkgate.clients.http_token import TokenError, token_of
    from sparkgate.clients.output import fail

    try:
        token, made = token_of(token_file.absolute())
    except TokenError as error:
        fail(str(error))
    try:
        listener = http_bridge.listen(port)
    except OSError as error:
        fail(f"cannot listen on {http_bridge.ADDRESS}:{port}: {error.strerror}; give --http another port")
    click.echo(f"the token {'was made' if made else 'stands'} in {token_file.absolute()}", err=True)
    click.echo("every program of this machine that has the token can use this port", err=True)
    toolset, config, host = parse_arguments(arguments)
    asyncio.run(http_bridge.serve(http_bridge.Terms(toolset, config, host or "http", token, allowed), listener))
