"""How much memory there is and who holds it: GB10, a GPU with memory of its own, and no GPU at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sparkgate.machine.commands import Completed, Run, runner
from sparkgate.machine.memory import Held, Holder, Memory, foreign_holders, held, read_memory

GB10_TOTAL_KB, GB10_AVAILABLE_KB = 127601452, 122683392
MEMINFO = f"""MemTotal:       {GB10_TOTAL_KB} kB
MemFree:         3145728 kB
MemAvailable:   {GB10_AVAILABLE_KB} kB
SwapTotal:      16777212 kB
SwapFree:        8388608 kB
HugePages_Total:       0
"""
PRESSURE = "some avg10=3.10 avg60=1.00 avg300=0.20 total=9\nfull avg10=2.50 avg60=0.80 avg300=0.10 total=7\n"
GPU_ARGV = ["--query-gpu=memory.total,memory.used,memory.free", "--format=csv,noheader,nounits"]
PROCESS_ARGV = ["--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv,noheader,nounits"]
NOT_TOLD = "[N/A], [N/A], [N/A]\n"
PROCESSES = "1201, /usr/bin/python3, 83661\n1302, VLLM::EngineCore, [N/A]\n"

STUB = """#!{python} -I
import json, pathlib, sys
folder = pathlib.Path(__file__).parent
with (folder / "asked").open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
code, stdout, stderr = json.loads((folder / sys.argv[1].split("=")[0].lstrip("-")).read_text())
print(stdout, end="")
print(stderr, end="", file=sys.stderr)
sys.exit(code)
"""


class NvidiaSmi:
    """A program of this name on PATH that prints fixtures and keeps what it was asked."""

    def __init__(self, folder: Path, gpus: str, processes: str, codes: tuple[int, int] = (0, 0)) -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        (self.folder / "nvidia-smi").write_text(STUB.format(python=sys.executable))
        (self.folder / "nvidia-smi").chmod(0o755)
        (self.folder / "query-gpu").write_text(json.dumps([codes[0], gpus, ""]))
        (self.folder / "query-compute-apps").write_text(json.dumps([codes[1], processes, ""]))

    @property
    def run(self) -> Run:
        return runner(environment={"PATH": str(self.folder)})

    @property
    def asked(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "asked").read_text().splitlines()]


def no_gpu(argv: Sequence[str], timeout_s: float) -> Completed:
    return Completed(None, stderr=f"{argv[0]} is not installed")


def answers(*told: Completed) -> Run:
    """A `Run` that ends so, one call after the other."""
    rest: Iterator[Completed] = iter(told)
    return lambda argv, timeout_s: next(rest)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """The /proc of a GB10 with 117 GiB available."""
    folder = tmp_path / "proc"
    (folder / "pressure").mkdir(parents=True)
    (folder / "meminfo").write_text(MEMINFO)
    (folder / "pressure" / "memory").write_text(PRESSURE)
    return folder


def test_on_one_memory_for_cpu_and_gpu_the_available_memory_of_the_kernel_is_the_limit(
    tmp_path: Path, proc: Path
) -> None:
    smi = NvidiaSmi(tmp_path, NOT_TOLD, PROCESSES)
    memory = read_memory(smi.run, proc)
    assert smi.asked == [GPU_ARGV, PROCESS_ARGV]
    assert memory == Memory(
        total_gib=GB10_TOTAL_KB / 1024**2,
        available_gib=117.0,
        source="meminfo",
        unified=True,
        gpu=True,
        pressure_full_avg10=2.5,
        swap_free_gib=8.0,
        swap_total_gib=16777212 / 1024**2,
        holders=(Holder(1201, "python3", 83661 / 1024), Holder(1302, "VLLM::EngineCore", None)),
    )


@pytest.mark.parametrize("words", ["[N/A]", "N/A", "Not Supported", "[Not Supported]"])
def test_memory_that_a_gpu_does_not_have_is_never_read_as_zero(proc: Path, words: str) -> None:
    memory = read_memory(answers(Completed(0, f"{words}, {words}, {words}\n"), Completed(0, "")), proc)
    assert (memory.unified, memory.available_gib, memory.holders, memory.notes) == (True, 117.0, (), ())


@pytest.mark.parametrize("words", ["[N/A]", "N/A", "Not Supported", "[Not Found]", "[Insufficient Permissions]", ""])
def test_what_a_process_holds_is_unknown_and_not_zero_when_it_is_not_told(proc: Path, words: str) -> None:
    memory = read_memory(answers(Completed(0, NOT_TOLD), Completed(0, f"77, /opt/x/server, {words}\n")), proc)
    assert memory.holders == (Holder(77, "server", None),)
    assert held([77], memory) == Held(None, "nvidia-smi tells no size for it")


def test_gpus_with_memory_of_their_own_are_summed(tmp_path: Path, proc: Path) -> None:
    smi = NvidiaSmi(tmp_path, "24564, 1024, 23540\n24564, 24564, 0\n", "9, /a/llama-server, 512\n9, x, 512\n")
    memory = read_memory(smi.run, proc)
    assert (memory.source, memory.unified, memory.gpu) == ("nvidia-smi", False, True)
    assert (memory.total_gib, memory.available_gib) == (2 * 24564 / 1024, 23540 / 1024)
    assert memory.swap_total_gib and held([9, 9], memory) == Held(1.0, "nvidia-smi compute-apps", 1.0)


def test_a_gpu_that_does_not_tell_beside_one_that_does_is_left_out_with_a_note(proc: Path) -> None:
    memory = read_memory(answers(Completed(0, f"24564, 0, 24564\n{NOT_TOLD}"), Completed(0, "")), proc)
    assert (memory.total_gib, memory.unified) == (24564 / 1024, False)
    assert "1 of 2 GPUs" in memory.notes[0]


def test_a_broken_gpu_does_not_make_the_memory_shared(proc: Path) -> None:
    lost = "[Unknown Error], [Unknown Error], [Unknown Error]\n"
    memory = read_memory(answers(Completed(0, lost), Completed(0, "")), proc)
    assert (memory.unified, memory.gpu) == (None, True) and "1 of 1 GPUs" in memory.notes[0]


def test_without_nvidia_smi_the_memory_is_that_of_the_machine(tmp_path: Path, proc: Path) -> None:
    memory = read_memory(runner(environment={"PATH": str(tmp_path)}), proc)
    assert (memory.gpu, memory.unified, memory.source, memory.available_gib) == (False, None, "meminfo", 117.0)
    assert memory.holders is None and memory.notes == ()


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (Completed(None, stderr="nvidia-smi did not end within 5 s"), "did not end within 5 s"),
        (Completed(9, "NVIDIA-SMI has failed because it couldn't communicate with the driver."), "communicate"),
        (Completed(3), "it ended with 3"),
        (Completed(0, "nonsense\n"), "not a table"),
    ],
)
def test_an_nvidia_smi_that_hangs_or_fails_is_a_note_and_asked_once(proc: Path, ended: Completed, reason: str) -> None:
    memory = read_memory(answers(ended), proc)
    assert (memory.gpu, memory.unified, memory.available_gib) == (None, None, 117.0)
    assert reason in memory.notes[0]
    assert held([os.getpid()], memory) == Held(None, "nvidia-smi does not answer")


def test_a_machine_whose_driver_finds_no_gpu_has_none(proc: Path) -> None:
    memory = read_memory(answers(Completed(6, "No devices were found\n")), proc)
    assert memory.gpu is False and "No devices" in memory.notes[0]


def test_holders_are_unknown_and_not_absent_when_the_second_question_fails(tmp_path: Path, proc: Path) -> None:
    memory = read_memory(NvidiaSmi(tmp_path, NOT_TOLD, "", codes=(0, 4)).run, proc)
    assert memory.gpu is True and memory.holders is None and "who holds GPU memory" in memory.notes[0]
    assert held([1], memory) == Held(None, "nvidia-smi does not tell who holds GPU memory")
    assert foreign_holders(memory, []) == ()


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("/usr/bin/python3", "python3"),
        ("/opt/llama-server --api-key s3cret /x", "llama-server"),
        ("odd, name", "odd,"),
        ("[Not Found]", ""),
        ("", ""),
        ("/x/a\u202e\x1bb", "ab"),
    ],
)
def test_a_process_is_shown_by_its_program_and_not_by_its_arguments(proc: Path, told: str, name: str) -> None:
    memory = read_memory(answers(Completed(0, NOT_TOLD), Completed(0, f"5, {told}, 1024\nfive, x, 1\n\n")), proc)
    assert memory.holders == (Holder(5, name, 1.0),)


def test_memory_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    memory = read_memory(no_gpu, tmp_path / "nothing")
    unknown = (memory.total_gib, memory.available_gib, memory.pressure_full_avg10, memory.swap_free_gib)
    assert unknown == (None, None, None, None) and "MemAvailable" in memory.notes[0]


def test_the_memory_of_this_machine_is_read() -> None:
    memory = read_memory(no_gpu)
    assert memory.total_gib and memory.available_gib and 0 < memory.available_gib <= memory.total_gib


def on_gpus(*holders: Holder) -> Memory:
    return Memory(120.0, 100.0, unified=True, gpu=True, holders=holders)


def test_processes_hold_what_the_gpu_tells_of_them() -> None:
    memory = on_gpus(Holder(10, "python3", 80.0), Holder(11, "worker", 1.5), Holder(12, "other", 4.0))
    assert held([10, 11, 99], memory) == Held(81.5, "nvidia-smi compute-apps", 81.5)
    assert held([99], memory) == Held(None, "nvidia-smi lists none of its processes")
    assert held([], memory) == Held(None, "no process of it is known")


def test_holders_that_nobody_knows_come_largest_first() -> None:
    known, small, unsized, large = (Holder(n, "x", size) for n, size in enumerate((50.0, 1.0, None, 30.0)))
    assert foreign_holders(on_gpus(known, small, unsized, large), {known.pid}) == (large, small, unsized)


def test_without_a_gpu_a_process_holds_its_share_of_memory() -> None:
    block = "import sys; held = bytearray(b'x' * 50_000_000); print(len(held), flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", block], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()
        found = held([process.pid, process.pid], read_memory(no_gpu))
    assert found.source == "smaps_rollup" and found.gib and found.returns_gib
    assert 0.045 < found.returns_gib < found.gib < 0.2
    assert held([process.pid], read_memory(no_gpu)).gib is None


def test_a_process_of_another_user_holds_its_resident_pages(proc: Path) -> None:
    (proc / "7").mkdir()
    (proc / "7" / "status").write_text("Name:\tllama-server\nVmRSS:\t 3145728 kB\nRssFile:\t 2097152 kB\n")
    (proc / "8").mkdir()
    (proc / "8" / "smaps_rollup").write_text("Rss:  9 kB\nPss:  1048576 kB\nPss_File:  524288 kB\n")
    found = held([7, 8, 9], read_memory(no_gpu, proc), proc)
    assert (found.gib, found.returns_gib) == (4.0, 1.5)
    assert found.source == "VmRSS, shared pages counted in each process, smaps_rollup"
