"""Energy of what was generated: the GPU's power over the time of generation, without what it draws when idle.

It is the power of the GPU alone, as nvidia-smi tells it: memory, CPU and disk of the machine are not in it.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from types import TracebackType
from typing import IO

from sparkgate.measure.metrics import Metrics
from sparkgate.measure.sample import Sample
from sparkgate.measure.timeline import stream_of
from sparkgate.policy.guard import Guard

FIELDS = ("power.draw", "utilization.gpu", "temperature.gpu", "clocks.sm", "clocks_event_reasons.active")
INTERVAL_MS = 100
"""nvidia-smi waits that long between two readings, and a reading takes tens of milliseconds of its own."""
MIN_SAMPLES = 20
MIN_RATE_HZ = 5.0
MAX_SAMPLES = 200_000
STOP_S = 2.0

REASONS: Mapping[int, str] = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""Bit of the driver's mask → why the clocks are where they are."""
SLOWING = frozenset({"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"})
"""Those that mean heat or a weak supply; a GPU at its power limit is only busy."""

_NO_SAMPLE = "nvidia-smi told no power{said}"
_FEW = "{n} of the {needed} readings of power it needs: generate for longer"
_SLOW = "power was read {rate:.1f} times a second, and {needed:g} are needed"
_NO_IDLE = "the power of the idle GPU is not known"
_NOT_ABOVE = "the GPU drew no more than when idle: another program used it before, or generation ran elsewhere"
_NO_TOKEN = "no token was generated in that time"

Window = tuple[int, int]
"""From when to when, in nanoseconds of the clock that stamps the readings."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One reading of one GPU; None for what it does not tell.

    Attributes:
        at_ns: when the reading was received, on the monotonic clock.
        busy_percent: of the time in which a kernel ran.
        reasons: names of `REASONS`.
    """

    at_ns: int
    power_w: float | None = None
    busy_percent: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    reasons: tuple[str, ...] | None = None


def command(gpu: str = "0", interval_ms: int = INTERVAL_MS) -> list[str]:
    """The words that make nvidia-smi print `FIELDS` of one GPU (index or UUID) until it is stopped."""
    query = ["nvidia-smi", f"--id={gpu}", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    return [*query, f"--loop-ms={interval_ms}"]


def parse(line: str, at_ns: int) -> GpuSample | None:
    """One line of `command`; None for a line that is no reading, such as a message."""
    words = [word.strip() for word in line.split(",")]
    if len(words) != len(FIELDS):
        return None
    power, busy, temperature, clock = (_number(word) for word in words[:-1])
    return GpuSample(at_ns, power, busy, temperature, clock, _reasons(words[-1]))


def _number(word: str) -> float | None:
    """A number at or above 0; None for "[N/A]", "[Not Supported]" and the like."""
    try:
        value = float(word)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _reasons(word: str) -> tuple[str, ...] | None:
    try:
        mask = int(word, 16)
    except ValueError:
        return None
    return tuple(name for bit, name in REASONS.items() if mask & bit)


def energy_j(powers: Sequence[tuple[int, float]], window: Window) -> float | None:
    """Joules of (ns, W) readings within a window, by trapezoids.

    Beyond the first and the last reading power is taken as theirs; None without a reading or without time.
    """
    since_ns, until_ns = window
    if not powers or until_ns <= since_ns:
        return None
    inner = [one for one in powers if since_ns < one[0] < until_ns]
    points = [(since_ns, power_at(powers, since_ns)), *inner, (until_ns, power_at(powers, until_ns))]
    return sum((then - at) / 1e9 * (before + after) / 2 for (at, before), (then, after) in pairwise(points))


def power_at(powers: Sequence[tuple[int, float]], at_ns: int) -> float:
    """Watts at a time: on the line between the readings round it, or those of the nearest one at the ends."""
    before = [one for one in powers if one[0] <= at_ns]
    after = [one for one in powers if one[0] > at_ns]
    if not before or not after:
        return (before[-1] if before else after[0])[1]
    (since_ns, low), (until_ns, high) = before[-1], after[0]
    return low + (high - low) * (at_ns - since_ns) / (until_ns - since_ns)


def idle_w(samples: Sequence[GpuSample]) -> float | None:
    """Watts of an idle GPU: the median of readings that were taken before anything was asked of it."""
    powers = [one.power_w for one in samples if one.power_w is not None]
    return median(powers) if powers else None


def energy_metrics(
    samples: Sequence[GpuSample], window: Window, tokens: float | None, idle: float | None, *, said: str = ""
) -> Metrics:
    """What a burst took. `window` is its decode window and `tokens` what it generated in it.

    `power_w` and `energy_j` are of the GPU as it is; from `j_per_token` the idle power is subtracted. All are None
    with fewer than 20 readings in the window, or fewer than 5 a second. `said` is what nvidia-smi said instead.
    """
    powers = [(one.at_ns, one.power_w) for one in samples if one.power_w is not None]
    span_s = (window[1] - window[0]) / 1e9
    why = _unread([at for at, _ in powers if window[0] <= at <= window[1]], span_s, bool(powers), said)
    whole_j = None if why else energy_j(powers, window)
    if whole_j is None:
        names = ("power_w", "energy_j", "j_per_token")
        return Metrics({"idle_power_w": idle, **dict.fromkeys(names)}, _reason_each(names, why, idle))
    per_token, why = _per_token(whole_j, span_s, tokens, idle)
    values = {"idle_power_w": idle, "power_w": whole_j / span_s, "energy_j": whole_j, "j_per_token": per_token}
    return Metrics(values, _reason_each(("j_per_token",) if why else (), why, idle))


def burst_energy(samples: Sequence[Sample], gpu: Sequence[GpuSample], idle: float | None, *, said: str = "") -> Metrics:
    """`energy_metrics` of requests that ran together, from the first token of all to the last.

    Tokens of first chunks are left out, as they were generated before; prefill of the later streams is within.
    """
    streams = [stream for sample in samples if sample.outcome == "ok" and (stream := stream_of(sample)).chunks]
    if not streams:
        return energy_metrics(gpu, (0, 0), None, idle, said=said)
    window = (min(one.begins_ns for one in streams), max(one.last_ns for one in streams))
    return energy_metrics(gpu, window, sum(one.generated for one in streams), idle, said=said)


def _reason_each(names: Sequence[str], why: str, idle: float | None) -> dict[str, str]:
    return dict.fromkeys(names, why) | ({"idle_power_w": _NO_IDLE} if idle is None else {})


def _unread(times_ns: Sequence[int], span_s: float, any_at_all: bool, said: str) -> str:
    """Why so few readings cannot give the energy of a window; "" when they can."""
    if not any_at_all:
        return _NO_SAMPLE.format(said=f": {said}" if said else "")
    if len(times_ns) < MIN_SAMPLES:
        return _FEW.format(n=len(times_ns), needed=MIN_SAMPLES)
    rate = len(times_ns) / span_s
    return _SLOW.format(rate=rate, needed=MIN_RATE_HZ) if rate < MIN_RATE_HZ else ""


def _per_token(whole_j: float, span_s: float, tokens: float | None, idle: float | None) -> tuple[float | None, str]:
    if not tokens:
        return None, _NO_TOKEN
    if idle is None:
        return None, _NO_IDLE
    net_j = whole_j - idle * span_s
    return (net_j / tokens, "") if net_j > 0 else (None, _NOT_ABOVE)


Lines = Iterator[str]
Source = Callable[[], AbstractContextManager[Lines]]
"""Opens a source of lines that ends when its context is left; raises OSError when there is none."""


def nvidia_smi(argv: Sequence[str], guard: Guard | None = None) -> Source:
    """A source of the lines of `command` (its program as an absolute path), under this process's connection guard."""

    @contextmanager
    def opened() -> Iterator[Lines]:
        with guard.child(argv) if guard else nullcontext():
            process = subprocess.Popen(
                list(argv),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        try:
            yield _lines(process.stdout)
        finally:
            _end(process)

    return opened


def _lines(output: IO[str] | None) -> Lines:
    if output is not None:
        with output:
            yield from output


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class PowerLog:
    """Reads a source on a thread of its own while its context is open; `samples` grow meanwhile.

    `said` is the last line that was no reading, or why there is no source: nothing here raises for a missing GPU.
    `others` are those that compute on the GPU beside the engine, None when nobody has counted them.
    """

    def __init__(self, source: Source, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._source, self._clock_ns = source, clock_ns
        self._opened: AbstractContextManager[Lines] | None = None
        self._thread: threading.Thread | None = None
        self._samples: list[GpuSample] = []
        self.said = ""
        self.others: int | None = None

    def __enter__(self) -> PowerLog:
        opened = self._source()
        try:
            lines = opened.__enter__()
        except OSError as error:
            self.said = error.strerror or type(error).__name__
            return self
        self._opened = opened
        self._thread = threading.Thread(target=self._read, args=(lines,), name="power", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            self._opened.__exit__(kind, error, trace)
        self.join(STOP_S)

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the source has ended by itself."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _read(self, lines: Lines) -> None:
        with suppress(OSError, ValueError):
            for line in lines:
                sample = parse(line, self._clock_ns())
                if sample is None:
                    self.said = " ".join(line.split())[:200] or self.said
                elif len(self._samples) < MAX_SAMPLES:
                    self._samples.append(sample)

    @property
    def samples(self) -> tuple[GpuSample, ...]:
        """What was read so far, the oldest first."""
        return tuple(self._samples)

    def since(self, at_ns: int) -> tuple[GpuSample, ...]:
        """What was read at that time or later."""
        return tuple(one for one in self.samples if one.at_ns >= at_ns)
