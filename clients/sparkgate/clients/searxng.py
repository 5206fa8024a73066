"""`sparkgate searxng`: the private SearXNG on loopback, from a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import click
from rich.console import Console
from rich.text import Text

from sparkgate.embedded import Embedded, EmbeddedError, Progress
from sparkgate.embedded_settings import settings_yaml
from sparkgate.searxng_deploy import Runtime, compose_yaml, image, systemd_unit

_JSON = click.option("as_json", "--json", is_flag=True, help="Print the result as JSON.")
_PORT = click.IntRange(1, 65535)


def _checked_tag(context: click.Context, parameter: click.Parameter, value: str) -> str:
    try:
        image(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from error
    return value


_DEPLOY_PORT = click.option("--port", type=_PORT, default=8888, show_default=True, help="Port on loopback.")
_DEPLOY_TAG = click.option(
    "--tag", default="latest", show_default=True, callback=_checked_tag, help="Tag of the image, or sha256:…"
)
_DEPLOY_SETTINGS = click.option("--settings", is_flag=True, help="Print the settings.yml that goes with it.")


@click.group()
def searxng() -> None:
    """A private SearXNG on loopback: what searches use unless searxng.url is configured.

    Example: sparkgate searxng up
    """


@searxng.command()
@click.option(
    "--source",
    metavar="SOURCE",
    help="Official checkout (folder, .tar.gz, .zip), URL of an instance, or 'pinned'; kept for next time.",
)
@click.option("--port", type=_PORT, help="Port on loopback; without it one is chosen and kept.")
@_JSON
def up(source: str | None, port: int | None, as_json: bool) -> None:
    """Install it when needed, start it, and wait until it answers.

    Example: sparkgate searxng up --source ~/searxng
    """
    configured = configured_url()
    if configured:
        click.echo(f"searxng.url is set to {configured} and wins: searches go there, not here.", err=True)
    with _embedded() as embedded:
        instance = embedded.up(source, port)
    _show(as_json, asdict(instance) | {"configured_url": configured}, f"SearXNG answers at {instance.url}")


@searxng.command()
@_JSON
def down(as_json: bool) -> None:
    """Stop it; port, key and log are kept. An instance given by URL is only forgotten.

    Example: sparkgate searxng down
    """
    with _embedded() as embedded:
        stopped = embedded.down()
    _show(as_json, {"stopped": stopped}, "Stopped." if stopped else "Nothing of ours was running.")


@searxng.command()
@_JSON
def status(as_json: bool) -> None:
    """Say whether it runs and answers JSON searches.

    Example: sparkgate searxng status --json
    """
    with _embedded() as embedded:
        found = embedded.status()
    _show(as_json, asdict(found), f"{found.state}: {found.detail}")


@searxng.command()
@click.option("-n", "lines", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Lines to show.")
@_JSON
def logs(lines: int, as_json: bool) -> None:
    """Show the end of its log.

    Example: sparkgate searxng logs -n 200
    """
    with _embedded() as embedded:
        last = embedded.log_tail(lines)
    _show(as_json, {"log": str(embedded.log), "lines": last}, "\n".join(last))


@searxng.command()
@_DEPLOY_PORT
@_DEPLOY_TAG
@_DEPLOY_SETTINGS
def compose(port: int, tag: str, settings: bool) -> None:
    """Print a compose file for the official container instead; its head says how to use it.

    Example: sparkgate searxng compose > compose.yaml
    """
    click.echo(settings_yaml() if settings else compose_yaml(port, tag), nl=False)


@searxng.command()
@click.option("--runtime", type=click.Choice(["podman", "docker"]), default="podman", show_default=True)
@_DEPLOY_PORT
@_DEPLOY_TAG
@_DEPLOY_SETTINGS
def unit(runtime: str, port: int, tag: str, settings: bool) -> None:
    """Print a systemd user unit for the official container instead; its head says how to use it.

    Example: sparkgate searxng unit --runtime docker
    """
    click.echo(settings_yaml() if settings else systemd_unit(cast(Runtime, runtime), port, tag), nl=False)


def configured_url() -> str | None:
    """The instances the configuration names; they go before the private one."""
    from sparkgate.settings import SettingsError, load

    try:
        return ", ".join(load().searxng.instances) or None
    except SettingsError as error:
        raise click.ClickException(str(error)) from error


def _root() -> Path:
    from sparkgate.settings import state_dir

    return state_dir() / "searxng"


@contextmanager
def _embedded() -> Iterator[Embedded]:
    """Ours, with its progress on stderr; a failure ends the command with status 1."""
    try:
        with _progress() as progress:
            yield Embedded(_root(), progress)
    except EmbeddedError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _progress() -> Iterator[Progress]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: click.echo(text, err=True)
        return
    with console.status(Text("…")) as spinner:
        yield lambda text: spinner.update(Text(text))


def _show(as_json: bool, data: dict[str, Any], text: str) -> None:
    click.echo(json.dumps(data, default=str) if as_json else text)
