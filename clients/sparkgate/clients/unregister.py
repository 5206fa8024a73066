"""`sparkgate unregister`: our entries out of the configuration of hosts again."""

from __future__ import annotations

import click

from sparkgate.clients import register_options as options
from sparkgate.clients.output import fail
from sparkgate.clients.registering.jobs import removing_jobs
from sparkgate.clients.registering.plan import Wish
from sparkgate.clients.registering.refusal import Refused


@click.command(short_help="Take our servers out of a host's configuration.")
@options.HOST
@click.option("--all-detected", is_flag=True, help="Every host whose folder is here.")
@options.PROFILE
@options.REPLACE
@options.YES
@options.DRY_RUN
@options.JSON
def unregister(
    host_names: tuple[str, ...],
    all_detected: bool,
    profile: str,
    replace: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take the entries of sparkgate's servers out of the configuration of HOST, and open what `register` has closed.

    Where nothing else has changed since, the file is byte for byte what it was before. A file that `register` has made
    goes when it holds nothing else. Exit codes are those of `sparkgate register`.

    \b
    Example:
      sparkgate unregister --host hermes
    """
    try:
        found = options.places(host_names, all_detected, profile)
        jobs = [removing_jobs(place, Wish(replace)) for place in found]
    except Refused as error:
        fail(str(error))
    options.run(jobs, yes=yes, dry_run=dry_run, as_json=as_json)
