"""Published numbers: they add up, the nearest is found, and what differs is told."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from sparkgate.engines import ENGINES
from sparkgate.measure.explain import Measured, describe, explain
from sparkgate.measure.reference import (
    PROTOCOLS,
    RELATED,
    TABLE,
    Near,
    Row,
    Setting,
    implausible,
    load_reference,
    model_parts,
    nearest,
    same_model,
)
from sparkgate.measure.roofline import ACTIVE_BILLIONS, BITS_PER_WEIGHT, active_billions, bandwidth_gb_s, ceiling_tok_s

QWEN = "nvidia/Qwen3.6-35B-A3B-NVFP4"
PLAIN = Setting(hardware="NVIDIA GB10", devices=1, quantization="NVFP4", speculation="", max_num_seqs=8)
NO_ENGINE = {"", "host", "roofline", "groq", "naive kv cache", "pagedattention", "engine choice"}


def row(id_: str) -> Row:
    return next(one for one in load_reference() if one.id == id_)


def value(id_: str) -> float:
    found = row(id_).value
    assert isinstance(found, (int, float))
    return float(found)


def bounds(id_: str) -> tuple[float, float]:
    found = row(id_).bounds
    assert found is not None
    return found


def ids(found: list[Near]) -> list[str]:
    return [near.row.id for near in found]


def differing(near: Near) -> dict[str, str]:
    return {one.name: one.favours for one in near.differences}


def test_there_are_219_numbers_each_with_its_own_id() -> None:
    rows = load_reference()
    assert len(rows) == len({one.id for one in rows}) == 219


@pytest.mark.parametrize("one", load_reference(), ids=lambda one: one.id)
def test_every_number_is_complete(one: Row) -> None:
    assert one.kind and one.metric and re.fullmatch(r"published guide [0-4]", one.source)
    assert one.protocol in PROTOCOLS
    assert (one.value is None) is (one.lo is not None) is (one.hi is not None)
    assert one.bounds is None or one.bounds[0] <= one.bounds[1]
    assert set(one.engine.split(", ")) <= set(ENGINES) | NO_ENGINE


def test_every_protocol_is_used_and_explained() -> None:
    assert {one.protocol for one in load_reference()} == set(PROTOCOLS) and all(PROTOCOLS.values())


def test_every_key_of_the_file_is_read() -> None:
    keys = {key for line in TABLE.read_text().splitlines() for key in json.loads(line)}
    read = {*Row.__dataclass_fields__, *Setting.__dataclass_fields__} - {"told"}
    assert keys - read == {"revision", "output_tokens", "context_tokens"}


def test_every_width_in_the_file_is_known() -> None:
    assert {one.told.quantization for one in load_reference()} - {None} <= set(BITS_PER_WEIGHT)


@pytest.mark.parametrize(
    ("rate", "seconds"),
    [
        ("S0-030", "S0-028"),
        ("S0-045", "S0-043"),
        ("S0-054", "S0-053"),
        ("S0-058", "S0-056"),
        ("S0-064", "S0-063"),
        ("S0-068", "S0-066"),
        ("S0-073", "S0-072"),
        ("S0-077", "S0-076"),
    ],
)
def test_a_wall_rate_is_output_tokens_over_time(rate: str, seconds: str) -> None:
    assert 256 / value(seconds) == pytest.approx(value(rate), abs=0.006)


def test_the_parts_of_ollamas_time_add_up() -> None:
    whole_s = value("S0-008") + value("S0-009") / value("S0-010") + value("S0-011") / value("S0-012")
    assert value("S0-011") / whole_s == pytest.approx(value("S0-016"), rel=0.005)
    long_s = value("S0-020") + value("S0-021") / value("S0-022") + value("S0-023") / value("S0-024")
    assert long_s == pytest.approx(value("S0-019"), rel=0.003)


def test_the_rate_of_an_older_build_divides_by_all_tokens() -> None:
    assert 256 / value("S0-033") * 1000 == pytest.approx(value("S0-035"), abs=0.005)
    assert value("S0-033") / 256 == pytest.approx(value("S0-034"), abs=0.005)


def test_an_aggregate_is_the_sum_of_its_streams() -> None:
    for aggregate, mean, streams in (("S1-002", "S1-003", 8), ("S1-004", "S1-005", 16)):
        ours = tuple(bound / streams for bound in bounds(aggregate))
        assert ours == pytest.approx(bounds(mean), abs=0.7)
    assert sum(bounds("S1-004")) / 2 / value("S1-001") == pytest.approx(value("S1-006"), abs=0.05)


def test_speculation_explains_its_gain() -> None:
    assert 1 + 3 * value("S1-017") / 100 == pytest.approx(value("S1-016"), abs=0.03)
    assert value("S0-037") / value("S0-036") == pytest.approx(value("S0-038"), abs=0.01)
    assert (value("S2-013") / value("S2-012") - 1) * 100 == pytest.approx(value("S2-034"), abs=0.5)


def test_the_kv_cache_holds_its_tokens() -> None:
    kib = value("S1-023") * 2**20 / value("S1-024")
    assert kib == pytest.approx(13.9, abs=0.05) and round(kib) == value("S1-025")
    assert 16 * 131_072 * kib / 2**20 == pytest.approx(27.7, abs=0.05)
    assert value("S0-084") * 256 <= 11_342 < (value("S0-084") + 1) * 256


def test_first_token_times_tell_the_prefill_rate() -> None:
    cold_ms = {500: value("S1-008"), 4000: value("S1-009"), 16_000: bounds("S1-010")[1], 40_000: value("S1-011")}
    rates = [tokens / ms * 1000 for tokens, ms in cold_ms.items()]
    assert rates == pytest.approx([2170, 4940, 5710, 6420], rel=0.003)
    assert 11_342 / value("S0-079") == pytest.approx(8700, rel=0.005)


@pytest.mark.parametrize(
    ("gb", "measured", "ceiling", "share"),
    [(6.2, "S0-058", 44, 0.72), (1.92, "S0-031", 142, 0.72), (16.5, "S0-035", 16.5, 0.77), (5.3, "S2-012", 51, 0.66)],
)
def test_measured_rates_lie_below_the_roofline(gb: float, measured: str, ceiling: float, share: float) -> None:
    allowed = ceiling_tok_s(value("S0-001"), gb)
    assert allowed == pytest.approx(ceiling, rel=0.015)
    assert value(measured) / allowed == pytest.approx(share, abs=0.01)


def test_speculation_lifts_the_roofline() -> None:
    allowed = ceiling_tok_s(value("S0-001"), 1.5)
    assert allowed == 182 and allowed == pytest.approx(value("S1-034"), rel=0.02)
    assert value("S4-005") / allowed == pytest.approx(0.39, abs=0.02)
    assert value("S1-014") < ceiling_tok_s(value("S0-001"), 1.5, value("S1-016") - 1)


def test_a_forgotten_nonce_shows_a_third_of_the_time() -> None:
    assert value("S1-020") / value("S1-019") == pytest.approx(3.08, abs=0.01)


def test_two_rates_of_one_guide_come_from_different_lengths() -> None:
    alone, three = value("S4-011") * value("S4-012"), value("S4-014") * value("S4-015") / 3
    assert (round(alone), round(three)) == (504, 256)


def test_one_guide_shows_no_batching_at_all() -> None:
    assert value("S4-017") == value("S4-005")
    assert all(3.0 < bound / value("S1-001") < 3.6 for bound in bounds("S1-002"))


def test_one_rate_is_told_for_one_machine_and_for_two() -> None:
    assert value("S2-012") == value("S2-026") and value("S2-009") == value("S2-025")
    assert (row("S2-012").told.devices, row("S2-026").told.devices) == (1, 2)


def test_the_claims_that_break_the_roofline_are_the_guesses_on_a_dense_model() -> None:
    claims = implausible()
    assert [claim.row.id for claim in claims] == ["S2-018", "S2-016", "S2-015", "S2-017"]
    assert all(claim.row.kind == "estimate" for claim in claims)
    assert describe(claims[0]) == (
        "90 tok/s for Qwen3.6-27B NVFP4 (dense) on atlas (S2-018, estimate) is 4.5 times what the memory allows "
        "without speculation (20.2 tok/s)"
    )


def test_what_speculation_can_reach_is_no_broken_claim() -> None:
    assert row("S0-037").told.speculation == "DFlash n=15"
    assert implausible([row("S0-037"), row("S1-001"), row("S2-022"), row("S1-002")]) == []


@pytest.mark.parametrize("model", ACTIVE_BILLIONS)
def test_every_model_with_known_weights_is_in_the_file(model: str) -> None:
    found = [one for one in load_reference() if active_billions(one.model) == ACTIVE_BILLIONS[model]]
    assert found or model == "llama-3.1-8b"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (QWEN, {"qwen", "3.6", "35b", "a3b"}),
        ("Qwen2.5-3B-Instruct Q4_K_M", {"qwen", "2.5", "3b"}),
        ("llama3.1:8b", {"llama", "3.1", "8b"}),
        ("Llama 3.1 8B", {"llama", "3.1", "8b"}),
        ("GLM-4.7-FP8, no RDMA", {"glm", "4.7", "no", "rdma"}),
        ("Qwen3.6-27B + DFlash", {"qwen", "3.6", "27b"}),
        ("nemotron-3-super:latest (120B-class MoE, 86 GB)", {"nemotron", "3", "super"}),
    ],
)
def test_a_model_is_known_by_its_parts(name: str, parts: set[str]) -> None:
    assert model_parts(name) == parts


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("qwen3.6-35b", QWEN, True),
        ("qwen3.6-35b-a3b", QWEN, True),
        ("qwen3.6-27b", QWEN, False),
        ("qwen3.6", QWEN, False),
        ("qwen3.5-35b-a3b", QWEN, False),
        ("nemotron-3-super:latest", "nemotron-3-super", True),
        ("", QWEN, False),
        ("", "", False),
    ],
)
def test_two_names_mean_one_model_when_the_size_agrees(one: str, other: str, same: bool) -> None:
    assert same_model(one, other) is same is same_model(other, one)


def test_the_nearest_number_has_the_same_engine_and_settings() -> None:
    found = nearest("qwen3.6-35b", "vllm", "decode_tok_s", PLAIN)
    assert ids(found)[0] == "S4-005" and found[0].differences == ()
    assert all(near.row.engine != "vllm" for near in found[-3:])


def test_protocol_distance_names_what_differs_and_whom_it_favours() -> None:
    found = nearest(QWEN, "vllm", "decode_tok_s", PLAIN)
    mtp = next(near for near in found if near.row.id == "S1-001")
    assert differing(mtp) == {"speculation": "theirs", "max_num_seqs": "theirs"}
    eager = next(near for near in found if near.row.id == "S4-001")
    assert differing(eager) == {"max_num_seqs": "theirs"}


@pytest.mark.parametrize(
    ("id_", "metric", "ours", "expected"),
    [
        ("S4-001", "wall_tok_s", Setting(cuda_graphs=True), {"cuda_graphs": "ours"}),
        ("S4-003", "wall_tok_s", Setting(thinking=True, engine_version="0.30"), {"thinking": ""}),
        ("S1-001", "decode_tok_s", Setting(engine_version="0.30"), {"engine_version": ""}),
        ("S1-001", "decode_tok_s", Setting(quantization="BF16"), {"quantization": "theirs"}),
        ("S1-001", "decode_tok_s", Setting(quantization="strange"), {"quantization": ""}),
        ("S1-001", "decode_tok_s", Setting(hardware="NVIDIA H100 80GB HBM3"), {"hardware": "ours"}),
        ("S1-001", "decode_tok_s", Setting(devices=2), {"devices": "ours"}),
        ("S1-001", "decode_tok_s", Setting(concurrency=4), {"concurrency": "theirs"}),
        ("S1-002", "agg_decode_tok_s", Setting(concurrency=16), {"concurrency": "ours"}),
        ("S1-009", "ttft_content_ms", Setting(prompt_tokens=8000), {"prompt_tokens": "theirs"}),
        ("S1-009", "ttft_content_ms", Setting(prompt_tokens=4096), {}),
        ("S1-014", "decode_tok_s", Setting(family="prose"), {"family": ""}),
    ],
)
def test_every_setting_can_differ(id_: str, metric: str, ours: Setting, expected: dict[str, str]) -> None:
    found = next(near for near in nearest(QWEN, "vllm", metric, ours) if near.row.id == id_)
    assert differing(found) == expected


def test_an_engine_of_another_kind_is_a_difference() -> None:
    found = next(near for near in nearest(QWEN, "sglang", "decode_tok_s", PLAIN) if near.row.id == "S1-001")
    assert differing(found)["engine"] == ""


def test_numbers_of_another_metric_or_model_are_not_near() -> None:
    assert nearest(QWEN, "vllm", "price_usd", PLAIN) == nearest("mistral-7b", "vllm", "decode_tok_s", PLAIN) == []
    assert {near.row.metric for near in nearest(QWEN, "vllm", "agg_decode_tok_s", PLAIN)} == set(
        RELATED["agg_decode_tok_s"]
    )


def test_speculation_and_sequences_explain_99_against_71() -> None:
    graphs = replace(PLAIN, cuda_graphs=True)
    assert explain(Measured(71.0), nearest(QWEN, "vllm", "decode_tok_s", graphs)) == [
        "69 tok/s were published (S4-005); you have 71: the same within 10 %",
        "72 tok/s were published with up to 32 sequences (S4-003); you have 71 with up to 8 sequences: "
        "the same within 10 %",
        "99 tok/s were published with MTP k=3 and with up to 16 sequences (S1-001); you have 71 without speculation "
        "and with up to 8 sequences: that explains it",
    ]


@pytest.mark.parametrize(
    ("measured", "id_", "metric", "ours", "ends"),
    [
        (Measured(50.0), "S4-005", "decode_tok_s", PLAIN, "so there is a cause to look for"),
        (Measured(50.0), "S1-001", "decode_tok_s", Setting(engine_version="0.30"), "that may explain it"),
        (Measured(50.0), "S1-001", "decode_tok_s", Setting(max_num_seqs=64), "what differs does not explain it"),
        (Measured(150.0), "S1-001", "decode_tok_s", Setting(max_num_seqs=64), "that explains it"),
        (Measured(1900.0, "ms"), "S1-009", "ttft_content_ms", Setting(prompt_tokens=8000), "that explains it"),
        (Measured(300.0, "ms"), "S1-009", "ttft_content_ms", Setting(prompt_tokens=1000), "that explains it"),
        (Measured(360.0), "S1-002", "agg_decode_tok_s", Setting(concurrency=8), "the same within 10 %"),
        (Measured(95.0), "S2-004", "decode_tok_s", PLAIN, "the same within 10 %"),
    ],
)
def test_a_sentence_says_whether_what_differs_explains_it(
    measured: Measured, id_: str, metric: str, ours: Setting, ends: str
) -> None:
    [sentence] = explain(measured, [near for near in nearest(QWEN, "vllm", metric, ours) if near.row.id == id_])
    assert sentence.endswith(ends) and f"({id_})" in sentence


def test_a_guess_is_called_one() -> None:
    found = nearest("qwen3.6-27b", "sglang", "decode_tok_s", Setting(quantization="NVFP4"))
    assert any("85 tok/s were estimated" in sentence for sentence in explain(Measured(19.0), found))
    assert explain(Measured(19.0), []) == []


def test_the_hardware_of_the_file_has_a_bandwidth() -> None:
    names = {one.told.hardware for one in load_reference() if one.told.hardware}
    assert {name for name in names if bandwidth_gb_s(name) is None} == {"H100", "cloud"}
    assert bandwidth_gb_s("H100 SXM") == value("S1-036")
