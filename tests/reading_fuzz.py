"""`python reading_fuzz.py FIRST COUNT`: reads damaged pages, one a seed, within the limits of the real process.

The last line of its output is JSON: how often each outcome came, and the seeds whose outcome must not be.
"""

from __future__ import annotations

import json
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from sparkgate.policy.guard import Guard
from sparkgate.reading import document
from sparkgate.reading.choose import chosen
from sparkgate.reading.page import MAX_TEXT_BYTES, MESSAGES, Body, NotReadable, Read
from sparkgate.reading.shown import Asked, from_json, to_json
from sparkgate.reading.worker import LIMITS, OutOfTime

Random = random.Random
TOGETHER_CPU_S, EACH_S = 120, 3.0
TYPES = ("text/html", "text/html; charset=utf-16", "application/xml", "application/json", "application/pdf", "", "x")
TAGS = ("<table>", "<td>", "<pre>", "<ul><li>", "<blockquote>", "</p>", "<svg>", "<math>", "<template>", "<select>")


def flipped(data: bytes, choice: Random) -> bytes:
    out = bytearray(data)
    for _ in range(choice.randint(1, 200)):
        out[choice.randrange(len(out))] = choice.randrange(256)
    return bytes(out)


def cut(data: bytes, choice: Random) -> bytes:
    start, end = sorted(choice.randrange(len(data)) for _ in range(2))
    return data[:start] + data[end:]


def repeated(data: bytes, choice: Random) -> bytes:
    start = choice.randrange(len(data))
    piece = data[start : start + choice.randint(1, 200)]
    return data[:start] + piece * choice.randint(2, 500) + data[start:]


def nested(data: bytes, choice: Random) -> bytes:
    start = choice.randrange(len(data))
    return data[:start] + choice.choice(TAGS).encode() * choice.randint(1, 400) + data[start:]


def shuffled(data: bytes, choice: Random) -> bytes:
    pieces = data.split(b"<")
    choice.shuffle(pieces)
    return b"<".join(pieces)


WAYS: tuple[Callable[[bytes, Random], bytes], ...] = (flipped, cut, repeated, nested, shuffled)


def damaged(seed: int, documents: list[bytes]) -> Body:
    choice = Random(seed)
    data = choice.choice(documents)
    for _ in range(choice.randint(1, 3)):
        data = choice.choice(WAYS)(data, choice) or b" "
    return Body(data, choice.choice(TYPES), "https://a.example/b/")


def outcome(body: Body) -> str:
    try:
        signal.setitimer(signal.ITIMER_REAL, EACH_S, 0.1)
        found = document.read(body, OutOfTime)
        return "read" if holds(found) else "what was read does not hold"
    except NotReadable as reason:
        return reason.code if reason.code in MESSAGES else "unknown code"
    except OutOfTime:
        return "too_slow"
    except MemoryError:
        return "too_much_memory"
    except Exception as error:
        return f"raised {error!r}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


ASKED = (
    Asked(),
    Asked(start=100, max_chars=40_000),
    Asked(section="a"),
    Asked(section="optoins"),
    Asked(find="a of the"),
    Asked(query="words of a page", budget_bytes=2000),
)


def holds(found: Read) -> bool:
    marks = all(found.markdown[heading.start :].startswith("#") for heading in found.headings)
    return marks and len(found.markdown.encode()) <= MAX_TEXT_BYTES and all(passes(found, asked) for asked in ASKED)


def passes(found: Read, asked: Asked) -> bool:
    """What is shown of it stands in it, and comes through as it is."""
    shown = chosen(found, asked)
    line = json.dumps(to_json(shown), ensure_ascii=False).encode()
    there = asked.query or all(found.markdown[one.start : one.end] == one.text for one in shown.pieces)
    return bool(there) and from_json(json.loads(line)) == shown


def stop(*_: object) -> None:
    raise OutOfTime


def main(first: int, count: int) -> None:
    from reading_box import PAGES, words_pdf  # before files are scarce

    pages = [path.read_bytes() for path in sorted(Path(PAGES).iterdir())]
    pages += [words_pdf("Words of a page", 3), b'{"a": [1, {"b": "c"}]}' * 3]
    for limit, most in LIMITS.items():
        most = TOGETHER_CPU_S if limit == resource.RLIMIT_CPU else most
        resource.setrlimit(limit, (most, most))
    signal.signal(signal.SIGALRM, stop)
    Guard().install()
    outcomes = {seed: outcome(damaged(seed, pages)) for seed in range(first, first + count)}
    bad = {seed: told for seed, told in outcomes.items() if told != "read" and told not in MESSAGES}
    print(json.dumps({"outcomes": Counter(outcomes.values()), "bad": bad}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
