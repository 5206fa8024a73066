"""What is shown of a page: a part of it, a section, or the places where words stand. Pure; offsets are characters."""

from __future__ import annotations

import difflib
import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from sparkgate.reading.page import MAX_HEADING_CHARS, Heading, Read
from sparkgate.reading.visible import INVISIBLE

AT_LEAST = 0.5
"""A part ends at a paragraph or a line when that leaves so large a share of it."""
NEAREST = 5
MAX_WORDS = 12


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the text from `start` to before `end`, of `of` in all; `next` is where to go on, None at the end."""

    text: str
    start: int
    end: int
    of: int
    next: int | None


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what is below it, from `start` to before `end`."""

    heading: Heading
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NoSection:
    """No heading is called so; `nearest` are those that come close, the closest first."""

    nearest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of the text around words that were looked for; `under` is the heading above it."""

    text: str
    start: int
    end: int
    under: str


@dataclass(frozen=True, slots=True)
class Found:
    """Where words stand.

    Attributes:
        hits: how often any of them stands in the text, with those that no passage shows.
        passages: in the order of the text; the ones with most of the words where not all can be shown.
        missing: words that stand nowhere.
    """

    hits: int
    passages: tuple[Passage, ...]
    missing: tuple[str, ...]


def part(read: Read, start: int, max_chars: int) -> Part:
    """A part of at most `max_chars` from `start` on; it ends between paragraphs, lines or words where it can."""
    text = read.markdown
    start = max(0, min(start, len(text)))
    end = _end_of_part(text, start, max(1, max_chars))
    return Part(text[start:end], start, end, len(text), end if end < len(text) else None)


def _end_of_part(text: str, start: int, max_chars: int) -> int:
    end = start + max_chars
    if end >= len(text):
        return len(text)
    least = start + max(1, int(max_chars * AT_LEAST))
    for boundary in ("\n\n", "\n", " "):
        found = text.rfind(boundary, least, end)
        if found > 0:
            return found + len(boundary)
    return end


def section(read: Read, name: str) -> Section | NoSection:
    """The section of a heading, until the next of its level or above. Case, accents and punctuation do not matter.

    The heading that is called so, else the first that begins so, else the first that has it in it.
    """
    wanted = _simple(name)
    called = [_simple(heading.text) for heading in read.headings]
    for fits in (str.__eq__, str.startswith, str.__contains__):
        for number, text in enumerate(called):
            if wanted and fits(text, wanted):
                return _section(read, number)
    near = difflib.get_close_matches(wanted, list(dict.fromkeys(called)), NEAREST, 0.5)
    return NoSection(tuple(read.headings[called.index(text)].text for text in near))


def _section(read: Read, number: int) -> Section:
    heading = read.headings[number]
    later = (one.start for one in read.headings[number + 1 :] if one.level <= heading.level)
    end = next(later, len(read.markdown))
    return Section(heading, read.markdown[heading.start : end].rstrip(), heading.start, end)


def _simple(text: str) -> str:
    return " ".join(re.findall(r"[\w.+#*/-]*\w[\w.+#*/-]*", _folded(text[:MAX_HEADING_CHARS])[0]))


def find(read: Read, words: str | Sequence[str], context_chars: int = 200, most: int = 5) -> Found:
    """Passages with `context_chars` on both sides of the words, overlapping ones as one, in any case and accents.

    Words of a text are taken apart at spaces; those of a sequence may hold spaces.
    """
    text = read.markdown
    folded, offsets = _folded(text)
    wanted = [_folded(word)[0] for word in (words.split() if isinstance(words, str) else words)]
    wanted = list(dict.fromkeys(word for word in wanted if word.strip()))[:MAX_WORDS]
    hits = sorted((start, end, word) for word in wanted for start, end in _places(folded, offsets, word))
    groups = list(_merged(hits, context_chars))
    best = sorted(groups, key=lambda group: (-len({word for _, _, word in group}), group[0][0]))[: max(0, most)]
    shown = sorted(best, key=lambda group: group[0][0])
    there = {word for _, _, word in hits}
    passages = tuple(_passage(read, group[0][0], max(end for _, end, _ in group), context_chars) for group in shown)
    return Found(len(hits), passages, tuple(word for word in wanted if word not in there))


Hit = tuple[int, int, str]


def _places(folded: str, offsets: Sequence[int] | None, word: str) -> Iterator[tuple[int, int]]:
    """Start and end of a word in the text that was folded."""
    for match in re.finditer(re.escape(word), folded):
        start, end = match.span()
        yield (bisect_right(offsets, start), bisect_right(offsets, end - 1) + 1) if offsets else (start, end)


def _merged(hits: Sequence[Hit], context_chars: int) -> Iterator[list[Hit]]:
    """Hits whose passages overlap."""
    group: list[Hit] = []
    reach = 0
    for hit in hits:
        if group and hit[0] - context_chars > reach:
            yield group
            group = []
        group.append(hit)
        reach = max(reach if len(group) > 1 else 0, hit[1] + context_chars)
    if group:
        yield group


def _passage(read: Read, first: int, last: int, context_chars: int) -> Passage:
    text = read.markdown
    start, end = max(0, first - context_chars), min(len(text), last + context_chars)
    if start:
        start = _next_word(text, start, first)
    if end < len(text):
        end = max(text.rfind(" ", last, end), text.rfind("\n", last, end), -1)
        end = end if end > 0 else min(len(text), last + context_chars)
    above = bisect_right([heading.start for heading in read.headings], first) - 1
    return Passage(text[start:end], start, end, read.headings[above].text if above >= 0 else "")


def _next_word(text: str, start: int, before: int) -> int:
    """The beginning of a word at or after `start`."""
    match = re.compile(r"\s").search(text, start - 1, before)
    return match.end() if match else start


class _Fold(dict[str, str]):
    """Each character in its simplest form, which may be none or several characters."""

    def __missing__(self, character: str) -> str:
        parts = "" if INVISIBLE.match(character) else unicodedata.normalize("NFKD", character).casefold()
        self[character] = simple = "".join(c for c in parts if not unicodedata.combining(c))
        return simple


def _folded(text: str) -> tuple[str, list[int] | None]:
    """The text without case and accents, and where each character of `text` ends in it; None: where it was."""
    if text.isascii():
        return text.lower(), None
    fold = _Fold()
    simple = [fold[character] for character in text]
    folded = "".join(simple)
    if len(folded) == len(text) and all(len(one) == 1 for one in fold.values()):
        return folded, None
    return folded, list(accumulate(map(len, simple)))


def hash_of(read: Read) -> str:
    """Twelve letters that change with the text, so that who reads it in parts sees that the page has changed."""
    return hashlib.sha256(read.markdown.encode("utf-8", "surrogatepass")).hexdigest()[:12]
