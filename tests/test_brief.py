"""Answers are cut by a size that is counted without writing them."""

from __future__ import annotations

import json
import random
from typing import Any

from sparkgate.brief import bounded, fit, listed_bytes, size_bytes


def written(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "replace"))


def anything(draw: random.Random, depth: int = 0) -> Any:
    kind = draw.randrange(8 if depth < 4 else 6)
    if kind < 3:
        return "".join(draw.choice('ab"\\\n\t\x01é🙂\ud800—') for _ in range(draw.randrange(9)))
    if kind < 6:
        return draw.choice([None, True, False, draw.randrange(-(10**6), 10**6), draw.random()])
    if kind == 6:
        return [anything(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {f"é{number}\n": anything(draw, depth + 1) for number in range(draw.randrange(4))}


def test_the_size_that_is_counted_is_the_one_that_is_written() -> None:
    draw = random.Random(1)
    for _ in range(3000):
        value = anything(draw)
        assert size_bytes(value) == written(value)


def test_the_first_result_fits_with_all_that_its_place_in_the_answer_costs() -> None:
    rest: dict[str, Any] = {"ok": True, "results": []}
    long = {"title": "t" * 80, "url": "https://a.example/", "code": "x\n" * 400}
    for budget_bytes in range(200, 1200, 7):
        first = bounded(long, budget_bytes - written(rest), listed_bytes)
        told = rest | {"results": fit(rest, [first], budget_bytes)}
        assert written(told) <= budget_bytes
