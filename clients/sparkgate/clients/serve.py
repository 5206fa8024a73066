"""`sparkgate serve`: the stdio server, as a host starts it."""

from __future__ import annotations

import click

from sparkgate.arguments import TOOLSETS, parse_arguments


@click.command(short_help="The stdio server a host starts.")
@click.argument("toolset", type=click.Choice(TOOLSETS))
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
@click.option("--in-process", is_flag=True, help="Serve without a gate, for debugging: needs more memory and start-up.")
def serve(toolset: str, config_file: str | None, in_process: bool) -> None:
    """Serve TOOLSET over standard input and output.

    Hosts start faster with `python -I -m sparkgate.stdio TOOLSET`, which is the same server.

    \b
    Example:
      sparkgate serve search
    """
    from sparkgate import stdio

    arguments = [toolset, *(["--config", config_file] if config_file else [])]
    if not in_process:
        raise SystemExit(stdio.main(arguments))
    from sparkgate.gate import serve_in_process

    serve_in_process(*parse_arguments(arguments))
