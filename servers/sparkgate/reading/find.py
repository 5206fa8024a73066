"""The places of a page where words stand. Pure; offsets are characters."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from sparkgate.reading.fold import folded
from sparkgate.reading.page import Read
from sparkgate.reading.part import Piece

MAX_WORDS, MAX_WORD_CHARS = 12, 200
MAX_PLACES = 2000
"""Of one word; one that stands more often tells nothing beside others."""
MAX_SPAN_CHARS = 1500
"""From the first to the last of the words in one passage."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where words stand.

    Attributes:
        hits: how often any of them stands in the text, with those that no passage shows.
        passages: in the order of the text; the ones with most of the words where not all can be shown.
        missing: those that stand nowhere, by their place in `words_of` what was asked.
    """

    hits: int
    passages: tuple[Piece, ...]
    missing: tuple[int, ...]


def words_of(asked: str) -> list[str]:
    """The words, taken apart at spaces, each once."""
    return list(dict.fromkeys(word[:MAX_WORD_CHARS] for word in asked.split()))[:MAX_WORDS]


def find(read: Read, words: Sequence[str], context_chars: int = 200, most: int = 5) -> Found:
    """Passages with `context_chars` on both sides of the words, overlapping ones as one, in any case and accents."""
    text, offsets = folded(read.markdown)
    wanted = [folded(word)[0].strip() for word in words]
    times = {word: text.count(word) for word in wanted if word}
    hits = sorted((start, end, word) for word in _telling(times) for start, end in _places(text, offsets, word))
    groups = list(_merged(hits, context_chars))
    best = sorted(groups, key=lambda group: (-len({word for _, _, word in group}), group[0][0]))[: max(0, most)]
    shown = sorted(best, key=lambda group: group[0][0])
    passages = tuple(_passage(read, group[0][0], max(end for _, end, _ in group), context_chars) for group in shown)
    missing = tuple(place for place, word in enumerate(wanted) if word and not times[word])
    return Found(sum(times.values()), passages, missing)


Hit = tuple[int, int, str]


def _telling(times: dict[str, int]) -> list[str]:
    """The words to show; the ones that stand everywhere only where there are no others."""
    there = [word for word, count in times.items() if count]
    return [word for word in there if times[word] <= MAX_PLACES] or there


def _places(text: str, offsets: Sequence[int] | None, word: str) -> Iterator[tuple[int, int]]:
    """Start and end of a word in the text that was folded."""
    for match in islice(re.finditer(re.escape(word), text), MAX_PLACES):
        start, end = match.span()
        yield (bisect_right(offsets, start), bisect_right(offsets, end - 1) + 1) if offsets else (start, end)


def _merged(hits: Sequence[Hit], context_chars: int) -> Iterator[list[Hit]]:
    """Hits whose passages overlap, as far as they are one passage still."""
    group: list[Hit] = []
    reach = 0
    for hit in hits:
        if group and (hit[0] - context_chars > reach or hit[1] - group[0][0] > MAX_SPAN_CHARS):
            yield group
            group = []
        reach = max(reach if group else 0, hit[1] + context_chars)
        group.append(hit)
    if group:
        yield group


def _passage(read: Read, first: int, last: int, context_chars: int) -> Piece:
    text = read.markdown
    start, end = max(0, first - context_chars), min(len(text), last + context_chars)
    if start:
        start = _next_word(text, start, first)
    if end < len(text):
        space = max(text.rfind(" ", last, end), text.rfind("\n", last, end))
        end = space if space > 0 else end
    end = min(end, start + MAX_SPAN_CHARS + 2 * context_chars)
    above = bisect_right([heading.start for heading in read.headings], first) - 1
    return Piece(text[start:end], start, end, read.headings[above].text if above >= 0 else "")


def _next_word(text: str, start: int, before: int) -> int:
    """The beginning of a word at or after `start`."""
    match = re.compile(r"\s").search(text, start - 1, before)
    return match.end() if match else start
