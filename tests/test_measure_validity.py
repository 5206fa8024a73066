"""Rules over a measured cell: each has a cell that it applies to, and one that it only nearly applies to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from sparkgate.measure.cell_facts import CellFacts
from sparkgate.measure.roofline import DENSE, active_billions, bandwidth_gb_s, ceiling_tok_s, gb_per_token
from sparkgate.measure.rule import Rule
from sparkgate.measure.validity import RULES, flags, headline, status

Case = Mapping[str, Any]
GB10 = {"bandwidth_gb_s": 273.0, "gb_per_token": 1.5}
PLAIN = {**GB10, "accepted_per_step": 0.0}
COLD = {"cold": True, "template_tokens": 20, "prompt_tokens_max": 1000}
WARM = {"warm": True, "prompt_tokens_max": 1000}
OUTPUT = {"asked_output_tokens": 400}
SECOND = {"decode_span_ms": 1000.0}
LONG_FORM = {**OUTPUT, "shortest_allowed_tokens": 380}

CASES: Mapping[str, list[tuple[Case, Case]]] = {
    "short_output": [
        ({**OUTPUT, "output_tokens_min": 399}, {**OUTPUT, "output_tokens_min": 400}),
        ({**LONG_FORM, "output_tokens_min": 379}, {**LONG_FORM, "output_tokens_min": 380, "ends_early": True}),
        ({**OUTPUT, "output_tokens_min": 400, "ends_early": True}, {"output_tokens_min": 12, "ends_early": True}),
    ],
    "ended_early": [
        ({**OUTPUT, "ends_early": True}, {**OUTPUT, "ends_early": False}),
        ({**LONG_FORM, "ends_early": True}, {**LONG_FORM, "ends_early": True, "output_tokens_min": 390}),
    ],
    "long_output": [({**OUTPUT, "output_tokens_max": 401}, {**OUTPUT, "output_tokens_max": 400})],
    "shared_prefix": [
        ({**COLD, "cached_tokens": 31}, {**COLD, "cached_tokens": 30}),
        ({**COLD, "cached_tokens": 990}, {**WARM, "cached_tokens": 990}),
        ({"cold": True, "ttft_spread": 2.1}, {"cold": True, "ttft_spread": 2.0}),
        ({"cold": True, "ttft_spread": 49.0}, {"cold": True, "ttft_spread": 49.0, "concurrency": 2}),
    ],
    "not_cached": [
        ({**WARM, "cached_tokens": 799}, {**WARM, "cached_tokens": 800}),
        ({**WARM, "cached_tokens": 0}, WARM),
    ],
    "cache_unproven": [
        ({"warm": True, "cached_told": False}, {"warm": True, "cached_told": True, "cached_tokens": 0}),
        ({"warm": True, "cached_told": False}, {"cold": True, "cached_told": False}),
        ({"warm": True, "cached_told": False}, {"warm": True}),
    ],
    "not_primed": [({**WARM, "unprimed_bursts": 1}, {**WARM, "unprimed_bursts": 0})],
    "context_overflow": [
        (
            {**OUTPUT, "prompt_tokens_max": 3700, "context_tokens": 4096},
            {**OUTPUT, "prompt_tokens_max": 3696, "context_tokens": 4096},
        ),
        (
            {"asked_prompt_tokens": 8192, "prompt_tokens_min": 4095},
            {"asked_prompt_tokens": 8192, "prompt_tokens_min": 8152},
        ),
    ],
    "wrong_model": [
        (
            {"model_asked": "qwen", "models_answered": ("qwen", "gpt-4o")},
            {"model_asked": "qwen", "models_answered": ("qwen:latest", "")},
        ),
        (
            {"model_asked": "fast", "models_answered": ("nvidia/qwen",)},
            {"model_asked": "fast", "models_answered": ("nvidia/qwen",), "model_aliases": ("nvidia/qwen",)},
        ),
    ],
    "errors": [({"requests": 40, "failed_requests": 1}, {"requests": 50, "failed_requests": 1})],
    "some_errors": [
        ({"requests": 50, "failed_requests": 1}, {"requests": 50, "failed_requests": 0}),
        ({"requests": 100, "failed_requests": 2}, {"requests": 100, "failed_requests": 3}),
    ],
    "reconnected": [({"resent_requests": 1}, {"resent_requests": 0})],
    "thinking_leak": [
        ({"thinking": False, "reasoning_tokens": 1}, {"thinking": False, "reasoning_tokens": 0}),
        ({"thinking": False, "reasoning_tokens": 5}, {"thinking": None, "reasoning_tokens": 5}),
    ],
    "thinking_absent": [
        ({"thinking": True, "reasoning_tokens": 0}, {"thinking": True, "reasoning_tokens": 1}),
        ({"thinking": True, "reasoning_tokens": 0}, {"thinking": True}),
    ],
    "not_streaming": [({"streamed": False}, {"streamed": True})],
    "tokens_estimated": [({"tokens_counted_by_engine": False}, {"tokens_counted_by_engine": True})],
    "first_chunk_assumed": [
        ({"first_chunk_known": False, "tokens_per_chunk": 2.84}, {"first_chunk_known": False, "tokens_per_chunk": 1.0}),
        ({"first_chunk_known": False, "tokens_per_chunk": 2.84}, {"first_chunk_known": True, "tokens_per_chunk": 2.84}),
    ],
    "counts_disagree": [({"counts_agree": False}, {"counts_agree": True})],
    "prompt_length": [
        (
            {"asked_prompt_tokens": 512, "prompt_tokens_max": 515},
            {"asked_prompt_tokens": 512, "prompt_tokens_max": 514},
        ),
        (
            {"asked_prompt_tokens": 8192, "prompt_tokens_max": 8233},
            {"asked_prompt_tokens": 8192, "prompt_tokens_max": 8232},
        ),
    ],
    "cpu_fallback": [
        ({"gpu_share": 0.99}, {"gpu_share": 1.0}),
        ({"layers_offloaded": 28, "layers_total": 29}, {"layers_offloaded": 29, "layers_total": 29}),
        ({"gpu_busy_percent": 19.0}, {"gpu_busy_percent": 20.0}),
    ],
    "far_below_ceiling": [
        ({**PLAIN, "decode_tok_s": 45.0}, {**PLAIN, "decode_tok_s": 46.0}),
        ({**PLAIN, "decode_tok_s": 16.0}, {**PLAIN, "decode_tok_s": 16.0, "concurrency": 8}),
    ],
    "throttled": [
        ({"throttle_reasons": ("sw_thermal_slowdown",)}, {"throttle_reasons": ()}),
        (
            {"sm_clock_median_mhz": 1770.0, "sm_clock_p95_mhz": 2220.0},
            {"sm_clock_median_mhz": 1780.0, "sm_clock_p95_mhz": 2220.0},
        ),
        (
            {"sm_clock_before_mhz": 2220.0, "sm_clock_after_mhz": 890.0},
            {"sm_clock_before_mhz": 2220.0, "sm_clock_after_mhz": 2000.0},
        ),
        ({"power_before_w": 60.0, "power_after_w": 40.0}, {"power_before_w": 60.0, "power_after_w": 50.0}),
    ],
    "hot": [({"gpu_temperature_max_c": 86.0}, {"gpu_temperature_max_c": 85.0})],
    "canary_drift": [
        (
            {"canary_before_tok_s": 94.0, "canary_after_tok_s": 63.0},
            {"canary_before_tok_s": 94.0, "canary_after_tok_s": 86.0},
        ),
        (
            {"canary_before_tok_s": 63.0, "canary_after_tok_s": 94.0},
            {"canary_before_tok_s": 63.0, "canary_after_tok_s": 69.0},
        ),
    ],
    "foreign_load": [
        ({"counted_tokens": 1000, "engine_tokens": 1051}, {"counted_tokens": 1000, "engine_tokens": 1050}),
        ({"counted_tokens": 1000, "engine_tokens": 9000}, {"counted_tokens": 0, "engine_tokens": 9000}),
    ],
    "foreign_requests": [
        ({"running_max": 9, "concurrency": 8}, {"running_max": 8, "concurrency": 8}),
        ({"counted_tokens": 1000, "engine_tokens": 1011}, {"counted_tokens": 1000, "engine_tokens": 1010}),
    ],
    "overcounted": [({"counted_tokens": 1000, "engine_tokens": 980}, {"counted_tokens": 1000, "engine_tokens": 991})],
    "busy_host": [
        ({"host_load": 21.0, "host_cores": 20}, {"host_load": 20.0, "host_cores": 20}),
        ({"other_gpu_processes": 1}, {"other_gpu_processes": 0}),
        ({"swapped_in_pages": 1}, {"swapped_in_pages": 0}),
    ],
    "queued": [({"waiting_max": 1}, {"waiting_max": 0}), ({"queue_share": 0.06}, {"queue_share": 0.05})],
    "preempted": [({"preemptions": 1}, {"preemptions": 0})],
    "client_saturated": [
        ({"loop_lag_max_ms": 101.0}, {"loop_lag_max_ms": 100.0}),
        ({"loop_lag_p99_ms": 26.0}, {"loop_lag_p99_ms": 25.0}),
        ({"client_cpu_share": 0.71}, {"client_cpu_share": 0.7}),
    ],
    "too_short_for_clock": [
        ({**SECOND, "loop_lag_p99_ms": 13.0}, {**SECOND, "loop_lag_p99_ms": 10.0}),
        ({**SECOND, "loop_lag_p99_ms": 13.0}, {"decode_span_ms": 10_000.0, "loop_lag_p99_ms": 13.0}),
    ],
    "short_for_clock": [
        ({**SECOND, "loop_lag_p99_ms": 4.0}, {**SECOND, "loop_lag_p99_ms": 1.4}),
        ({**SECOND, "loop_lag_p99_ms": 4.0}, {**SECOND, "loop_lag_p99_ms": 13.0}),
        ({**SECOND, "loop_lag_p99_ms": 4.0}, {"decode_span_ms": 10_000.0, "loop_lag_p99_ms": 13.0}),
    ],
    "clocks_disagree": [
        ({"decode_tok_s": 96.0, "engine_decode_tok_s": 100.0}, {"decode_tok_s": 97.5, "engine_decode_tok_s": 100.0}),
        ({"decode_tok_s": 104.0, "engine_decode_tok_s": 100.0}, {"decode_tok_s": 104.0, "engine_decode_tok_s": 0.0}),
    ],
    "noisy": [({"burst_variation": 0.06}, {"burst_variation": 0.05})],
    "single_burst": [({"bursts": 1}, {"bursts": 2})],
    "implausible": [
        ({**PLAIN, "decode_tok_s": 192.0}, {**PLAIN, "decode_tok_s": 191.0}),
        ({**PLAIN, "decode_tok_s": 400.0}, {**GB10, "accepted_per_step": 1.84, "decode_tok_s": 400.0}),
        (
            {"prefill_tok_s": 145_119.0, "reference_prefill_tok_s": 9000.0},
            {"prefill_tok_s": 90_000.0, "reference_prefill_tok_s": 9000.0},
        ),
        (
            {"concurrency": 4, "aggregate_tok_s": 441.0, "single_tok_s": 100.0},
            {"concurrency": 4, "aggregate_tok_s": 440.0, "single_tok_s": 100.0},
        ),
    ],
    "serialised": [
        (
            {"concurrency": 3, "aggregate_tok_s": 69.0, "single_tok_s": 69.0},
            {"concurrency": 3, "aggregate_tok_s": 80.0, "single_tok_s": 69.0},
        ),
        (
            {"concurrency": 8, "aggregate_tok_s": 70.0, "single_tok_s": 69.0},
            {"concurrency": 2, "aggregate_tok_s": 70.0, "single_tok_s": 69.0},
        ),
    ],
    "unstable": [
        ({"headline_tok_s": 100.0, "remeasured_tok_s": 94.0}, {"headline_tok_s": 100.0, "remeasured_tok_s": 95.5})
    ],
    "cold_compile": [({"warmup_settled": False}, {"warmup_settled": True})],
    "clock_step": [({"clock_step_ms": -51.0}, {"clock_step_ms": 50.0})],
    "rtt_high": [({"rtt_ms": 5.1}, {"rtt_ms": 5.0})],
    "overhead": [
        ({"ttft_ms": 200.0, "engine_prefill_ms": 160.0}, {"ttft_ms": 200.0, "engine_prefill_ms": 165.0}),
        (
            {"ttft_ms": 1000.0, "engine_prefill_ms": 400.0},
            {"ttft_ms": 1000.0, "engine_prefill_ms": 400.0, "queue_share": 0.55},
        ),
    ],
}


def cell(case: Case) -> CellFacts:
    return CellFacts(**{"concurrency": 1, **case})


def found(case: Case) -> dict[str, str]:
    return {flag.id: flag.text for flag in flags(cell(case))}


def test_every_rule_has_a_case_and_every_case_a_rule() -> None:
    assert list(CASES) == [rule.id for rule in RULES] and all(CASES.values())


@pytest.mark.parametrize(
    ("rule", "hit", "near"), [(rule, hit, near) for rule, cases in CASES.items() for hit, near in cases]
)
def test_a_rule_applies_to_its_case_and_not_to_the_near_miss(rule: str, hit: Case, near: Case) -> None:
    told = found(hit)
    assert rule in told and "None" not in told[rule] and "{" not in told[rule]
    assert rule not in found(near)


@pytest.mark.parametrize("mode", [{}, {"cold": True}, {"warm": True}, {"thinking": False}, {"concurrency": 16}])
def test_nothing_is_held_against_a_cell_of_which_nothing_is_known(mode: Case) -> None:
    assert flags(cell(mode)) == () and status(flags(cell(mode))) == "valid"


@pytest.mark.parametrize("name", [one.name for one in fields(CellFacts) if one.default is None])
def test_one_fact_that_is_not_known_takes_no_rule_down(name: str) -> None:
    every = {key: value for cases in CASES.values() for hit, _ in cases for key, value in hit.items()}
    assert all("None" not in flag.text for flag in flags(cell({**every, name: None})))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_says_what_to_do(rule: Rule) -> None:
    assert rule.text and rule.advice and not rule.text.endswith(".") and not rule.advice.endswith(".")


def test_an_invalid_cell_has_no_headline() -> None:
    ill = flags(cell({"asked_output_tokens": 200, "output_tokens_min": 50, "waiting_max": 3}))
    assert [flag.id for flag in ill] == ["short_output", "queued"]
    assert status(ill) == "invalid" and headline(100.0, ill) is None
    assert ill[0].text == "an answer ended after 50 of 200 tokens"


def test_a_tainted_cell_keeps_its_headline() -> None:
    doubtful = flags(cell({"waiting_max": 3}))
    assert status(doubtful) == "tainted" and headline(100.0, doubtful) == 100.0
    assert headline(100.0, ()) == 100.0 and headline(None, ()) is None


def test_an_agent_on_the_measured_engine_is_told_that_it_disturbs() -> None:
    [flag] = flags(cell({"counted_tokens": 1000, "engine_tokens": 1400}))
    assert flag.id == "foreign_load" and "its own measurement" in flag.advice


@pytest.mark.parametrize(
    ("span_ms", "lag_ms", "wanted"),
    [(1000, 13, "too_short_for_clock"), (1000, 4, "short_for_clock"), (1000, 1.4, ""), (10_000, 13, "")],
)
def test_a_rate_is_off_by_as_much_as_the_process_was_late(span_ms: float, lag_ms: float, wanted: str) -> None:
    told = flags(cell({"decode_span_ms": span_ms, "loop_lag_p99_ms": lag_ms}))
    assert [one.id for one in told] == ([wanted] if wanted else [])
    assert status(told) == {"too_short_for_clock": "invalid", "short_for_clock": "tainted", "": "valid"}[wanted]


def test_without_the_share_that_is_accepted_there_is_no_ceiling() -> None:
    assert cell(GB10).ceiling_tok_s is None and cell(PLAIN).ceiling_tok_s == 182.0


@pytest.mark.parametrize(
    ("gpu", "devices", "expected"),
    [
        ("NVIDIA GB10", 1, 273.0),
        ("NVIDIA GB10", 2, 546.0),
        ("NVIDIA GeForce RTX 4080 SUPER", 1, 736.0),
        ("NVIDIA H100 80GB HBM3", 1, 3350.0),
        ("Something New", 1, None),
    ],
)
def test_the_bandwidth_of_a_gpu_is_known_by_its_name(gpu: str, devices: int, expected: float | None) -> None:
    assert bandwidth_gb_s(gpu, devices) == expected


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        ("nvidia/Qwen3.6-35B-A3B-NVFP4", 3.0),
        ("Qwen3.5-122B-A10B", 10.0),
        ("new-sparse-400b-a17b", 17.0),
        ("Qwen2.5-3B-Instruct", 3.09),
        ("Qwen3.6-27B", 27.0),
        ("nemotron-3-super", None),
        ("Gemma 4 26B", None),
    ],
)
def test_the_active_weights_of_a_model_are_known_or_not_guessed(model: str, billions: float | None) -> None:
    assert active_billions(model) == billions


def test_what_a_token_reads_follows_from_weights_and_width() -> None:
    assert gb_per_token("qwen3.6-35b-a3b", "NVFP4") == 1.5
    assert gb_per_token("qwen2.5-3b", "bf16") == pytest.approx(6.18)
    assert gb_per_token("qwen3.6-27b", "") is None and gb_per_token("unknown", "NVFP4") is None
    assert ceiling_tok_s(273.0, 1.5, 1.84) == pytest.approx(516.88)


@pytest.mark.parametrize(
    ("model", "width", "gib", "expected"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "", 14.19, 15.24),
        ("meta-llama/Llama-3.1-8B-Instruct", "FP8", 8.5, 8.0),
        ("unsloth/Llama-3.2-3B-Instruct", "Q4_K_M", 1.88, 2.02),
        ("qwen3:8b", "Q4_K_M", 4.68, 5.03),
        ("gemma3:27b", "Q4_0", 16.0, 17.18),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "", 0.25, 0.27),
        ("qwen3.6-35b-a3b", "NVFP4", 20.0, 1.5),
        ("new-sparse-400b-a17b", "", 200.0, None),
        ("nvidia/nemotron-3-super-120b", "NVFP4", 70.0, None),
        ("gpt-oss-120b", "MXFP4", 60.0, None),
        ("mixtral-8x7b", "Q4_K_M", 26.0, None),
        ("gemma-4-26b", "", 48.0, None),
        ("mistral-small-4-119b", "NVFP4", 66.0, None),
        ("Qwen2.5-VL-7B-Instruct", "", 15.4, None),
        ("Qwen3-30B-A3B", "", 57.0, None),
        ("llama-4-scout-109b", "", 200.0, None),
        ("Llama-3-2x8B-MoE", "", 25.0, None),
        ("Qwen2.5-7B-Instruct", "Q4_K_M", 25.0, None),
        ("Qwen2.5-7B-Instruct", "", 4.4, None),
        ("phi-4", "", 27.0, None),
        ("Qwen2.5-7B-Instruct", "", None, None),
    ],
)
def test_the_size_on_disk_is_what_a_token_reads_of_a_model_that_is_surely_dense(
    model: str, width: str, gib: float | None, expected: float | None
) -> None:
    assert gb_per_token(model, width, gib) == (None if expected is None else pytest.approx(expected, abs=0.01))


def test_every_beginning_of_a_dense_name_is_a_name_of_its_own() -> None:
    """A model of each stands in one place of the table."""
    names = ["llama-2-7b", "qwen2.5-7b", "qwen3-8b", "qwen3.5-27b", "qwq-32b", "deepseek-r1-distill-qwen-7b"]
    names += ["mistral-nemo-12b", "mistral-small-24b", "gemma-3-4b", "phi-3.5-mini-4b", "phi-4-14b", "granite-3.3-8b"]
    names += ["smollm3-3b", "tinyllama-1b"]
    matching = [[place for place, begin in enumerate(DENSE) if re.match(begin, name)] for name in names]
    assert matching == [[place] for place in range(len(DENSE))]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_text_of_a_rule_can_be_told_when_nothing_is_known(rule: Rule) -> None:
    told = replace(rule, applies=lambda facts: True)
    [flag] = flags(CellFacts(1), [told])
    assert flag.text and "None" not in flag.text
