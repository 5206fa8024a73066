"""How a measured engine was started, as its owner tells it: drafting, sequences, and the load of this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkgate.bench_launch import launch_facts, load_facts
from sparkgate.change.jobs import Jobs
from sparkgate.runtimes.spec import Look

VLLM = ("vllm", "serve", "nvidia/Qwen3.6-35B-A3B-NVFP4", "--max-model-len", "131072")
SGLANG = ("python", "-m", "sglang.launch_server", "--speculative-algorithm", "EAGLE3")
MTP = '{"method":"mtp","num_speculative_tokens":3}'
STARTED: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "vllm without": ("vllm", VLLM, {"speculation": ""}),
    "vllm with a config": (
        "vllm",
        (*VLLM, "--max-num-seqs", "16", "--speculative-config", MTP),
        {"speculation": "MTP k=3", "max_sequences": 16},
    ),
    "vllm with = and _": (
        "vllm",
        (*VLLM, "--max_num_seqs=8", f"--speculative_config={MTP}"),
        {"speculation": "MTP k=3", "max_sequences": 8},
    ),
    "vllm field by field": (
        "vllm",
        (*VLLM, "--speculative-config.method", "qwen3_next_mtp", "--speculative-config.num_speculative_tokens", "2"),
        {"speculation": "MTP k=2"},
    ),
    "vllm of old": (
        "vllm",
        (*VLLM, "--speculative-model", "org/small", "--num-speculative-tokens", "5"),
        {"speculation": "draft k=5"},
    ),
    "vllm with a draft model": (
        "vllm",
        (*VLLM, "--speculative-config", '{"model": "org/eagle", "num_speculative_tokens": 4}'),
        {"speculation": "draft k=4"},
    ),
    "vllm with a broken config": ("vllm", (*VLLM, "--speculative-config", "{"), {}),
    "vllm with a file": ("vllm", (*VLLM, "--config", "x.yaml"), {}),
    "a shell": (
        "vllm",
        ("/bin/sh", "-c", f"exec vllm serve m --max-num-seqs 4 --speculative-config '{MTP}'"),
        {"speculation": "MTP k=3", "max_sequences": 4},
    ),
    "sglang": (
        "sglang",
        (*SGLANG, "--max-running-requests", "32", "--speculative-num-draft-tokens", "4"),
        {"speculation": "EAGLE3 k=4", "max_sequences": 32},
    ),
    "llama.cpp without": ("llamacpp", ("/opt/llama-server", "-m", "x.gguf"), {"speculation": ""}),
    "llama.cpp": (
        "llamacpp",
        ("llama-server", "-m", "x.gguf", "-md", "small.gguf", "--draft-max", "8", "-np", "4"),
        {"speculation": "draft k=8", "max_sequences": 4},
    ),
    "llama.cpp, drafting off": (
        "llamacpp",
        ("llama-server", "--draft-max", "0", "--parallel", "2"),
        {"speculation": "", "max_sequences": 2},
    ),
    "automatic": ("llamacpp", ("llama-server", "-np", "-1"), {"speculation": ""}),
    "a script of the owner": ("vllm", ("/entrypoint.sh",), {}),
    "an option without its value": ("vllm", ("/entrypoint.sh", "--max-num-seqs"), {}),
}


@pytest.mark.parametrize("case", STARTED)
def test_drafting_and_sequences_are_read_from_the_command(case: str) -> None:
    engine, argv, told = STARTED[case]
    assert launch_facts(engine, Look("running", argv=argv)) == told


def test_sequences_of_ollama_are_read_from_its_environment() -> None:
    look = Look("running", environment={"OLLAMA_NUM_PARALLEL": "4", "OLLAMA_HOST": "0.0.0.0"})
    assert launch_facts("ollama", look) == {"max_sequences": 4}
    assert launch_facts("ollama", Look("running", environment={"OLLAMA_NUM_PARALLEL": "0"})) == {}


def test_nothing_is_told_of_an_engine_without_an_owner_or_one_whose_process_its_owner_does_not_know() -> None:
    assert launch_facts("vllm", None) == {}
    assert launch_facts("vllm", Look("stopped", argv=VLLM)) == {}


# -- the load clock


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(tmp_path / "jobs.db")
    yield made
    made.close()


def ready_at_s(jobs: Jobs) -> float:
    """When the latest load was ready."""
    from sqlite_utils import Database

    return float(next(Database(jobs.path).query("SELECT max(at_s) AS at_s FROM learnt"))["at_s"])


def test_the_load_of_the_process_that_runs_now_is_told_with_its_source(jobs: Jobs) -> None:
    jobs.learn("main", "launch", None, 90.0)
    looked = Look("running", since_s=ready_at_s(jobs) - 88)
    told = load_facts(jobs.path, "main", "launch", looked)
    assert told["load_s"] == 90.0 and told["load_source"].startswith("the job of sparkgate that was ready at 20")


def test_of_several_loads_the_one_that_began_with_the_process_counts(jobs: Jobs) -> None:
    jobs.learn("main", "launch", None, 400.0)
    jobs.learn("main", "launch", None, 60.0)
    started_long_ago = Look("running", since_s=ready_at_s(jobs) - 399)
    assert load_facts(jobs.path, "main", "launch", started_long_ago)["load_s"] == 400.0
    assert load_facts(jobs.path, "main", "launch", Look("running", since_s=ready_at_s(jobs) - 59))["load_s"] == 60.0


def test_a_load_of_another_process_engine_or_launch_is_left_out(jobs: Jobs) -> None:
    jobs.learn("main", "launch", None, 90.0)
    during = Look("running", since_s=ready_at_s(jobs) - 88)
    restarted, earlier = Look("running", since_s=ready_at_s(jobs) + 600), Look("running", since_s=1.0)
    assert load_facts(jobs.path, "main", "launch", restarted) == {}
    assert load_facts(jobs.path, "main", "launch", earlier) == {}
    assert load_facts(jobs.path, "main", "other launch", during) == {}
    assert load_facts(jobs.path, "other", "launch", during) == {}


def test_without_the_start_of_the_process_or_jobs_there_is_no_load(jobs: Jobs, tmp_path: Path) -> None:
    jobs.learn("main", "launch", None, 90.0)
    assert load_facts(jobs.path, "main", "launch", Look("running")) == {}
    assert load_facts(jobs.path, "main", "launch", None) == {}
    assert load_facts(tmp_path / "none.db", "main", "launch", Look("running", since_s=1.0)) == {}
    assert not (tmp_path / "none.db").exists()
