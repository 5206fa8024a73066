"""Power readings as nvidia-smi prints them, the energy of a window, and what refuses a number."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sparkgate.measure.cell_facts import CellFacts
from sparkgate.measure.energy import (
    FIELDS,
    MIN_RATE_HZ,
    MIN_SAMPLES,
    REASONS,
    SLOWING,
    GpuSample,
    PowerLog,
    Source,
    burst_energy,
    command,
    energy_j,
    energy_metrics,
    idle_w,
    nvidia_smi,
    parse,
    power_at,
)
from sparkgate.measure.gpu import drift_facts, gpu_facts, other_processes, while_all_ran
from sparkgate.measure.sample import Counts, Sample, TokenEvent

S = 1_000_000_000


def readings(watts: Sequence[float], every_ns: int = S // 10) -> list[GpuSample]:
    return [GpuSample(number * every_ns, value) for number, value in enumerate(watts)]


def lines_of(*lines: str) -> Source:
    @contextmanager
    def opened() -> Iterator[Iterator[str]]:
        yield iter(lines)

    return opened


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        ("38.42, 96, 71, 2405, 0x0000000000000000", GpuSample(7, 38.42, 96, 71, 2405, ())),
        ("[N/A], 3, 44, 208, 0x0000000000000001", GpuSample(7, None, 3, 44, 208, ("gpu_idle",))),
        ("11.20, [N/A], [Not Supported], N/A, [N/A]", GpuSample(7, 11.2)),
        ("60, 99, 86, 1200, 0x28", GpuSample(7, 60, 99, 86, 1200, ("hw_slowdown", "sw_thermal_slowdown"))),
        ("nan, inf, -1, 5, none", GpuSample(7, None, None, None, 5)),
    ],
)
def test_what_is_not_told_is_none(line: str, sample: GpuSample) -> None:
    assert parse(line, 7) == sample


@pytest.mark.parametrize("line", ["", "No devices were found", "38.42", 'Field "power.draw" is not a valid field'])
def test_a_line_that_is_no_reading_is_none(line: str) -> None:
    assert parse(line, 0) is None


def test_every_reason_has_a_bit_of_its_own_and_the_slowing_ones_are_among_them() -> None:
    assert all(bit & (bit - 1) == 0 for bit in REASONS)
    assert set(REASONS.values()) >= SLOWING
    for bit, name in REASONS.items():
        sample = parse(f"1, 1, 1, 1, {bit:#018x}", 0)
        assert sample and sample.reasons == (name,)


def test_energy_of_steady_power_and_of_a_ramp() -> None:
    steady = [(number * S // 10, 40.0) for number in range(31)]
    assert energy_j(steady, (S // 2, 5 * S // 2)) == pytest.approx(80)
    ramp = [(number * S // 10, 10.0 * number) for number in range(11)]
    assert energy_j(ramp, (0, S)) == pytest.approx(50)
    assert energy_j(ramp, (S // 20, S // 10)) == pytest.approx((5 + 10) / 2 * 0.05)
    assert energy_j(ramp, (0, 2 * S)) == pytest.approx(150)


def test_energy_without_readings_or_without_time_is_none() -> None:
    assert energy_j([], (0, S)) is None
    assert energy_j([(0, 5.0)], (S, S)) is None
    assert power_at([(0, 5.0)], S) == 5


def test_idle_power_is_subtracted() -> None:
    samples = readings([30.0] * 41)
    told = energy_metrics(samples, (0, 4 * S), 400, 10.0)
    assert told.values == {
        "idle_power_w": 10,
        "power_w": pytest.approx(30),
        "energy_j": pytest.approx(120),
        "j_per_token": pytest.approx(0.2),
    }
    assert told.why_null == {}
    assert idle_w(readings([11, 12, 90])) == 12 and idle_w([GpuSample(0)]) is None


@pytest.mark.parametrize(
    ("watts", "every_ns", "tokens", "idle", "why"),
    [
        ([], S // 10, 400, 10.0, "told no power"),
        ([30.0] * (MIN_SAMPLES - 1), S // 10, 400, 10.0, f"19 of the {MIN_SAMPLES} readings"),
        ([30.0] * MIN_SAMPLES, S // 3, 400, 10.0, f"and {MIN_RATE_HZ:g} are needed"),
        ([30.0] * 40, S // 10, 0, 10.0, "no token"),
        ([30.0] * 40, S // 10, None, 10.0, "no token"),
        ([30.0] * 40, S // 10, 400, None, "idle GPU is not known"),
        ([30.0] * 40, S // 10, 400, 31.0, "no more than when idle"),
    ],
)
def test_energy_a_token_is_null_with_the_reason(
    watts: list[float], every_ns: int, tokens: int | None, idle: float | None, why: str
) -> None:
    window = (0, max(len(watts), 10) * every_ns)
    told = energy_metrics(readings(watts, every_ns), window, tokens, idle)
    assert told.values["j_per_token"] is None and why in told.why_null["j_per_token"]
    assert {name for name, value in told.values.items() if value is None} == set(told.why_null)


def streamed(first_ns: int, tokens: int, every_ns: int, **told: Any) -> Sample:
    events = tuple(TokenEvent(first_ns + number * every_ns, "content", 1, 4) for number in range(tokens))
    return Sample(0, events=events, counts=Counts(completion=tokens, source="usage"), **told)


def test_a_burst_is_counted_from_its_first_token_to_its_last() -> None:
    samples = [streamed(S, 41, S // 10), streamed(2 * S, 41, S // 10), Sample(0, outcome="failed", error="gone")]
    told = burst_energy(samples, readings([30.0] * 80), 10.0)
    assert told.values["energy_j"] == pytest.approx(30 * 5)
    assert told.values["j_per_token"] == pytest.approx(20 * 5 / 80)


def test_a_burst_without_an_answer_has_no_energy() -> None:
    told = burst_energy([Sample(0, outcome="failed", error="gone")], readings([30.0] * 80), 10.0)
    assert told.values["j_per_token"] is None and "it needs" in told.why_null["j_per_token"]


def test_what_nvidia_smi_said_instead_is_in_the_reason() -> None:
    told = energy_metrics([], (0, S), 10, None, said="No devices were found")
    assert told.why_null["j_per_token"] == "nvidia-smi told no power: No devices were found"


def test_facts_of_the_gpu_have_the_names_of_a_cell() -> None:
    samples = [
        GpuSample(0, 30, 90, 60, 2400, ("sw_power_cap",)),
        GpuSample(1, 30, 96, 88, 1800, ("sw_power_cap", "sw_thermal_slowdown")),
        GpuSample(2, 30, 98, 70, 2400, ()),
    ]
    facts = gpu_facts(samples)
    assert CellFacts(1, **facts).throttle_reasons == ("sw_thermal_slowdown",)
    assert (facts["gpu_busy_percent"], facts["gpu_temperature_max_c"], facts["sm_clock_median_mhz"]) == (96, 88, 2400)
    assert gpu_facts([GpuSample(0, 30)]) == {}


def test_a_log_stamps_readings_as_they_come_and_keeps_what_was_said() -> None:
    ticks = count(100)
    source = lines_of("30, 1, 1, 1, 0x0\n", "\n", "Unable to read\tthe GPU\n", "31, 1, 1, 1, 0x0\n")
    with PowerLog(source, lambda: next(ticks)) as log:
        log.join(10)
    assert [(one.at_ns, one.power_w) for one in log.samples] == [(100, 30), (103, 31)]
    assert log.said == "Unable to read the GPU" and [one.power_w for one in log.since(101)] == [31]


def test_a_missing_program_is_no_error() -> None:
    with PowerLog(nvidia_smi(["/nowhere/nvidia-smi"])) as log:
        log.join(10)
    assert log.samples == () and log.said == "No such file or directory"


STUB = """#!{python} -IS
import json, sys, time
from pathlib import Path
from typing import Any
Path({calls!r}).write_text(json.dumps(sys.argv[1:]))
for number in range(3):
    print("%d, 96, 70, 2400, 0x4" % (20 + number), flush=True)
time.sleep(600)
"""


def test_the_real_child_is_asked_exactly_this_and_ends_with_its_context(tmp_path: Path) -> None:
    program, calls = tmp_path / "nvidia-smi", tmp_path / "calls"
    program.write_text(STUB.format(python=sys.executable, calls=str(calls)))
    program.chmod(0o755)
    with PowerLog(nvidia_smi([str(program), *command("GPU-1")[1:]])) as log:
        for _ in range(3000):
            if len(log.samples) < 3:
                log.join(0.01)
    assert [one.power_w for one in log.samples] == [20, 21, 22]
    assert json.loads(calls.read_text()) == [
        "--id=GPU-1",
        f"--query-gpu={','.join(FIELDS)}",
        "--format=csv,noheader,nounits",
        "--loop-ms=100",
    ]


COUNTING = """#!{python} -IS
import json, sys
from pathlib import Path
with Path({calls!r}).open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
print({told!r})
sys.exit({code})
"""


def counting(tmp_path: Path, told: str, code: int = 0) -> tuple[str, Path]:
    """A program that stands for nvidia-smi, and the file of what it was asked."""
    program, calls = tmp_path / "nvidia-smi", tmp_path / "calls"
    program.write_text(COUNTING.format(python=sys.executable, calls=str(calls), told=told, code=code))
    program.chmod(0o755)
    return str(program), calls


def proc(tmp_path: Path, sessions: dict[int, int]) -> Path:
    """A /proc with these processes, each of a session."""
    for pid, session in sessions.items():
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "stat").write_text(f"{pid} (a (b) c) S 1 {pid} {session} 0 -1\n")
    return tmp_path / "proc"


@pytest.mark.parametrize(
    ("told", "others"),
    [
        ("100", 0),
        ("100\n101", 0),
        ("100\n100", 0),
        ("100\n101\n200", 1),
        ("100\n200\n300", 2),
        ("900\n901", 0),
        ("100\n900", 1),
        ("", 0),
        ("No running processes found", 0),
        ("[N/A]", 0),
    ],
)
def test_other_processes_on_the_gpu_are_those_of_other_sessions(tmp_path: Path, told: str, others: int) -> None:
    program, calls = counting(tmp_path, told)
    sessions = proc(tmp_path, {100: 100, 101: 100, 200: 200, 300: 300})
    assert other_processes(program, proc=sessions) == others
    assert [json.loads(line) for line in calls.read_text().splitlines()] == [
        ["--query-compute-apps=pid", "--format=csv,noheader"]
    ]


def test_without_an_answer_nobody_is_counted(tmp_path: Path) -> None:
    program, _ = counting(tmp_path, "100\n200", code=9)
    assert other_processes(program) is None and other_processes(str(tmp_path / "gone")) is None


def test_the_guard_lets_the_count_pass(tmp_path: Path) -> None:
    program, _ = counting(tmp_path, "100\n200")
    code = (
        "import sys; from sparkgate.measure.gpu import other_processes; from sparkgate.policy.guard import Guard\n"
        "guard = Guard(); guard.install(); print(other_processes(sys.argv[1], guard))"
    )
    told = subprocess.run([sys.executable, "-I", "-c", code, program], capture_output=True, text=True, check=True)
    assert told.stdout == "0\n"


def test_steady_readings_lie_where_all_streams_ran() -> None:
    samples = [streamed(S, 11, S // 10), streamed(S * 3 // 2, 11, S // 10)]
    assert [one.at_ns for one in while_all_ran(samples, readings([1.0] * 40))] == [
        place * S // 10 for place in range(15, 21)
    ]
    assert while_all_ran([], readings([1.0])) == [] and drift_facts([]) == {}
