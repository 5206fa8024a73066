"""One burst with all that was seen around it, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

from sparkgate.measure import engine_facts
from sparkgate.measure.clock import Sensors
from sparkgate.measure.energy import GpuSample, burst_energy
from sparkgate.measure.engine_counters import Counters
from sparkgate.measure.engine_facts import Drafting
from sparkgate.measure.metrics import Metrics, burst_metrics, median_metrics, request_metrics
from sparkgate.measure.sample import Sample

_UNTOLD = "the engine does not tell drafted tokens"
_NONE = "no token was drafted"


# No slots: they would leave no room for what is derived once.
@dataclass(frozen=True)
class BurstRecord:
    """One burst with all that was seen around it.

    Attributes:
        peaks: the most requests that the engine ran and let wait.
        runnable: processes of the host that wanted to run, now and then.
        swapped_in_pages: meanwhile; None when not known.
        idle_power_w: of the GPU before the run; `power_said` is what its reader complained of.
        engine: name of its kind.
        unprimed: why the request failed that should have shown the prefix of a warm burst; "" when it did not.
        gpu_share: of the model that lay in GPU memory after the burst, 0 to 1.
        other_gpu_processes: that computed on the GPU before the run, beside the engine.
    """

    repeat: int
    samples: tuple[Sample, ...]
    sensors: Sensors
    before: Counters = field(default_factory=dict)
    after: Counters = field(default_factory=dict)
    peaks: Counters = field(default_factory=dict)
    runnable: tuple[int, ...] = ()
    swapped_in_pages: int | None = None
    gpu: tuple[GpuSample, ...] = ()
    idle_power_w: float | None = None
    power_said: str = ""
    engine: str = ""
    unprimed: str = ""
    gpu_share: float | None = None
    other_gpu_processes: int | None = None

    @cached_property
    def answered(self) -> list[Sample]:
        return [one for one in self.samples if one.outcome == "ok"]

    @cached_property
    def requests(self) -> list[Metrics]:
        """The metrics of each request that was answered."""
        return [request_metrics(sample) for sample in self.answered]

    @cached_property
    def drafting(self) -> Drafting | None:
        """How drafting went; None when the engine does not tell."""
        return engine_facts.drafting(self.engine, self.answered, self.before, self.after)

    @cached_property
    def metrics(self) -> Metrics:
        """One value a metric: the median over its requests, and what only all of them together have."""
        one = median_metrics(self.requests)
        together = burst_metrics(self.samples)
        energy = burst_energy(self.samples, self.gpu, self.idle_power_w, said=self.power_said)
        flags = tuple(dict.fromkeys((*one.flags, *together.flags)))
        values = {**one.values, **together.values, **energy.values}
        counted = {name: value for name, value in self._counted().items() if values.get(name) is None}
        why = {**one.why_null, **together.why_null, **energy.why_null, "tokens_per_step": _UNTOLD}
        if self.drafting and not self.drafting.accepted_per_step:
            why["accept_rate"] = _NONE
        return Metrics({**values, **counted}, {name: why[name] for name in why if counted.get(name) is None}, flags)

    def _counted(self) -> dict[str, float | None]:
        """What the engine's counters tell, for where its answers do not."""
        told = self.drafting
        return {
            "cached_tokens": engine_facts.cached_tokens(self.before, self.after, len(self.samples)),
            "accept_rate": told.accept_rate if told else None,
            "tokens_per_step": told.tokens_per_step if told else None,
        }


def median_of(bursts: Sequence[BurstRecord], metric: str) -> float | None:
    """The median over the bursts that have it."""
    known = [value for burst in bursts if (value := burst.metrics.values.get(metric)) is not None]
    return median(known) if known else None
