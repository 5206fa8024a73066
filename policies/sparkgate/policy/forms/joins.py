"""Words that were taken apart, as the edits that put them together again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, product

from sparkgate.policy.forms.numerals import may_be_said, said
from sparkgate.policy.forms.outline import Outlines
from sparkgate.policy.forms.view import Edit, View, rewrite
from sparkgate.policy.literals import any_of

CONTEXT_CHARS = 80
"""On each side of a joint: what a rule wants to see beside a value."""
WORD_CHARS = 1000
"""A word that reaches further is kept so far."""
MIN_CHARS = 10
"""Of a word that is worth putting together."""

_SINGLES = re.compile(r"""(?<![^\s"'`(\[{<=:,.?])\S(?:\s{1,6}\S){7,}(?![^\s"'`)\]}>,.;:!?&])""")
_SINGLE = re.compile(r"\s\S\s{1,6}\S\s")
_BLANK = re.compile(r"\s+")
_WRAPPED = re.compile(
    r"(?<=[\w+/=.:@-])[ \t]*(?:\\?\r?\n[ \t>|#]*){1,3}(?:(?:[0-9]{1,2}[.)]|[-*\u2022])[ \t]+)?(?=[\w+/=.:@-])|\\n"
)
_MARKUP = re.compile(r"(?<=[\w+/=.:@-])(?:</?[A-Za-z]{1,8} ?/?>|\*\*){1,3}(?=[\w+/=.:@-])")
_ADDRESS = re.compile(r"(?:https?://|www\.)[^\s\"'<>]{12,}")
_COMPONENT = re.compile(r"[^/?&=;#:.\s]{2,}")
_PREFIXES = (
    *(f"gh{kind}_" for kind in "pousr"), *(f"xox{kind}-" for kind in "abp"), "github_pat_", "hf_", "sk-", "AKIA",
    "ASIA", "glpat-", "nvapi-", "tvly-", "npm_", "pypi-", "gsk_", "AIza", "eyJ", "dckr_pat_", "sk_live_", "rk_live_",
)  # fmt: skip
_PREFIXED = re.compile(
    rf"(?<![A-Za-z0-9])((?:{'|'.join(_PREFIXES)})[A-Za-z0-9_-]*)(?:[^\w\n]{{1,3}}[A-Za-z0-9_+/=-]{{2,100}}){{1,8}}"
)
_WORD = re.compile(r"[A-Z]?[a-z]+(?![A-Za-z0-9_+/=-])")
_BETWEEN = re.compile(r"(?<=[A-Za-z0-9_+/=-])(?!-\w)[^\w\n]{1,3}(?=[A-Za-z0-9_+/=-])")
_WORD_AFTER = re.compile(r"\S{1,64}")
_OTHER_BLANKS = re.compile(r"(?<=\S)[^\S\n\r ]+(?=\S)")
_QUOTED = re.compile(r"""(?<=\S)["'`]\s{0,3}(?:\+|\.{1,2}|,|&|\|\|)?\s{0,3}["'`](?=\S)""")
_QUERY = re.compile(r"[?&;][^\s?&;=]{1,64}=[^\s&;]*(?:[&;][^\s&;=]{1,64}=[^\s&;]*)+")
_VALUE = re.compile(r"(?<==)[^\s&;=]{4,}")
_PATH = re.compile(r"/(?<![/:]/)[^\s/?#]+(?:/[^\s/?#]+)+")
_SEGMENT = re.compile(r"(?<=/)[^\s/?#]{4,}")
_PLAIN = re.compile(r"[A-Za-z]?[a-z]*|[0-9]{1,6}")
_CHUNK = re.compile(r"\S+")
_SHAPE = re.compile(r"[aA0_+/=-]{1,12}")
_ODD = re.compile(r"(?=\S*0)\S*[aA]|\S*a\S*A")
_GROUP = re.compile(r"[A-Za-z0-9_+/=-]{1,12}")
_CHUNK_CHARS = 12
_PART_CHARS = 20
_UNEVEN = re.compile(r"[0-9]|[a-z][A-Z]|[A-Z][a-z]+[A-Z]")
_CHUNKS = 4
_LONG_RUN = 120


@lru_cache(maxsize=256)
def _apart(sign: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """(words with this sign between their parts, once or twice, with or without blanks; the sign with its blanks)"""
    part = f"[A-Za-z0-9{re.escape('=@_-+/.'.replace(sign, '') if len(sign) == 1 else '=@_-+/.')}]"
    between = rf"[ \t]?{re.escape(sign)}{{1,2}}>?[ \t]?" if len(sign) == 1 else re.escape(sign)
    # A part that holds no sign ends before one in only one way, so nothing is to be tried again.
    some = f"{{1,{_PART_CHARS}}}{'+' if len(sign) == 1 else ''}"
    words = rf"(?<![A-Za-z0-9]){part}{some}(?:{between}{part}{some}){{3,}}"
    return re.compile(words), re.compile(between)


_PART = "[A-Za-z0-9=_+/@.-]{1,24}"
_LAST = "[A-Za-z0-9=_+/-]"


@lru_cache(maxsize=256)
def _thrice(sign: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Three times this sign, or twice this sign, between parts: right behind them, or with a blank before each."""
    one = re.escape(sign)
    tight, loose = rf"\1>?[ \t]?{_PART}?[ \t]?", rf"\1>?[ \t]?{_PART}+[ \t]"
    return (
        re.compile(rf"({one}(?<=[A-Za-z0-9=@].){one}?)>?[ \t]?{_PART}?[ \t]?{tight}\1>?[ \t]?{_LAST}"),
        re.compile(rf"({one}(?<=[A-Za-z0-9=@][ \t].){one}?)>?[ \t]?{_PART}+[ \t]{loose}\1>?[ \t]?{_LAST}"),
    )


def _singles(text: str) -> Iterator[Edit]:
    """Letters with blanks between them."""
    for run in _SINGLES.finditer(text):
        for blank in _BLANK.finditer(text, run.start(), run.end()):
            yield blank.start(), blank.end(), ""


def _has_singles(view: View) -> bool:
    """Whether two characters stand alone beside each other."""
    solid = view.outlines["solid"]
    if view.is_ascii and " x x " not in solid and "  " not in solid:
        return False
    return _SINGLE.search(view.text) is not None


def _signs(text: str, sign: str) -> Iterator[Edit]:
    """Parts of a word with the same sign between them."""
    words, between = _apart(sign)
    for run in words.finditer(text):
        bare = between.sub("", run[0])
        if len(bare) >= MIN_CHARS and (_UNEVEN.search(bare) or "@" in bare):
            for place in between.finditer(text, run.start(), run.end()):
                yield place.start(), place.end(), ""


def near(edits: Iterable[Edit], text: str) -> Iterator[Edit]:
    """The edits, and what is far from all of them left out: it is looked at in other forms, and these are many."""
    at = 0
    for start, end, instead in edits:
        if start - at > (2 * CONTEXT_CHARS if at else CONTEXT_CHARS):
            since, until = _word_end(text, at, start) if at else 0, _word_begin(text, at, start)
            if until > since:
                yield since, until, "\n"
        yield start, end, instead
        at = end
    if at and len(text) - at > CONTEXT_CHARS and (since := _word_end(text, at, len(text))) < len(text):
        yield since, len(text), "\n"


def _word_begin(text: str, since: int, place: int) -> int:
    """Where what lies near a place begins: some characters before the word that it is in."""
    begin = max(since, place - CONTEXT_CHARS)
    while begin > max(since, place - WORD_CHARS) and not text[begin - 1].isspace():
        begin -= 1
    return begin


def _word_end(text: str, place: int, until: int) -> int:
    end = min(until, place + CONTEXT_CHARS)
    while end < min(until, place + WORD_CHARS) and not text[end].isspace():
        end += 1
    return end


def _grouped(view: View) -> Iterator[View]:
    """Short groups that are no words, with blanks between them, as one word.

    A word may begin and end with groups that look like words, so several ways to cut it out are tried.
    """
    runs = _odd_runs(view) if _is_mixed(view) else []
    if not runs:
        return
    groups = list(_CHUNK.finditer(view.text))
    # A table of ids is a long run, and no word: its ends need no care.
    several = sum(end - first for first, end in runs) <= _LONG_RUN
    for before, after in product(range(4), range(3)) if several else [(0, 0)]:
        form = rewrite(view, "groups", near(_between(groups, runs, before, after), view.text))
        if form is not None:
            yield form


def _is_mixed(view: View) -> bool:
    """Whether letters and digits take turns so often as in odd groups: that is soon told, and most texts end here."""
    outline = view.outlines["kinds"]
    return sum(map(outline.count, ("a0", "A0", "0a", "0A", "aA"))) >= _CHUNKS


def _between(
    groups: Sequence[re.Match[str]], runs: Sequence[tuple[int, int]], before: int, after: int
) -> Iterator[Edit]:
    last = 0
    for first, end in runs:
        for one, other in pairwise(groups[max(first - before, last) : end + after]):
            yield one.end(), other.start(), ""
        last = end + after


def _odd_runs(view: View) -> list[tuple[int, int]]:
    """Half-open places where at least four odd groups stand in a row, with no more than two words between two."""
    odd = [place for place, shape in enumerate(_shapes(view)) if len(shape) <= _CHUNK_CHARS and _is_odd(shape)]
    return list(_beside_each_other(odd, view.text.split())) if len(odd) >= _CHUNKS else []


def _beside_each_other(odd: Iterable[int], words: Sequence[str]) -> Iterator[tuple[int, int]]:
    run: list[int] = []
    for place in odd:
        if run and not _belongs(words[run[-1]], words[run[-1] + 1 : place]):
            yield from [(run[0], run[-1] + 1)] if len(run) >= _CHUNKS else []
            run = []
        run.append(place)
    yield from [(run[0], run[-1] + 1)] if len(run) >= _CHUNKS else []


def _belongs(last: str, between: Sequence[str]) -> bool:
    """Whether what stands between two odd groups may be of one word with them: little, or digits of the same length."""
    few = len(between) <= 2 or all(word.isdigit() and len(word) == len(last) for word in between)
    return few and all(map(_GROUP.fullmatch, between))


def _shapes(view: View) -> list[str]:
    """The outline of each word; nothing of a word that is not ASCII, which is no such group: its letters would stay."""
    if view.is_ascii:
        return view.outlines["kinds"].split()
    return [Outlines(word.encode())["kinds"].strip() if word.isascii() else "" for word in view.text.split()]


@lru_cache(maxsize=4096)
def _is_odd(shape: str) -> bool:
    """Of the outline of a short word that is none of a language: with letter and digit, or a capital within."""
    return _SHAPE.fullmatch(shape) is not None and _ODD.match(shape) is not None


def _values(text: str) -> Iterator[Edit]:
    """Values of a query string that are no words, without what stands between them."""
    for query in _QUERY.finditer(text):
        yield from _next_to_each_other(one for one in _VALUE.finditer(text, *query.span()))


def _components(text: str) -> Iterator[Edit]:
    """Parts of an address that are no words: labels, segments, names and values, fragment."""
    for address in _ADDRESS.finditer(text):
        yield from _next_to_each_other(_COMPONENT.finditer(text, *address.span()))


def _segments(text: str) -> Iterator[Edit]:
    """Parts of a path that are no words."""
    for path in _PATH.finditer(text):
        yield from _next_to_each_other(_SEGMENT.finditer(text, *path.span()))


def _next_to_each_other(parts: Iterable[re.Match[str]]) -> Iterator[Edit]:
    """Without what stands between those that are no words."""
    odd = [one for one in parts if not _PLAIN.fullmatch(one[0])]
    for before, after in pairwise(odd):
        yield before.end(), after.start(), ""


def _prefixed(text: str) -> Iterator[Edit]:
    """What follows the beginning of a token that can be nothing else."""
    for run in _PREFIXED.finditer(text):
        for gap in _BETWEEN.finditer(text, run.end(1), run.end()):
            if _WORD.match(text, gap.end()):
                break
            yield gap.start(), gap.end(), ""


def _wrapped(text: str) -> Iterator[Edit]:
    """Ends of lines in the middle of a word that is none of a language."""
    for joint in _WRAPPED.finditer(text):
        before = (text[max(0, joint.start() - 64) : joint.start()].rsplit(None, 1) or [""])[-1]
        after = _WORD_AFTER.match(text, joint.end())
        if after and _UNEVEN.search(before + after[0]):
            yield joint.start(), joint.end(), ""


def _matches(pattern: re.Pattern[str]) -> Callable[[str], Iterator[Edit]]:
    return lambda text: ((match.start(), match.end(), "") for match in pattern.finditer(text))


other_blanks = _matches(_OTHER_BLANKS)
OTHER_BLANKS = "other blanks"

SAID = "said"
_has_a_prefix = any_of(_PREFIXES)
JOINS: Mapping[str, tuple[Callable[[View], object], Callable[[str], Iterator[Edit]]]] = {
    "singles": (_has_singles, _singles),
    "wrapped": (lambda view: "\n" in view.text or "\\n" in view.text, _wrapped),
    OTHER_BLANKS: (lambda view: not (view.is_printable and view.is_ascii), other_blanks),
    "values": (lambda view: "=" in view.text, _values),
    "components": (lambda view: "://" in view.text or "www." in view.text, _components),
    "after a prefix": (lambda view: _has_a_prefix(view.text), _prefixed),
    "markup": (lambda view: "<" in view.text or "**" in view.text, _matches(_MARKUP)),
    SAID: (may_be_said, said),
    "segments": (lambda view: view.text.count("/") > 1, _segments),
    "quoted": (lambda view: '"' in view.text or "'" in view.text or "`" in view.text, _matches(_QUOTED)),
}
"""Name → (whether it may be there at all, what puts it together)."""

APART = "apart"
JOIN_NAMES = (*JOINS, "groups", APART)
BLANK_NAMES = ("singles", "groups", "wrapped", OTHER_BLANKS)
"""Those in which only blanks were taken out."""
SAY_MORE = (*BLANK_NAMES, SAID)
"""Those in which more counts than in the others."""
LETTERED = ("wrapped", "components", "after a prefix", SAID)
"""Those that tell one small letter, or capital, from another."""
MAX_SIGNS = 8
"""Different signs that are looked at as what stands between parts."""


def _between_parts(view: View) -> list[str]:
    """Signs that stand between the parts of a word, once, and doubled where they are."""
    kinds = view.outlines["kinds"]
    if view.is_ascii and "0" not in kinds and "A" not in kinds and "@" not in kinds:
        return []  # nothing uneven, which is all that is put together
    looks = (pattern for sign in _repeated(view) for pattern in _thrice(sign))
    found = {match[1] for pattern in looks for match in pattern.finditer(view.text)}
    once = {one[0] for one in found}
    signs = sorted(found | once | {2 * one for one in once if _is_doubled(one, view.text)})
    return signs[:MAX_SIGNS]


def _repeated(view: View) -> list[str]:
    """Signs that stand in it three times."""
    if view.is_ascii:
        return [chr(sign) for sign in {*view.signs} if view.signs.count(sign) > 2]
    return [one for one in {*view.text} if not (one.isalnum() or one.isspace()) and view.text.count(one) > 2]


def _is_doubled(sign: str, text: str) -> bool:
    """Whether it stands twice between parts, several times: neither `--flags` nor `https://` are."""
    twice = re.escape(2 * sign)
    between = rf"{twice}(?<=[A-Za-z0-9=@]{twice})(?=[\w=@])"
    return text.count(2 * sign) > 2 and len(re.findall(between, text)) > 2


def joined(view: View, *, lettered: bool = False) -> Iterator[View]:
    """One form for each way in which words were taken apart; with `lettered` only for those of LETTERED."""
    text = view.text
    for name, (possible, edits) in JOINS.items():
        if lettered and name not in LETTERED:
            continue
        if possible(view) and (found := [*edits(text)]) and (form := rewrite(view, name, near(found, text))):
            yield form
    if lettered:
        return
    for sign in _between_parts(view):
        if (found := [*_signs(text, sign)]) and (form := rewrite(view, APART, near(found, text))):
            yield form
    yield from _grouped(view)
