"""What stands beside a run: tasks of two quality runs, cells of one run, sides of several runs, published numbers."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from bench_box import a_bench_box
from sim_engine import Scenario, running
from stored_runs import SWEEP

from sparkgate.bench_answers import compare_answer, job_answer, reference_answer
from sparkgate.bench_beside import comparison, published, sides_of
from sparkgate.measure.compare import PAIRS, Cell, Refusal, Verdict, compare_sides
from sparkgate.measure.knee import CAP_SETTINGS
from sparkgate.measure.markdown import report
from sparkgate.measure.own_setting import DRAFTS, PROGRAMS, own_setting
from sparkgate.measure.plan import Options, Plan, plan
from sparkgate.measure.quality import Outcome, items
from sparkgate.measure.quality_compare import compare_quality, interval, sign_flip_p
from sparkgate.measure.quality_run import ABOUT_RATES, held_against, stats
from sparkgate.measure.record import full_json
from sparkgate.measure.rule import Rule
from sparkgate.measure.sample import Counts, Sample, TokenEvent, to_json
from sparkgate.measure.store import Ending, Store, StoredCell
from sparkgate.measure.validity import RULES, Flag, status

IDS = [one.id for one in items()]
PASSED = dict.fromkeys(IDS, "ppp")
LIMIT_BYTES = 1500


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "bench.db")
    yield made
    made.close()


def size_bytes(answer: Mapping[str, Any]) -> int:
    return len(json.dumps(answer, ensure_ascii=False, indent=2).encode())


def with_marks(marks: str, count: int, first: int = 0) -> dict[str, str]:
    """All passed but `count` tasks."""
    return PASSED | dict.fromkeys(IDS[first : first + count], marks)


# -- tasks of two runs


def test_p_is_that_of_every_choice_of_signs() -> None:
    for seed in range(20):
        draw = random.Random(seed)
        steps = [draw.choice((-1, -2 / 3, -1 / 3, 0, 1 / 3, 1)) for _ in range(7)]
        sums = [sum(sign * abs(step) for sign, step in zip(signs, steps, strict=True)) for signs in SIGNS]
        seen = sum(steps)
        tail = min(sum(one <= seen + 1e-9 for one in sums), sum(one >= seen - 1e-9 for one in sums))
        assert sign_flip_p(steps) == pytest.approx(min(1.0, 2 * tail / len(sums)))


SIGNS = list(product((-1, 1), repeat=7))


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (1, 0), (5, 0), (6, 0), (9, 2), (3, 3)])
def test_with_one_trial_a_task_p_is_mcnemars(won: int, lost: int) -> None:
    n, tail = won + lost, min(won, lost)
    exact = min(1.0, 2 * sum(math.comb(n, k) for k in range(tail + 1)) / 2**n)
    assert sign_flip_p([1.0] * won + [-1.0] * lost + [0.0] * 20) == pytest.approx(exact)


def test_the_interval_is_that_of_bonett_and_price() -> None:
    n, won, lost = 40, 2, 8
    share_won, share_lost = (won + 1) / (n + 2), (lost + 1) / (n + 2)
    centre = share_won - share_lost
    error = math.sqrt((share_won + share_lost - centre**2) / (n + 2))
    found = interval([1.0] * won + [-1.0] * lost + [0.0] * (n - won - lost))
    assert found == pytest.approx((centre - 1.959964 * error, centre + 1.959964 * error), abs=1e-6)


QUALITY = {
    "equal": (PASSED, PASSED, "same"),
    "one each": (with_marks("www", 1), with_marks("www", 1, first=9), "same"),
    "six lost": (PASSED, with_marks("www", 6), "worse"),
    "six won": (with_marks("www", 6), PASSED, "better"),
    "five lost": (PASSED, with_marks("www", 5), "inconclusive"),
    "half of many": (with_marks("pww", 20), with_marks("ppw", 20), "better"),
}


@pytest.mark.parametrize("case", QUALITY)
def test_tasks_are_compared_one_by_one(case: str) -> None:
    a, b, kind = QUALITY[case]
    found = compare_quality(a, b)
    assert found.kind == kind and found.ci_points and found.points is not None
    assert found.ci_points[0] <= found.points <= found.ci_points[1]
    back = compare_quality(b, a)
    assert back.kind == {"better": "worse", "worse": "better"}.get(kind, kind) and back.p == found.p
    assert (back.won, back.lost) == (found.lost, found.won) and back.points == pytest.approx(-found.points)


def test_trials_that_repeat_each_other_make_nothing_sure() -> None:
    """15 trials against 0 would be sure if they were independent: they are five tasks."""
    found = compare_quality(PASSED, with_marks("www", 5))
    assert (found.kind, found.won, found.lost, found.p) == ("inconclusive", 0, 5, 0.0625)
    assert found.needed_trials is None and found.needed_tasks and 40 < found.needed_tasks < 80
    assert f"about {found.needed_tasks} such tasks would, and there are 40" in found.why


def drawn(seed: int, shift: float, trials: int) -> tuple[dict[str, str], dict[str, str]]:
    """Two runs of tasks that are hard or easy for both."""
    draw = random.Random(seed)
    chances = {id_: draw.choice((0.0, 0.5, 0.8, 1.0, 1.0)) for id_ in IDS}

    def marks(chance: float) -> str:
        return "".join("p" if draw.random() < chance else "w" for _ in range(trials))

    return (
        {id_: marks(chance) for id_, chance in chances.items()},
        {id_: marks(max(0.0, chance - shift)) for id_, chance in chances.items()},
    )


def test_chance_is_called_a_change_of_quality_in_at_most_five_of_a_hundred() -> None:
    kinds = Counter(compare_quality(*drawn(seed, 0.0, 3)).kind for seed in range(100))
    assert kinds["better"] + kinds["worse"] <= 5


def test_a_fifth_fewer_right_answers_are_found() -> None:
    kinds = Counter(compare_quality(*drawn(seed, 0.25, 3)).kind for seed in range(100))
    assert kinds["worse"] >= 80 and kinds["better"] == 0


def test_the_trials_that_are_asked_for_mostly_decide() -> None:
    asked = [(seed, more) for seed in range(200) if (more := compare_quality(*drawn(seed, 0.15, 2)).needed_trials)]
    decided = [compare_quality(*drawn(seed, 0.15, 2 + more)).kind != "inconclusive" for seed, more in asked]
    assert len(decided) > 10 and sum(decided) / len(decided) >= 0.7


def test_one_trial_a_task_asks_for_three() -> None:
    found = compare_quality(dict.fromkeys(IDS, "p"), dict.fromkeys(IDS, "p") | dict.fromkeys(IDS[:4], "w"))
    assert (found.kind, found.needed_trials) == ("inconclusive", 2) and "does not tell chance" in found.why


def test_what_was_truncated_or_failed_is_in_no_share_and_told() -> None:
    b = PASSED | {IDS[0]: "ttt", IDS[1]: "ppt", IDS[2]: "epp"}
    found = compare_quality(PASSED, b)
    assert (found.kind, found.tasks, found.points) == ("same", 39, 0.0)
    assert found.left_out == "B 4 truncated and 1 failed trials, 1 task not judged in both"
    assert compare_quality({"x": "t"}, {"x": "p"}).why == "no task was judged in both runs"


def test_the_families_that_changed_most_come_first() -> None:
    changed = {id_: "www" for id_ in IDS if id_.startswith("needle")} | {"json-1": "ppw"}
    found = compare_quality(PASSED, PASSED | changed)
    assert found.families == ("needle: 100%, then 0% of 5 tasks", "json: 100%, then 93% of 5 tasks")


WORDS: Mapping[str, Outcome] = {"p": "pass", "w": "wrong", "t": "truncated", "e": "error"}


def quality(store: Store, marks: Mapping[str, str], *, old: bool = False, **changed: str) -> int:
    """A run of quality as it is kept; `old` as versions that kept scores only."""
    planned = plan("quality", 7)
    told = stats({id_: [WORDS[mark] for mark in some] for id_, some in marks.items()}, {})
    kept = {name: value for name, value in told["pass_1"].items() if not old or name not in ("outcomes", "tasks")}
    return stored(store, planned, told | {"pass_1": kept | changed})


def stored(store: Store, planned: Plan, told: Mapping[str, Any], **facts: Any) -> int:
    run = store.begin("main", planned, {}, {}, {"engine": "vllm", **facts})
    for cell in planned.cells:
        store.put_cell(run.id, StoredCell(cell.key, cell.hash, "valid", (), told))
    store.end(run.id, Ending("done", "valid"))
    return run.id


def test_two_quality_runs_are_compared_within_the_limit(store: Store) -> None:
    a = quality(store, with_marks("ppt", 12))
    b = quality(store, with_marks("www", 16))
    told = compare_answer(store, [a], [b])
    assert (told["ok"], told["metric"], told["verdict"]) == (True, "pass_1", "worse in 1 of 1 cells")
    assert told["cells"][0].startswith("1 stream: worse; 60.0 % of trials pass in B and 100.0 % in A: -40.0 points")
    assert told["families"][0].startswith("tool_") and "A 12 truncated" in told["left_out"][0]
    assert size_bytes(told) <= LIMIT_BYTES
    [judged] = comparison(store, [a], [b])["judged"]
    assert (judged["kind"], judged["lost"], judged["p"] < 0.001) == ("worse", 16, True)


def test_several_quality_runs_of_a_side_are_pooled(store: Store) -> None:
    a, b = quality(store, PASSED), quality(store, with_marks("pww", 8))
    more = quality(store, with_marks("ppp", 8))
    [judged] = comparison(store, [a], [b, more])["judged"]
    assert judged["points"] == pytest.approx(-100 * 8 * (2 / 6) / 40)


def test_quality_that_cannot_be_compared_is_refused_with_the_reason(store: Store) -> None:
    new, old = quality(store, PASSED), quality(store, PASSED, old=True)
    other = quality(store, PASSED, tasks="sha256:other")
    rates = measured(store, plan("decode", 7, Options(output_tokens=64, repeats=2)), lambda *_: (100.0, 100.0))
    assert "run B keeps scores only" in compare_answer(store, [new], [old])["cells"][0]
    assert "different tasks" in compare_answer(store, [new], [other])["cells"][0]
    assert compare_answer(store, [new], [rates])["code"] == "not_comparable"
    assert "right at once 100%" in job_answer(store, old)["results"][0]


def test_a_real_quality_run_keeps_what_came_of_each_task() -> None:
    scenario = Scenario(dialect="llamacpp", rate=5000.0, ttft_ms=1, cap=10, obeys_length=False)
    with running(scenario) as sim, a_bench_box(sim=sim.url) as bench:
        host = bench.gate_host()
        for _ in range(2):
            assert bench.ended(host, kind="quality", output_tokens=64, repeats=1)["state"] == "done"
        kept = bench.stored()[1][0].stats["pass_1"]
        assert set(kept["outcomes"]) == set(IDS) and set(kept["outcomes"].values()) <= {"p", "w"}
        told = host.call("bench_compare", {"a": 1, "b": 2})
        assert told["verdict"] == "same in 1 of 1 cells" and size_bytes(told) <= LIMIT_BYTES


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.id in ABOUT_RATES], ids=lambda rule: rule.id)
def test_what_makes_rates_worthless_costs_a_quality_run_its_rates_and_not_its_scores(rule: Rule) -> None:
    found = [Flag(rule.id, rule.severity, "it was late", rule.advice)]
    flags, left_out = held_against(found)
    assert status(found) == "invalid" and status(flags) == "tainted"
    assert left_out == {"decode_tok_s": "it was late", "ttft_any_ms": "it was late"}
    assert [(flag.id, flag.text) for flag in flags] == [(rule.id, "it was late")] and "scores" in flags[0].advice


def test_every_rule_about_rates_alone_is_one_that_makes_a_cell_invalid() -> None:
    assert {rule.id for rule in RULES if rule.severity == "invalid"} >= ABOUT_RATES
    assert not ABOUT_RATES & {"overcounted", "implausible", "wrong_model"}  # another may have answered


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.id not in ABOUT_RATES], ids=lambda rule: rule.id)
def test_what_is_held_against_answers_is_held_against_their_scores(rule: Rule) -> None:
    found = (Flag(rule.id, rule.severity, rule.text, rule.advice),)
    assert held_against(found) == (found, {})


# -- cells of one run


def a_stream(rate_tok_s: float, tokens: int, ttft_ms: float) -> Sample:
    first_ns, gap_ns = round(ttft_ms * 1e6), 1e9 / rate_tok_s
    times = [first_ns + round(number * gap_ns) for number in range(tokens)]
    events = tuple(TokenEvent(at_ns, "content", 1, 4) for at_ns in times)
    counts = Counts(512, tokens, 0, 0, "usage")
    return Sample(0, eof_ns=times[-1], events=events, finish="length", counts=counts)


def measured(store: Store, planned: Plan, made: Any, *, status: str = "valid", **facts: Any) -> int:
    """A run whose bursts have (rate, first token in ms) as `made` gives them for a cell and a repeat."""
    run = store.begin("main", planned, {}, {}, {"engine": "vllm", **facts})
    for repeat, cell in product(range(planned.repeats), planned.cells):
        rate, ttft_ms = made(cell, repeat)
        streams = [to_json(a_stream(rate, cell.output_tokens, ttft_ms))] * cell.concurrency
        store.add_burst(run.id, cell.key, repeat, streams, {}, {}, {})
    for cell in planned.cells:
        told = {"decode_tok_s": {"median": made(cell, 0)[0]}, "ttft_any_ms": {"median": made(cell, 0)[1]}}
        store.put_cell(run.id, StoredCell(cell.key, cell.hash, status, (), told))
    store.note_probe(run.id, {"thinking_switch": facts.get("switch", True)})
    store.end(run.id, Ending("done", status))
    return run.id


def prefix(cell: Any, repeat: int) -> tuple[float, float]:
    """A machine that warms up, on which a warm prefix is 3.1 times as fast."""
    cold_ms = 310.0 + 7 * repeat
    return 100.0, cold_ms if cell.cache_mode == "cold" else cold_ms / 3.1


def test_too_few_repeats_show_the_ratio_and_that_it_is_not_proven(store: Store) -> None:
    run = measured(store, plan("prefix", 7, Options(concurrency=(1,), repeats=3)), prefix)
    told = job_answer(store, run)
    wanted = f"warm against cold: first token 3.1 times as fast, not proven with 3 repeats: {PAIRS} would do"
    assert told["contrasts"] == [wanted] and size_bytes(told) <= LIMIT_BYTES


def test_enough_pairs_tell_the_interval_whatever_drifts(store: Store) -> None:
    run = measured(store, plan("prefix", 7, Options(repeats=6)), prefix)
    told = job_answer(store, run)["contrasts"]
    assert told == [
        f"{streams}, warm against cold: first token 3.1 times as fast (95 % 3.1 to 3.1, 6 pairs)"
        for streams in ("1 stream", "2 streams")
    ]
    whole = full_json(store, run)
    [first, _] = whole["contrasts"]
    assert (first["verdict"], first["pairs"], first["needed_repeats"]) == ("faster", 6, None)
    assert first["times_as_fast"] == pytest.approx(3.1, rel=1e-3)
    text = report(whole)
    assert "## Against one another" in text and "first token 3.1 times as fast" in text
    assert "Against one another" not in report(SWEEP)


def content(cell: Any, repeat: int) -> tuple[float, float]:
    rates = {"prose": 100.0, "code": 150.0, "json": 100.2}
    return rates.get(cell.family, 100.0 * (1.3 if repeat % 2 else 0.8)) * (1 + repeat / 100), 200.0


def test_each_content_stands_against_prose_and_what_is_open_says_so(store: Store) -> None:
    run = measured(store, plan("content", 7, Options(repeats=8, output_tokens=64)), content)
    code, as_json, drafted = job_answer(store, run)["contrasts"]
    assert code == "code against prose: decode 1.5 times as fast (95 % 1.5 to 1.5, 8 pairs)"
    assert as_json.startswith("json against prose: decode 1 times") and as_json.endswith("the same within ±3 %")
    assert "not proven" in drafted and "8 pairs" in drafted


def thinking(cell: Any, repeat: int) -> tuple[float, float]:
    return (90.0 if cell.thinking else 100.0) + repeat / 10, 200.0


def test_thinking_stands_against_none_only_where_it_can_be_switched(store: Store) -> None:
    planned = plan("thinking", 7, Options(repeats=6, output_tokens=64))
    [told] = job_answer(store, measured(store, planned, thinking))["contrasts"]
    assert told.startswith("thinking on against off: decode 0.9 times as fast (95 %")
    assert "contrasts" not in job_answer(store, measured(store, planned, thinking, switch=False))
    assert "contrasts" not in job_answer(store, measured(store, planned, thinking, status="invalid"))


# -- sides of several runs

DECODE = plan("decode", 7, Options(output_tokens=64, repeats=4))


def in_turns(store: Store, order: str, gain: float, drift: float = 0.0, lost: float = 0.0) -> dict[str, list[int]]:
    """Runs of both sides on a machine that loses `drift` with each; the last one of B has lost `lost` besides."""
    sides: dict[str, list[int]] = {"A": [], "B": []}
    for position, side in enumerate(order):
        rate = 100.0 * (gain if side == "B" else 1.0) * (1 - drift) ** position
        rate *= 1 - lost if side == "B" and "B" not in order[position + 1 :] else 1.0
        sides[side].append(measured(store, DECODE, lambda _, repeat, rate=rate: (rate * (1 + repeat / 2000), 100.0)))
    return sides


def test_runs_made_in_turns_are_compared_pair_by_pair(store: Store) -> None:
    sides = in_turns(store, "ABBA", 1.05, drift=0.01)
    told = compare_answer(store, sides["A"], sides["B"])
    assert told["verdict"] == "faster in 1 of 1 cells" and size_bytes(told) <= LIMIT_BYTES
    assert [line.split(":")[0] for line in told["a"]] == ["1", "4"] and len(told["b"]) == 2
    [judged] = comparison(store, sides["A"], sides["B"])["judged"]
    assert judged["shift_percent"] == pytest.approx(5, abs=0.3)


def test_sides_of_unlike_length_are_pooled_without_pairs(store: Store) -> None:
    sides = in_turns(store, "ABA", 1.1)
    told = compare_answer(store, sides["A"], sides["B"])
    assert told["verdict"] == "faster in 1 of 1 cells" and "+10" in told["cells"][0]


def test_pairs_of_runs_that_disagree_decide_nothing(store: Store) -> None:
    sides = in_turns(store, "ABABAB", 1.10, lost=0.1)
    told = compare_answer(store, sides["A"], sides["B"])
    assert told["verdict"] == "inconclusive in 1 of 1 cells"
    assert "the pairs of runs disagree (+10.0 %, +10.0 %, -1.0 %)" in told["cells"][0]


GOOD = Cell("sha256:1", (100.0, 101.0, 99.0), True)
LACKING: Mapping[str, tuple[Sequence[Mapping[str, Cell]], str]] = {
    "not held": ([{"x": GOOD}, {}], "run A2 does not hold this cell"),
    "invalid": ([{"x": GOOD}, {"x": Cell("sha256:1", (), False)}], "invalid in run A2"),
    "protocol": ([{"x": GOOD}, {"x": Cell("sha256:2", (), True)}], "protocols differ (sha256:1 and sha256:2)"),
}


@pytest.mark.parametrize("case", LACKING)
def test_one_run_of_a_side_that_cannot_be_compared_is_named(case: str) -> None:
    a, words = LACKING[case]
    found = compare_sides(a, [{"x": GOOD}, {"x": GOOD}], higher_is_better=True)["x"]
    assert isinstance(found, Refusal) and words in found.why
    fine = compare_sides([{"x": GOOD}], [{"x": GOOD}], higher_is_better=True)["x"]
    assert isinstance(fine, Verdict)


def test_what_differs_within_a_side_is_told_and_no_run_counts_twice(store: Store) -> None:
    runs = [measured(store, DECODE, lambda *_: (100.0, 100.0), gpu=gpu) for gpu in ("GB10", "GB10", "H100", "GB10")]
    told = compare_answer(store, runs[:2], runs[2:])
    assert told["differs"] == ["gpu: GB10, then H100", "within B, gpu: H100, then GB10"]
    refused = compare_answer(store, [1, 2], [2, 3])
    assert refused["code"] == "invalid_argument" and "run 2 is named twice" in refused["message"]
    assert compare_answer(store, [1], [1])["ok"]


@pytest.mark.parametrize(
    ("told", "sides"),
    [
        (("3", "7"), [[3], [7]]),
        (("3, 6", "4,5"), [[3, 6], [4, 5]]),
        (("", "4"), None),
        (("3,", "4"), None),
        (("a", "4"), None),
        (("-1", "4"), None),
        ((",".join(map(str, range(21))), "4"), None),
    ],
)
def test_a_side_is_named_by_the_numbers_of_its_runs(told: tuple[str, str], sides: list[list[int]] | None) -> None:
    assert sides_of(*told) == sides


# -- published numbers

QWEN = "nvidia/Qwen3.6-35B-A3B-NVFP4"
MTP = 'vllm serve x --max-num-seqs 16 --speculative-config {"method":"qwen3_next_mtp","num_speculative_tokens":3}'
PLAIN = "vllm serve x --max-num-seqs 8 --enforce-eager"
LAUNCHED: Mapping[tuple[str, str], dict[str, Any]] = {
    ("vllm", MTP): {"speculation": "MTP k=3", "max_num_seqs": 16, "cuda_graphs": None},
    ("vllm", PLAIN): {"speculation": "", "max_num_seqs": 8, "cuda_graphs": False},
    ("vllm", "vllm serve --config x.yaml"): {"speculation": None, "max_num_seqs": None},
    ("vllm", "sh -c start --fast"): {"speculation": None},
    ("sglang", "python -m sglang.launch_server --speculative-algorithm EAGLE --max-running-requests=4"): {
        "speculation": "EAGLE",
        "max_num_seqs": 4,
    },
    ("llamacpp", "llama-server -m x.gguf -np 2"): {"speculation": "", "max_num_seqs": 2},
    ("llamacpp", "llama-server -m x.gguf -md y.gguf --draft-max 8"): {"speculation": "speculation k=8"},
    ("ollama", "ollama serve"): {"speculation": None},
}


@pytest.mark.parametrize("case", LAUNCHED)
def test_the_command_line_tells_speculation_and_caps_only_where_it_is_the_engines(case: tuple[str, str]) -> None:
    engine, argv = case
    found = own_setting({"engine": engine, "argv": argv}, None)
    assert {name: getattr(found, name) for name in LAUNCHED[case]} == LAUNCHED[case]


def test_every_engine_whose_command_line_is_read_has_a_cap() -> None:
    assert PROGRAMS.keys() == DRAFTS.keys() <= CAP_SETTINGS.keys()


@pytest.mark.parametrize("bad", ["8", -1, 0, True, 1.5, None, [], {}])
def test_a_setting_of_the_wrong_type_is_not_known(bad: Any) -> None:
    found = own_setting({"max_num_seqs": bad, "gpu": 5}, {"concurrency": bad, "prompt_tokens": bad})
    assert (found.max_num_seqs, found.concurrency, found.prompt_tokens, found.hardware) == (None, None, None, None)


def test_what_the_engine_runs_without_explains_a_published_number(store: Store) -> None:
    facts = {"model": QWEN, "gpu": "NVIDIA GB10", "quantization": "NVFP4", "argv": PLAIN}
    measured(store, DECODE, lambda *_: (71.0, 100.0), **facts)
    told = reference_answer(store)
    assert told["model"] == QWEN and size_bytes(told) <= LIMIT_BYTES
    whole = published(store)
    assert any("MTP k=3" in text and "you have 71" in text and "explains it" in text for text in whole["compared"])
    assert len(whole["published"]) > 4 and len(whole["implausible"]) == 4


def test_claims_above_the_roofline_are_listed_with_their_factor(store: Store) -> None:
    told = reference_answer(store, "Qwen3.6-27B")
    assert told["implausible"][0].startswith("S2-018: 90 tok/s for Qwen3.6-27B NVFP4 (dense) on atlas, 4.5 times")
    assert size_bytes(told) <= LIMIT_BYTES
    [worst, *_] = published(store, "Qwen3.6-27B")["implausible"]
    assert (worst["id"], worst["claimed"], worst["ceiling_tok_s"]) == ("S2-018", 90, pytest.approx(20.2, abs=0.1))
    assert worst["factor"] == pytest.approx(4.5, abs=0.05) and "times what the memory allows" in worst["text"]


def test_a_quality_run_is_not_what_published_rates_stand_beside(store: Store) -> None:
    measured(store, DECODE, lambda *_: (71.0, 100.0), model=QWEN)
    stored(store, plan("quality", 7), stats({IDS[0]: ["pass"]}, {}), model=QWEN)
    assert "decode 71.0 tok/s" in reference_answer(store)["measured"]


# -- from a terminal


def test_the_commands_tell_contrasts_sides_and_claims() -> None:
    with a_bench_box() as bench:
        with bench.store() as store:
            measured(store, plan("prefix", 7, Options(concurrency=(1,), repeats=3)), prefix)
            in_turns(store, "ABBA", 1.05)
            quality(store, PASSED)
            quality(store, with_marks("www", 6))
        command = bench.box.command
        assert "warm against cold: first token 3.1 times as fast, not proven" in command("bench", "show", "1").stdout
        told = json.loads(command("bench", "compare", "2,5", "3,4", "--json").stdout)
        assert told["judged"][0]["kind"] == "faster" and len(told["a"]) == 2
        shown = command("bench", "compare", "6", "7")
        assert "worse; 85.0 % of trials pass in B" in shown.stdout and "judged" not in shown.stdout
        refused = command("bench", "compare", "2,2", "3")
        assert refused.returncode == 1 and "named twice" in refused.stderr
        assert command("bench", "compare", "two", "3").returncode == 2
        listed = json.loads(command("bench", "reference", "Qwen3.6-27B", "--json").stdout)
        assert [claim["id"] for claim in listed["implausible"]] == ["S2-018", "S2-016", "S2-015", "S2-017"]
        assert "4.5 times what the memory allows" in command("bench", "reference", "Qwen3.6-27B").stdout
