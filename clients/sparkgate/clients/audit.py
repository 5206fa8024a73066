"""`sparkgate audit`: read what left."""

from __future__ import annotations

import click

from sparkgate.clients.command_table import CommandTable

COMMANDS: dict[str, str] = {
    "list": "sparkgate.clients.audit_list:list_rows",
    "show": "sparkgate.clients.audit_list:show",
    "find": "sparkgate.clients.audit_find:find",
    "stats": "sparkgate.clients.audit_stats:stats",
    "verify": "sparkgate.clients.audit_proof:verify",
    "accept": "sparkgate.clients.audit_proof:accept",
    "reindex": "sparkgate.clients.audit_proof:reindex",
    "prune": "sparkgate.clients.audit_prune:prune",
    "export": "sparkgate.clients.audit_export:export",
    "ship": "sparkgate.clients.audit_ship:ship",
    "web": "sparkgate.clients.audit_web.command:web",
}
"""Name of a command → module:attribute."""


@click.command(cls=CommandTable, table=COMMANDS, short_help="Read the log of what left.")
def audit() -> None:
    """The log: every text that was to leave, what left of it, and how it ended. It never holds what was withheld."""
