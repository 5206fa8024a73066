"""The quality set: right answers pass, near misses are wrong, and a truncated answer is neither."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from sparkgate.measure.quality import (
    GRADERS,
    Answer,
    Call,
    Item,
    Outcome,
    all_pass,
    by_family,
    grade,
    items,
    messages,
    score,
    tools,
    wilson,
)

FAMILIES = ("tool_choice", "tool_restraint", "tool_arguments", "json", "instruction", "arithmetic", "code", "needle")
WRITTEN = {
    "instruction-1": "- going to work\n- visiting friends\n\n- carrying a heavy bag of bread home",
    "instruction-2": "THE SEA IS WIDE.",
    "instruction-3": "These are exactly five words.",
    "instruction-4": "Bread is warm.\nIt smells good.",
    "instruction-5": "east\nnorth\nsouth\nwest\nDONE",
    "code-4": "```python\ndef clamp(value, low, high):\n    return max(low, min(value, high))\n```",
    "code-5": "def primes_below(limit):\n    return [n for n in range(2, limit) if all(n % d for d in range(2, n))]",
    "json-3": '{"items": ["bread", "milk"], "total": 4.2}',
}


def item(id_: str) -> Item:
    return next(one for one in items() if one.id == id_)


def calls(*wanted: tuple[str, dict[str, Any]]) -> tuple[Call, ...]:
    return tuple(Call(name, json.dumps(arguments)) for name, arguments in wanted)


def right(one: Item) -> Answer:
    """An answer that must pass."""
    if one.id in WRITTEN:
        return Answer(WRITTEN[one.id])
    if one.grader == "calls":
        wanted = [(call["name"], spelled(call["arguments"])) for call in one.expect]
        return Answer(calls=calls(*wanted), finish="tool_calls")
    if one.grader == "json":
        return Answer(f"```json\n{json.dumps(one.expect['values'])}\n```")
    return Answer(f"It is\n{one.expect}")


def spelled(arguments: dict[str, Any]) -> dict[str, Any]:
    """The first of several spellings of one text."""
    return {name: value["any"][0] if isinstance(value, dict) else value for name, value in arguments.items()}


def test_there_are_forty_items_of_eight_families() -> None:
    assert Counter(one.family for one in items()) == dict.fromkeys(FAMILIES, 5)
    assert len({one.id for one in items()}) == 40 and {one.grader for one in items()} == set(GRADERS)


@pytest.mark.parametrize("one", items(), ids=lambda one: one.id)
def test_the_right_answer_passes(one: Item) -> None:
    assert grade(one, right(one)) == "pass"


@pytest.mark.parametrize("one", items(), ids=lambda one: one.id)
@pytest.mark.parametrize("nothing", ["", "I cannot do that."])
def test_no_answer_is_wrong(one: Item, nothing: str) -> None:
    expected = "pass" if one.id == "instruction-3" and len(nothing.split()) == 5 else "wrong"
    assert grade(one, Answer(nothing)) == expected


@pytest.mark.parametrize("one", items(), ids=lambda one: one.id)
def test_a_truncated_answer_is_not_wrong(one: Item) -> None:
    assert grade(one, Answer("12", finish="length")) == "truncated"
    assert grade(one, Answer("<think>Let me see, 12")) == "truncated"
    assert grade(one, Answer(error="connection lost")) == "error"


def test_thinking_in_the_text_is_left_out() -> None:
    assert grade(item("arithmetic-1"), Answer("<think>maybe 12</think>\n3,196")) == "pass"
    assert grade(item("arithmetic-1"), Answer("maybe 3196</think>12")) == "wrong"


WEATHER = {"city": "Lisbon"}
EVENT = {"title": "Dentist", "date": "2027-03-03", "minutes": 45}
REVIEW = {"title": "Review", "date": "2027-11-30", "minutes": 90}


@pytest.mark.parametrize(
    ("id_", "made", "outcome"),
    [
        ("tool_choice-1", calls(("get_weather", {"city": " lisbon "})), "pass"),
        ("tool_choice-1", calls(("get_weather", {**WEATHER, "unit": "celsius"})), "pass"),
        ("tool_choice-1", calls(("get_weather", {**WEATHER, "unit": "fahrenheit"})), "wrong"),
        ("tool_choice-1", calls(("get_weather", {**WEATHER, "day": "today"})), "wrong"),
        ("tool_choice-1", calls(("send_message", {"to": "Lisbon", "text": "?"})), "wrong"),
        ("tool_choice-1", calls(("get_weather", WEATHER), ("get_weather", WEATHER)), "wrong"),
        ("tool_choice-1", (Call("get_weather", '{"city": "Lisbon"'),), "wrong"),
        ("tool_choice-1", (Call("get_weather", '"Lisbon"'),), "wrong"),
        ("tool_choice-2", calls(("convert_currency", {"amount": 250.0, "source": "usd", "target": "EUR"})), "pass"),
        ("tool_choice-2", calls(("convert_currency", {"amount": "250", "source": "USD", "target": "EUR"})), "wrong"),
        ("tool_choice-2", calls(("convert_currency", {"amount": 250, "source": "EUR", "target": "USD"})), "wrong"),
        ("tool_choice-5", calls(("send_message", {"to": "Marta", "text": "The train is late."})), "pass"),
        ("tool_arguments-1", calls(("create_event", {**EVENT, "guests": []})), "pass"),
        ("tool_arguments-1", calls(("create_event", {**EVENT, "minutes": True})), "wrong"),
        ("tool_arguments-1", calls(("create_event", {**EVENT, "date": "03/03/2027"})), "wrong"),
        ("tool_arguments-2", calls(("list_files", {"folder": "/srv/data", "recursive": "true"})), "wrong"),
        ("tool_arguments-2", calls(("list_files", {"folder": "/srv/data"})), "wrong"),
        ("tool_arguments-3", calls(("get_weather", {"city": "Zurich", "unit": "fahrenheit"})), "pass"),
        ("tool_arguments-4", calls(("create_event", {**REVIEW, "guests": ["Bob", "ana"]})), "pass"),
        ("tool_arguments-4", calls(("create_event", {**REVIEW, "guests": "Ana, Bob"})), "wrong"),
        ("tool_arguments-4", calls(("create_event", {**REVIEW, "guests": "Ana"})), "wrong"),
        ("tool_arguments-5", calls(("get_weather", {"city": "Rome"}), ("get_weather", {"city": "Oslo"})), "pass"),
        ("tool_arguments-5", calls(("get_weather", {"city": "Rome"})), "wrong"),
        ("tool_restraint-1", calls(("get_weather", {"city": "Oslo"})), "wrong"),
    ],
)
def test_calls_are_compared_by_kind_and_value(id_: str, made: tuple[Call, ...], outcome: str) -> None:
    assert grade(item(id_), Answer("Oslo", made, "tool_calls")) == outcome


@pytest.mark.parametrize(
    ("id_", "text", "outcome"),
    [
        ("tool_restraint-2", "It is 71.", "pass"),
        ("tool_restraint-2", "It is 171.", "wrong"),
        ("json-1", '{"name": "Ilse", "age": "34"}', "wrong"),
        ("json-1", '{"name": "Ilse", "age": 34, "more": 1}', "wrong"),
        ("json-1", 'Here it is: {"name": "Ilse", "age": 34}', "wrong"),
        ("json-1", '{"name": "Ilse"}', "wrong"),
        ("json-1", "[" * 100_000, "wrong"),
        ("json-2", '{"city": "Bergen", "rainy": 1}', "wrong"),
        ("json-3", '{"items": "bread", "total": 4.2}', "wrong"),
        ("json-4", '{"id": 7, "parent": 0}', "wrong"),
        ("json-5", '{"quote": "He said no."}', "wrong"),
        ("instruction-1", "- a\n- b", "wrong"),
        ("instruction-1", "* a\n* b\n* c", "wrong"),
        ("instruction-1", f"- a\n- b\n- {'word ' * 11}", "wrong"),
        ("instruction-2", "The SEA IS WIDE.", "wrong"),
        ("instruction-2", "12345", "wrong"),
        ("instruction-3", "Only four words here", "wrong"),
        ("instruction-4", "Bread, warm.\nIt smells good.", "wrong"),
        ("instruction-5", "east\nnorth\nsouth\nwest", "wrong"),
        ("arithmetic-1", "3196 is 47 times 68", "wrong"),
        ("arithmetic-1", "**3196**", "pass"),
        ("arithmetic-2", "0.10", "wrong"),
        ("arithmetic-2", "The cap costs $0.05", "pass"),
        ("code-1", "It prints\n27.", "pass"),
        ("code-4", "def clamp(value, high, low):\n    return value", "wrong"),
        ("code-4", "def clamp(value, low, high):\n    pass", "wrong"),
        ("code-4", "import numpy\n\ndef clamp(value, low, high):\n    return value", "wrong"),
        ("code-4", "def clamp(value, low, high: return value", "wrong"),
        ("code-4", "(" * 100_000, "wrong"),
        ("code-4", "\0", "wrong"),
        ("needle-1", "48213", "pass"),
        ("needle-1", "48214", "wrong"),
    ],
)
def test_texts_are_compared_with_what_was_asked(id_: str, text: str, outcome: str) -> None:
    assert grade(item(id_), Answer(text)) == outcome


@pytest.mark.parametrize(
    ("id_", "program"), [(one.id, one.prompt.split("\n\n", 1)[1]) for one in items() if "program print" in one.prompt]
)
def test_what_a_program_prints_is_true(id_: str, program: str) -> None:
    source = program.rsplit(" End your answer", 1)[0]
    printed = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout
    assert float(printed) == item(id_).expect


def test_sums_are_true() -> None:
    expected = [47 * 68, 0.05, 240 * 0.85 - 36, 5, 1000 % 37]
    assert [item(f"arithmetic-{number}").expect for number in range(1, 6)] == pytest.approx(expected)


def test_tools_are_flat_and_every_item_that_calls_has_them() -> None:
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools()}
    assert all(not {"anyOf", "$ref", "pattern"} & set(json.dumps(schema).split('"')) for schema in schemas.values())
    for one in items():
        assert one.tools is one.family.startswith("tool_")
        for call in one.expect if one.grader == "calls" else ():
            assert set(call["arguments"]) <= set(schemas[call["name"]]["properties"])
            assert set(schemas[call["name"]]["required"]) <= set(call["arguments"])


@pytest.mark.parametrize("one", [one for one in items() if one.needle], ids=lambda one: one.id)
def test_a_needle_lies_where_it_should_and_only_there(one: Item) -> None:
    [message] = messages(one, needle_words=1000)
    before, after = message["content"].split(one.needle)
    assert abs(len(before.split()) - 1000 * one.at) <= 1 and after.endswith(one.prompt)
    assert str(one.expect) not in before + after


def test_a_plain_item_is_sent_as_it_stands() -> None:
    assert messages(item("arithmetic-1")) == [{"role": "user", "content": item("arithmetic-1").prompt}]


def test_three_trials_must_all_pass() -> None:
    passes: list[Outcome] = ["pass", "pass", "pass"]
    found = score({"a": passes, "b": ["pass", "pass", "wrong"]})
    assert (found.judged, found.passed, found.items, found.unmeasured) == (6, 5, 2, 0)
    assert found.pass_1 == pytest.approx(5 / 6) and found.pass_3 == 0.5


def test_truncated_trials_and_errors_are_counted_apart() -> None:
    found = score({"a": ["pass", "truncated", "error"], "b": ["truncated"] * 3})
    assert (found.judged, found.truncated, found.errors, found.unmeasured) == (1, 4, 1, 2)
    assert found.pass_1 == 1.0 and found.pass_3 is None


def test_without_trials_nothing_is_told() -> None:
    found = score({})
    assert (found.pass_1, found.low, found.high, found.pass_3) == (None, None, None, None)
    assert by_family({}) == {}


def test_scores_are_told_by_family() -> None:
    found = by_family({"json-1": ["pass"] * 3, "json-2": ["wrong"] * 3, "needle-1": ["pass"] * 3})
    assert list(found) == ["json", "needle"]
    assert (found["json"].pass_3, found["needle"].pass_3) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("passed", "judged", "expected"), [(3, 3, 1.0), (2, 3, 0.0), (4, 5, 0.4), (5, 5, 1.0), (2, 2, None), (0, 0, None)]
)
def test_the_chance_that_three_trials_all_pass(passed: int, judged: int, expected: float | None) -> None:
    assert all_pass(passed, judged) == expected


@pytest.mark.parametrize(
    ("passed", "judged", "low", "high"), [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0)]
)
def test_the_interval_of_a_share_is_wilsons(passed: int, judged: int, low: float, high: float) -> None:
    assert wilson(passed, judged) == pytest.approx((low, high), abs=1e-4)
    assert wilson(0, 0) is None
