"""The shipped rules catch what they claim to catch, leave public text alone and answer in time."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from sparkgate.policy.checks import CHECKS, parse_check
from sparkgate.policy.decision import merge
from sparkgate.policy.finding import Finding, Withheld
from sparkgate.policy.forms.view import View
from sparkgate.policy.rules import SHIPPED, Rule, Rulebook, RuleError, load, parse, shipped
from sparkgate.policy.samples import fill

RULES = shipped()
BOOK = Rulebook(RULES)
FILES = sorted(SHIPPED.glob("*.toml"))
EVERY_RULE = pytest.mark.parametrize("rule", RULES, ids=[rule.id for rule in RULES])

TABLE: dict[str, Any] = {
    "id": "zorp",
    "class": "secret",
    "verdict": "block",
    "keywords": ["zorp_"],
    "pattern": "zorp_[a-z]{8}",
    "why": "A zorp key opens the zorp.",
    "source": "Zorp handbook",
    "leaks": ["zorp_{lower:8}"],
    "clean": ["zorp_ prefix"],
}


def findings(text: str) -> list[Finding]:
    return BOOK.find(View("raw", text), monotonic() + 30)


def touches(text: str) -> list[str]:
    """Rules that change or stop `text` once the shields have had their say."""
    found = findings(text)
    shields = [hit for hit in found if hit.rule.verdict == "allow"]
    return [hit.rule.id for hit in found if hit.rule.verdict != "allow" and not _shielded(hit, shields)]


def _shielded(hit: Finding, shields: list[Finding]) -> bool:
    inside = any(shield.start <= hit.start and hit.end <= shield.end for shield in shields)
    return inside and hit.rule.cls in ("pii", "local")


@EVERY_RULE
def test_every_rule_catches_its_own_leaks_and_leaves_its_clean_texts_alone(rule: Rule) -> None:
    for text in rule.leaks:
        own = [hit for hit in findings(text) if hit.rule is rule]
        assert own, f"missed {text!r}"
        assert all(0 <= hit.start < hit.end <= len(text) for hit in own)
        assert rule.verdict == "allow" or rule.id in touches(text)
    for text in rule.clean:
        assert touches(text) == [], f"touched {text!r}"


@EVERY_RULE
def test_keywords_and_outlines_gate_the_pattern_and_stand_in_every_leak(rule: Rule) -> None:
    for text in rule.leaks:
        assert rule in Rulebook([rule]).candidates(View("raw", text)), text


@EVERY_RULE
def test_a_replacement_is_short_bracketed_and_clean_itself(rule: Rule) -> None:
    assert re.fullmatch(r"\[[a-z0-9 ]{3,40}\]", rule.replacement)
    for text in (rule.replacement, f"see {rule.replacement}/run.py, then", f"password={rule.replacement}"):
        assert touches(text) == []


@EVERY_RULE
def test_a_pattern_starts_at_its_literal_and_never_with_an_open_run(rule: Rule) -> None:
    around = r"(?:\(\?<?[!=](?:\[[^\]]*\]|\\.|[^()\[\]]|\((?:\[[^\]]*\]|\\.|[^()\[\]])*\))*\))*"
    body = re.sub(rf"^(?:\(\?i\))?{around}", "", rule.pattern.pattern)
    groups = rf"(?:\(\?(?:P<\w+>|i?:|!(?:[^()])*\))|{around}(?=\(|[^(]))*"
    atom = r"(?P<atom>\[(?:\\.|[^\]])+\]|\\p\{\w+\}|\\.|.)(?P<repeat>[*+]|\{\d*,?\d*\}\??)?"
    first = re.match(groups + atom, body)
    assert first is not None
    assert first["atom"] != "." and first["repeat"] not in ("*", "+")
    assert not (first["repeat"] or "").endswith("?")


def test_ids_are_unique_and_kebab_case() -> None:
    ids = [rule.id for rule in RULES]
    assert len(set(ids)) == len(ids) > 100
    assert [name for name in ids if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


def test_secrets_are_blocked_or_asked_for_and_everything_else_is_redacted_or_a_shield() -> None:
    unknown = {rule.id for rule in RULES if rule.cls == "secret" and rule.verdict != "block"}
    assert unknown == {"high-entropy-token", "high-entropy-first-word"}
    assert {rule.verdict for rule in RULES if rule.id in unknown} == {"ask"}
    assert {rule.verdict for rule in RULES if rule.cls == "pii"} == {"redact"}
    assert {rule.verdict for rule in RULES if rule.cls == "local"} == {"redact", "allow"}


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_no_rule_file_holds_a_key_shaped_string(path: Path) -> None:
    raw = re.sub(r"\{[a-z0-9]+:\d+\}|^pattern = .*$", "…", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = [(hit.rule.id, raw[hit.start : hit.end]) for hit in findings(raw) if hit.rule.cls == "secret"]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "Qwen3-Coder-480B-A35B-Instruct-FP8-dynamic on 8 x H100",
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5-NVFP4 with vllm==0.11.0+cu130",
        "git bisect between 9f2c1d7 and release 580.95.05, CUDA 12.8.0, PR 28471",
        "curl http://127.0.0.1:8000/v1/models and http://localhost:11434/api/tags",
        "203.0.113.7 and 198.51.100.23 are documentation addresses, 8.8.8.8 is not",
        "cat /proc/meminfo /etc/docker/daemon.json /var/log/syslog /opt/nvidia/bin /dev/nvidia-uvm",
        "epoch 1747731000, 1793161267663 ms, 2026-01-14T08:30:00+01:00",
        "pip install hf_transfer hf_xet && git clone git@github.com:org/repo.git",
        "ls $HOME/models ${HOME}/data /home/ubuntu/x /home/runner/work /Users/username/y",
        "the password must contain at least twelve characters and one token per line",
        "client = OpenAI(api_key=os.environ['OPENAI_API_KEY'], base_url=BASE_URL)",
        "export OPENAI_API_KEY=sk-... ; export HF_TOKEN=hf_xxx ; TOKEN=${TOKEN:-none}",
    ],
)
def test_public_text_is_left_alone(text: str) -> None:
    assert touches(text) == []


def test_a_vendor_nobody_knows_is_caught_by_the_name_of_its_variable() -> None:
    secret = fill("{mixed:24}")
    assert "named-credential" in touches(f"ZORP_TOKEN={secret} zorp cli invalid token")
    assert touches("ZORP_TOKEN=$SECRET") == touches("ZORP_TOKEN=<token>") == []


def test_a_path_loses_its_user_and_folders_but_keeps_its_file_name() -> None:
    text = 'File "/home/jdoe/alder/core/engine.py", line 3'
    hit = next(hit for hit in findings(text) if hit.rule.id == "home-path")
    assert text[: hit.start] + hit.rule.replacement + text[hit.end :] == 'File "[home path]/engine.py", line 3'


GLUED = (
    "hf_{letters:34}",
    "ghp_{mixed:36}",
    "github_pat_{mixed:22}_{mixed:59}",
    "glpat-{mixed:20}",
    "sk-proj-{mixed:74}",
    "sk-ant-api03-{mixed:93}",
    "sk-or-v1-{hex:64}",
    "nvapi-{mixed:64}",
    "gsk_{mixed:52}",
    "AKIA7{upper:15}",
    "AIza{mixed:35}",
    "tvly-{mixed:32}",
    "npm_{mixed:36}",
    "pypi-AgEIcHlwaS5vcmc{mixed:120}",
    "dckr_pat_{mixed:27}",
    "xoxb-{digits:12}-{mixed:24}",
    "sk_live_{digits:2}{mixed:22}",
    "whsec_{mixed:32}",
    "tskey-auth-{mixed:16}-{mixed:32}",
)


@pytest.mark.parametrize("around", ["x{}", "img_{}.png", "{}_", "{}-a", "{}xyzxyz", "q?t=A{}&b=1", "key{}xxxx"])
@pytest.mark.parametrize("token", GLUED)
def test_what_is_glued_to_a_token_does_not_hide_it(token: str, around: str) -> None:
    text = around.format(fill(token))
    hits = [hit for hit in findings(text) if hit.rule.cls == "secret" and fill(token) in text[hit.start : hit.end]]
    assert hits, around


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("open /home/jdoe/acme plan/x.py", "open [home path]/x.py"),
        ("'/home/jdoe/My Client Project/plan.md'", "'[home path]plan.md'"),
        ("cd /home/jdoe/acme then run ./x/y", "cd [home path] then run ./x/y"),
        ("cp /home/jdoe/a to /mnt/data", "cp [home path] to /mnt/data"),
        ("192.168.1.77:8000/clients/globex is slow", "[private address] is slow"),
        ("ssh jdoe@192.168.1.77 fails", "ssh [login] fails"),
        ("ruf +49 (0)170 / 123 45 67 an", "ruf [phone] an"),
        ("to jane.doe+a/b@abc.io now", "to [email] now"),
        ("write jane dot doe at abc dot io", "[email]"),
        ("wohne Am Kolk 12b, 26123 Oldenburg, seit", "wohne [postal address], seit"),
        ("nach Eibenstraße 17, 26123 Oldenburg", "nach [street address]"),
        ("au 14 rue des Tilleuls, 69003 Lyon", "au [street address]"),
        ("to 12 Copper Field Rd, Leeds LS1 4AP", "to [street address]"),
        ("ул. Липовая, д. 14, кв. 9", "[postal address]"),
        ("cd ~jdoe/tallow && make", "cd [home path] && make"),
    ],
)
def test_what_is_withheld_is_withheld_whole(text: str, left: str) -> None:
    for one in reversed(merge(_withheld(hit) for hit in findings(text))):
        text = text[: one.start] + one.replacement + text[one.end :]
    assert text.endswith(left)


def _withheld(hit: Finding) -> Withheld:
    return Withheld(hit.rule.id, hit.rule.cls, hit.start, hit.end, hit.rule.replacement, hit.rule.verdict)


def test_a_uuid_shields_digits_that_look_like_personal_data_but_never_a_secret() -> None:
    assert touches("run 00000000-1111-4222-8333-123456789012") == []
    assert "exa-key" in touches(fill("EXA_API_KEY={hex:8}-{hex:4}-4{hex:3}-a{hex:3}-{hex:12}"))


def test_a_rule_without_its_keyword_in_the_text_is_not_tried() -> None:
    book = Rulebook([parse(TABLE | {"keywords": ["other"]}, "x.toml")])
    keyless = View("raw", "zorp_abcdefgh")
    assert not book.candidates(keyless) and book.find(keyless, monotonic() + 30) == []
    assert [rule.id for rule in book.candidates(View("raw", "OTHER zorp_abcdefgh"))] == ["zorp"]


def test_a_keyword_with_a_digit_in_it_is_any_of_ten() -> None:
    book = Rulebook([parse(TABLE | {"keywords": [r"v\d."]}, "x.toml")])
    for text, tried in {"V2. zorp": 1, "v. zorp": 0, "vd. zorp": 0, "ü v9. zorp": 1, r"v\d. zorp": 1}.items():
        assert len(book.candidates(View("raw", text))) == tried, text


def test_a_rule_with_an_outline_needs_no_keyword_and_is_tried_where_that_outline_is() -> None:
    table = {key: value for key, value in TABLE.items() if key != "keywords"}
    book = Rulebook([parse(table | {"outline": {"kinds": ["a_aaa", "A_AAA"], "tokens": 13}}, "x.toml")])
    for text, tried in (
        ("zorp_abcdefgh", 1),
        ("ZORP_ABCDEFGH", 1),
        ("zorp_abc defgh", 0),
        ("zorpabcdefgh9", 0),
        ("ü", 0),
        ("ü zorp_abcdefgh", 1),
    ):
        assert len(book.candidates(View("raw", text))) == tried, text


@pytest.mark.parametrize("pattern", [r"\p{Lu}\d{4}", "[ÄA]\\d{4}", r"(?i)k\d{4}", r"K\d{4}"])
def test_letters_and_digits_of_other_scripts_are_not_held_against_an_outline_of_ascii(pattern: str) -> None:
    rule = parse(TABLE | {"pattern": pattern, "keywords": [], "outline": {"kinds": ["A0000", "a0000"]}}, "x.toml")
    book = Rulebook([rule])
    for text in (
        "Ä1234",
        "\u212a1234",
        "K1234 ü",
        "K١٢٣٤",
        "K\U00011f51\U00011f52\U00011f53\U00011f54",
        "A1234",
        "k1234",
    ):
        found = [(hit.start, hit.end) for hit in book.find(View("raw", text), monotonic() + 30)]
        assert found == [match.span() for match in rule.pattern.finditer(text)], text


def test_a_rule_finds_with_its_outline_what_it_finds_without_in_the_texts_of_all_rules() -> None:
    bound = Rulebook(rule for rule in shipped() if rule.outline)
    free = Rulebook(replace(rule, outline=()) for rule in bound.rules)
    assert len(bound.rules) > 20
    for text in (text for rule in shipped() for text in (*rule.leaks, *rule.clean)):
        found = [
            [(hit.rule.id, hit.start, hit.end) for hit in book.find(View("raw", text), monotonic() + 30)]
            for book in (bound, free)
        ]
        assert found[0] == found[1], text


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"pattern": "(unclosed"}, "missing"),
        ({"checks": ["no-such-check"]}, "no check is called"),
        ({"why": ""}, "needs why"),
        ({"colour": "red"}, "does not know colour"),
        ({"class": "gossip"}, "class is one of"),
        ({"keywords": ["Zorp_"]}, "lower case"),
        ({"keywords": []}, "needs keywords"),
        ({"outline": {"shadow": "a"}}, "outline is a table"),
        ({"outline": {"kinds": 5}}, "outline is a table"),
        ({"outline": {"tokens": 0}}, "outline is a table"),
        ({"outline": {"kinds": ["a", ""]}}, "outline is a table"),
        ({"outline": "a"}, "outline is a table"),
        ({"outline": {"kinds": "é"}}, "outline is a table"),
        ({"outline": {"kinds": "X5"}}, "outline is a table"),
        ({"outline": {"tokens": 10**9}}, "outline is a table"),
    ],
)
def test_a_bad_rule_is_refused_with_its_file_and_its_id(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RuleError, match=rf"mine\.toml.*zorp.*{complaint}"):
        parse(TABLE | change, "mine.toml")


def test_a_file_that_is_not_toml_or_holds_other_tables_is_refused_by_name(tmp_path: Path) -> None:
    for text in ("[[rule]\n", "[settings]\nx = 1\n"):
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(RuleError, match=r"mine\.toml"):
            load([path])


def test_two_rules_with_one_id_are_refused() -> None:
    rule = parse(TABLE, "mine.toml")
    with pytest.raises(RuleError, match="'zorp'"):
        Rulebook([rule, rule])


@pytest.mark.parametrize(
    "text",
    [
        "A_" * 40_000,
        "hf_" * 27_000,
        "führerschein" * 6_000,
        "sozialversicherungs" * 4_000,
        "eyJhbGci" * 10_000,
        "password=your" + "0" * 80_000,
        "/home/jdoe/" + "a " * 40_000,
        "at " + "a." * 40_000,
        "a at " * 16_000,
        "192.168.1.77/" * 6_000,
        "a." * 40_000,
        "0" * 80_000,
        "1 " * 40_000,
        "a@" * 40_000,
        "KEY=" * 20_000,
        "password is " * 7_000,
        "curl -u " * 10_000,
        "/home/a" * 11_000,
        "-----BEGIN PRIVATE KEY-----" * 3_000,
        "kind: Secret data: " * 4_000,
        "Aa Road 1 " * 8_000,
        "Aa Road 1, " * 7_000,
        "東京都" * 20_000,
        "市" * 60_000,
        "サ" * 30_000 + "都",
        "password for a " * 5_000,
        'passphrase "a 1' * 5_000,
        "ldapsearch " * 7_000,
        "otp is " * 10_000,
        "a.b_at_" * 9_000,
        "+1+" * 25_000,
    ],
    ids=lambda text: text[:12],
)
def test_the_worst_text_is_judged_before_the_deadline(text: str) -> None:
    BOOK.find(View("raw", text), monotonic() + 30)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("luhn", "490154203237518", "490154203237519"),
        ("card", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("iban", "GB29 NWBK 6016 1331 9268 19", "GB29 NWBK 6016 1331 9268 18"),
        ("nhs", "943 476 5919", "943 476 5918"),
        ("aba", "021000021", "021000022"),
        ("pesel", "44051401359", "44051401358"),
        ("private-ipv4", "192.168.1.77", "192.168.1.777"),
        ("private-ipv6", "fe80::4ab0:2dff:fe3a:2666", "fe80::1"),
        ("mac", "48:b0:2d:3a:26:66", "ff:ff:ff:ff:ff:ff"),
        ("mail", "jane@abc.dev", "user@example.com"),
        ("real", "k7Wq9zLw2", "your-api-key"),
    ],
)
def test_a_check_tells_the_real_thing_from_the_near_miss(name: str, good: str, bad: str) -> None:
    assert CHECKS[name](good, good, 0) and not CHECKS[name](bad, bad, 0)


def test_an_entropy_check_takes_its_floor_from_the_rule() -> None:
    assert parse_check("entropy:3.0")("q7Wm2Zt9Lx4R", "", 0) and not parse_check("entropy:3.0")("aaaabbbb", "", 0)
    with pytest.raises(ValueError, match="no check is called"):
        parse_check("luhn:3")
