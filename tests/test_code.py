"""Pasted source code is taken out whole, and text about code stays as it is."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from sparkgate.policy.code import signs as sign_table
from sparkgate.policy.code.detector import CodeDetector, dense, joined, line_score
from sparkgate.policy.code.diffs import LINES, diffs
from sparkgate.policy.code.signs import Signs, signs
from sparkgate.policy.code.statements import TRIES, statements
from sparkgate.policy.finding import Overrun
from sparkgate.policy.forms.view import View

PATIENCE_S = 30.0
DETECTOR = CodeDetector()
TABLE: Signs = signs()
ROWS: Mapping[str, Any] = tomllib.loads(sign_table.FILE.read_text())
CASES: Mapping[str, Any] = tomllib.loads((Path(__file__).parent / "code_cases.toml").read_text())
LEAKS = CASES["leak"]
CLEAN = [(kind, text) for kind, texts in CASES["clean"].items() for text in texts]
SIGNS = {sign.id: sign for signs_of_word in TABLE.by_word.values() for sign in signs_of_word}


def redacted(text: str) -> str:
    """The text as it would leave."""
    found = DETECTOR.find(View("raw", text), monotonic() + PATIENCE_S)
    assert all(0 <= hit.start < hit.end <= len(text) for hit in found)
    for start, end in reversed(joined((hit.start, hit.end) for hit in found)):
        text = f"{text[:start]}[code]{text[end:]}"
    return text


@pytest.mark.parametrize("leak", LEAKS, ids=[leak["kind"] for leak in LEAKS])
def test_of_pasted_code_no_identifying_word_is_left_and_the_question_stays(leak: Mapping[str, Any]) -> None:
    released = redacted(leak["text"])
    assert [word for word in leak["goes"] if word in released] == []
    assert [word for word in leak.get("stays", []) if word not in released] == []


@pytest.mark.parametrize(("kind", "text"), CLEAN, ids=[f"{kind}-{number}" for number, (kind, _) in enumerate(CLEAN)])
def test_public_text_and_single_lines_about_code_stay_as_they_are(kind: str, text: str) -> None:
    assert redacted(text) == text, kind


def test_there_are_enough_cases_of_both_sides() -> None:
    assert len(LEAKS) >= 40 and len(CLEAN) >= 60


def test_every_finding_is_of_class_code_and_is_replaced_by_the_same_word() -> None:
    for leak in LEAKS:
        for hit in DETECTOR.find(View("raw", leak["text"]), monotonic() + PATIENCE_S):
            assert (hit.rule.cls, hit.rule.verdict, hit.rule.replacement) == ("code", "redact", "[code]")
            assert hit.rule.why.endswith(".")


def test_what_was_redacted_holds_no_code_any_more() -> None:
    for leak in LEAKS:
        released = redacted(leak["text"])
        assert redacted(released) == released, leak["kind"]


# -- the signs as data


@pytest.mark.parametrize("row", ROWS["sign"], ids=lambda row: row["id"])
def test_every_sign_of_a_line_fits_its_own_lines_and_no_plain_one(row: Mapping[str, Any]) -> None:
    sign = SIGNS[row["id"]]
    assert row["why"].endswith(".") and row["code"] and row["plain"] and row["language"]
    for line in row["code"]:
        found = TABLE.of_line(line)
        assert sign.needs in line and sign.pattern.match(line), line
        assert found is not None and found[0].weight >= min(row["weight"], 1), line
    for line in row["plain"]:
        found = TABLE.of_line(line)
        assert found is None or found[0].id != row["id"] or line_score(line, TABLE) is None, line


@pytest.mark.parametrize("row", ROWS["part"], ids=lambda row: row["literal"].strip())
def test_every_part_raises_the_score_of_the_lines_it_names(row: Mapping[str, Any]) -> None:
    for line in row["code"]:
        assert row["literal"] in line
        scored = line_score(line, TABLE)
        assert scored is not None and scored[1] >= row["weight"], line


@pytest.mark.parametrize("row", [*ROWS["inline"], *ROWS["mark"]], ids=lambda row: row["id"])
def test_every_inline_sign_and_mark_fits_its_own_texts_and_no_plain_one(row: Mapping[str, Any]) -> None:
    pattern = next(sign.pattern for sign in (*TABLE.inline, *TABLE.marks) if sign.id == row["id"])
    assert all(pattern.search(text) for text in row["code"])
    assert not any(pattern.search(text) for text in row["plain"])


def test_no_sign_has_the_id_of_another() -> None:
    ids = [row["id"] for table in ("sign", "inline", "mark") for row in ROWS[table]]
    assert len(ids) == len(set(ids))


def test_a_textbook_definition_counts_against_and_an_own_one_counts_three() -> None:
    assert line_score("def fib(n):", TABLE) == ("python-def", -2, False)
    assert line_score("def settle(batch):", TABLE) == ("python-def", 3, True)
    assert line_score("nothing to see here", TABLE) is None


# -- statements and changes


def test_a_statement_reaches_from_its_first_word_to_its_semicolon_over_any_lines() -> None:
    sql = "UPDATE pier_invoice p\nSET toll_net = 0,\n    -- why; so\n    cut = 'a;b'\nWHERE haircut_factor > 2;"
    text = f"slow\n  {sql} and then"
    assert [text[start:end] for start, end in statements(text, TABLE)] == [sql]


def test_a_statement_without_a_semicolon_ends_at_the_blank_line_or_before_the_first_line_that_is_no_sql() -> None:
    sql = "select pier_ref, toll_net\nfrom pier_invoice\nwhere haircut_factor > 2"
    for rest in ("\n\nwhich index", "\nis it slow", "\n```\nslow"):
        assert [(sql + rest)[start:end] for start, end in statements(sql + rest, TABLE)] == [sql]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT relname FROM pg_stat_user_tables\nWHERE seq_scan > idx_scan;",
        "select order_id, customer_id from orders\nwhere created_at > now();",
        "SELECT pier_ref, toll_net FROM pier_invoice",
    ],
)
def test_system_tables_textbook_names_and_a_line_without_a_semicolon_are_no_own_statement(text: str) -> None:
    assert list(statements(text, TABLE)) == []


def test_a_text_that_is_all_first_words_is_given_up_after_some_tries() -> None:
    own = "UPDATE pier_invoice\nSET toll_net = 0\nWHERE haircut_factor > 2;"
    assert list(statements("select;\n" * (TRIES - 1) + own, TABLE)) != []
    assert list(statements("select;\n" * TRIES + own, TABLE)) == []


def test_a_change_counts_from_three_lines_of_code_on() -> None:
    head = "--- a/pier.py\n+++ b/pier.py\n@@ -1,2 +1,2 @@\n"
    rows = ["-cut = 0.2", "+cut = 0.3", " return cut"]
    for count in range(1, LINES + 1):
        text = head + "\n".join(rows[:count])
        assert bool(diffs(text, lambda row: "cut" in row, lambda row: False)) == (count == LINES)


def test_changed_lines_without_a_head_need_some_that_go_and_some_that_come() -> None:
    def is_code(row: str) -> bool:
        return "=" in row

    assert diffs("what\n- a = 1\n+ a = 2\n+ b = 3\nok", is_code, is_code) == [(5, 28)]
    assert diffs("- a = 1\n- a = 2\n- b = 3", is_code, is_code) == []
    assert diffs("- a = 1\n+ a = 2\n+ b is 3", is_code, is_code) == []


# -- limits


def test_one_line_is_dense_only_where_signs_stand_close() -> None:
    code = "fn load(&mut self) { let x = self.tilt * 2; self.map.insert(x, x); return x; }"
    assert dense(code, TABLE) == [(0, len(code))]
    assert dense(f"{code} and then a word or two of English", TABLE) == [(0, len(code))]
    assert dense("we " * 30 + "use let x = 1; and { x } ", TABLE) == []


def test_spans_that_touch_or_overlap_are_joined() -> None:
    assert joined([(5, 9), (0, 4), (8, 12), (20, 21)]) == [(0, 12), (20, 21)]


def test_a_passed_deadline_is_an_overrun() -> None:
    with pytest.raises(Overrun):
        DETECTOR.find(View("raw", "def settle(batch):\n    return batch.x * 2\n"), monotonic() - 1)


def test_no_text_makes_it_raise_and_every_span_lies_inside() -> None:
    source = random.Random(7)
    parts = [
        *"(){}[];:=@#$\\/\"'\n\r\t|<>-+*",
        "def f(x):", "class A", "\\n", "@@ -1 +1 @@", 'File "', "  at a.b(c.java:1)", "SELECT ", "return x", "\ud800",
        "é", "CONFIDENTIAL", "a: b", "[x]", "\u2028",
    ]  # fmt: skip
    for _ in range(400):
        text = "".join(source.choices(parts, k=source.randrange(1, 60)))
        found = DETECTOR.find(View("raw", text), monotonic() + PATIENCE_S)
        assert all(0 <= hit.start < hit.end <= len(text) for hit in found), text
        assert found == DETECTOR.find(View("raw", text), monotonic() + PATIENCE_S)
