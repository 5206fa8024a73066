"""What the operator says of findings: verdicts by place, rules on trial, exemptions with an end."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from sparkgate.policy.finding import Where
from sparkgate.policy.judge import Policy
from sparkgate.policy.profiles import Profiles, load_profiles
from sparkgate.policy.rules import RuleError, shipped
from sparkgate.policy.samples import fill
from sparkgate.policy.syntax import FORMS, Neutral

PATIENCE_S = 30.0
MAIL = "jane.roe@alder-bank.com"
TOKEN = fill("ghp_{mixed:36}")
HARMLESS = next(form for form in FORMS if form.rewrite)
SEARCH, READ = Where("web_search", "searxng"), Where("read_page", "web")


def policy(tmp_path: Path, text: str) -> Policy:
    (tmp_path / "profiles.toml").write_text(text)
    return Policy.from_folder(tmp_path, deadline_s=PATIENCE_S)


def on(tmp_path: Path, text: str, day: datetime.date) -> Policy:
    """The policy as it is on that day."""
    (tmp_path / "profiles.toml").write_text(text)
    loaded = load_profiles(tmp_path / "profiles.toml", ["email-address"])
    dated = Profiles(loaded.profiles, loaded.exemptions, lambda: day)
    return Policy(shipped(), profiles=dated, deadline_s=PATIENCE_S)


def plain(text: str) -> Neutral:
    return Neutral(text, ())


def test_a_class_has_another_verdict_at_one_destination_only(tmp_path: Path) -> None:
    judge = policy(tmp_path, '[[profile]]\ndestination = "web"\npii = "block"\n').judge
    assert [judge(f"ask {MAIL}", where).verdict for where in (SEARCH, READ)] == ["redact", "block"]


def test_a_rule_has_the_word_before_its_class_and_a_later_profile_before_an_earlier_one(tmp_path: Path) -> None:
    told = (
        '[[profile]]\npii = "block"\nemail-address = "allow"\n'
        '[[profile]]\ntool = "read_page"\nemail-address = "redact"\n'
    )
    judge = policy(tmp_path, told).judge
    assert [judge(f"ask {MAIL}", where).verdict for where in (SEARCH, READ)] == ["allow", "redact"]


def test_what_is_on_trial_leaves_and_is_told_without_its_value(tmp_path: Path) -> None:
    decision = policy(tmp_path, '[[profile]]\npii = "shadow"\n').judge(f"ask {MAIL}", SEARCH)
    assert (decision.verdict, decision.released, decision.findings) == ("allow", f"ask {MAIL}", ())
    (told,) = decision.told()
    assert told["rule"] == "email-address" and told["shadow"] is True and MAIL not in str(told)


def test_an_exempted_text_leaves_until_its_last_day(tmp_path: Path) -> None:
    told = f'[[allow]]\ntext = "{MAIL.upper()}"\nrule = "email-address"\nreason = "our own desk"\nuntil = 2026-12-31\n'
    day = datetime.date(2026, 12, 31)
    assert on(tmp_path, told, day).judge(f"ask {MAIL} and joe@alder-bank.com").released == f"ask {MAIL} and [email]"
    assert on(tmp_path, told, day + datetime.timedelta(1)).judge(f"ask {MAIL}").verdict == "redact"


def test_an_exempted_rule_finds_nothing_at_its_place(tmp_path: Path) -> None:
    told = '[[allow]]\nrule = "github-token"\ndestination = "web"\nreason = "test keys of our CI"\n'
    judge = policy(tmp_path, told).judge
    assert [judge(f"why {TOKEN}", where).verdict for where in (SEARCH, READ)] == ["block", "allow"]


def test_what_a_person_must_agree_to_is_a_block_with_the_rest_taken_out(tmp_path: Path) -> None:
    decision = policy(tmp_path, '[[profile]]\nemail-address = "ask"\n').judge(f"{MAIL} on 192.168.7.20", SEARCH)
    assert (decision.verdict, decision.released) == ("block", "")
    agreed = decision.with_consent(plain)
    assert agreed.verdict == "redact" and agreed.released.startswith(f"{MAIL} on [")
    assert {"rule": "person-agreed"} in agreed.told()


def test_an_exempted_general_rule_frees_no_token_that_another_rule_knows(tmp_path: Path) -> None:
    judge = policy(tmp_path, '[[allow]]\nrule = "named-credential"\nreason = "our test passwords"\n').judge
    assert judge(f"password={TOKEN}").verdict == "block" and judge(f"HF_TOKEN={TOKEN}").verdict == "block"
    assert judge("db_password=Tr4vel!kitten9x").verdict != "block"


def test_what_is_asked_has_everything_taken_out_that_lies_within(tmp_path: Path) -> None:
    code = f"def notify(x):\n    send('{MAIL}')\n    y = gate(x)\n    return merge(y, floor)\nclass A:\n    z = 1\n"
    decision = policy(tmp_path, '[[profile]]\nown-code = "ask"\n').judge(code, SEARCH)
    assert decision.verdict == "block" and "def notify" in decision.asked and MAIL not in decision.asked


def test_what_somebody_agreed_to_is_judged_again(tmp_path: Path) -> None:
    judge = policy(tmp_path, '[[profile]]\nemail-address = "ask"\n')
    decision = judge.judge(f"ask {MAIL}", SEARCH)
    assert judge.agreed(decision, plain, SEARCH).verdict == "redact"
    brought = judge.agreed(decision, lambda text: Neutral(text + f" {TOKEN}", (HARMLESS,)), SEARCH)
    assert brought.verdict == "block" and "github-token" in brought.rules


def test_a_secret_beside_what_is_to_be_asked_leaves_nothing_to_ask(tmp_path: Path) -> None:
    decision = policy(tmp_path, '[[profile]]\nemail-address = "ask"\n').judge(f"{MAIL} {TOKEN}", SEARCH)
    assert (decision.verdict, decision.asked) == ("block", "")


MISTAKES = {
    '[[profile]]\npii = "maybe"\n': "pii is one of",
    '[[profile]]\nzorp = "allow"\n': "'zorp' is no class",
    '[[profile]]\ndestination = "moon"\npii = "allow"\n': "destination one of",
    '[[allow]]\ntext = "x"\n': "needs a reason",
    '[[allow]]\nreason = "so"\n': "a text or a rule",
    '[[allow]]\nrule = "zorp"\nreason = "so"\n': "no rule 'zorp'",
    '[[allow]]\ntext = "x"\nreason = "so"\nuntil = "soon"\n': "until is a date",
    '[[allow]]\ntext = "x"\nreason = "so"\nwho = "me"\n': "does not know",
    '[[allow]]\ntext = " "\nreason = "so"\n': "a text or a rule",
    '[[profile]]\ntool = "webSearch"\nsecret = "allow"\n': "tool is one of",
    '[[profile]]\ntool = "web_search"\n': "gives no verdict",
    "[profile]\n": "only [[profile]] and [[allow]]",
    "[[zorp]]\n": "only [[profile]] and [[allow]]",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_names_file_table_and_what_is_known(text: str, tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"profiles\.toml") as told:
        policy(tmp_path, text)
    assert MISTAKES[text] in str(told.value)


def test_a_rule_of_the_operator_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "mine.toml").write_text(
        '[[rule]]\nid = "email-address"\nclass = "pii"\nverdict = "block"\nkeywords = ["@"]\n'
        "pattern = '@alder-bank'\nwhy = 'ours'\nsource = 'us'\nleaks = ['x@alder-bank']\nclean = ['x']\n"
    )
    judge = Policy.from_folder(tmp_path, deadline_s=PATIENCE_S).judge
    assert judge(f"ask {MAIL}").verdict == "block" and judge("ask joe@willow-bank.com").verdict == "allow"
