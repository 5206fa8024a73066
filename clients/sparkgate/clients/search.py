"""`sparkgate search`: one search through policy and log, from a terminal."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.text import Text

from sparkgate import paths
from sparkgate.clients.output import console, fail, print_json


@click.command(short_help="One search through policy and log.")
@click.argument("query")
@click.option("-n", "--max-results", default=5, show_default=True, help="Results to show, 1 to 20.")
@click.option("--page", default=1, show_default=True, help="Page of results.")
@click.option("--time-range", type=click.Choice(["day", "week", "month", "year"]), help="Only results this fresh.")
@click.option("--language", default="", help="Language such as en, de or pt-BR.")
@click.option("--category", "categories", multiple=True, help="SearXNG category; may be given several times.")
@click.option("--engine", "engines", multiple=True, help="SearXNG engine; may be given several times.")
@click.option("--fetch-top", default=0, show_default=True, help="Show what the first pages say of it, 0 to 3.")
@click.option("--read", "number", type=click.IntRange(1, 20), help="Then read the page of the result of this number.")
@click.option("--json", "as_json", is_flag=True, help="Print the tool's answer as JSON.")
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")
def search(query: str, number: int | None, as_json: bool, config_file: str | None, **arguments: Any) -> None:
    """Search the web for QUERY the way an agent does: through the gate, its policy and its log.

    \b
    Examples:
      sparkgate search "vllm speculative decoding flag" -n 3
      sparkgate search "vllm speculative decoding flag" --read 1
    """
    from sparkgate.clients.host import HostError, HostSession

    given = {name: list(value) if isinstance(value, tuple) else value for name, value in arguments.items()}
    try:
        with HostSession("search", paths.config_path(config_file)) as session:
            answer = session.call("web_search", {"query": query, **given})
            if number is None or not answer["ok"]:
                _tell_search(answer, as_json)
            else:
                _tell_page(*session.page({"url": _address(answer, number)}), as_json)
    except HostError as error:
        fail(str(error))


def _tell_search(answer: dict[str, Any], as_json: bool) -> None:
    """Prints the answer, and ends with 1 when it is a refusal."""
    if as_json:
        print_json(answer)
    elif answer["ok"]:
        show(answer, console())
    else:
        failed = _failed(answer)
        fail(f"{answer['code']}: {answer['message']}" + (f" Told: {failed}." if failed else ""))
    raise SystemExit(0 if answer["ok"] else 1)


def _tell_page(told: dict[str, Any], text: str, as_json: bool) -> None:
    """The same for a page."""
    if as_json:
        print_json(told | {"text": text})
    elif not told["ok"]:
        fail(f"{told['code']}: {told['message']}")
    else:
        console().print(Text(text))
        for note in told.get("notes", []):
            console().print(Text(f"note: {note}", style="dim"))
        console().print(Text(f"{told['url']}: {told['shown']}", style="dim"))
    raise SystemExit(0 if told["ok"] else 1)


def _address(answer: dict[str, Any], number: int) -> str:
    results = answer["results"]
    if number > len(results) or not results[number - 1].get("url"):
        fail(f"there is no page {number}; {len(results)} results are shown")
    return str(results[number - 1]["url"])


def _failed(answer: dict[str, Any]) -> str:
    return ", ".join(f"{one['engine']} ({one['reason']})" for one in answer.get("engines_failed", []))


def show(answer: dict[str, Any], out: Console) -> None:
    """An answer of web_search for people."""
    for change in answer.get("policy", []):
        out.print(Text(f"policy: {change}", style="yellow"))
    if answer.get("policy"):
        out.print(Text(f"sent:   {answer['query']}", style="yellow"))
    for text in answer.get("answers", []):
        out.print(Text(text, style="bold"))
    for result in answer["results"]:
        out.print(Text(result.get("title", ""), style="bold cyan"))
        out.print(Text(f"  {result.get('url', '')}", style="green"))
        if result.get("snippet"):
            out.print(Text(f"  {result['snippet']}"))
        if page := result.get("page"):
            out.print(Text(f"  {page}", style="dim"))
    for note in answer.get("notes", []):
        out.print(Text(f"note: {note}", style="dim"))
    failed = _failed(answer)
    out.print(Text(f"{answer['shown']}" + (f"; failed: {failed}" if failed else ""), style="dim"))
