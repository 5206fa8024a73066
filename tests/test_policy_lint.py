"""Rules that are slow, needless or tried in vain are told; every form of a text is explained without the text."""

from __future__ import annotations

import json
from dataclasses import replace
from subprocess import CompletedProcess
from typing import Any

import pytest
from box import Box, a_box

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


def test_a_pattern_that_grows_faster_than_its_text_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkgate.policy.lint.PATIENCE_S", 0.1)
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
    assert remarks(rule(keywords=[r"zorp\d", "zorp_"])) == set()


def test_a_rule_with_an_outline_instead_of_keywords_is_looked_at_as_any() -> None:
    assert remarks(rule(keywords=[], outline={"kinds": "aaaa_"})) == set()
    narrow = rule(pattern=r"(?i)zorp_[a-z]{8}\b", keywords=[], outline={"kinds": "aaaa_"})
    assert remarks(narrow) == {("narrow", "zorp", "")}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"verdict": "redact", "replacement": "[x]"}, "says redact where that says block"),
        ({"pattern": r"zorp_q[a-z]{7}\b", "leaks": ["zorp_q{lower:7}"]}, "of whose 1 leaks 1 are found by no rule"),
    ],
)
def test_a_rule_that_takes_the_place_of_a_shipped_one_and_stops_less_weakens_it(
    change: dict[str, Any], word: str
) -> None:
    ours = replace(rule(leaks=["zorp_abcdefgh"]), trusted=True)
    [told] = [one for one in lint([rule(**change)], [ours]) if one.kind == "weakened"]
    assert word in told.words and told.rule == "zorp"
    assert not [one for one in lint([rule(pattern=r"zorp_\w+")], [ours]) if one.kind == "weakened"]


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


def test_the_command_fails_for_a_rule_that_weakens_a_shipped_one() -> None:
    with a_box() as own_box:
        shown = linted_with_a_weaker_rule(own_box)
    assert shown.returncode == 1 and "weakened: github-token" in shown.stdout, shown.stdout + shown.stderr


def linted_with_a_weaker_rule(own_box: Box) -> CompletedProcess[str]:
    rules = own_box.config.parent / "rules"
    rules.mkdir(parents=True)
    (rules / "mine.toml").write_text(
        '[[rule]]\nid = "github-token"\nclass = "secret"\nverdict = "allow"\nkeywords = ["ghp_"]\n'
        'pattern = \'ghp_[A-Za-z0-9]{36}\'\nwhy = "We do not mind."\nsource = "us"\n'
        'leaks = ["ghp_{mixed:36}"]\nclean = ["ghp", "a", "b"]\n'
    )
    return own_box.command("policy", "lint")
