"""The forms in which a text is judged, each with a map back to the characters it came from.

First the text itself; then with invisible characters out, compatibility forms folded and lookalikes read as Latin
letters; then with the encodings in it taken off, layer by layer; then with words put together that were taken apart,
and turned round. Their number is bounded, and so is their size: only folding makes a text longer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

import regex

from sparkgate.policy.forms.joins import JOIN_NAMES, OTHER_BLANKS, SAY_MORE, joined, near, other_blanks
from sparkgate.policy.forms.lookalikes import plain
from sparkgate.policy.forms.turns import TURNED, turned
from sparkgate.policy.forms.unwrap import encodings, spelled, unwrapped
from sparkgate.policy.forms.view import OTHER_DIGIT, Edit, View, rewrite
from sparkgate.policy.sheet import Sheet, together

__all__ = ["Expanded", "View", "folded", "is_invisible", "sheets", "views"]

LAYERS, LAYERS_INSIDE = 4, 2
"""Of encoding within encoding."""
LONG_CHARS = 2000
"""Of a longer text with an encoding taken off, only what lies near that is looked at again."""
NEAR = "near"
MAX_GROWTH, MORE_CHARS = 4, 4096
"""A form may be so many times as long as the text, and so much longer."""

_ALIKE = dict.fromkeys((name for name in JOIN_NAMES if name not in SAY_MORE), "joined")
"""In all of them the same counts."""
_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\p{Co}\p{Cs}--[\t\n\r]]", regex.VERSION1)
_CLUSTER = regex.compile(r"\X", regex.DOTALL)
_OTHER = re.compile(r"[^\x09\x0a\x0d\x20-\x7e]")
_AROUND_OTHERS = re.compile(r"(?s:.?[^\x0a\x20-\x7e]+(?:.[^\x0a\x20-\x7e]+)*.?)")
"""Only there are characters of several: between two ends, of which neither is one of these, one always ends."""


class Expanded(Exception):
    """A form grows beyond what is judged."""


def is_invisible(character: str) -> bool:
    """Characters that a reader does not see: format, control, private, and those Unicode says are drawn as nothing."""
    return _INVISIBLE.match(character) is not None


def views(given: str | View, *, plain: bool = False) -> Iterator[View]:
    """The forms of a text, or of a form of one; the first is itself.

    With `plain` only those in which words and lines stand as a reader sees them.

    Raises:
        Expanded: one of them is too long to be judged.
    """
    return (view for sheet in sheets(given, plain=plain) for view, _ in sheet.forms)


def sheets(given: str | View, *, plain: bool = False) -> Iterator[Sheet]:
    """The same, several short ones on one sheet. Raises Expanded."""
    shown = _Shown(given if isinstance(given, View) else View("raw", given))
    yield from together(shown.forms())
    if plain:
        return
    is_new = _New()
    for sheet in together(_guessed(shown, is_new)):
        yield sheet
        if possible := encodings(sheet.text):
            yield from together(form for view, _ in sheet.forms for form in _encoded(view, possible, is_new))


class _Shown:
    """The forms of a text in which words and lines stand as a reader sees them.

    Attributes:
        base: the text with its letters folded; known when the forms have been made, as the next.
        layers: of encodings that were taken off, the outermost first.
    """

    def __init__(self, raw: View) -> None:
        self.raw = self.base = raw
        self.layers: list[View] = []

    def forms(self) -> Iterator[View]:
        """Raises Expanded; only folding makes a text longer."""
        limit = MAX_GROWTH * len(self.raw.text) + MORE_CHARS
        yield self.raw
        for view in _folded(self.raw, limit):
            yield _where_changed(view, self.base)
            self.base = view
        for view in _layers(self.base, LAYERS):
            yield view
            last = view
            for seen in _folded(view, limit):
                yield _where_changed(seen, last)
                last = seen
            self.layers.append(last)


def _guessed(shown: _Shown, is_new: _New) -> Iterator[View]:
    """Forms in which something was put together, turned or spelled out, and what was put together and turned.

    With other letters the same is put together: what it was turned from was, where it is one of those taken apart.
    """
    raw, base = shown.raw, shown.base
    if base is not raw and (blanks := rewrite(raw, OTHER_BLANKS, other_blanks(raw.text))):
        yield blanks
    decoded = _decoded(shown.layers)
    wholes = (base, *decoded)
    apart = decoded if decoded and not any(map(_is_narrowed, decoded)) else wholes
    for view in filter(is_new, _apart(wholes, apart)):
        yield view
        if view.name in TURNED:
            lettered = view.name == "rot13" and any(view.of is one for one in apart)
            yield from filter(is_new, joined(view, lettered=lettered))
        else:
            yield from filter(is_new, turned(view))


def _apart(wholes: Sequence[View], apart: Sequence[View]) -> Iterator[View]:
    """Forms of some wholes in which something was put together, and of all in which it was turned or spelled out."""
    for whole in apart:
        yield from joined(whole)
    for whole in wholes:
        yield from turned(whole)
        if codes := spelled(whole):
            yield codes


def _encoded(view: View, possible: Collection[str], is_new: _New) -> Iterator[View]:
    """What is encoded in a form that was guessed, and the same turned. One that was turned and then put together is
    not looked into."""
    if view.of is not None and view.of.name in TURNED:
        return
    yield from (layers := list(_layers(view, LAYERS_INSIDE, possible)))
    if view.name not in TURNED:
        for again in filter(is_new, (form for whole in _decoded(layers) for form in turned(whole))):
            yield again
            yield from _layers(again, LAYERS_INSIDE)


class _New:
    """Whether a form is another one than all before it. Put together and turned is the same as turned and put together,
    and so are parts of a path and parts of an address: what came out of the same places in such ways is judged once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[frozenset[str], str], list[View]] = {}

    def __call__(self, view: View) -> bool:
        names, at = [], view
        while at.of is not None:
            names.append(_ALIKE.get(at.name, at.name))
            at = at.of
        alike = self._seen.setdefault((frozenset(names), view.text), [])
        if any(one.places == view.places for one in alike):
            return False
        alike.append(view)
        return True


def _decoded(layers: Sequence[View]) -> Sequence[View]:
    """The last layer, which holds what all of them took off; or all, where each is only what lies near its changes."""
    return layers if any(map(_is_narrowed, layers)) else layers[-1:]


def _is_narrowed(view: View) -> bool:
    at: View | None = view
    while at is not None and at.name != NEAR:
        at = at.of
    return at is not None


def _where_changed(view: View, before: View) -> View:
    """All of a short form; of a long one what lies near the places that one step has changed."""
    return _changed(view, before) if len(view.text) > LONG_CHARS else view


def _changed(view: View, before: View) -> View:
    """What lies near the places that one step has changed; all of it where there were several steps."""
    if view.of is not before:
        return view
    places = [(at, same) for at, (_, _, same) in zip(view.begins, view.pieces, strict=True)]
    ends = [at for at, _ in places[1:]] + [len(view.text)]
    edits = [(at, end, view.text[at:end]) for (at, same), end in zip(places, ends, strict=True) if not same]
    return rewrite(view, NEAR, near(edits, view.text)) or view


def _layers(view: View, most: int, possible: Collection[str] | None = None) -> Iterator[View]:
    """A form without the outermost encoding, without the next, and so on; `possible` are those of the form itself.

    Raises:
        Expanded: there is still an encoding after as many as a text may have.
    """
    for _ in range(most):
        inner = unwrapped(view, possible)
        if inner is None:
            return
        yield (view := _where_changed(inner, view))
        possible = None
    if most == LAYERS and unwrapped(view) is not None:
        raise Expanded


def folded(raw: View) -> View:
    """A text with its letters as a reader sees them; what grows beyond what is judged is left as it was."""
    seen = raw
    with suppress(Expanded):
        for view in _folded(raw, MAX_GROWTH * len(raw.text) + MORE_CHARS):
            seen = view
    return seen


def _folded(raw: View, limit: int) -> Iterator[View]:
    """Raises Expanded when one is longer than so many characters."""
    if raw.is_ascii and (raw.is_printable or not _OTHER.search(raw.text)):
        return
    seen = raw
    for name, edits in (("normal", _normal), ("latin", plain)):
        view = rewrite(seen, name, edits(seen.text))
        if view is not None:
            if len(view.text) > limit:
                raise Expanded
            yield view
            seen = view


def _normal(text: str) -> Iterator[Edit]:
    """NFKC of each user-perceived character without invisible ones, so that full-width letters are letters."""
    clusters = (cluster for part in _AROUND_OTHERS.finditer(text) for cluster in _CLUSTER.finditer(text, *part.span()))
    for cluster in clusters:
        if len(cluster[0]) > 1 or not cluster[0].isascii() or not cluster[0].isprintable():
            folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", _INVISIBLE.sub("", cluster[0])))
            folded = OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0], digit[0])), folded)
            if folded != cluster[0]:
                yield cluster.start(), cluster.end(), folded
