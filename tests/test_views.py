"""A secret that was dressed up is seen in one of the views, and cut out of the text where it stood."""

from __future__ import annotations

import base64
import codecs
import html
import itertools
import random
import re
import string
from collections.abc import Callable
from urllib.parse import quote

import pytest

from sparkgate.policy.explain import chain
from sparkgate.policy.forms.joins import _PREFIXES, JOINS, _between_parts, _is_mixed, _odd_runs
from sparkgate.policy.forms.turns import TURNED
from sparkgate.policy.forms.unwrap import ENCODINGS
from sparkgate.policy.forms.view import Mirror, View, rewrite
from sparkgate.policy.judge import Policy
from sparkgate.policy.rules import Rule, parse, shipped
from sparkgate.policy.samples import fill
from sparkgate.policy.views import views

PATIENCE_S = 30.0
POLICY = Policy(shipped(), deadline_s=PATIENCE_S)
TOKENS = {
    "huggingface": fill("hf_{mixed:34}"),
    "github": fill("ghp_{mixed:36}"),
    "openrouter": fill("sk-or-v1-{hex:64}"),
    "gitlab": fill("glpat-{mixed:20}"),
    "tavily": fill("tvly-dev-{mixed:32}"),
}
TOKENS["huggingface of letters"] = "hf_" + "".join(random.Random(3).choices(string.ascii_letters, k=34))
LATIN_TO_OTHERS = str.maketrans("aceopxyABCEHKMOPTX", "асеорхуАВСЕНКМОРТХ")


MATHEMATICS = {
    **{97 + place: chr(0x1D5BA + place) for place in range(26)},
    **{65 + place: chr(0x1D5A0 + place) for place in range(26)},
}


def every(word: str, size: int, sign: str) -> str:
    return sign.join(word[at : at + size] for at in range(0, len(word), size))


def b64(word: str) -> str:
    return base64.b64encode(word.encode()).decode()


DISGUISES: dict[str, Callable[[str], str]] = {
    "percent": lambda word: "".join(f"%{ord(one):02x}" for one in word),
    "percent of percent": lambda word: quote("".join(f"%{ord(one):02X}" for one in word)),
    "percent of percent of percent": lambda word: quote(quote(quote("".join(f"%{ord(one):02X}" for one in word)))),
    "every second character in percent": lambda word: "".join(
        f"%{ord(one):02x}" if place % 2 else one for place, one in enumerate(word)
    ),
    "decimal entities": lambda word: "".join(f"&#{ord(one)};" for one in word),
    "hexadecimal entities": lambda word: "".join(f"&#x{ord(one):x};" for one in word),
    "unicode escapes": lambda word: "".join(f"\\u{ord(one):04x}" for one in word),
    "braced escapes": lambda word: "".join(f"\\u{{{ord(one):x}}}" for one in word),
    "byte escapes": lambda word: "".join(f"\\x{ord(one):02x}" for one in word),
    "octal escapes": lambda word: "".join(f"\\{ord(one):03o}" for one in word),
    "quoted-printable": lambda word: "".join(f"={ord(one):02X}" for one in word),
    "base64": b64,
    "base64 without padding": lambda word: b64(word).rstrip("="),
    "base64 for URLs": lambda word: base64.urlsafe_b64encode(word.encode()).decode().rstrip("="),
    "base64 of base64": lambda word: b64(b64(word)),
    "base64 of UTF-16": lambda word: base64.b64encode(word.encode("utf-16-le")).decode(),
    "base64 of a line": lambda word: b64(f"api_key={word}\n"),
    "base64 over lines": lambda word: every(b64(word), 20, "\n"),
    "base64 in percent": lambda word: quote(b64(word), safe=""),
    "base32": lambda word: base64.b32encode(word.encode()).decode(),
    "base32 in lower case": lambda word: base64.b32encode(word.encode()).decode().lower().rstrip("="),
    "base85": lambda word: base64.b85encode(word.encode()).decode(),
    "hex": lambda word: word.encode().hex(),
    "hex in capitals": lambda word: word.encode().hex().upper(),
    "hex with blanks": lambda word: word.encode().hex(" "),
    "hex with colons": lambda word: word.encode().hex(":"),
    "hex of each byte": lambda word: " ".join(f"0x{one:02x}" for one in word.encode()),
    "hex of each byte in a row": lambda word: "".join(f"0x{one:02x}" for one in word.encode()),
    "hex of two bytes each": lambda word: word.encode().hex(" ", -2),
    "bits": lambda word: " ".join(f"{one:08b}" for one in word.encode()),
    "bits in a row": lambda word: "".join(f"{one:08b}" for one in word.encode()),
    "hex of base64": lambda word: b64(word).encode().hex(),
    "numbers of characters": lambda word: " ".join(str(ord(one)) for one in word),
    "letters apart": lambda word: " ".join(word),
    "letters apart by lines": lambda word: "\n".join(word),
    "letters apart by dots": lambda word: ".".join(word),
    "groups apart": lambda word: every(word, 4, " "),
    "groups apart by slashes": lambda word: every(word, 5, "/"),
    "groups apart by pipes": lambda word: every(word, 4, "|"),
    "groups apart by commas": lambda word: every(word, 6, ","),
    "groups apart by stars": lambda word: every(word, 4, "*"),
    "cut by a line": lambda word: f"{word[:14]}\n{word[14:]}",
    "cut by an indented line": lambda word: f"{word[:14]}\\\n    {word[14:]}",
    "cut by a tab": lambda word: f"{word[:14]}\t{word[14:]}",
    "cut by a wide blank": lambda word: f"{word[:14]}\u2003{word[14:]}",
    "a sum of texts": lambda word: f'"{word[:9]}" + "{word[9:]}"',
    "a row of texts": lambda word: f"'{word[:9]}' '{word[9:20]}', '{word[20:]}'",
    "backwards": lambda word: word[::-1],
    "backwards in base64": lambda word: b64(word)[::-1],
    "half the alphabet on": lambda word: word.translate(
        str.maketrans(
            string.ascii_letters,
            string.ascii_lowercase[13:]
            + string.ascii_lowercase[:13]
            + string.ascii_uppercase[13:]
            + string.ascii_uppercase[:13],
        )
    ),
    "full width": lambda word: "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in word),
    "letters of mathematics": lambda word: word.translate(MATHEMATICS),
    "letters of others": lambda word: word.translate(LATIN_TO_OTHERS),
    "marks on letters": lambda word: "".join(one + "\u0336" for one in word),
    "invisible between": lambda word: "\u200b".join(word),
    "tags between": lambda word: "\U000e0061".join(word),
    "two parameters": lambda word: f"https://a.test/x?p={word[:15]}&lang=en&q={word[15:]}",
    "four parameters": lambda word: "https://a.test/x?p=" + every(word, -(-len(word) // 4), "&q="),
    "base64 with a byte before": lambda word: base64.b64encode(b"\x01" + word.encode()).decode(),
    "base64 with a byte behind": lambda word: base64.b64encode(word.encode() + b"\xff").decode(),
    "base64 and one letter more": lambda word: b64(word).rstrip("=") + "Z",
    "base64 of UTF-16 with its mark": lambda word: base64.b64encode(word.encode("utf-16")).decode(),
    "hex and one digit more": lambda word: word.encode().hex() + "0",
    "a digit and hex": lambda word: "0" + word.encode().hex(),
    "escapes within a text": lambda word: "".join(f"\\\\u{ord(one):04x}" for one in word),
    "numbers by lines": lambda word: "\n".join(str(ord(one)) for one in word),
    "letters apart in quotes": lambda word: '"' + " ".join(word) + '"',
    "letters apart and a comma": lambda word: " ".join(word) + ",",
    "letters far apart": lambda word: "    ".join(word),
    "letters apart by hashes": lambda word: "#".join(word),
    "groups by two dashes": lambda word: every(word, 4, "--"),
    "groups by commas and blanks": lambda word: every(word, 4, ", "),
    "groups by bars between blanks": lambda word: every(word, 5, " | "),
    "groups by arrows": lambda word: every(word, 5, "->"),
    "an empty tag within": lambda word: f"{word[:14]}<b></b>{word[14:]}",
    "bold within": lambda word: f"{word[:7]}**{word[7:14]}**{word[14:]}",
    "groups by tags": lambda word: every(word, 5, "<b>"),
    "groups of sixteen by slashes": lambda word: every(word, 16, "/"),
    "two halves and a blank": lambda word: f"{word[:20]} {word[20:]}",
    "lines of a list": lambda word: every(word, 10, "\n* "),
    "lines with one between": lambda word: every(word, 12, "\n\n"),
    "letters apart, backwards": lambda word: " ".join(word[::-1]),
    "groups of what is backwards": lambda word: every(word[::-1], 4, "."),
    "base64 of base64 in groups": lambda word: every(b64(b64(word)), 8, "."),
    "a name and its value": lambda word: f"https://a.test/x?{word[:19]}={word[19:]}",
    "a segment and the fragment": lambda word: f"https://a.test/{word[:19]}#{word[19:]}",
    "two parts of a path": lambda word: f"https://a.test/1/{word[:15]}/b/{word[15:]}",
}  # fmt: skip


NOT_FOUND = {("groups by arrows", "openrouter")}
"""Its own dashes look like a part of the arrow."""
CASES = [(name, token) for name in DISGUISES for token in TOKENS if (name, token) not in NOT_FOUND]


@pytest.mark.parametrize(("name", "token"), CASES)
def test_a_token_is_found_however_it_is_dressed_up(name: str, token: str) -> None:
    text = f"why is this rejected: {DISGUISES[name](TOKENS[token])} on the spark"
    assert POLICY.judge(text).verdict == "block"


def redacting() -> Policy:
    """Rules that redact what the shipped ones block, so that what is left can be looked at."""
    table = {
        "id": "zorp-token",
        "class": "secret",
        "verdict": "redact",
        "keywords": ["zq_"],
        "pattern": r"(?<![A-Za-z0-9])zq_[A-Za-z0-9]{24}(?![A-Za-z0-9])",
        "replacement": "[zorp]",
        "why": "A zorp token.",
        "source": "Zorp handbook",
        "leaks": ["zq_{mixed:24}"],
        "clean": ["zq_ prefix"],
    }
    rule: Rule = parse(table, "x")
    return Policy([rule], deadline_s=PATIENCE_S)


ZORP = fill("zq_{mixed:24}")


MORE_THAN_THE_TOKEN = re.compile(
    "param|path|line|row|sum|more|digit|halves|name|segment|before|behind|mark|bars|two dashes|commas and|sixteen"
    "|quotes|comma$"
)
"""Disguises of which a neighbouring sign or blank goes too, or that the token of this test is too short for."""


@pytest.mark.parametrize("name", [name for name in DISGUISES if not MORE_THAN_THE_TOKEN.search(name)])
def test_what_is_cut_out_is_the_dressed_up_token_and_nothing_beside_it(name: str) -> None:
    decision = redacting().judge(f"before {DISGUISES[name](ZORP)} after")
    assert (decision.verdict, decision.released) == ("redact", "before [zorp] after")


def test_a_view_leads_back_to_the_text_it_was_made_from() -> None:
    given = View("raw", "ab%20cd%41")
    view = rewrite(given, "percent", [(2, 5, " "), (7, 10, "A")])
    assert view is not None and view.text == "ab cdA"
    assert [view.span(*span) for span in ((0, 2), (2, 3), (1, 4), (4, 6), (5, 6))] == [
        (0, 2), (2, 5), (1, 6), (6, 10), (7, 10),
    ]  # fmt: skip
    turned = Mirror("reversed", view.text[::-1], view)
    assert turned.span(0, 1) == (7, 10) and turned.span(3, 6) == (0, 5)


def test_nothing_is_rewritten_where_there_is_nothing_to_rewrite() -> None:
    assert rewrite(View("raw", "abc"), "percent", []) is None
    assert [view.name for view in views("vllm 0.11 on a spark")] == ["raw"]


def test_a_text_that_grows_beyond_measure_is_blocked() -> None:
    decision = Policy(shipped(), deadline_s=PATIENCE_S, max_bytes=200_000).judge("\ufdfa" * 10_000)
    assert (decision.verdict, decision.reason) == ("block", "input-expands")


ORDINARY = [
    "Qwen3-Coder-480B-A35B-Instruct-FP8-dynamic on vllm 0.11 with --max-num-seqs 16",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 image digest",
    "commit 1facb869da77b84a45143f3f1b9acdff63ca64a3 of llama.cpp",
    "https://example.com/a/b/c?page=2&lang=en&sort=desc#top",
    "decode SGVsbG8gd29ybGQsIHRoaXMgaXMgdGV4dA== and 48656c6c6f2c20776f726c64",
    "the bytes de ad be ef 00 01 02 03 04 05 and 10 20 30 40 50 60 70 80",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "caf\u00e9 na\u00efve \u043f\u0440\u0438\u0432\u0435\u0442 \u4f60\u597d \u03b1\u03b2\u03b3",
    "PATH=/usr/local/cuda-13.0/bin:/opt/nvidia/bin nvcc --version",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_what_it_is(text: str) -> None:
    decision = POLICY.judge(text)
    assert (decision.verdict, decision.released) == ("allow", text)


def test_no_text_whatever_makes_the_policy_raise_and_its_spans_lie_in_the_text() -> None:
    draw = random.Random(5)
    alphabet = string.printable + "%&#;\\u0x=+/_-\u200b\u0430\uff21\ufdfa\u0336\U000e0061\ud7ff" + TOKENS["github"]
    for _ in range(400):
        text = "".join(draw.choices(alphabet, k=draw.randrange(120)))
        decision = POLICY.judge(text)
        assert decision.reason in ("", "input-expands")
        assert all(0 <= one.start < one.end <= len(text) for one in decision.findings)
        assert POLICY.judge(text).findings == decision.findings


@pytest.mark.parametrize("size", [1, 4, 7])
def test_underscores_between_the_groups_of_a_token_are_taken_out(size: int) -> None:
    text = f"what is {every(TOKENS['openrouter'], size, '_')} for"
    decision = POLICY.judge(text)
    assert decision.verdict == "block" and "openrouter-key" in {one.rule for one in decision.findings}


def test_two_disguises_at_once_are_taken_off_both() -> None:
    draw, names = (
        random.Random(7),
        [name for name in DISGUISES if not re.search("param|path|row|sum|more|digit|halves|name|segment", name)],
    )
    layered = ["percent", "decimal entities", "base64", "hex", "unicode escapes", "base32", "quoted-printable"]
    for _ in range(60):
        inner, outer = draw.choice(names), draw.choice(layered)
        word = DISGUISES[inner](TOKENS["huggingface"])
        if word.isascii():
            assert POLICY.judge(f"see {DISGUISES[outer](word)} here").verdict == "block", (inner, outer)


def test_entities_of_text_are_read_as_the_reader_of_a_page_reads_them() -> None:
    assert POLICY.judge(html.escape(f'<a href="{TOKENS["github"]}">')).verdict == "block"


@pytest.mark.parametrize("name", [*ENCODINGS])
def test_the_quick_look_for_an_encoding_never_hides_what_would_be_taken_off(name: str) -> None:
    possible, edits = ENCODINGS[name]
    found = 0
    for word in TOKENS.values():
        for dress in DISGUISES.values():
            text = f"why does {dress(word)} fail"
            if list(edits(View("raw", text))):
                found += 1
                assert possible(View("raw", text)), text
    assert found


@pytest.mark.parametrize(
    "name",
    [
        "Qwen3-Coder-480B-A35B-Instruct-FP8",
        "gemma-3-27b-it-quantized.w4a16",
        "Llama-3_3-Nemotron-Super-49B-v1_5-NVFP4",
        "Mistral-Small-3.2-24B-Instruct-2506-AWQ-INT4",
        "25.09-trtllm-python-py3",
        "gpt-oss-120b-GGUF",
        "Meta-Llama-3-70B-Instruct-Q4_K_M",
        "bge-reranker-v2-m3-GGUF",
    ],
)
def test_a_text_is_not_turned_for_the_name_of_a_model(name: str) -> None:
    assert [view.name for view in views(f"how fast is {name} on one GPU") if view.name in TURNED] == []


@pytest.mark.parametrize("size", range(1, 7))
@pytest.mark.parametrize("frame", ["Abc1-{}", "region-{}", "production-region-frankfurt-{}", "{}-instruct-coder"])
def test_a_token_in_parts_is_turned_whatever_words_stand_beside_it(frame: str, size: int) -> None:
    draw = random.Random(size)
    for letters in (string.ascii_letters, string.ascii_uppercase + "234567", string.ascii_lowercase + "0123456789"):
        for _ in range(60):
            cut = frame.format(every("".join(draw.choices(letters, k=36)) + "X7", size, draw.choice("-_")))
            assert [view.name for view in views(f"why {cut} fails") if view.name == "reversed"], cut


@pytest.mark.parametrize("frame", ["{}", "region-{}", "production_region_frankfurt_{}", "{}-region-frankfurt"])
@pytest.mark.parametrize("size", [3, 4, 5, 20])
def test_a_key_in_groups_is_found_backwards_beside_words(frame: str, size: int) -> None:
    key = "AKIA" + "".join(random.Random(size).choices(string.ascii_uppercase + "234567", k=16))
    for turned in (key[::-1], codecs.encode(key, "rot13")):
        text = f"why {frame.format(every(turned, size, '-'))} fails"
        assert POLICY.judge(text).rules == ("aws-access-key-id",), text


def test_the_quick_look_for_odd_groups_never_hides_any() -> None:
    draw = random.Random(5)
    for size in range(1, 12):
        view = View(
            "raw", " ".join("".join(draw.choices(string.ascii_letters + string.digits, k=size)) for _ in range(40))
        )
        assert _is_mixed(view) or not _odd_runs(view), view.text


@pytest.mark.parametrize("sign", "-./:_*~|+=@#,;•→")
def test_a_sign_that_stands_between_four_parts_is_seen_once_and_doubled(sign: str) -> None:
    draw = random.Random(sign)
    for _ in range(40):
        parts = ["".join(draw.choices(string.ascii_letters + string.digits, k=draw.randint(1, 5))) for _ in range(5)]
        for between in (sign, 2 * sign, f" {sign} "):
            text = f"aB1 {between.join(parts)} cD2"
            assert {between.strip(), sign} <= {*_between_parts(View("raw", text))}, text


@pytest.mark.parametrize("prefix", _PREFIXES)
def test_the_quick_look_for_the_beginning_of_a_token_never_hides_one(prefix: str) -> None:
    possible, edits = JOINS["after a prefix"]
    assert possible(View("raw", f"use {prefix}Ab1 Cd2")) and list(edits(f"use {prefix}Ab1 Cd2"))
    assert not possible(View("raw", f"use {prefix[:-1]} then"))


@pytest.mark.parametrize(
    "text",
    [
        "phone plus four nine one seven one five five five zero eight one four three who",
        "meine Nummer ist null eins sieben eins, fünf fünf fünf, null acht eins vier drei",
        "phone +४९ १७१ ५५५०८१४३ who",
        "phone ٠١٧١ ٥٥٥٠٨١٤٣ who",
    ],
)
def test_a_number_in_words_or_in_digits_of_another_script_is_withheld(text: str) -> None:
    decision = POLICY.judge(text)
    assert decision.verdict == "redact"
    assert "[phone]" in decision.released
    assert not {"five", "fünf", "५", "٥"} & {*decision.released.split(), *decision.released}


def test_counting_in_words_is_no_number() -> None:
    for text in ("one two three four five six seven lyrics", "un deux trois quatre cinq six", "five two one zero one"):
        assert POLICY.judge(text).verdict == "allow"


def test_groups_of_nothing_but_digits_do_not_end_a_token_in_groups() -> None:
    key = "sk-or-v1-bad81e4c2a785401513145825240c6e750f3cd02f4a1454f83f2f5035c175c95a1"
    assert POLICY.judge(f"look up {' '.join(re.findall('.{1,4}', key))} for me").verdict == "block"


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("sign", ["=", "@", " |", "| ", " ・", "\t->", "..", " ;"])
def test_whatever_sign_stands_between_the_parts_of_a_token_they_are_put_together(sign: str, size: int) -> None:
    token = fill("hf_{mixed:34}")
    assert POLICY.judge(f"why does {sign.join(re.findall(f'.{{1,{size}}}', token))} fail").verdict == "block"


def test_tables_of_ids_and_numbers_are_ordinary_and_make_few_forms() -> None:
    draw = random.Random(6)
    for columns in ("1234 12345 1234", "123456 123456 123456", "sm121 1234 12345"):
        ids = ("".join(draw.choices(string.ascii_letters + string.digits, k=6)) for _ in range(250))
        text = "\n".join(f"{one} {columns}" for one in ids)
        assert len([view for view in views(text) if view.name == "groups"]) <= 1


def test_digits_that_are_newer_than_python_make_nothing_fail() -> None:
    assert POLICY.judge("phone " + "\U00010d40" * 3).reason == ""


@pytest.mark.parametrize("joint", [", ", ". ", " ", "-"])
def test_a_number_in_words_is_withheld_whatever_stands_between_them(joint: str) -> None:
    words = "plus four nine one seven one five five five zero eight one four three".replace(" ", joint)
    assert POLICY.judge(f"phone {words} who").verdict == "redact"


def test_bytes_of_which_some_are_marked_are_read_as_bytes() -> None:
    data = TOKENS["gitlab"].encode()
    text = " ".join(f"0x{byte:02x}" if place % 2 else f"{byte:02x}" for place, byte in enumerate(data))
    assert POLICY.judge(f"decode {text}").verdict == "block"


@pytest.mark.parametrize("name", ["apart by signs", "escaped beside words", "joined lines"])
def test_what_is_put_together_is_seen_also_far_from_an_encoding_in_a_long_text(name: str) -> None:
    filler = "the scheduler keeps a batch of requests and gives each of them a slot in turn. " * 30
    token = TOKENS["tavily"]
    hidden = {
        "apart by signs": "-".join(token[at : at + 4] for at in range(0, len(token), 4)),
        "escaped beside words": "".join(f"%{ord(one):02x}" for one in token),
        "joined lines": f"{token[:20]}\n{token[20:]}",
    }[name]
    for text in (f"{filler} see%20this {filler} {hidden} {filler}", f"{hidden} {filler} see%20this {filler}"):
        assert POLICY.judge(text).verdict == "block"


@pytest.mark.parametrize("secret", ["DE89370400440532013000", "4539148803436467", "jane.doe7@corp-mail.org"])
def test_what_was_taken_apart_in_two_ways_is_withheld_at_both_places(secret: str) -> None:
    filler = (
        "and the scheduler keeps a batch of requests for each of them and gives every one of them a slot in turn " * 2
    )
    parts = [secret[at : at + 3] for at in range(0, len(secret), 3)]
    for one, other in itertools.permutations("-~|*", 2):
        text = f"{filler}{one.join(parts)} {filler}{other.join(parts)} {filler}"
        decision = POLICY.judge(text)
        assert decision.verdict == "redact", (one, other)
        assert sorted(map(text.index, (one.join(parts), other.join(parts)))) == [hit.start for hit in decision.findings]


def test_the_place_of_every_character_of_every_form_is_that_of_its_span() -> None:
    for word in TOKENS.values():
        for dress in DISGUISES.values():
            for view in views(f"why, does{dress(word)} fail? x@y.example"):
                if "reversed" not in chain(view):
                    for at, place in enumerate(view.places):
                        assert view.span(at, at + 1)[0] == place, (view.name, view.text, at)


@pytest.mark.parametrize(
    ("hidden", "rule"),
    [
        (
            base64.b64encode(("key " + "|".join(re.findall(".{1,5}", TOKENS["github"])) + " ok").encode()).decode(),
            "github-token",
        ),
        ("DE89%7C3704%7C0044%7C0532%7C0130%7C00", "iban"),
        ("moc%2Eelpmaxe-emca%40eod%2Enaj", "email-address"),
    ],
    ids=lambda value: value[:12],
)
def test_what_one_encoding_hides_is_put_together_and_turned_however_deep_another_far_away_is(
    hidden: str, rule: str
) -> None:
    filler = "the quick brown fox jumps over a lazy dog and then it sleeps near the river while birds sing " * 15
    for scrap in ("", " &amp;lt;b&amp;gt; ", " %2526lt%253b "):
        assert rule in POLICY.judge(f"{filler}{hidden} {filler}{scrap}{filler}").rules, scrap
