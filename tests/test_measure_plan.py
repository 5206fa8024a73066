"""Plans: which cells a kind measures, in which order, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from sparkgate.measure.budget import Rates, burst_s
from sparkgate.measure.plan import (
    KINDS,
    Cell,
    Options,
    Plan,
    PlanError,
    capped,
    digest,
    estimate_s,
    for_upper_bound,
    from_json,
    plan,
    protocol_hash,
    within_budget,
)

SEED = 0xFEEDFACE
FAST = Rates(5000.0, 100.0)


def test_the_kinds_are_these() -> None:
    names = ["quick", "decode", "sweep", "prefill", "prefix", "thinking", "content", "depth", "quality", "soak"]
    assert list(KINDS) == names


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_makes_a_plan_by_default_and_it_survives_json(kind: str) -> None:
    made = plan(kind, SEED)
    assert made.cells and all(cell.kind == kind for cell in made.cells) and 1 <= made.repeats <= 10
    again = from_json(json.loads(json.dumps(made.as_json())))
    assert again == made and again.hash == made.hash


VARIED = {
    "quick": ("concurrency", [1, 4]),
    "decode": ("concurrency", [1]),
    "sweep": ("concurrency", [1, 2, 4, 8, 16]),
    "prefill": ("prompt_tokens", [512, 2048, 8192, 16384, 32768]),
    "prefix": ("cache_mode", ["cold", "cold", "warm", "warm"]),
    "thinking": ("thinking", [False, True]),
    "content": ("family", ["prose", "code", "json", "repeat"]),
    "depth": ("depth_tokens", [0, 4096, 16384, 32768]),
    "quality": ("enforced", [False]),
    "soak": ("concurrency", [4]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_varies_one_thing(kind: str) -> None:
    name, values = VARIED[kind]
    assert [cell.key[name] for cell in plan(kind, SEED).cells] == values


def test_options_replace_the_defaults_of_a_kind() -> None:
    asked = Options((1, 16), (1024, 2048), 100, 2, 900, family="code")
    made = plan("sweep", SEED, asked)
    assert [(cell.prompt_tokens, cell.concurrency) for cell in made.cells] == [
        (1024, 1),
        (1024, 16),
        (2048, 1),
        (2048, 16),
    ]
    assert {(cell.output_tokens, cell.family) for cell in made.cells} == {(100, "code")}
    assert (made.repeats, made.max_seconds) == (2, 900)
    assert {cell.thinking for cell in plan("decode", SEED, Options(thinking=True)).cells} == {True}


def test_a_concurrency_named_twice_is_measured_once() -> None:
    assert len(plan("sweep", SEED, Options((4, 4, 1))).cells) == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (Options(repeats=11), "repeats must lie between 1 and 10"),
        (Options(repeats=0), "repeats"),
        (Options((1, 0)), "concurrency"),
        (Options((257,)), "257"),
        (Options(output_tokens=0), "output_tokens"),
        (Options(prompt_tokens=(8,)), "prompt_tokens"),
        (Options(max_seconds=1), "max_seconds"),
        (Options(()), "no values"),
    ],
)
def test_an_option_out_of_its_limits_is_named(options: Options, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        plan("decode", SEED, options)


def test_a_kind_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(PlanError, match="quick, decode"):
        plan("speed", SEED)


def test_every_repeat_measures_every_cell_once_in_an_order_of_its_own() -> None:
    made = plan("sweep", SEED, Options(repeats=10))
    assert Counter(step.cell for step in made.steps) == dict.fromkeys(range(5), 10)
    orders = [tuple(step.cell for step in made.steps if step.repeat == repeat) for repeat in range(10)]
    assert all(sorted(order) == list(range(5)) for order in orders) and len(set(orders)) > 5
    assert [step.repeat for step in made.steps] == sorted(step.repeat for step in made.steps)


def test_the_order_follows_from_the_seed() -> None:
    assert plan("sweep", SEED).steps == plan("sweep", SEED).steps
    assert plan("sweep", SEED).steps != plan("sweep", SEED + 1).steps
    assert plan("sweep", SEED).hash != plan("sweep", SEED + 1).hash


def test_the_key_of_a_cell_has_these_names() -> None:
    assert Cell("decode").key == {
        "kind": "decode",
        "family": "prose",
        "prompt_tokens": 512,
        "output_tokens": 256,
        "concurrency": 1,
        "thinking": False,
        "cache_mode": "cold",
        "depth_tokens": 0,
        "enforced": True,
    }


def test_hashes_stay_what_they_are_until_the_protocol_changes() -> None:
    assert protocol_hash()[:19] == "sha256:46187f3f34e5"
    assert Cell("decode").hash == Cell("decode").hash != Cell("decode", family="code").hash
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1}) != digest({"a": 2})


def test_a_plan_of_another_protocol_is_refused() -> None:
    told = plan("decode", SEED).as_json()
    for changed in ({"protocol_hash": "sha256:0"}, {"schema": "bench-plan/0"}):
        with pytest.raises(PlanError, match="another version"):
            from_json(told | changed)


def test_a_cell_over_the_context_is_left_out_with_the_reason() -> None:
    made = plan("prefill", SEED, context=16_384)
    assert [cell.prompt_tokens for cell in made.cells] == [512, 2048, 8192]
    assert [why for _, why in made.left_out] == [
        "it needs 16400 tokens of context, and one stream has 16384",
        "it needs 32784 tokens of context, and one stream has 16384",
    ]
    assert from_json(made.as_json()) == made


def test_a_plan_of_which_nothing_fits_is_refused() -> None:
    with pytest.raises(PlanError, match="one stream has 512; ask for shorter prompts"):
        plan("decode", SEED, context=512)


def test_depth_counts_as_context_and_as_prompt() -> None:
    cell = plan("depth", SEED).cells[1]
    assert (cell.whole_prompt_tokens, cell.context_tokens) == (4608, 4736)


def test_what_a_run_costs_is_told_in_requests_and_tokens() -> None:
    made = plan("sweep", SEED, Options((1, 8), output_tokens=100, repeats=3))
    assert (made.requests, made.output_tokens) == (27, 2700)


def test_a_burst_takes_its_prefill_and_its_decode() -> None:
    assert burst_s(Cell("decode", prompt_tokens=5000, output_tokens=400), FAST) == pytest.approx(1.0 + 4.0 + 0.5)
    assert burst_s(Cell("prefix", prompt_tokens=5000, output_tokens=400, cache_mode="warm"), FAST) == pytest.approx(4.6)
    assert burst_s(Cell("sweep", prompt_tokens=500, output_tokens=100, concurrency=16), FAST) == pytest.approx(
        1.6 + 16**0.44 + 0.5
    )


def test_the_estimate_counts_warm_up_and_repeats() -> None:
    made = plan("decode", SEED, Options(prompt_tokens=(5000,), repeats=3))
    assert estimate_s(made, FAST) == pytest.approx(5.0 + 5 * 5.5)
    assert estimate_s(plan("soak", SEED), FAST) == pytest.approx(
        605.0 + 3 * (burst_s(plan("soak", SEED).cells[0], FAST) or 0)
    )


@pytest.mark.parametrize("rates", [Rates(None, 100.0), Rates(5000.0, None), Rates(0.0, 10.0)])
def test_without_a_rate_there_is_no_estimate_and_no_refusal(rates: Rates) -> None:
    made = plan("sweep", SEED)
    assert estimate_s(made, rates) is None and within_budget(made, rates) is made


def test_a_run_over_its_time_is_refused_with_the_repeats_that_fit() -> None:
    made = plan("decode", SEED, Options(repeats=10, max_seconds=40))
    with pytest.raises(PlanError, match=r"max_seconds is 40: raise it, or ask for repeats = 5"):
        within_budget(made, FAST)
    assert within_budget(replace(made, repeats=5), FAST)


def test_a_run_that_no_number_of_repeats_makes_fit_is_refused() -> None:
    with pytest.raises(PlanError, match="fewer or shorter cells"):
        within_budget(plan("decode", SEED, Options(max_seconds=10)), FAST)


QUICK = {
    "both cells fit": (100.0, [(1, 64), (4, 64)]),
    "a slow engine is measured with one stream": (13.0, [(1, 64)]),
    "a very slow one with shorter answers": (5.0, [(1, 32)]),
}


@pytest.mark.parametrize("case", QUICK)
def test_a_quick_run_keeps_three_bursts_and_leaves_out_what_a_minute_does_not_hold(case: str) -> None:
    decode_tok_s, cells = QUICK[case]
    rates = Rates(800.0, decode_tok_s)
    made = within_budget(plan("quick", SEED), rates)
    assert [(cell.concurrency, cell.output_tokens) for cell in made.cells] == cells
    assert made.repeats == 3 and (estimate_s(made, rates) or 0) <= 60
    assert len(made.left_out) == 2 - len(cells)


def test_a_quick_run_that_a_minute_does_not_hold_at_all_is_refused() -> None:
    with pytest.raises(PlanError, match="raise it, or ask for repeats = 1"):
        within_budget(plan("quick", SEED), Rates(800.0, 2.0))


FITS = {
    "repeats": (plan("decode", SEED, Options(repeats=3, max_seconds=25)), "ask for repeats = 2"),
    "streams": (plan("sweep", SEED, Options((1, 4, 16), max_seconds=60)), "concurrency = 1,4"),
    "one level": (plan("sweep", SEED, Options((16,), max_seconds=40)), "concurrency = 4"),
    "answers": (plan("decode", SEED, Options(max_seconds=30)), "output_tokens = 200"),
    "prompts": (plan("prefill", SEED, Options(repeats=1, max_seconds=25)), "prompt_tokens = 512,2048,8192"),
}


@pytest.mark.parametrize("case", FITS)
def test_a_run_over_its_time_is_told_what_would_fit(case: str) -> None:
    made, words = FITS[case]
    with pytest.raises(PlanError) as refused:
        within_budget(made, FAST)
    assert words in str(refused.value)
    if words.startswith("ask for repeats"):
        within_budget(replace(made, repeats=2), FAST)


def test_a_run_is_given_what_it_asks_for_up_to_the_operators_cap() -> None:
    assert capped("decode", Options(max_seconds=900), 900).max_seconds == 900
    assert capped("decode", Options(), 3600).max_seconds == KINDS["decode"].max_seconds
    assert capped("soak", Options(), 3600).max_seconds == 3600
    assert capped("nonsense", Options(repeats=2), 60) == Options(repeats=2, max_seconds=60)
    with pytest.raises(PlanError, match=r"max_seconds = 901 .* allows 900: .* under \[bench\] in config.toml"):
        capped("decode", Options(max_seconds=901), 900)


def test_how_long_tasks_take_is_not_told_by_the_length_of_their_answers() -> None:
    assert estimate_s(plan("quality", SEED), FAST) is None


def test_a_server_without_forced_lengths_gets_a_long_text_instead_of_prose() -> None:
    assert {cell.family for cell in for_upper_bound(plan("sweep", SEED)).cells} == {"long_form"}
    kept = [cell.family for cell in for_upper_bound(plan("content", SEED)).cells]
    assert kept == ["long_form", "code", "json", "repeat"]
    assert for_upper_bound(plan("quality", SEED)).cells[0].family == "prose"


def test_plans_are_equal_when_all_of_them_is() -> None:
    assert plan("decode", SEED) == Plan("decode", (Cell("decode", output_tokens=400),), 5, SEED, 1800)
