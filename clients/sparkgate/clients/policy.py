"""`sparkgate policy`: ask the policy, test its rules, read them."""

from __future__ import annotations

import gc
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
    from sparkgate.policy.decision import Decision
    from sparkgate.policy.judge import Policy
    from sparkgate.policy.protected import Protected
    from sparkgate.setting_tables import PolicySettings

MANY_SESSIONS = 100_000
CONFIG = click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Another config.toml.")


@click.group(short_help="Ask, test and read the policy.")
def policy() -> None:
    """What may leave: the shipped rules, and yours from `rules/*.toml` and `terms.toml` beside config.toml."""


def load_policy(config_file: str | None, *, with_values: bool = False) -> Policy:
    """The policy the gate would use; exits 1 with the reason when it cannot be used.

    `with_values` takes the values that are known here and the folders that are not released, as the gate does.
    """
    from sparkgate.policy.code.fingerprints import FolderError
    from sparkgate.policy.judge import Policy
    from sparkgate.policy.rules import RuleError
    from sparkgate.settings import SettingsError, load

    path = Path(paths.config_path(config_file))
    try:
        limits = load(path).policy
        protected = _protected(limits, path.parent) if with_values else None
        return Policy.from_folder(
            path.parent,
            values=(protected.values,) if protected else (),
            others=protected.folders if protected else (),
            deadline_s=limits.deadline_ms / 1000,
            max_bytes=limits.max_input_bytes,
        )
    except (RuleError, SettingsError, FolderError, OSError) as error:
        fail(str(error))


def _protected(limits: PolicySettings, folder: Path) -> Protected:
    """With the gate's key where it may be read, so that canaries are known; else for this call only."""
    import secrets

    from sparkgate.policy.known.sources import Places
    from sparkgate.policy.protected import Protected

    state = Path(paths.state_dir())
    try:
        key = (state / "keys" / "audit.key").read_bytes()
    except OSError:
        key = secrets.token_bytes(32)
    places = Places.of_this_process(folder, state, limits.known_files, limits.known_env)
    return Protected(key, places, [Path(one).expanduser() for one in limits.unreleased], state)


@policy.command()
@click.argument("text", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the decision as JSON.")
@click.option("--jsonl", is_flag=True, help="Read one JSON object a line from stdin and answer each with one line.")
@click.option("--explain", is_flag=True, help="Show every form of the text, what was found in it and why, and times.")
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

    rules = load_policy(config_file, with_values=True)
    if jsonl:
        _check_lines(rules)
        return
    given = text if text is not None else sys.stdin.read()
    if explain:
        _explain(rules, given, as_json)
    decision = rules.judge_for(given, neutralise) if searxng else rules.judge(given)
    if as_json and not explain:
        print_json(_answer(decision))
    elif not as_json:
        _tell(decision)
    raise SystemExit(1 if decision.verdict == "block" else 0)


def _check_lines(rules: Policy) -> None:
    """Lines of one session are judged one after another, as queries of one caller are."""
    from sparkgate.policy.finding import ANYWHERE
    from sparkgate.policy.recent.window import Window

    window, find = Window(lanes=MANY_SESSIONS), rules.find_at(ANYWHERE)
    gc.freeze()  # to look through the rules in the midst of a decision takes longer than the decision
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            decision = rules.judge(case["text"])
            if decision.verdict != "block" and case.get("session") is not None:
                lane, limit_s = (str(case["session"]),), rules.deadline_s
                joined = window.admit(lane, decision.released, 0.0, find, given=case["text"], deadline_s=limit_s)
                decision = joined or decision
            answer = {"id": case.get("id"), **_answer(decision)}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            fail('each line must be an object such as {"id": 1, "text": "…"}')
        click.echo(json.dumps(answer))


def _answer(decision: Decision) -> dict[str, Any]:
    findings = [finding.public() for finding in decision.findings]
    answer = {"verdict": decision.verdict, "text": decision.released, "findings": findings}
    return answer | {"ms": decision.elapsed_us / 1000} | ({"reason": decision.reason} if decision.reason else {})


def _explain(rules: Policy, text: str, as_json: bool) -> None:
    """Each form with its findings; with --json all of it, beside the decision."""
    from dataclasses import asdict

    from sparkgate.policy.explain import explain

    told = explain(rules, text)
    if as_json:
        print_json({**_answer(told.decision), "forms": [asdict(form) for form in told.forms]})
        return
    out = console()
    for form in told.forms:
        line = f"{form.name}: {form.size_chars:,} characters, {form.elapsed_us:,} µs"
        out.print(Text(line, style="" if form.seen else "dim"), soft_wrap=True)
        for one in form.seen:
            checked = f", checked by {', '.join(one.checks)}" if one.checks else ""
            source = f" ({one.source})" if one.source else ""
            note = "" if one.counts else "; says nothing in this form"
            what = f"{one.rule} ({one.cls}, {one.verdict}) at {one.start}–{one.end}, {one.confidence}"
            words = f"  {what}{checked}{note}: {one.why}{source}"
            out.print(Text(words), soft_wrap=True)


def _tell(decision: Decision) -> None:
    out = console()
    colour = {"allow": "green", "redact": "yellow", "block": "red"}[decision.verdict]
    out.print(Text(decision.verdict, style=f"bold {colour}"), Text(", ".join(decision.rules)))
    if decision.verdict == "redact":
        out.print(Text(decision.released))


@policy.command()
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def test(config_file: str | None, as_json: bool) -> None:
    """Run every rule over its own examples; exit code 1 when one does not hold."""
    from sparkgate.policy.selftest import failures

    rules = load_policy(config_file).rules
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
    book = load_policy(config_file).rules
    if as_json:
        print_json([{"id": r.id, "class": r.cls, "verdict": r.verdict, "why": r.why, "source": r.source} for r in book])
        return
    table = Table("rule", "class", "verdict", "why", box=None)
    for rule in book:
        table.add_row(rule.id, rule.cls, rule.verdict, rule.why)
    console().print(table)


@policy.command()
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def lint(config_file: str | None, as_json: bool) -> None:
    """Look for slow rules, rules of yours that weaken one of ours, needless rules, and keywords that gate nothing.

    Exit code 1 when a rule is slow or weakened, or kept from its own leaks by a narrow outline. A special rule may be
    shadowed by a general one: its words say more.

    \b
    Example:
      sparkgate policy lint --json
    """
    from dataclasses import asdict

    from sparkgate.policy.lint import lint as remarks
    from sparkgate.policy.rules import shipped

    book = load_policy(config_file).rules
    found = list(remarks(book, shipped()))
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        lines = [f"{one.kind}: {one.rule}: {one.words}" for one in found]
        console().print("\n".join([*lines, f"{len(book)} rules, {len(found)} remarks"]), soft_wrap=True, markup=False)
    raise SystemExit(1 if any(one.kind in ("slow", "weakened", "narrow") for one in found) else 0)
