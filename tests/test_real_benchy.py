"""What sparkgate measures beside what another benchmark measures, on one engine that keeps to its schedule."""

from __future__ import annotations

import pytest
import real_benchy
import sim_engine
from sim_engine import Scenario
from test_measure_worker import events_of, only, order, small, worker

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("streams", [1, 4])
def test_both_benchmarks_say_the_same_of_one_engine(streams: int) -> None:
    scenario = Scenario(rate=100, ttft_ms=100)
    with sim_engine.running(scenario) as engine:
        planned = small(output_tokens=200, prompt_tokens=(128,), concurrency=(streams,), repeats=3)
        with worker(order(engine, planned)) as process:
            events = events_of(process)
        theirs = real_benchy.measured(engine.url, 200, streams)
        slowest_ms = max(truth.slowest_ns for truth in engine.truths()) / 1e6
    [cell] = only(events, "cell")
    ours, late_ms = cell["stats"], cell["facts"]["loop_lag_max_ms"]
    off = 0.01 + (late_ms + slowest_ms + 10.0 * streams) / 1990  # their streams begin one after the other
    assert ours["decode_tok_s"]["median"] == pytest.approx(theirs["tg_req_throughput"]["mean"], rel=off)
    assert ours["agg_decode_tok_s"]["median"] == pytest.approx(theirs["tg_throughput"]["mean"], rel=off)
    assert ours["decode_tok_s"]["median"] == pytest.approx(100, rel=off)
