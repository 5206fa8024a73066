"""The `sparkgate` command: one table of commands, each read from its file when it is asked for."""

from __future__ import annotations

import os
import sys

import click

from sparkgate.clients.command_table import WORDS, CommandTable
from sparkgate.clients.which_gate import settle
from sparkgate.version import __version__

COMMANDS: dict[str, str] = {
    "serve": "sparkgate.clients.serve:serve",
    "gate": "sparkgate.clients.gate:gate",
    "searxng": "sparkgate.clients.searxng:searxng",
    "search": "sparkgate.clients.search:search",
    "policy": "sparkgate.clients.policy:policy",
    "audit": "sparkgate.clients.audit:audit",
    "engine": "sparkgate.clients.engine:engine",
    "bench": "sparkgate.clients.bench:bench",
    "register": "sparkgate.clients.register:register",
    "unregister": "sparkgate.clients.unregister:unregister",
    "doctor": "sparkgate.clients.doctor:doctor",
    "confine": "sparkgate.clients.confine:confine",
    "config": "sparkgate.clients.config:config",
    "tour": "sparkgate.clients.tour:tour",
}
"""Name of a command → module:attribute."""


@click.command(
    cls=CommandTable, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="sparkgate")
@click.option("--system", "gate", flag_value="system", help="The gate of this machine.")
@click.option("--own", "gate", flag_value="own", help="A gate of yours, also where the machine has one.")
@click.pass_context
def main(context: click.Context, gate: str | None) -> None:
    """Web search for an agent on a local model, behind one policy and one log.

    \b
    First steps:
      sparkgate tour                     see the whole way once, on this machine alone
      sparkgate searxng up               a private SearXNG on loopback
      sparkgate search "vllm mtp flag"   one search through policy and log
      sparkgate register --print hermes  the entry for your agent's configuration
    """
    os.umask(0o077)
    settle(gate or "", context.invoked_subcommand or "", context.meta[WORDS])


if __name__ == "__main__":
    sys.exit(main())
