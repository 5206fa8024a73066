"""Rules that are slow, needless or tried in vain are told; every form of a text is explained without the text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from box import Box

from sparkgate.policy.explain import explain
from sparkgate.policy.judge import Policy
from sparkgate.policy.lint import lint
from sparkgate.policy.rules import Rule, parse, shipped
from sparkgate.policy.samples import fill

TABLE: dict[str, Any] = {
    "id": "zorp",
    "class": "secret",
    "verdict": "block",
    "keywords": ["zorp_"],
    "pattern": r"zorp_[a-z]{8}\b",
    "why": "A zorp is nobody's business.",
    "source": "Zorp handbook",
    "leaks": ["zorp_{lower:8}"],
    "clean": ["zorps in general", "a zorp", "no zorp_ here", "vllm", "spark", "cuda"],
}


def rule(**change: Any) -> Rule:
    return parse(TABLE | change, "x")


def remarks(*rules: Rule) -> set[tuple[str, str, str]]:
    return {(one.kind, one.rule, one.other) for one in lint(rules)}


def test_a_good_rule_gets_no_remark() -> None:
    assert remarks(rule()) == set()


def test_a_pattern_that_grows_faster_than_its_text_is_slow() -> None:
    assert ("slow", "zorp", "") in remarks(rule(pattern=r"zorp_(?:zorp_|z|o|r|p|_)*!"))


def test_a_rule_of_which_another_finds_everything_is_shadowed() -> None:
    assert remarks(rule(), rule(id="wide", pattern=r"zorp_\w+", leaks=["zorp_{mixed:20}"])) == {
        ("shadowed", "zorp", "wide")
    }


def test_rules_that_find_the_same_with_other_verdicts_overlap() -> None:
    found = remarks(rule(), rule(id="soft", verdict="redact", replacement="[zorp]"))
    assert found == {("overlapping", "zorp", "soft"), ("overlapping", "soft", "zorp")}


def test_a_keyword_that_ordinary_text_is_full_of_gates_nothing() -> None:
    assert ("common-keyword", "zorp", "") in remarks(rule(keywords=["zorp", "a"]))


def test_every_form_is_explained_with_its_findings_and_none_of_the_text() -> None:
    token = fill("ghp_{mixed:36}")
    text = "see " + "".join(f"%{ord(one):02x}" for one in token)
    told = explain(Policy(shipped(), deadline_s=30.0), text)
    forms = {form.name: [seen.rule for seen in form.seen if seen.counts] for form in told.forms}
    assert forms["raw"] == [] and "github-token" in forms["percent of raw"]
    assert told.decision.verdict == "block" and token not in repr(told) and text not in repr(told)


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_shows_forms_rules_and_times(box: Box, as_json: bool) -> None:
    token = fill("hf_{mixed:34}")
    arguments = ["policy", "check", "--explain", *(["--json"] if as_json else []), f"why {token[::-1]}"]
    shown = box.command(*arguments)
    assert shown.returncode == 1 and token not in shown.stdout
    if as_json:
        names = [form["name"] for form in json.loads(shown.stdout)["forms"]]
        assert names[0] == "raw" and "reversed of raw" in names
    else:
        assert "reversed of raw: " in shown.stdout and "huggingface-token (secret, block) at 4–41" in shown.stdout
