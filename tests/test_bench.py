"""The benchmark server through its MCP door: what is refused, followed, cancelled, told and compared."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from bench_box import BenchBox, a_bench_box
from box import is_running, wait_until_ended
from engine_box import an_engine_box, until
from sim_engine import Scenario, running

from sparkgate.change.jobs import Jobs
from sparkgate.change.lock import MachineLock
from sparkgate.measure.plan import KINDS, PROTOCOL

pytestmark = pytest.mark.measuring

SHORT = {"kind": "decode", "output_tokens": 64, "repeats": 2}


@pytest.fixture
def bench() -> Iterator[BenchBox]:
    with a_bench_box() as made:
        yield made


def size_bytes(answer: dict[str, Any]) -> int:
    return len(json.dumps(answer, ensure_ascii=False, indent=2).encode())


def test_a_run_answers_at_once_and_ends_with_numbers_and_units(bench: BenchBox) -> None:
    bench.habit("hold")
    host = bench.host()
    begun = host.call("bench_run", SHORT | {"concurrency": "1, 4"})
    assert (begun["ok"], begun["run"], begun["state"], begun["cells"]) == (True, 1, "running", 2)
    assert begun["next"] == "bench_job(id=1, wait_s=20)" and begun["at_most_s"] == KINDS["decode"].max_seconds
    until(lambda: host.call("bench_job", {"id": 1}).get("headline"), "a live headline")
    live = host.call("bench_job", {"id": 1})
    assert (live["progress"], live["headline"]) == ("1 of 4 bursts", {"decode_tok_s": 100.0})
    bench.drop("hold")
    ended = host.call("bench_job", {"id": 1, "wait_s": 20})
    assert (ended["ok"], ended["state"], ended["validity"]) == (True, "done", "valid")
    assert ended["results"][0] == "1 stream: decode 100.0 tok/s a stream, first token 200 ms"
    assert "together" in ended["results"][1] and size_bytes(ended) <= 1500
    assert host.call("bench_job", {}) == ended
    run, cells, bursts = bench.stored()
    assert [len(burst.samples) for burst in bursts] == [cell.key["concurrency"] for cell in ordered(run.plan, cells)]


def ordered(planned: Any, cells: list[Any]) -> list[Any]:
    """The cells as the plan measures them."""
    from sparkgate.measure.plan import from_json

    return [cells[step.cell] for step in from_json(planned).steps]


def test_what_was_measured_on_what_is_kept_without_secrets(bench: BenchBox) -> None:
    key = bench.box.root / "key"
    key.write_text("sk-a-very-secret-key-0123456789")
    bench.extra["main"] = f'key_file = "{key}"\nweights = "/home/somebody/models/tiny-Q4_K_M.gguf"\nprotect = true\n'
    bench.configure()
    bench.ended(bench.host(), **SHORT)
    run = bench.stored()[0]
    facts = run.provenance
    assert (facts["engine"], facts["engine_version"], facts["model"]) == ("llamacpp", "b1-fake", "model-of-main")
    assert (facts["weights"], facts["quantization"], facts["context"]) == ("tiny-Q4_K_M.gguf", "Q4_K_M", 40960)
    assert facts["lives_on"] == ["the agent that config.toml protects"] and len(facts["launch"]) == 16
    [order] = bench.orders()
    assert order["headers"] == {"Authorization": "Bearer sk-a-very-secret-key-0123456789"}
    assert (order["url"], order["model"]) == (bench.engines["main"].url, "model-of-main")
    assert (order["quantization"], order["weights_gib"]) == ("Q4_K_M", None)
    assert order["plan"] == run.plan and run.plan["protocol_hash"] and PROTOCOL["version"] == 1
    stored = b"".join(file.read_bytes() for file in bench.box.state.glob("*.db*"))
    assert b"very-secret" not in stored and b"/home/somebody" not in stored


def test_how_a_loaded_engine_was_started_and_how_long_it_took_is_kept() -> None:
    with an_engine_box() as engines:
        command = [*engines.entry("old")["command"], "--parallel", "4", "--draft-max", "8"]
        weights = engines.box.root / "tiny.gguf"
        weights.write_bytes(bytes(1 << 20))
        engines.extra["old"] = {"command": command, "weights": str(weights)}
        engines.configure()
        engines.load("old", engines.host())
        bench = BenchBox(engines.box, {}, {}, configured=True)
        ended = bench.ended(bench.host(), **SHORT | {"engine": "old"})
        facts = bench.stored()[0].provenance
        assert ended["state"] == "done" and (facts["max_sequences"], facts["speculation"]) == (4, "draft k=8")
        assert facts["load_s"] > 0 and "the job of sparkgate" in facts["load_source"]
        assert bench.orders()[0]["weights_gib"] == 1 / 1024


def test_every_run_is_logged_with_who_asked(bench: BenchBox) -> None:
    host = bench.host()
    bench.ended(host, **SHORT)
    rows = [row for row in bench.box.rows() if row["tool"] == "bench_run"]
    told = [(row["fields"]["action"], row["fields"]["engine"], row["fields"]["run"], row["outcome"]) for row in rows]
    assert told == [("measure", "main", "1", "done"), ("end", "main", "1", "done")]
    assert {row["host"] for row in rows} == {"testhost"} and {row["sent"] for row in rows} == {""}


REFUSED = {
    "kind": ({"kind": "speed"}, "invalid_argument", "quick"),
    "engine": ({"kind": "quick", "engine": "x"}, "unknown_engine", "main"),
    "list": ({"kind": "quick", "concurrency": "1;4"}, "invalid_argument", "1,4,16"),
    "limit": ({"kind": "quick", "concurrency": "5000"}, "bad_plan", "concurrency"),
    "context": ({"kind": "prefill", "prompt_tokens": "500000"}, "bad_plan", "context"),
    "unknown": ({"kind": "quick", "streams": 4}, "unknown_argument", "streams"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_measured_is_refused_with_the_way_out(bench: BenchBox, case: str) -> None:
    asked, code, words = REFUSED[case]
    refused = bench.host().call("bench_run", asked)
    assert (refused["ok"], refused["code"]) == (False, code) and words in refused["message"]
    assert bench.pids() == []


def test_an_unknown_kind_is_answered_with_those_there_are(bench: BenchBox) -> None:
    message = bench.host().call("bench_run", {"kind": "speed"})["message"]
    assert all(kind in message for kind in KINDS)


def test_without_a_name_the_only_ready_engine_is_measured() -> None:
    with a_bench_box("one", "two") as bench:
        host = bench.host()
        refused = host.call("bench_run", SHORT)
        assert refused["code"] == "engine_needed" and "one, two" in refused["message"]
        bench.engines["one"].answers.clear()
        assert bench.ended(host, **SHORT)["engine"] == "two"
        bench.engines["two"].answers["/health"] = [503, "application/json", {"error": "Loading model"}]
        assert host.call("bench_run", SHORT)["code"] == "not_ready"
        refused = host.call("bench_run", SHORT | {"engine": "two"})
        assert refused["code"] == "not_ready" and "two is loading" in refused["message"]


def test_without_engines_it_says_how_to_add_one(bench: BenchBox) -> None:
    bench.engines = {}
    bench.configure()
    refused = bench.host().call("bench_run", SHORT)
    assert refused["code"] == "not_configured" and "[engines.NAME]" in refused["message"]


def test_a_repeated_call_joins_the_run_and_another_one_waits(bench: BenchBox) -> None:
    bench.habit("hold")
    host = bench.host()
    first = host.call("bench_run", SHORT)
    joined = host.call("bench_run", SHORT)
    assert (joined["run"], joined["joined"]) == (first["run"], True)
    busy = host.call("bench_run", SHORT | {"repeats": 3})
    assert busy["code"] == "busy" and "run 1" in busy["message"]
    other = bench.host().call("bench_run", SHORT)
    assert other["run"] == 1 and len(bench.pids()) == 1
    bench.drop("hold")
    assert host.call("bench_job", {"id": 1, "wait_s": 20})["state"] == "done"


def test_one_run_is_made_at_a_time_on_a_machine(bench: BenchBox) -> None:
    lock = MachineLock(f"{bench.lock}-bench")
    host = bench.host()
    assert host.call("bench_run", SHORT)["code"] == "busy" and bench.pids() == []
    lock.release()
    assert bench.ended(host, **SHORT)["state"] == "done"
    MachineLock(f"{bench.lock}-bench").release()


def test_nothing_is_measured_while_engines_are_changed(bench: BenchBox) -> None:
    jobs = Jobs(bench.box.state / "jobs.db")
    job = jobs.begin(bench.lock, "load", "main", {"stops": [], "config": str(bench.box.config)}, {}, "start")
    host = bench.host()
    refused = host.call("bench_run", SHORT)
    assert refused["code"] == "busy" and "load of main" in refused["message"]
    jobs.end(job.id, "done", "", "", {})
    jobs.close()
    assert bench.ended(host, **SHORT)["state"] == "done"


def test_engines_that_were_changed_during_a_run_are_told_with_it(bench: BenchBox) -> None:
    bench.habit("hold")
    host = bench.host()
    host.call("bench_run", SHORT)
    jobs = Jobs(bench.box.state / "jobs.db")
    job = jobs.begin(bench.lock, "swap", "main", {"stops": [], "config": str(bench.box.config)}, {}, "start")
    jobs.end(job.id, "done", "", "", {})
    jobs.close()
    bench.drop("hold")
    ended = host.call("bench_job", {"wait_s": 20})
    assert ended["notes"] == ["a note", "job 1 (swap of main) changed engines meanwhile: run it again"]


def test_a_cancelled_run_keeps_what_it_has_measured(bench: BenchBox) -> None:
    bench.habit("hold")
    host = bench.host()
    host.call("bench_run", SHORT)
    until(lambda: bench.pids() and bench.stored()[2], "a burst on disk")
    host.call("bench_job", {"id": 1, "cancel": True})
    ended = host.call("bench_job", {"id": 1, "wait_s": 20})
    assert (ended["ok"], ended["state"], ended["results"]) == (False, "cancelled", ["1 stream: no number, cancelled"])
    assert "unverified" not in ended and len(bench.stored()[2]) == 1
    wait_until_ended(bench.pids())
    assert [row["fields"]["action"] for row in bench.box.rows()] == ["measure", "cancel", "end"]
    bench.drop("hold")
    assert bench.ended(host, **SHORT)["run"] == 2


def test_a_measuring_process_that_ends_by_itself_leaves_what_it_has_told(bench: BenchBox) -> None:
    bench.habit("die")
    ended = bench.ended(bench.host(), **SHORT)
    assert (ended["state"], ended["code"], ended["validity"]) == ("failed", "process_ended", "failed")
    assert "code 3" in ended["message"] and len(bench.stored()[2]) == 1
    assert any("no number" in text for text in ended["results"])


def test_a_failure_is_told_in_its_own_words(bench: BenchBox) -> None:
    bench.habit("fail", {"code": "short_output", "message": "it ended\x1b[31m early"})
    ended = bench.ended(bench.host(), **SHORT)
    assert (ended["state"], ended["code"]) == ("failed", "short_output") and "\x1b" not in ended["message"]


def test_lines_that_are_no_events_are_passed_over(bench: BenchBox) -> None:
    bench.habit("noise")
    assert bench.ended(bench.host(), **SHORT)["state"] == "done"


def test_flags_are_told_in_words_with_what_to_do_and_fit(bench: BenchBox) -> None:
    flag = {"id": "short_output", "severity": "invalid", "text": "it ended early " * 12, "advice": "enforce it " * 12}
    others = [flag | {"id": f"flag_{number}", "severity": "warning"} for number in range(9)]
    bench.habit("flags", [*others, flag])
    bench.habit("validity", "invalid")
    ended = bench.ended(bench.host(), **SHORT | {"kind": "sweep", "repeats": 1})
    assert (ended["ok"], ended["state"], ended["validity"]) == (True, "done", "invalid")
    assert ended["flags"][0].startswith("short_output (5 of 5 cells): it ended early")
    assert ended["results"][0] == "1 stream: no number, invalid" and ended["flags_left_out"] > 0
    assert size_bytes(ended) <= 1500


def test_an_agent_that_measures_its_own_engine_is_told(bench: BenchBox) -> None:
    bench.extra["main"] = "protect = true\n"
    bench.configure()
    config = bench.box.root / ".hermes" / "config.yaml"
    config.parent.mkdir()
    config.write_text(f"model:\n  base_url: {bench.engines['main'].url}/v1\n")
    bench.habit("flags", [{"id": "foreign_requests", "severity": "warning", "text": "others ran", "advice": "rest"}])
    host = bench.host()
    begun = host.call("bench_run", SHORT)
    assert "Hermes" in begun["note"] and "turns" in begun["note"]
    ended = host.call("bench_job", {"id": 1, "wait_s": 20})
    assert "Hermes" in ended["note"] and "own turns" in ended["note"]


def test_progress_is_reported_where_the_host_asks(bench: BenchBox) -> None:
    bench.habit("hold")
    host = bench.host()
    host.call("bench_run", SHORT)
    call = {"name": "bench_job", "arguments": {"wait_s": 20}, "_meta": {"progressToken": "p"}}
    wanted = host.send("tools/call", call)
    first = host.read()
    assert first["method"] == "notifications/progress" and first["params"]["progressToken"] == "p"
    assert (first["params"]["progress"], first["params"]["total"]) == (1, 2) and "main" in first["params"]["message"]
    bench.drop("hold")
    while (answer := host.read()).get("id") != wanted:
        assert answer["method"] == "notifications/progress"
    assert answer["result"]["structuredContent"]["state"] == "done"


def test_two_runs_are_compared_and_what_differs_is_told(bench: BenchBox) -> None:
    host = bench.host()
    asked = SHORT | {"repeats": 8}
    bench.ended(host, **asked)
    bench.habit("rate", 80.0)
    bench.engines["main"].answers["/props"][2]["build_info"] = "b2-fake"
    bench.ended(host, **asked)
    told = host.call("bench_compare", {"a": 1, "b": 2})
    assert (told["ok"], told["verdict"]) == (True, "slower in 1 of 1 cells") and size_bytes(told) <= 1500
    assert "engine_version: b1-fake, then b2-fake" in told["differs"]
    assert "-20." in told["cells"][0] and told["metric"] == "agg_decode_tok_s"
    assert host.call("bench_compare", {"a": 1, "b": 9})["code"] == "unknown_run"
    listed = host.call("bench_history", {})["runs"]
    assert [text.split(":")[0] for text in listed] == ["2", "1"] and "1 stream: decode 79.7 tok/s" in listed[0]
    assert host.call("bench_history", {"kind": "sweep"})["runs"] == []
    assert host.call("bench_job", {"id": 9})["code"] == "unknown_run"


def test_the_next_run_knows_about_how_long_it_will_take(bench: BenchBox) -> None:
    host = bench.host()
    assert "estimate_s" not in host.call("bench_run", SHORT)
    host.call("bench_job", {"wait_s": 20})
    assert host.call("bench_run", SHORT | {"repeats": 3})["estimate_s"] > 0


def test_a_run_that_asks_for_more_time_than_the_operator_allows_is_refused(bench: BenchBox) -> None:
    bench.more_settings = "[bench]\nmax_seconds = 120\n"
    bench.configure()
    host = bench.host()
    refused = host.call("bench_run", SHORT | {"max_seconds": 121})
    assert (refused["ok"], refused["code"]) == (False, "bad_plan") and bench.pids() == []
    assert "allows 120" in refused["message"] and "max_seconds under [bench]" in refused["message"]
    assert host.call("bench_run", SHORT | {"max_seconds": 90})["at_most_s"] == 90
    host.call("bench_job", {"wait_s": 20})
    assert host.call("bench_run", SHORT)["at_most_s"] == 120
    host.call("bench_job", {"wait_s": 20})
    assert host.call("bench_run", {"kind": "quick"})["at_most_s"] == 60


LONG_RUN = {"kind": "sweep", "output_tokens": 8000, "repeats": 10, "concurrency": "1,16"}


def test_a_run_that_cannot_end_in_time_is_refused_before_anything_is_measured(bench: BenchBox) -> None:
    host = bench.host()
    bench.ended(host, **SHORT)
    refused = host.call("bench_run", LONG_RUN)
    assert (refused["ok"], refused["code"]) == (False, "bad_plan") and size_bytes(refused) <= 1500
    said = ("would take about 43", "max_seconds is 1800", "repeats = 2", "concurrency = 1", "output_tokens = 2000")
    assert all(words in refused["message"] for words in said), refused["message"]
    assert "run 1" in refused["message"] and "at most 3600 s ([bench] max_seconds" in refused["message"]
    assert len(bench.pids()) == 1 and [run["run"] for run in [host.call("bench_job", {})]] == [1]
    assert bench.ended(host, **LONG_RUN | {"max_seconds": 3600, "repeats": 2})["run"] == 2


def test_rates_of_another_model_or_another_version_refuse_nothing(bench: BenchBox) -> None:
    host = bench.host()
    bench.ended(host, **SHORT)
    bench.engines["main"].answers["/props"][2]["build_info"] = "b2-fake"
    assert bench.ended(host, **LONG_RUN | {"repeats": 1, "output_tokens": 4000})["run"] == 2
    assert host.call("bench_run", LONG_RUN)["code"] == "bad_plan"
    bench.engines["main"].answers["/v1/models"][2]["data"][0]["id"] = "other"
    begun = host.call("bench_run", LONG_RUN | {"repeats": 1})
    assert begun["ok"] and "estimate_s" not in begun
    host.call("bench_job", {"cancel": True})


def test_a_quick_run_is_never_refused_for_old_rates_and_makes_three_bursts(bench: BenchBox) -> None:
    host = bench.host()
    bench.ended(host, **SHORT)
    assert bench.ended(host, kind="quick", prompt_tokens="32000", concurrency="4")["state"] == "done"
    assert len(bench.stored()[2]) == 3


def test_published_numbers_stand_beside_what_was_measured(bench: BenchBox) -> None:
    host = bench.host()
    assert host.call("bench_reference", {})["code"] == "missing_argument"
    name = "Qwen3.6-35B-A3B"
    told = host.call("bench_reference", {"model": name})
    assert told["measured"] == "nothing valid here yet" and told["published"] and size_bytes(told) <= 1500
    bench.engines["main"].answers["/v1/models"][2]["data"][0]["id"] = name
    bench.ended(host, **SHORT)
    told = host.call("bench_reference", {})
    assert told["model"] == name and "100.0 tok/s" in told["measured"] and "you have 100" in told["compared"][0]
    assert host.call("bench_reference", {"model": "nobody-knows-9b"})["published"] == []


def test_the_tools_say_what_they_change_and_their_schemas_stay_flat(bench: BenchBox) -> None:
    listed = bench.host().ask("tools/list", {})["result"]["tools"]
    hints = {tool["name"]: tool["annotations"] for tool in listed}
    assert {name for name, hint in hints.items() if hint["readOnlyHint"]} == {
        "bench_compare",
        "bench_history",
        "bench_reference",
    }
    text = json.dumps(listed)
    assert not any(word in text for word in ("anyOf", "$ref", '"pattern"', '"format"', "maxLength"))


# -- kill -9


def test_a_killed_gate_leaves_what_was_measured_and_takes_its_measuring_process_along(bench: BenchBox) -> None:
    bench.habit("hold")
    host = bench.host()
    host.call("bench_run", SHORT)
    until(lambda: bench.pids() and bench.stored()[2], "a burst on disk")
    assert is_running(bench.pids()[0])
    os.kill(host.process.pid, signal.SIGKILL)
    host.process.wait()
    wait_until_ended(bench.pids())
    bench.drop("hold")
    host = bench.host()
    told = host.call("bench_job", {"id": 1})
    assert (told["ok"], told["state"], told["validity"]) == (False, "interrupted", "interrupted")
    assert told["results"] == ["1 stream: no number, cancelled"] and "unverified" in told["flags"][0]
    assert len(bench.stored()[2]) == 1
    assert bench.ended(host, **SHORT)["run"] == 2
    with bench.store() as store:
        assert store.run(1).ended_s is not None and store.unfinished() == []


# -- the real measuring process, in a real gate


WORKER = b"sparkgate.measure.worker"


def measuring() -> dict[int, bytes]:
    """Measuring processes of this machine, with their environment."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if WORKER in (place / "cmdline").read_bytes():
                found[int(place.name)] = (place / "environ").read_bytes()
    return found


def of_box(bench: BenchBox) -> list[int]:
    mark = f"HOME={bench.box.root}\0".encode()
    return [pid for pid, environment in measuring().items() if mark in environment]


QUICKLY = {"kind": "decode", "output_tokens": 64, "prompt_tokens": "128", "repeats": 2}


def test_a_run_from_a_terminal_prints_the_contract() -> None:
    with running(Scenario(dialect="llamacpp", rate=400.0)) as sim, a_bench_box(sim=sim.url) as bench:
        options = ("--engine", "sim", "--concurrency", "1,4", "--output-tokens", "64", "--repeats", "2")
        run = bench.box.command("bench", "run", "decode", *options, "--json")
        told = json.loads(run.stdout)
        assert run.returncode == 0 and told["run_id"] == 1 and "bursts" in run.stderr
        assert [cell["key"]["concurrency"] for cell in told["cells"]] == [1, 4]
        medians = [cell["stats"]["decode_tok_s"]["median"] for cell in told["cells"]]
        assert medians == pytest.approx([400.0, 400.0], rel=0.3)
        facts = bench.stored()[0].probe
        assert (facts["engine"], facts["model"]) == ("llamacpp", "sim-1")
        again = bench.box.command("bench", "run", "decode", *options)
        assert "4 streams" in again.stdout and again.returncode == 0
        assert "agg_decode_tok_s" in bench.box.command("bench", "compare", "1", "2").stdout


def test_answers_that_end_early_leave_no_number() -> None:
    scenario = Scenario(dialect="llamacpp", rate=2000.0, cap=30, obeys_length=False)
    with running(scenario) as sim, a_bench_box(sim=sim.url) as bench:
        ended = bench.ended(bench.gate_host(), **QUICKLY)
        assert ended["validity"] == "invalid" and ended["results"] == ["1 stream: no number, invalid"]
        assert any(text.startswith("short_output") for text in ended["flags"]) and size_bytes(ended) <= 1500


SLOW = Scenario(dialect="llamacpp", rate=400.0)
LONG = {"kind": "decode", "output_tokens": 256, "prompt_tokens": "128", "repeats": 10}


def test_a_cancelled_measurement_ends_at_once_and_keeps_its_bursts() -> None:
    with running(SLOW) as sim, a_bench_box(sim=sim.url) as bench:
        host = bench.gate_host()
        host.call("bench_run", LONG)
        until(lambda: (bench.box.state / "bench.db").exists() and bench.stored()[2], "a burst on disk")
        host.call("bench_job", {"cancel": True})
        ended = host.call("bench_job", {"wait_s": 20})
        assert (ended["state"], ended["validity"]) == ("cancelled", "cancelled") and bench.stored()[2]
        wait_until_ended(of_box(bench))
        assert any(truth.closed_ns and not truth.ended for truth in sim.truths())


def test_a_gate_that_is_killed_ends_its_measurement_and_the_run_reads_as_interrupted() -> None:
    with running(SLOW) as sim, a_bench_box(sim=sim.url) as bench:
        bench.gate_host().call("bench_run", LONG)
        until(lambda: bench.stored()[2], "a burst on disk")
        workers = of_box(bench)
        assert len(workers) == 1
        gates = bench.box.gate_pids()
        for pid in gates:
            os.kill(pid, signal.SIGKILL)
        wait_until_ended([*gates, *workers])
        told = json.loads(bench.box.command("bench", "show", "1", "--json").stdout)
        assert (told["state"], told["validity"]) == ("interrupted", "interrupted") and told["bursts"]
        [cell] = told["cells"]
        assert not cell["valid"] and cell["stats"]["decode_tok_s"]["median"] == pytest.approx(400.0, rel=0.3)
        assert bench.ended(bench.gate_host(), **QUICKLY)["run"] == 2


# -- from a terminal


def test_the_commands_read_what_the_tools_have_measured(bench: BenchBox) -> None:
    host, command = bench.host(), bench.box.command
    bench.ended(host, **SHORT | {"concurrency": "1,4"})
    bench.ended(host, **SHORT | {"concurrency": "1,4"})
    shown = command("bench", "show", "1")
    assert shown.returncode == 0 and "decode 100.0 tok/s a stream" in shown.stdout and "4 streams" in shown.stdout
    everything = json.loads(command("bench", "show", "1", "--json").stdout)
    assert everything["provenance"]["model"] == "model-of-main" and len(everything["bursts"]) == 4
    told = json.loads(command("bench", "history", "--json").stdout)
    assert [run["run_id"] for run in told] == [2, 1] and told[0]["cells"][0]["valid"] is True
    assert "model" in command("bench", "history").stdout
    compared = command("bench", "compare", "1", "2")
    assert compared.returncode == 0 and "verdict:" in compared.stdout
    assert command("bench", "compare", "1", "9").returncode == 1
    assert "there is no run 9" in command("bench", "show", "9").stderr
    assert json.loads(command("bench", "job", "1", "--json").stdout)["state"] == "done"
    assert command("bench", "reference", "qwen3.6-27b").returncode == 0
    assert command("bench", "run").returncode == 2


def test_help_lists_the_commands(bench: BenchBox) -> None:
    told = bench.box.command("bench", "--help").stdout
    assert all(name in told for name in ("run", "job", "compare", "history", "reference", "show"))


def test_a_gate_serves_the_benchmarks(bench: BenchBox) -> None:
    host = bench.box.host(sys.executable, "-I", "-m", "sparkgate.stdio", "bench")
    assert host.initialize()["serverInfo"]["name"] == "sparkbench"
    assert host.call("bench_history", {})["runs"] == []
    refused = bench.box.command("bench", "run", "decode", "--engine", "nobody", "--json")
    assert refused.returncode == 1 and json.loads(refused.stdout)["code"] == "unknown_engine"


def test_a_run_outlives_the_host_that_asked_for_it() -> None:
    with running(SLOW) as sim, a_bench_box(sim=sim.url) as bench:
        bench.box.configure(bench.box.config.read_text() + "[gate]\nidle_minutes = 0.01\n")
        host = bench.gate_host()
        host.call("bench_run", LONG | {"repeats": 5})
        until(lambda: bench.stored()[2], "a burst on disk")
        assert bench.box.gate_status()["jobs"] == 1
        host.close()
        gates = bench.box.gate_pids()
        os.kill(gates[0], signal.SIGTERM)
        wait_until_ended(gates)
        run, _, bursts = bench.stored()
        assert (run.state, len(bursts)) == ("done", 5)


@pytest.mark.engines  # it measures for real, so it is run where nothing else runs
def test_a_cap_on_streams_is_found_where_it_was_planted_by_the_real_measuring_process() -> None:
    scenario = Scenario(dialect="llamacpp", slots=4, rate=100, ttft_ms=10)
    with running(scenario) as engine, a_bench_box(main=engine.url) as made:
        host = made.gate_host()
        answer = made.ended(host, kind="sweep", concurrency="1,2,4,6", output_tokens=400, repeats=1)
        shown = made.box.command("bench", "show", "1", "--json").stdout
        report = made.box.command("bench", "report", "1").stdout
    assert "parallel" in str(answer), answer
    assert "keep to" not in str(answer)
    assert json.loads(shown)["finding"]["id"] == "queue_cap" and "parallel" in report
