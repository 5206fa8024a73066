"""Plans for other load generators, and their results as runs, from what guidellm 0.8.1 and aiperf 0.13.0 wrote."""

from __future__ import annotations

import copy
import json
import random
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sparkgate.clients.bench_pictures import bench_import, export
from sparkgate.measure.adopt import adopt
from sparkgate.measure.interchange import TOOLS, ExportError, Target, as_json, commands, script
from sparkgate.measure.interchange_read import AIPERF, GUIDELLM, ImportRefused, read_result, read_results
from sparkgate.measure.plan import KINDS, Cell, Options, Plan, plan, protocol_hash
from sparkgate.measure.record import full_json
from sparkgate.measure.store import Store

RECORDED = Path(__file__).parent / "recorded_runs"
TARGET = Target("http://127.0.0.1:8000", "qwen", "vllm", "Qwen/Qwen3")


def recorded(tool: str) -> Any:
    return json.loads((RECORDED / f"{tool}.json").read_text())


def options_of(argv: tuple[str, ...]) -> dict[str, str]:
    words = list(argv)
    return {name: value for name, value in pairwise(words) if name.startswith("--")}


# -- export


def test_a_cell_for_guidellm() -> None:
    planned = plan("sweep", 7, Options(concurrency=(1, 4), output_tokens=64, repeats=3))
    made, left_out = commands(planned, TARGET, "guidellm")
    assert left_out == [] and [one.cell.concurrency for one in made] == [1, 4]
    assert made[1].argv[:2] == ("guidellm", "run") and made[1].result == "guidellm-01.json"
    told = options_of(made[1].argv)
    assert json.loads(told["--backend"]) == {
        "kind": "openai_http",
        "target": "http://127.0.0.1:8000",
        "request_format": "/v1/chat/completions",
        "model": "qwen",
        "extras": {
            "body": {
                "temperature": 0,
                "min_tokens": 64,
                "ignore_eos": True,
                "chat_template_kwargs": {"enable_thinking": False},
            }
        },
    }
    assert json.loads(told["--profile"]) == {
        "kind": "concurrent",
        "streams": [4],
        "warmup": {"value": 8, "mode": "requests"},
    }
    assert json.loads(told["--constraint"]) == {"kind": "max_requests", "count": 8 + 3 * 4}
    assert json.loads(told["--data"]) == {"kind": "synthetic_text", "prompt_tokens": 512, "output_tokens": 64}
    assert json.loads(told["--tokenizer"]) == {"kind": "huggingface_auto", "model": "Qwen/Qwen3"}
    assert json.loads(told["--seed"]) == {"kind": "static", "value": 8}
    assert json.loads(told["--output"]) == {"kind": "json", "path": "guidellm-01.json"}


def test_a_cell_for_aiperf() -> None:
    planned = plan("decode", 7, Options(concurrency=(2,), output_tokens=64, repeats=5))
    [made], _ = commands(planned, Target("http://127.0.0.1:8000", "qwen", "llamacpp"), "aiperf")
    assert made.argv == (
        *("aiperf", "profile", "--streaming", "--use-server-token-count", "--use-legacy-max-tokens"),
        *("--model", "qwen", "--url", "http://127.0.0.1:8000", "--endpoint-type", "chat", "--tokenizer", "builtin"),
        *("--isl", "512", "--isl-stddev", "0", "--osl", "64", "--osl-stddev", "0", "--concurrency", "2"),
        *("--request-count", "10", "--warmup-request-count", "4", "--random-seed", "7"),
        *("--cache-bust", "first_turn_prefix", "--extra-inputs"),
        '{"temperature": 0, "ignore_eos": true, "chat_template_kwargs": {"enable_thinking": false}}',
        *("--artifact-dir", "aiperf-00", "--ui", "none"),
    )
    assert made.result == "aiperf-00/profile_export_aiperf.json"


def test_where_a_length_cannot_be_forced_no_end_is_forbidden_and_that_is_told() -> None:
    [made], _ = commands(plan("decode", 7), Target("http://127.0.0.1:11434", "qwen", "ollama"), "guidellm")
    body = json.loads(options_of(made.argv)["--backend"])["extras"]["body"]
    assert body == {"temperature": 0, "max_tokens": 400, "reasoning_effort": "none", "ignore_eos": False}
    assert any("ends early" in note for note in made.differs)


def test_cells_have_different_seeds_within_the_limit() -> None:
    made, _ = commands(plan("sweep", (1 << 128) - 1), TARGET, "guidellm")
    seeds = [json.loads(options_of(one.argv)["--seed"])["value"] for one in made]
    assert len(set(seeds)) == len(seeds) and max(seeds) < 2**31


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written_or_says_why_not(tool: str, kind: str) -> None:
    planned = plan(kind, 1)
    if kind == "quality":
        with pytest.raises(ExportError, match="no answer is judged"):
            commands(planned, TARGET, tool)
        return
    made, left_out = commands(planned, TARGET, tool)
    assert len(made) + len(left_out) == len(planned.cells)
    assert all(cell.cache_mode == "warm" and why for cell, why in left_out)
    assert all(one.differs for one in made)
    assert json.dumps(as_json(made, left_out))


def test_the_script_runs_every_command_and_quotes_it() -> None:
    hostile = Target("http://127.0.0.1:8000", "a'; rm -rf $HOME", "vllm")
    made, left_out = commands(plan("prefix", 1), hostile, "aiperf")
    written = script(made, left_out, "aiperf").splitlines()
    run = [shlex.split(line) for line in written if not line.startswith(("#", "set ")) and line]
    assert run == [list(one.argv) for one in made]
    assert any("left out" in line and "warm" in line for line in written)


def test_an_unknown_load_generator_is_refused() -> None:
    with pytest.raises(ExportError, match="there are guidellm, aiperf"):
        commands(plan("quick", 1), TARGET, "wrk")


def test_a_depth_is_a_longer_prompt() -> None:
    planned = Plan("depth", (Cell("depth", depth_tokens=4096),), 1, 1, 60)
    [made], _ = commands(planned, TARGET, "aiperf")
    assert options_of(made.argv)["--isl"] == str(4096 + 512)


# -- import


def test_a_report_of_guidellm_is_a_run_of_its_levels() -> None:
    run = read_result(json.dumps(recorded("guidellm")))
    assert (run["origin"], run["model"], run["kind"], run["validity"]) == ("guidellm 0.8.1", "stub", "sweep", "tainted")
    one, two = run["cells"]
    assert [cell["key"]["concurrency"] for cell in (one, two)] == [1, 2]
    assert (two["key"]["prompt_tokens"], two["key"]["output_tokens"]) == (128, 64)
    assert two["stats"]["decode_tok_s"] == {
        "median": pytest.approx(200.34, abs=0.01),
        "low": pytest.approx(198.72, abs=0.01),
        "high": pytest.approx(201.43, abs=0.01),
        "n": 6,
    }
    assert two["stats"]["agg_wall_tok_s"] == {"median": pytest.approx(303.34, abs=0.01), "n": 6}
    assert two["stats"]["ttft_any_ms"]["median"] == pytest.approx(101.80, abs=0.01)
    assert two["stats"]["e2e_ms"]["median"] == pytest.approx(417, abs=0.1)
    assert two["why_null"]["agg_decode_tok_s"] == "guidellm does not tell it"
    assert [flag["id"] for flag in two["flags"]] == ["imported", "warned"]


def test_an_export_of_aiperf_is_a_run_of_one_cell() -> None:
    run = read_result(json.dumps(recorded("aiperf")))
    [cell] = run["cells"]
    assert (run["origin"], cell["key"]["concurrency"], cell["status"]) == ("aiperf 0.13.0", 2, "tainted")
    assert cell["stats"]["decode_tok_s"]["median"] == pytest.approx(200.21, abs=0.01)
    assert cell["stats"]["agg_wall_tok_s"] == {"median": pytest.approx(303.31, abs=0.01), "n": None}
    assert cell["stats"]["ttft_any_ms"]["p95"] == pytest.approx(106.11, abs=0.01)
    assert run["created_s"] < run["ended_s"]


def test_both_read_the_same_stub_alike() -> None:
    ours = [read_result(json.dumps(recorded(tool)))["cells"][-1]["stats"] for tool in ("guidellm", "aiperf")]
    for metric in ("decode_tok_s", "agg_wall_tok_s", "ttft_any_ms", "output_tokens"):
        one, other = (stats[metric]["median"] for stats in ours)
        assert one == pytest.approx(other, rel=0.02), metric


def test_both_tables_fill_the_same_metrics() -> None:
    assert GUIDELLM.keys() == AIPERF.keys()


def test_no_imported_cell_can_be_taken_for_one_of_ours() -> None:
    for tool in ("guidellm", "aiperf"):
        run = read_result(json.dumps(recorded(tool)))
        assert run["plan"]["protocol_hash"] != protocol_hash()
        for cell in run["cells"]:
            key = cell["key"]
            assert key["kind"] not in KINDS and cell["hash"] != Cell(**key).hash


def test_times_in_another_unit_are_converted_and_an_unknown_one_is_left_out() -> None:
    told = recorded("aiperf")
    told["time_to_first_token"] = {"unit": "sec", "p50": 0.5, "count": 6}
    told["inter_token_latency"] = {"unit": "fortnights", "p50": 1.0}
    stats = read_result(json.dumps(told))["cells"][0]["stats"]
    assert stats["ttft_any_ms"]["median"] == 500 and "tpot_ms" not in stats


@pytest.mark.parametrize(
    ("failed", "status"),
    [(1, "invalid"), (0, "tainted")],
)
def test_failed_requests_make_a_cell_invalid(failed: int, status: str) -> None:
    told = recorded("guidellm")
    told["benchmarks"][0]["metrics"]["request_totals"] = {"successful": 6, "errored": failed, "incomplete": 2}
    run = read_result(json.dumps(told))
    assert run["cells"][0]["status"] == status and run["cells"][1]["status"] == "tainted"


def test_an_answer_that_is_too_short_makes_a_cell_invalid() -> None:
    told = recorded("aiperf")
    told["output_sequence_length"]["min"] = 50.0
    run = read_result(json.dumps(told))
    assert run["validity"] == "invalid"
    assert "an answer has 50 of 64 tokens" in [flag["text"] for flag in run["cells"][0]["flags"]]


def test_a_run_that_was_cut_says_so() -> None:
    told = recorded("aiperf") | {"is_complete": False, "incomplete_reason": "records stalled"}
    texts = [flag["text"] for flag in read_result(json.dumps(told))["cells"][0]["flags"]]
    assert "it did not finish: records stalled" in texts


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "neither"),
        ('{"benchmarks": []}', "neither"),
        ('{"metadata": {"guidellm_version": "1"}, "benchmarks": []}', "measured nothing"),
        ('{"aiperf_version": "1"}', "measured nothing"),
    ],
)
def test_what_is_no_result_is_refused(text: str, why: str) -> None:
    with pytest.raises(ImportRefused, match=why):
        read_result(text)


def nodes(told: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything inside."""
    for key in list(told) if isinstance(told, dict) else range(len(told)) if isinstance(told, list) else ():
        yield told, key
        yield from nodes(told[key])


@pytest.mark.parametrize("tool", ["guidellm", "aiperf"])
def test_a_damaged_result_is_read_or_refused_and_raises_nothing_else(tool: str) -> None:
    drawn, whole = random.Random(5), recorded(tool)
    for _ in range(400):
        told = copy.deepcopy(whole)
        for _ in range(drawn.randint(1, 4)):
            container, key = drawn.choice(list(nodes(told)))
            container[key] = drawn.choice([None, "x", -1, 0, 1e308, True, [], {}, [None], {"median": "9"}])
        try:
            run = read_result(json.dumps(told))
        except ImportRefused:
            continue
        assert json.dumps(run, allow_nan=False)
        for cell in run["cells"]:
            medians = [one["median"] for one in cell["stats"].values()]
            assert all(isinstance(value, float) for value in medians) and cell["key"]["concurrency"] >= 1


def test_results_of_one_plan_are_one_run_and_of_two_programs_are_not() -> None:
    whole = recorded("guidellm")
    parts = [json.dumps(whole | {"benchmarks": [one]}) for one in whole["benchmarks"]]
    run = read_results(parts)
    assert [cell["key"]["concurrency"] for cell in run["cells"]] == [1, 2] and run["kind"] == "sweep"
    assert len({cell["hash"] for cell in read_results([parts[0], parts[0]])["cells"]}) == 2
    with pytest.raises(ImportRefused, match="import each by itself"):
        read_results([parts[0], json.dumps(recorded("aiperf"))])


def test_an_imported_run_stands_in_the_store_with_its_origin(tmp_path: Path) -> None:
    told = read_result(json.dumps(recorded("guidellm")))
    store = Store(tmp_path / "bench.db")
    try:
        number = adopt(store, told)
        run, cells = store.run(number), store.cells(number)
        kept = full_json(store, number)
    finally:
        store.close()
    assert (run.origin, run.state, run.validity, run.model) == ("guidellm 0.8.1", "done", "tainted", "stub")
    assert [cell.hash for cell in cells] == [cell["hash"] for cell in told["cells"]]
    assert kept["cells"][1]["stats"] == told["cells"][1]["stats"] and kept["bursts"] == []


# -- commands


def test_the_import_command_keeps_a_run_or_prints_it(tmp_path: Path) -> None:
    runner = CliRunner(env={"XDG_STATE_HOME": str(tmp_path)})
    file = str(RECORDED / "guidellm.json")
    assert json.loads(runner.invoke(bench_import, [file, "--json"]).stdout)["origin"] == "guidellm 0.8.1"
    assert not (tmp_path / "sparkgate").exists()
    kept = runner.invoke(bench_import, [file])
    assert kept.stdout == "run 1: 2 cells of guidellm 0.8.1, tainted\n"
    refused = runner.invoke(bench_import, [str(tmp_path / "absent")])
    assert refused.exit_code == 1 and "No such file" in refused.stderr


def test_the_export_command_takes_a_kind_or_names_what_is_missing(tmp_path: Path) -> None:
    runner = CliRunner(env={"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    asked = ["quick", "--tool", "aiperf", "--json"]
    told = json.loads(runner.invoke(export, [*asked, "--url", "http://127.0.0.1:8000", "--model", "qwen"]).stdout)
    assert [one["key"]["concurrency"] for one in told["commands"]] == [1, 4] and told["left_out"] == []
    assert "--url" in runner.invoke(export, asked).stderr
    assert "there is no kind 'fast'" in runner.invoke(export, ["fast", "--tool", "aiperf"]).stderr


def test_the_export_command_finds_the_engine_in_the_catalogue(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[engines.main]\nengine = "vllm"\nurl = "http://127.0.0.1:8000/v1"\nmodel = "qwen"\n')
    asked = ["decode", "--tool", "guidellm", "--engine", "main", "--config", str(config)]
    written = CliRunner(env={"XDG_STATE_HOME": str(tmp_path)}).invoke(export, asked).stdout
    assert '"target": "http://127.0.0.1:8000"' in written and '"model": "qwen"' in written
