"""What an engine needs, the size of its weights, and whether it fits."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from sparkgate.change.fit import CACHE_SIZES, NAMES_NO_ENGINE, SHARES, Fit, Need, Share, fits, need, workspace
from sparkgate.engine_settings import EngineSettings
from sparkgate.engines import ENGINES
from sparkgate.machine.commands import Completed
from sparkgate.machine.memory import Memory, read_memory
from sparkgate.machine.weights import weights_gib

GB10_GIB = 127601452 / 1024**2
GB10 = Memory(GB10_GIB, 117.0, unified=True, gpu=True, pressure_full_avg10=0.0, holders=())
MIB = 1024**2
OPTIONS = [option for share in SHARES for option in share.options]
DOCKER = ("docker", "run", "--gpus", "all", "-v", "/m:/m", "-p", "8000:8000", "vllm/vllm-openai:v0.25.1", "Qwen/Q")


def entry(
    *command: str, engine: str = "", memory_gib: float = 0.0, environment: tuple[str, ...] = ()
) -> EngineSettings:
    return EngineSettings(engine=engine, command=command, memory_gib=memory_gib, environment=environment)


def reserved(of: EngineSettings) -> float | None:
    """The share of 100 GiB that is reserved by an engine of which nothing else is known."""
    return need(of, None, None, 100.0).gib


def file(path: Path, size_mib: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as made:
        made.truncate(int(size_mib * MIB))
    return path


def mib(path: Path) -> float | None:
    size = weights_gib(str(path))
    return None if size is None else size * 1024


# Needs


def test_a_configured_need_counts_before_a_learnt_one_and_that_before_the_weights() -> None:
    told = entry("llama-server", engine="llamacpp", memory_gib=30)
    assert need(told, 20, 25, GB10_GIB) == Need(30, "memory_gib", ("memory_gib: 30.0 GiB",))
    assert need(replace(told, memory_gib=0), 20, 25, GB10_GIB).source == "learnt"
    from_weights = need(replace(told, memory_gib=0), 20, None, GB10_GIB)
    assert (from_weights.gib, from_weights.source) == (25.0, "weights")
    assert from_weights.parts == ("weights 20.0 GiB x 1.05: 21.0 GiB", "workspace and a small cache: 4.0 GiB")


@pytest.mark.parametrize("nothing", [None, 0.0])
def test_a_need_of_which_nothing_is_known_is_not_zero(nothing: float | None) -> None:
    assert need(entry("llama-server", engine="llamacpp"), nothing, nothing, GB10_GIB) == Need(None)


@pytest.mark.parametrize(("weights", "gib"), [(0.1, 0.25), (0.5, 0.25), (2.0, 1.0), (8.0, 4.0), (200.0, 4.0)])
def test_a_small_model_gets_a_small_workspace(weights: float, gib: float) -> None:
    assert workspace(weights) == gib


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_that_reserves_a_share_is_read_in_every_way_it_is_written(option: str) -> None:
    flag, under = f"--{option}", f"--{option.replace('-', '_')}"
    for words in ((flag, "0.4"), (f"{flag}=0.4",), (under, "0.4"), (f"{under}=.4",), ("bash", "-c", f"x {flag} '0.4'")):
        assert reserved(entry("serve", *words, "--port", "1")) == pytest.approx(40), words
    assert reserved(entry(*DOCKER, flag, "0.4", "--seed", "1")) == pytest.approx(40)
    assert reserved(entry(*DOCKER[:-2], "-e", f"{under[2:].upper()}=0.4", "image")) == pytest.approx(40)
    assert reserved(entry("serve", environment=(f"{under[2:].upper()}=0.4",))) == pytest.approx(40)
    assert reserved(entry("serve", "--config", f'{{"kv": {{"{under[2:]}": 0.4}}}}')) == pytest.approx(40)


@pytest.mark.parametrize("share", [share for share in SHARES if share.engine], ids=lambda share: share.engine)
def test_an_engine_that_reserves_a_share_without_being_told_is_counted_with_its_default(share: Share) -> None:
    assert share.engine in ENGINES
    found = need(entry("serve", engine=share.engine), 1.0, None, 100.0)
    assert found.gib == pytest.approx(100 * share.default)
    assert "the default" in found.source and 0 < share.default <= 1
    assert reserved(entry(engine=share.engine)) is None, "what starts it is not known"


@pytest.mark.parametrize("engine", NAMES_NO_ENGINE)
def test_an_engine_that_is_not_named_is_known_by_its_command(engine: str) -> None:
    assert not engine or engine in ENGINES
    assert reserved(entry(*DOCKER, engine=engine)) == pytest.approx(92)
    assert reserved(entry("python3", "-m", "sglang.launch_server", engine=engine)) == pytest.approx(90)
    assert reserved(entry("llama-server", "-m", "x.gguf", engine=engine)) is None


def test_an_engine_that_is_named_is_not_guessed_from_a_path() -> None:
    assert reserved(entry("llama-server", "-m", "/models/vllm/x.gguf", engine="llamacpp")) is None


@pytest.mark.parametrize("value", ["$SHARE", "0", "1.5", "-0.5", "nan", "inf", "1e400", "", "9" * 400])
def test_a_share_that_is_no_share_leaves_the_default(value: str) -> None:
    assert reserved(entry("vllm", "serve", "--gpu-memory-utilization", value, engine="vllm")) == pytest.approx(92)


def test_of_an_option_given_twice_the_last_counts() -> None:
    twice = ("--gpu-memory-utilization", "0.9", "--gpu-memory-utilization", "0.3")
    assert reserved(entry("vllm", *twice, engine="vllm")) == pytest.approx(30)


def test_a_share_counts_whatever_else_is_known_unless_that_is_more() -> None:
    half = entry("vllm", "serve", "m", "--gpu-memory-utilization", "0.50", engine="vllm")
    small = need(half, 2.0, None, GB10_GIB)
    assert small.gib == pytest.approx(60.85, abs=0.01) and small.source == "gpu-memory-utilization 0.5"
    assert small.parts[-1] == "gpu-memory-utilization 0.5 of 121.7 GiB: 60.8 GiB"
    surprised = need(half, 22.0, 81.7, GB10_GIB)
    assert (surprised.gib, surprised.source) == (81.7, "learnt") and len(surprised.parts) == 2
    assert need(replace(half, memory_gib=70), None, None, GB10_GIB).gib == 70
    assert need(half, 2.0, None, None).source == "weights"


@pytest.mark.parametrize("option", [name for name, unit_bytes in CACHE_SIZES.items() if unit_bytes == 1])
@pytest.mark.parametrize(
    ("value", "gib"), [("17179869184", 16), ("16G", 16), ("16GiB", 16), ("2g", 2e9 / 1024**3), ("512M", 0.5)]
)
def test_a_cache_sized_in_bytes_takes_the_place_of_the_share(option: str, value: str, gib: float) -> None:
    command = entry("vllm", "serve", "--gpu-memory-utilization", "0.9", f"--{option}", value, engine="vllm")
    found = need(command, 20.0, None, GB10_GIB)
    assert found.source == "weights" and found.gib == pytest.approx(25 + gib)
    assert found.parts[-1].startswith("cache of a configured size")


def test_a_cache_of_the_cpu_is_sized_in_gib() -> None:
    served = entry("vllm", "serve", engine="vllm", environment=("VLLM_CPU_KVCACHE_SPACE=2",))
    assert need(served, 4.0, None, 20.0).gib == pytest.approx(4.2 + 2 + 2)
    assert need(served, None, None, 20.0) == Need(None)


def test_a_cache_of_unreadable_size_leaves_the_share() -> None:
    command = entry("vllm", "serve", "--kv-cache-memory-bytes", "$KV", engine="vllm")
    assert reserved(command) == pytest.approx(92)


# Fits


def test_what_the_outgoing_engine_returns_is_credited() -> None:
    memory = replace(GB10, available_gib=30.0)
    fit = fits(memory, 80.0, Need(90.0, "learnt"), 8.0)
    assert fit == Fit(True, 30.0, 80.0, 90.0, 8.0, 20.0)
    alone = fits(memory, 0.0, Need(90.0, "learnt"), 8.0)
    assert not alone.ok and alone.left_gib == -60.0


def test_a_refusal_says_all_its_numbers() -> None:
    fit = fits(replace(GB10, available_gib=117.04), 0.0, Need(0.92 * GB10_GIB, "gpu-memory-utilization 0.92"), 8.0)
    assert not fit.ok and fit.reason == (
        "it needs 112.0 GiB (gpu-memory-utilization 0.92); 117.0 GiB are available and 0.0 GiB come back, "
        "so that 5.0 GiB would stay free where 8.0 GiB must"
    )


def test_the_headroom_is_kept_to_the_tenth_of_a_gib() -> None:
    assert fits(replace(GB10, available_gib=58.0), 0.0, Need(50.0, "x"), 8.0).ok
    assert not fits(replace(GB10, available_gib=57.9), 0.0, Need(50.0, "x"), 8.0).ok


def test_no_more_than_a_tenth_of_a_small_memory_must_stay_free() -> None:
    small = Memory(24.0, 20.0, "nvidia-smi", unified=False, gpu=True)
    fit = fits(small, 0.0, Need(17.6, "x"), 8.0)
    assert fit.ok and (fit.headroom_gib, fit.left_gib) == (2.4, 2.4)
    assert not fits(small, 0.0, Need(17.7, "x"), 8.0).ok


def test_a_need_that_is_not_known_is_a_warning_that_says_how_to_make_it_known() -> None:
    fit = fits(GB10, 0.0, Need(None), 8.0)
    assert fit.ok and fit.need_gib is None and fit.left_gib is None
    assert "memory_gib or weights" in fit.warnings[0]


def test_a_need_that_is_not_known_does_not_fit_where_nothing_would() -> None:
    fit = fits(replace(GB10, available_gib=5.0), 1.0, Need(None), 8.0)
    assert not fit.ok and fit.reason == (
        "5.0 GiB are available and 1.0 GiB come back, less than the 8.0 GiB that must stay free"
    )


@pytest.mark.parametrize(("percent", "ok"), [(None, True), (0.0, True), (10.0, True), (10.1, False), (63.0, False)])
def test_a_machine_that_waits_for_memory_gets_no_further_load(percent: float | None, ok: bool) -> None:
    for wanted in (Need(10.0, "x"), Need(None)):
        fit = fits(replace(GB10, pressure_full_avg10=percent), 50.0, wanted, 8.0)
        assert fit.ok is ok and (ok or "short of memory already" in fit.reason)


def test_the_pressure_is_that_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "memory").write_text("full avg10=41.20 avg60=9.00 avg300=2.00 total=1\n")
    (tmp_path / "meminfo").write_text("MemTotal: 127601452 kB\nMemAvailable: 122683392 kB\n")
    memory = read_memory(lambda argv, timeout_s: Completed(None, stderr="nvidia-smi did not end in time"), tmp_path)
    assert fits(memory, 0.0, Need(1.0, "x"), 8.0).reason == (
        "the machine is short of memory already: for 41.2 % of the last 10 s everything waited for it"
    )


def test_memory_that_is_not_known_is_a_warning_and_not_zero() -> None:
    fit = fits(Memory(None, None), 0.0, Need(10.0, "x"), 8.0)
    assert fit.ok and fit.available_gib is None and fit.headroom_gib == 8.0
    assert "not known" in fit.warnings[0]


def test_swap_that_is_nearly_full_is_a_warning() -> None:
    full = replace(GB10, swap_free_gib=0.5, swap_total_gib=16.0)
    assert fits(full, 0.0, Need(10.0, "x"), 8.0).warnings == ("swap is nearly full: 0.5 of 16.0 GiB are free",)
    assert fits(replace(full, swap_total_gib=0.0, swap_free_gib=0.0), 0.0, Need(10.0, "x"), 8.0).warnings == ()


# Weights


def test_a_weight_file_is_its_size_and_a_split_one_the_size_of_all_parts(tmp_path: Path) -> None:
    assert mib(file(tmp_path / "one.gguf", 3)) == 3
    for number, size in enumerate((5, 6, 7), 1):
        file(tmp_path / f"big-Q4-0000{number}-of-00003.gguf", size)
    file(tmp_path / "big-Q8-00001-of-00003.gguf", 50)
    file(tmp_path / "big-Q4-00001-of-00002.gguf", 50)
    assert mib(tmp_path / "big-Q4-00002-of-00003.gguf") == 18


@pytest.mark.parametrize(
    ("names", "size"),
    [
        (("a.safetensors", "b.safetensors", "config.json"), 2),
        (("model.safetensors", "pytorch_model.bin"), 1),
        (("model-00001-of-00001.safetensors", "consolidated.safetensors"), 1),
        (("consolidated.safetensors",), 1),
        (("pytorch_model-1.bin", "pytorch_model-2.bin"), 2),
        (("x.gguf", "mmproj.gguf"), 2),
        (("unet/x.safetensors", "vae/y.safetensors", "deep/er/z.safetensors"), 2),
    ],
)
def test_a_folder_is_the_weights_that_are_loaded_from_it(tmp_path: Path, names: tuple[str, ...], size: int) -> None:
    for name in names:
        file(tmp_path / name, 1)
    assert mib(tmp_path) == size


def cached_model(root: Path) -> Path:
    """A model in the cache of Hugging Face: two snapshots whose files are links to blobs, some to the same."""
    model = root / "models--org--name"
    for blob, size in (("aa", 10), ("bb", 20), ("cc", 7)):
        file(model / "blobs" / blob, size)
    links = {
        "old/model.safetensors": "cc",
        "new/1.safetensors": "aa",
        "new/2.safetensors": "bb",
        "new/3.safetensors": "bb",
    }
    for link, blob in (*links.items(), ("new/4.safetensors", "unfinished")):
        place = model / "snapshots" / link
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(Path("../../blobs") / blob)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("new\n")
    return model


def test_links_of_a_cache_are_followed_and_each_real_file_counts_once(tmp_path: Path) -> None:
    model = cached_model(tmp_path)
    assert mib(model / "snapshots" / "new") == 30
    assert mib(model / "snapshots" / "old") == 7


def test_of_a_cached_model_the_main_snapshot_counts(tmp_path: Path) -> None:
    model = cached_model(tmp_path)
    assert mib(model) == 30
    (model / "refs" / "main").write_text("old")
    assert mib(model) == 7


@pytest.mark.parametrize("main", ["gone", "", None])
def test_without_a_main_snapshot_the_newest_counts(tmp_path: Path, main: str | None) -> None:
    model = cached_model(tmp_path)
    (model / "refs" / "main").unlink() if main is None else (model / "refs" / "main").write_text(main)
    os.utime(model / "snapshots" / "old", (2e9, 2e9))
    assert mib(model) == 7


def test_where_there_are_no_weights_their_size_is_unknown(tmp_path: Path) -> None:
    file(tmp_path / "empty.gguf", 0)
    (tmp_path / "models--a--b" / "snapshots").mkdir(parents=True)
    for place in ("empty.gguf", "absent.gguf", "x-00001-of-00002.gguf", "models--a--b", "."):
        assert mib(tmp_path / place) is None, place
    assert weights_gib("") is None and weights_gib("~nobody-of-this-name/x.gguf") is None
