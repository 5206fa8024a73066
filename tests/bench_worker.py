"""A measuring process that measures nothing: it tells made-up bursts of the plan it is given, as the real one would.

`python bench_worker.py FOLDER`. Files in FOLDER, looked at again and again:

* `rate`: tokens per second of every stream, or JSON of hash → rate;   * `flags`: flags of every cell, as JSON;
* `hold`: after its first burst it waits until the file is gone;       * `deaf`: it does not end when asked to;
* `die`: it ends with code 3 after the first burst;                    * `fail`: it tells this failure, as JSON;
* `noise`: it also prints lines that are no events.

It appends its process id to `pids`, and what it was told to `orders`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

from sparkgate.measure.plan import Cell, from_json
from sparkgate.measure.record import burst_values
from sparkgate.measure.sample import Counts, EngineClock, Sample, TokenEvent, to_json

FOLDER = Path(sys.argv[1])
ended = threading.Event()


def asked(name: str) -> bool:
    return (FOLDER / name).exists()


def told(name: str, default: Any) -> Any:
    return json.loads((FOLDER / name).read_text()) if asked(name) else default


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def rate_of(cell: Cell) -> float:
    rates = told("rate", 100.0)
    return float(rates.get(str(cell.concurrency), 100.0) if isinstance(rates, dict) else rates)


def samples(cell: Cell, repeat: int) -> list[Sample]:
    """Streams at the rate that is asked for, a little slower in each repeat."""
    gap_ns = round(1e9 / rate_of(cell) * (1 + repeat / 1000))
    times = [200_000_000 + number * gap_ns for number in range(cell.output_tokens)]
    one = Sample(
        t0_ns=0,
        eof_ns=times[-1] + 1_000_000,
        events=tuple(TokenEvent(at_ns, "content", 1, 4) for at_ns in times),
        finish="length",
        model="m",
        counts=Counts(cell.prompt_tokens, cell.output_tokens, 0, 0, "usage"),
        engine=EngineClock(queue_ms=0.0),
    )
    return [one] * cell.concurrency


def wait_while(name: str) -> None:
    while asked(name) and not ended.is_set():
        time.sleep(0.01)


def end_with_input() -> None:
    sys.stdin.buffer.read()
    while asked("deaf"):
        time.sleep(0.01)
    ended.set()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: None if asked("deaf") else ended.set())
    with (FOLDER / "pids").open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    order = json.loads(sys.stdin.buffer.readline())
    with (FOLDER / "orders").open("a") as orders:
        orders.write(json.dumps(order) + "\n")
    threading.Thread(target=end_with_input, daemon=True).start()
    plan = from_json(order["plan"])
    if asked("fail"):
        say("failed", **told("fail", {}))
        return
    if asked("noise"):
        print("not an event", flush=True)
        print("[1, 2]", flush=True)
    model = order["model"]
    say("probe", engine="llamacpp", version="b1", model=model, rates={"prefill_tok_s": 1000.0, "decode_tok_s": 100.0})
    measured: dict[str, list[dict[str, float]]] = {}
    for done, step in enumerate(plan.steps):
        if ended.is_set():
            break
        cell = plan.cells[step.cell]
        burst = samples(cell, step.repeat)
        measured.setdefault(cell.hash, []).append(burst_values(burst))
        sensors = {"loop_lag_ms_max": 1.0}
        counters = {"generated_tokens": 7.0}
        lines: list[Any] = [to_json(one) for one in burst]
        say(
            "burst",
            cell=cell.key,
            repeat=step.repeat,
            samples=lines if done % 2 else [json.loads(one) for one in lines],
            sensors=sensors,
            engine_before=counters,
            engine_after=None,
        )
        headline = {"decode_tok_s": rate_of(cell)}
        say("progress", done=done + 1, of=len(plan.steps), cell=cell.key, headline=headline)
        if asked("die"):
            print("the disk is full", file=sys.stderr, flush=True)
            os._exit(3)
        wait_while("hold")
    for cell in plan.cells:
        close(cell, measured.get(cell.hash, []), plan.repeats)
    say("end", validity="cancelled" if ended.is_set() else told("validity", "valid"), notes=["a note"])


def close(cell: Cell, several: list[dict[str, float]], repeats: int) -> None:
    names = several[0] if several else {}
    columns = {name: [one[name] for one in several] for name in names}
    stats = {name: {"median": median(values), "n": len(values)} for name, values in columns.items()}
    flags = told("flags", [])
    invalid = any(flag["severity"] == "invalid" for flag in flags)
    status = "invalid" if invalid else "tainted" if flags else "valid"
    status = "cancelled" if len(several) < repeats else status
    facts = {"concurrency": cell.concurrency}
    say("cell", key=cell.key, hash=cell.hash, facts=facts, flags=flags, status=status, stats=stats, why_null={})


if __name__ == "__main__":
    main()
