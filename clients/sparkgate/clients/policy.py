"""`sparkgate policy`: ask the policy, test its rules, read them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from sparkgate import paths
from sparkgate.clients.output import console, fail, print_json

if TYPE_CHECKING:
    from sparkgate.policy.judge import Decision, Policy

CONFIG = click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")


@click.group(short_help="Ask, test and read the policy.")
def policy() -> None:
    """What may leave: the shipped rules, and yours from `rules/*.toml` and `terms.toml` beside config.toml."""


def load_policy(config_file: str | None) -> Policy:
    """The policy the gate would use; exits 1 with the reason when it cannot be used."""
    from sparkgate.policy.judge import Policy
    from sparkgate.policy.rules import RuleError
    from sparkgate.settings import SettingsError, load

    path = Path(paths.config_path(config_file))
    try:
        limits = load(path).policy
        return Policy.from_folder(path.parent, deadline_s=limits.deadline_ms / 1000, max_bytes=limits.max_input_bytes)
    except (RuleError, SettingsError) as error:
        fail(str(error))


@policy.command()
@click.argument("text", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the decision as JSON.")
@click.option("--jsonl", is_flag=True, help="Read one JSON object a line from stdin and answer each with one line.")
@click.option("--explain", is_flag=True, help="Say for every rule that matched why it is there.")
@click.option("--searxng", is_flag=True, help="Take SearXNG's query syntax out as well, as web_search does.")
@CONFIG
def check(text: str | None, as_json: bool, jsonl: bool, explain: bool, searxng: bool, config_file: str | None) -> None:
    """Decide over TEXT (or standard input) by the gate's rules; nothing is sent and nothing is logged.

    Exit code 1 when the text is blocked.

    \b
    Examples:
      sparkgate policy check "why does /home/jane/app.py fail"
      echo '{"id": 1, "text": "mail jane@corp.io"}' | sparkgate policy check --jsonl
    """
    from sparkgate.policy.syntax import neutralise

    rules = load_policy(config_file)
    if jsonl:
        _check_lines(rules)
        return
    given = text if text is not None else sys.stdin.read()
    decision = rules.judge_for(given, neutralise) if searxng else rules.judge(given)
    if as_json:
        print_json(_answer(decision))
    else:
        _tell(decision, rules, explain)
    raise SystemExit(1 if decision.verdict == "block" else 0)


def _check_lines(rules: Policy) -> None:
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            answer = {"id": case.get("id"), **_answer(rules.judge(case["text"]))}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            fail('each line must be an object such as {"id": 1, "text": "…"}')
        click.echo(json.dumps(answer))


def _answer(decision: Decision) -> dict[str, Any]:
    findings = [finding.public() for finding in decision.findings]
    answer = {"verdict": decision.verdict, "text": decision.released, "findings": findings}
    return answer | {"ms": decision.elapsed_us / 1000} | ({"reason": decision.reason} if decision.reason else {})


def _tell(decision: Decision, rules: Policy, explain: bool) -> None:
    out = console()
    colour = {"allow": "green", "redact": "yellow", "block": "red"}[decision.verdict]
    out.print(Text(decision.verdict, style=f"bold {colour}"), Text(", ".join(decision.rules)))
    if decision.verdict == "redact":
        out.print(Text(decision.released))
    by_id = {rule.id: rule for rule in rules.book.rules}
    for finding in decision.findings if explain else ():
        rule = by_id[finding.rule]
        out.print(Text(f"{rule.id} at {finding.start}–{finding.end}: {rule.why} ({rule.source})"))


@policy.command()
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def test(config_file: str | None, as_json: bool) -> None:
    """Run every rule over its own examples; exit code 1 when one does not hold."""
    from sparkgate.policy.selftest import failures

    rules = load_policy(config_file).book.rules
    found = list(failures(rule for rule in rules if rule.leaks))
    if as_json:
        print_json({"rules": len(rules), "failures": found})
    else:
        console().print("\n".join([*found, f"{len(rules)} rules, {len(found)} failures"]))
    raise SystemExit(1 if found else 0)


@policy.command()
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rules(config_file: str | None, as_json: bool) -> None:
    """List all rules: what each is for and what it does."""
    book = load_policy(config_file).book.rules
    if as_json:
        print_json([{"id": r.id, "class": r.cls, "verdict": r.verdict, "why": r.why, "source": r.source} for r in book])
        return
    table = Table("rule", "class", "verdict", "why", box=None)
    for rule in book:
        table.add_row(rule.id, rule.cls, rule.verdict, rule.why)
    console().print(table)
