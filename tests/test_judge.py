"""One decision over one text: spans, views, shields, limits, and what happens when a rule misbehaves."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkgate.policy.decision import Decision, merge
from sparkgate.policy.finding import Withheld
from sparkgate.policy.judge import Policy
from sparkgate.policy.rules import Rule, RuleError, parse, shipped
from sparkgate.policy.samples import fill
from sparkgate.policy.terms import load_terms
from sparkgate.policy.views import views

PATIENCE_S = 30.0
RULES = shipped()
POLICY = Policy(RULES, deadline_s=PATIENCE_S)
TOKEN = fill("hf_{mixed:34}")
MAIL = "jane.roe@alder-bank.com"
UUID = "00000000-1111-4222-8333-123456789012"
REDACTED_LEAKS = [(rule.id, leak) for rule in RULES if rule.verdict == "redact" for leak in rule.leaks]

TABLE: dict[str, Any] = {
    "id": "zorp",
    "class": "pii",
    "verdict": "redact",
    "keywords": ["zorp"],
    "pattern": "zorp",
    "why": "A zorp is nobody's business.",
    "source": "Zorp handbook",
    "leaks": ["zorp"],
    "clean": ["zo rp"],
}


def a_rule(**change: Any) -> Rule:
    return parse(TABLE | {"keywords": ["a", "z"]} | {key.rstrip("_"): value for key, value in change.items()}, "x")


def judged(text: str, *rules: Rule, deadline_s: float = PATIENCE_S) -> Decision:
    return Policy(rules, deadline_s=deadline_s).judge(text)


def spans(decision: Decision, text: str) -> list[str]:
    return [text[finding.start : finding.end] for finding in decision.findings]


# -- spans


def test_a_text_that_no_rule_matches_is_released_as_the_very_same_text() -> None:
    text = "vllm 0.11 on DGX Spark\n\tTriton (sm_121a) — “quoted” ÄÖ 🚀"
    decision = POLICY.judge(text)
    assert (decision.verdict, decision.released, decision.findings, decision.rules) == ("allow", text, (), ())


def test_overlapping_spans_are_merged_and_replaced_once() -> None:
    long = a_rule(id="long", pattern="aaa bbb", replacement="[long]")
    short = a_rule(id="short", pattern="bbb ccc d", replacement="[short]")
    decision = judged("x aaa bbb ccc d y aaa bbb", long, short)
    assert decision.released == "x [short] y [long]"
    assert spans(decision, "x aaa bbb ccc d y aaa bbb") == ["aaa bbb ccc d", "aaa bbb"]
    assert decision.rules == ("short", "long")


def test_spans_that_only_touch_stay_apart() -> None:
    one, two = a_rule(id="one", pattern="aaa", replacement="[1]"), a_rule(id="two", pattern="zzz", replacement="[2]")
    assert judged("aaazzz", one, two).released == "[1][2]"


def test_equal_spans_of_several_rules_are_replaced_once() -> None:
    rules = [a_rule(id=name, pattern="zorp") for name in ("one", "two", "three")]
    assert judged("zorp", *rules).released == "[pii]"


def test_a_block_that_overlaps_a_redaction_blocks_the_text() -> None:
    redact = a_rule(id="soft", pattern="aaa bbb ccc")
    block = a_rule(id="hard", pattern="bbb", verdict="block", class_="secret")
    for rules in ((redact, block), (block, redact)):
        decision = judged("x aaa bbb ccc y", *rules)
        assert (decision.verdict, decision.released, decision.rules) == ("block", "", ("hard",))
        assert spans(decision, "x aaa bbb ccc y") == ["aaa bbb ccc"]


def test_a_block_beside_a_redaction_releases_nothing() -> None:
    decision = POLICY.judge(f"{MAIL} {TOKEN}")
    assert (decision.verdict, decision.released) == ("block", "")
    assert set(decision.rules) >= {"email-address", "huggingface-token"}


def test_merging_is_stable_in_whatever_order_the_findings_come() -> None:
    found = [Withheld(f"r{a}", "pii", a, b, f"[{a}]", "redact") for a, b in ((0, 4), (2, 9), (9, 12), (20, 21), (3, 5))]
    assert [(one.start, one.end) for one in merge(found)] == [(0, 9), (9, 12), (20, 21)]
    assert merge(found) == merge(reversed(found))


def test_indices_count_characters_of_the_given_text_beyond_the_basic_plane_too() -> None:
    text = f"🚀🚀 𝔘𝔫𝔦 {MAIL} 🎉"
    decision = POLICY.judge(text)
    assert spans(decision, text) == [MAIL]
    assert decision.released == "🚀🚀 𝔘𝔫𝔦 [email] 🎉"


def test_what_may_be_told_of_a_finding_holds_no_value() -> None:
    decision = POLICY.judge(f"mail {MAIL} and {TOKEN}")
    for finding in decision.findings:
        assert set(finding.public()) == {"rule", "class", "start", "end"}
    assert MAIL not in repr(decision) and TOKEN not in repr(decision)


def test_a_pattern_that_can_match_nothing_is_refused_and_one_that_consumes_nothing_inserts_nothing() -> None:
    with pytest.raises(RuleError, match="matches nothing at all"):
        a_rule(pattern="q*")
    assert judged("a b", a_rule(pattern="(?=b)")).released == "a b"


# -- shields


def test_a_shield_drops_personal_and_local_findings_that_lie_inside_it() -> None:
    digits = a_rule(id="digits", pattern=r"\d{12}", keywords=["1"])
    shield = next(rule for rule in RULES if rule.id == "uuid")
    assert judged(f"run {UUID} failed", digits, shield).verdict == "allow"
    assert judged(f"run {UUID} failed", replace(digits, cls="local"), shield).verdict == "allow"


def test_a_shield_drops_nothing_that_reaches_outside_it() -> None:
    wide = a_rule(id="wide", pattern=r"\d{12} failed", keywords=["1"])
    shield = next(rule for rule in RULES if rule.id == "uuid")
    assert judged(f"run {UUID} failed", wide, shield).rules == ("wide",)


@pytest.mark.parametrize("kind", ["secret", "client", "code"])
def test_a_shield_never_covers_a_secret_or_a_name_of_the_operator(kind: Any) -> None:
    digits = replace(a_rule(id="digits", pattern=r"\d{12}", keywords=["1"]), cls=kind)
    shield = next(rule for rule in RULES if rule.id == "uuid")
    assert judged(f"run {UUID} failed", digits, shield).rules == ("digits",)


def test_digests_shield_what_looks_like_a_number_of_a_person() -> None:
    digest = "4111111111111111" * 4
    for text in (f"sha256:{digest}", f"commit {digest[:40]}", f"trace {UUID}"):
        assert POLICY.judge(text).verdict == "allow"


# -- characters nobody sees

HIDDEN = {
    "zero-width space": "\u200b",
    "zero-width joiner": "\u200d",
    "word joiner": "\u2060",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "left-to-right mark": "\u200e",
    "tag characters": "\U000e0068\U000e0069",
    "private use": "\ue000",
    "control": "\x01",
    "mongolian separator": "\u180e",
}
DRAWN_AS_NOTHING = {
    "variation selector": "\ufe0f",
    "variation selector supplement": "\U000e0101",
    "combining grapheme joiner": "\u034f",
    "hangul filler": "\u3164",
    "hangul choseong filler": "\u115f",
    "unassigned default-ignorable": "\U000e0fff",
}
EVERY_HIDDEN = pytest.mark.parametrize("hidden", (HIDDEN | DRAWN_AS_NOTHING).values(), ids=HIDDEN | DRAWN_AS_NOTHING)


@EVERY_HIDDEN
def test_a_token_with_hidden_characters_inside_is_blocked(hidden: str) -> None:
    text = f"401 with {TOKEN[:9]}{hidden}{TOKEN[9:20]}{hidden}{TOKEN[20:]} why"
    decision = POLICY.judge(text)
    assert (decision.verdict, decision.released) == ("block", "")
    assert "huggingface-token" in decision.rules


@EVERY_HIDDEN
def test_a_redaction_cuts_exactly_the_characters_the_hidden_value_stood_on(hidden: str) -> None:
    value = f"jane{hidden}.roe@{hidden}alder-bank.com"
    text = f"🚀 ask {value}, or else"
    decision = POLICY.judge(text)
    assert decision.released == "🚀 ask [email], or else"
    assert spans(decision, text) == [value]


def test_hidden_characters_around_a_value_are_left_where_they_are() -> None:
    assert POLICY.judge(f"a\u200b {MAIL} \u200bb").released == "a\u200b [email] \u200bb"


@pytest.mark.parametrize(
    "text",
    [
        "چگونه می‌توانم مدل‌های زبانی را اجرا کنم",
        "क्‍ष and श्री‌मान् in vllm",
        "👩‍👩‍👧‍👦 family emoji 👩🏽‍💻 🏴‍☠️ in a terminal",
        "soft\u00adhyphen \u2067rtl\u2069 \ufeff",
        "tab\tand\nnew\r\nlines",
    ],
)
def test_text_that_needs_its_joiners_is_released_untouched(text: str) -> None:
    assert POLICY.judge(text).released == text


def test_a_view_maps_every_character_back_to_where_it_stood() -> None:
    text = "a\u200bb\u00ad🚀c"
    (raw, *others) = views(text)
    assert raw.text == text and raw.span(1, 3) == (1, 3)
    for view in others:
        assert view.text == "ab🚀c"
        assert [view.span(index, index + 1)[0] for index in range(4)] == [0, 2, 4, 5]


@pytest.mark.parametrize("text", ["visit to Mu\u0308ller Bank", "visit to M\u00fcller Bank"], ids=["NFD", "NFC"])
@pytest.mark.parametrize("name", ["M\u00fcller", "Mu\u0308ller"], ids=["NFC name", "NFD name"])
def test_a_name_is_found_composed_and_decomposed(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "terms.toml").write_text(f'[[term]]\nname = "{name}"\n', encoding="utf-8")
    policy = Policy((), others=(load_terms(tmp_path / "terms.toml"),), deadline_s=PATIENCE_S)
    assert policy.judge(text).released == "visit to [name] Bank"


# -- limits


def test_a_text_over_the_limit_is_blocked_with_its_reason_and_one_at_the_limit_is_judged() -> None:
    policy = Policy(RULES, max_bytes=1024, deadline_s=PATIENCE_S)
    assert policy.judge("é" * 512).verdict == "allow"
    blocked = policy.judge("é" * 512 + "x")
    assert (blocked.verdict, blocked.released, blocked.rules) == ("block", "", ("input-too-long",))


@pytest.mark.parametrize("text", ["\ud800", "a \udcff b", "\udfff" * 20_000, "\ud83d\ude80"])
def test_a_lone_surrogate_is_blocked_and_crashes_nothing(text: str) -> None:
    decision = POLICY.judge(text)
    assert (decision.verdict, decision.released) == ("block", "")
    assert decision.rules in (("not-unicode",), ("input-too-long",))


@pytest.mark.parametrize("text", ["", " ", "\x00", "\u200b", "\U0010ffff"])
def test_a_text_of_almost_nothing_is_allowed(text: str) -> None:
    assert POLICY.judge(text).released == text


def test_a_rule_that_runs_away_blocks_the_text_by_the_deadline() -> None:
    runaway = a_rule(pattern="(?:a|a)+b")
    decision = judged("a" * 60 + "!", runaway, deadline_s=0.02)
    assert (decision.verdict, decision.released, decision.rules) == ("block", "", ("policy-deadline",))


def test_the_deadline_covers_all_rules_together() -> None:
    rules = [a_rule(id=f"slow-{number}", pattern="(?:a|a)+b") for number in range(50)]
    assert judged("a" * 22 + "!", *rules, deadline_s=0.02).reason == "policy-deadline"


def test_a_deadline_that_has_passed_blocks_even_a_clean_text() -> None:
    assert judged("zorp", a_rule(), deadline_s=-1).reason == "policy-deadline"


def test_a_check_that_raises_blocks_the_text_and_its_words_are_not_told() -> None:
    def broken(value: str, _text: str, _start: int) -> bool:
        raise RuntimeError(f"cannot read {value}")

    decision = judged(f"zorp {MAIL}", replace(a_rule(), checks=(broken,)))
    assert (decision.verdict, decision.released, decision.rules) == ("block", "", ("policy-fault",))
    assert "zorp" not in repr(decision)


@pytest.mark.parametrize(
    "value",
    [
        "please-rotate-before-deploying-production-anything-somewhere-tomorrow-evening-together-yesterday!",
        "-".join(["abcdefghij"] * 30) + "-!",
        "_".join(["ab1ab"] * 60) + "_!",
        "aBcDEf" * 300 + "!",
        "k7Wq.b(" * 250 + "!",
    ],
)
def test_a_check_cannot_hold_the_process_past_the_deadline(value: str) -> None:
    program = (
        "import sys; from sparkgate.policy.judge import Policy; from sparkgate.policy.rules import shipped;"
        "print(Policy(shipped()).judge(sys.argv[1]).verdict)"
    )
    argv = [sys.executable, "-I", "-c", program, f"export SESSION_TOKEN={value}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=5, check=True)
    assert done.stdout.strip() in ("allow", "block")


# -- redaction is complete


@pytest.mark.parametrize(("rule", "leak"), REDACTED_LEAKS, ids=[rule for rule, _ in REDACTED_LEAKS])
def test_a_redacted_text_is_allowed_when_it_is_judged_again(rule: str, leak: str) -> None:
    decision = POLICY.judge(f"see {leak} please")
    again = POLICY.judge(decision.released)
    assert (again.verdict, again.released) == ("allow", decision.released)


@pytest.mark.fuzz
@pytest.mark.parametrize("shift", range(2))
def test_two_values_side_by_side_are_both_gone_after_one_decision(shift: int) -> None:
    """Every pair in both orders, half of them in each test; the sign between them changes from pair to pair."""
    left = {}
    for row, (one, first) in enumerate(REDACTED_LEAKS):
        for column, (two, second) in enumerate(REDACTED_LEAKS[(row + shift) % 2 :: 2]):
            between = (" ", ", ", "\n", "/")[(row + column) % 4]
            released = POLICY.judge(f"{first}{between}{second}").released
            if POLICY.judge(released).verdict != "allow":
                left[one, two] = POLICY.judge(released).rules
    assert left == {}


@pytest.mark.parametrize(
    "text",
    [
        "who called me from +1 617 555 0196 (206) 555-0140 reverse lookup",
        "+447911123456 (206) 555-0140 reverse lookup",
        "voicemail from 07700 900699 5500-0000-0000-0004",
    ],
)
def test_a_number_that_a_neighbour_hid_does_not_stand_in_the_released_text(text: str) -> None:
    assert POLICY.judge(POLICY.judge(text).released).verdict == "allow"


# -- the digest of a policy


@pytest.mark.parametrize(
    "change",
    [
        {"pattern": "zorp?"},
        {"verdict": "block"},
        {"class": "local"},
        {"replacement": "[something else]"},
        {"keywords": ["never there"]},
        {"checks": ["real"]},
        {"id": "zarp"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_digest_of_a_policy_changes_with_whatever_changes_its_decisions(change: dict[str, Any]) -> None:
    assert Policy([parse(TABLE, "x")]).digest != Policy([parse(TABLE | change, "x")]).digest


def test_the_digest_of_a_policy_is_the_same_for_the_same_rules() -> None:
    assert Policy(shipped()).digest == Policy(shipped()).digest
    assert Policy(RULES).digest != Policy(RULES[1:]).digest


def test_an_operators_folder_adds_to_the_shipped_rules(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "own.toml").write_text(
        '[[rule]]\nid = "zorp"\nclass = "code"\nverdict = "block"\nkeywords = ["zorp"]\npattern = "zorp"\n'
        'why = "w"\nsource = "s"\nleaks = ["zorp"]\nclean = ["x"]\n'
    )
    (tmp_path / "terms.toml").write_text('[[term]]\nname = "Alder Bank"\nforms = ["AlderBank"]\n')
    policy = Policy.from_folder(tmp_path, deadline_s=PATIENCE_S)
    assert policy.judge("a ZORP zorp").rules == ("zorp",)
    assert policy.judge("why is ALDER  bank slow at alderbank?").released == "why is [name] slow at [name]?"
    assert policy.judge(TOKEN).verdict == "block"


def test_a_name_that_is_a_word_of_a_placeholder_does_not_stop_redaction(tmp_path: Path) -> None:
    names = ("Email", "Home", "Path", "Phone")
    (tmp_path / "terms.toml").write_text("".join(f'[[term]]\nname = "{name}"\n' for name in names))
    policy = Policy(RULES, others=(load_terms(tmp_path / "terms.toml"),), deadline_s=PATIENCE_S)
    decision = policy.judge("mail jane@corp.io about /home/jane/x.py")
    assert (decision.verdict, decision.released) == ("redact", "mail [email] about [home path]/x.py")
