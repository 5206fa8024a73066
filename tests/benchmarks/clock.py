"""How far off the clock of the benchmarks is, at loads from one stream to 128,000 events a second. Not a test.

Run it on an idle machine, from the top of the checkout:

    python tests/bench_clock.py            # all rows, three bursts each, after one that is thrown away
    python tests/bench_clock.py 500x16     # the rows whose name begins so

Each line has the errors against what the engine itself wrote down: decode (median stream), aggregate, first token; then
the sensors of the client. A row may be wrong only where it says so itself: its last column names the rule.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from statistics import median

import sim_engine
from sim_engine import Engine, Scenario, Truth

from sparkgate.measure.cell_facts import CellFacts
from sparkgate.measure.clock import Burst, Clock
from sparkgate.measure.crew import Crew
from sparkgate.measure.metrics import burst_metrics, request_metrics
from sparkgate.measure.validity import flags
from sparkgate.policy.local_stream import StreamDoor

BURSTS = 3
ROWS: Mapping[str, tuple[Scenario, int, int]] = {
    "100x1": (Scenario(rate=100, ttft_ms=100), 1, 200),
    "100x16": (Scenario(rate=100, ttft_ms=100), 16, 200),
    "500x16": (Scenario(rate=500, ttft_ms=100), 16, 1000),
    "2000x1": (Scenario(rate=2000, ttft_ms=100), 1, 2000),
    "2000x16": (Scenario(rate=2000, ttft_ms=100), 16, 2000),
    "500x64": (Scenario(rate=500, ttft_ms=100), 64, 1000),
    "2000x64": (Scenario(rate=2000, ttft_ms=100), 64, 2000),
    "100x1, 3 tokens a chunk": (Scenario(rate=100, ttft_ms=100, tokens_per_chunk=3), 1, 198),
    "100x1, role at once": (Scenario(rate=100, ttft_ms=1000, role="immediate"), 1, 200),
    "100x1, reasoning first": (Scenario(rate=100, ttft_ms=100, reasoning=150), 1, 200),
    "100x1, ends at 50": (Scenario(rate=100, ttft_ms=100, cap=50), 1, 200),
    "100x1, no usage": (Scenario(rate=100, ttft_ms=100, usage="never"), 1, 200),
}
"""Name → (engine, streams, tokens of each)."""


async def measure(engine: Engine, each: float, streams: int, tokens: int) -> list[tuple[Burst, list[Truth]]]:
    found = []
    """`each` is how many events one stream brings a second."""
    async with StreamDoor(engine.url) as door, Crew(Clock(door), {"url": engine.url, "headers": {}}, each) as crew:
        for number in range(BURSTS + 1):
            await door.ask("GET", "/reset")
            asked = {"stream": True, "max_tokens": tokens, "stream_options": {"include_usage": True}}
            message = [{"role": "user", "content": f"{number} of the words"}]
            body = json.dumps(asked | {"messages": message}).encode()
            burst = await crew.burst([body] * streams, 300.0)
            found.append((burst, await asyncio.to_thread(engine.truths)))
    return found[1:]


def line(burst: Burst, truths: list[Truth]) -> str:
    # By its schedule the first token is due with the first chunk, however many tokens that holds.
    spans = [(one.tokens - 1) / (one.last_ns - one.first_ns) for one in truths]
    span_ns = max(one.last_ns for one in truths) - min(one.first_ns for one in truths)
    together = sum(one.tokens - 1 for one in truths) / span_ns
    values = [request_metrics(one).values for one in burst.samples]
    decode = median(one["decode_tok_s"] or 0 for one in values) / median(spans) / 1e9 - 1
    aggregate = (burst_metrics(burst.samples).values["agg_decode_tok_s"] or 0) / together / 1e9 - 1
    first_ms = median(one["ttft_any_ms"] or 0 for one in values)
    first_ms -= median((one.first_ns - one.t0_ns) / 1e6 for one in truths)
    sensors = burst.sensors
    facts = CellFacts(
        len(truths),
        loop_lag_max_ms=sensors.loop_lag_max_ms,
        loop_lag_p99_ms=sensors.loop_lag_p99_ms,
        client_cpu_share=sensors.cpu_share,
        tokens_per_chunk=values[0]["tokens_per_chunk"],
        first_chunk_known="first_chunk_assumed" not in request_metrics(burst.samples[0]).flags,
    )
    said = ", ".join(flag.id for flag in flags(facts)) or "-"
    lag = f"lag {sensors.loop_lag_max_ms:6.1f} ms, {sensors.loop_lag_p99_ms:5.1f} ms at p99"
    client = f"{lag}  cpu {sensors.cpu_share:4.0%}  skew {sensors.start_skew_ms:5.1f} ms  {said}"
    return f"{decode:+8.2%} {aggregate:+8.2%} {first_ms:+7.1f} ms  {client}"


def main(wanted: str) -> None:
    print(f"{'engine':26} {'decode':>8} {'together':>8} {'first':>10}")
    for name, (scenario, streams, tokens) in ROWS.items():
        if name.startswith(wanted):
            with sim_engine.running(scenario) as engine:
                for burst, truths in asyncio.run(
                    measure(engine, scenario.rate / scenario.tokens_per_chunk, streams, tokens)
                ):
                    print(f"{name:26} {line(burst, truths)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
