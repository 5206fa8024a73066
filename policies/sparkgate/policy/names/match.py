"""A closer look at a text in which names are suspected: where each one begins and ends, and whether it is one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from sparkgate.policy.names.fold import Folding, Words, fold, readings
from sparkgate.policy.names.index import Index, Tick
from sparkgate.policy.names.parse import Key
from sparkgate.policy.names.words import ENDINGS, LONGEST_ENDING, PLURALS, STEM_ENDINGS, is_common

Place = tuple[int, int, int]
"""Number of the term, start and end of it in the source."""

SPACES = (" ", "\t")
SPELLED = 4
"""Letters a name needs to be read when each of its letters stands alone."""
ENDED = 5
"""Letters a name needs before an ending of a language; one letter less is enough for a plural."""
DISTINCT = 7
"""Letters a name needs to be seen inside another word without a joint, or over one break."""

LONGEST_TAIL = 16
"""Letters in which a derived word must end."""

_JOINT = re.compile(r"""[\s_.+/:\-‐-―·'’"“”„«»「」『』]{0,4}""")
_LINK = re.compile(r"""[\s_.+/:\-‐-―·'’"“”„«»「」『』&＆]{0,5}""")
_BETWEEN_LETTERS = re.compile(r"[^\w\x00]{1,3}|[^\w\x00]{0,2}_[^\w\x00]{0,2}")
_BREAK = re.compile(r"[-_.*~|‐‑]{1,2}\s{0,4}|\r?\n|\s")


def matches(text: str, folding: Folding, index: Index, tick: Tick) -> Iterator[Place]:
    """Every name in a text folded by `folding`; `tick` is called once for each candidate."""
    folded = fold(text, folding)
    exact = index.exact(folded.replace(" ", "") if text.isascii() else "".join(folded.split()))
    suspected = index.suspects(readings(text, folded), tick)
    if not exact and not suspected:
        return
    words = Words.of(text, folding)
    for end, keys in exact:
        tick()
        for key in keys:
            yield from _exact(words, key, end)
    if suspected:
        pieces = list(words.pieces())
        for spans in (words.spans, pieces) if pieces != words.spans else (pieces,):
            yield from _by_word(words, index, spans, tick)


def _by_word(words: Words, index: Index, spans: Sequence[tuple[int, int]], tick: Tick) -> Iterator[Place]:
    texts = [words.folded[start:end] for start, end in spans]
    likely = set(index.misspelt.likely(texts))
    for text, (start, end) in zip(texts, spans, strict=True):
        if text in index.short or text in likely:
            tick()
            short = {key.term for key in index.short.get(text, ())}
            found = index.misspelt.find(text) if text in likely else set()
            yield from ((term, *words.span(start, end)) for term in short | found)
    for pair in index.pairs.find(texts, tick):
        joint = _LINK if any(pair.name.links) else _JOINT
        inside = spans[pair.first : pair.last + 1]
        if all(joint.fullmatch(words.between(a[1], b[0])) for a, b in pairwise(inside)):
            yield pair.name.term, *words.span(inside[0][0], inside[-1][1])


def _exact(words: Words, key: Key, last_offset: int) -> Iterator[Place]:
    """The place of a key that ends at an offset of the joined text, when it stands there as a name."""
    first_offset = last_offset - len(key.text) + 1
    gaps = words.gaps(first_offset, last_offset)
    if gaps and not _is_spelled(words, key, first_offset, gaps):
        return
    if key.spaced and not {first_offset + cut for cut in key.cuts}.issubset(gaps):
        return
    first, last = words.place(first_offset), words.place(last_offset)
    end = _end(words, key, first, last + 1)
    if end is None and key.stem:
        return
    if (words.edge(first) and end is not None) or (not gaps and _is_inside(words, key, first_offset)):
        yield key.term, *words.span(first, end or last + 1)


def _end(words: Words, key: Key, first: int, end: int) -> int | None:
    """Where the name ends when an edge follows it, or an ending and an edge; else None."""
    if key.open_ended:
        return _derived_end(words, key, end)
    if not key.stem and words.edge(end):
        return end
    endings = _endings(key)
    for stop in range(min(end + LONGEST_ENDING, len(words.folded)), end, -1):
        ending = words.folded[end:stop]
        if ending in endings and words.edge(stop):
            return stop if _is_inflection(words.folded[first:stop], ending, key) else None
    return None


def _derived_end(words: Words, key: Key, end: int) -> int | None:
    """Where the word ends; None for a much longer one, and for an ordinary one that is longer than the name's."""
    stop = next((stop for stop in range(end, min(end + LONGEST_TAIL, len(words.folded) + 1)) if words.edge(stop)), None)
    if stop is None or stop - end <= key.open_ended:
        return stop
    begin = end - len(key.text) + key.cuts[-1]
    return None if is_common(words.folded[begin:stop]) else stop


def _endings(key: Key) -> frozenset[str]:
    if key.stem:
        return STEM_ENDINGS
    if len(key.text) >= ENDED:
        return ENDINGS
    return PLURALS if len(key.text) == ENDED - 1 else frozenset()


def _is_inflection(word: str, ending: str, key: Key) -> bool:
    return (ending in PLURALS and not key.stem) or not is_common(word)


def _is_inside(words: Words, key: Key, offset: int) -> bool:
    """Whether a long name may be seen in the midst of a word: neither it nor that word is an ordinary one."""
    if len(key.text) < DISTINCT or not key.text.isalpha():
        return False
    return not is_common(key.text) and not is_common(words.word(offset))


def _is_spelled(words: Words, key: Key, first: int, gaps: list[int]) -> bool:
    """Whether what stands between the letters of a key is what people put there."""
    inner = [gap - first for gap in gaps if gap - first not in key.cuts]
    outer = [gap for gap in gaps if gap - first in key.cuts]
    if not inner:
        return all((_LINK if gap - first in key.links else _JOINT).fullmatch(words.gap(gap)) for gap in outer)
    if key.stem or key.open_ended:
        return False
    if _is_letter_by_letter(key, inner):
        return all(_BETWEEN_LETTERS.fullmatch(words.gap(gap)) for gap in gaps)
    by_space = [gap for gap in inner if words.gap(first + gap) in SPACES]
    return (len(inner) == 1 or not by_space) and all(_is_broken(words, key, first, gap) for gap in inner)


def _is_letter_by_letter(key: Key, inner: list[int]) -> bool:
    """Whether each part of the key is in one piece or in single letters."""
    bounds = [0, *key.cuts, len(key.text)]
    counts = [(stop - start - 1, sum(start < gap < stop for gap in inner)) for start, stop in pairwise(bounds)]
    return len(key.text) >= SPELLED and all(count in (0, size) for size, count in counts)


def _is_broken(words: Words, key: Key, first: int, at: int) -> bool:
    """Whether a break within a long name is a hyphen, or a space that does not make two words of it."""
    gap = words.gap(first + at)
    if len(key.text) < DISTINCT or not _BREAK.fullmatch(gap):
        return False
    bounds = [0, *key.cuts, len(key.text)]
    start, stop = max(bound for bound in bounds if bound <= at), min(bound for bound in bounds if bound >= at)
    two_words = gap.isspace() and is_common(key.text[start:at]) and is_common(key.text[at:stop])
    return (min(at - start, stop - at) > 1 or not gap.isspace()) and not two_words
