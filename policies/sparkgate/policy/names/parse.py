"""The operator's names, cut into parts and spelled in every way that is still exactly the name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, product

from sparkgate.policy.names.fold import DIGRAPH, fold, unspaced
from sparkgate.policy.names.words import CONNECTORS, FAMILIES, LINKS, MOVABLE, VOWELS, is_common, is_generic

STEM = 5
"""Letters a name needs before an ending is taken off, or a digraph read as an umlaut."""
ROOT = 6
"""Letters that the last part of a name and a word derived from it begin with: Robotics, Robotik."""
DERIVED = 4
"""Letters at its end that may be others."""
CONNECTED = 7
"""Letters of a name that any word may connect, without spaces too."""
SPELLINGS = 128

_CAMEL = re.compile(r"(?<=[a-zß-öø-ÿ]{4})(?=[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]{3})")
_UMLAUT = re.compile("(?<![aeiouq])([aou])e|(a)a")


@dataclass(frozen=True, slots=True)
class Name:
    """A name cut into parts: each with its spellings, and whether `&` stands between it and the next."""

    term: int
    parts: tuple[tuple[str, ...], ...]
    links: tuple[bool, ...]

    @property
    def size(self) -> int:
        """Letters in all."""
        return sum(len(part[0]) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Key:
    """One spelling of a name without separators.

    `cuts` are the indices inside it where separators may stand, `links` those of them where `&` may. A `stem` lacks
    its last vowel, so an ending must follow. With `open_ended` letters left off, a word derived from the last part may
    go on from there as it likes: Robotics, Robotik. When `spaced`, separators must stand at all cuts: him is no H&M.
    """

    text: str
    term: int
    cuts: tuple[int, ...]
    links: tuple[int, ...]
    stem: bool = False
    open_ended: int = 0
    spaced: bool = False


def normal(text: str) -> str:
    """A name as the operator may have typed it, in compatibility form without outer space."""
    return unicodedata.normalize("NFKC", text.strip())


def parse_name(text: str, term: int) -> Name | None:
    """A name → its parts; None when it has no letter or digit."""
    parts: list[tuple[str, ...]] = []
    links: list[bool] = []
    linked = False
    chunks = [word for chunk in re.split("([&+])", _CAMEL.sub(" ", normal(text))) for word in _words(chunk)]
    for index, word in enumerate(chunks):
        if word == "&" or (0 < index < len(chunks) - 1 and fold(word) in LINKS):
            linked = bool(parts)
            continue
        links += [linked] if parts else []
        parts.append(_spellings(word))
        linked = False
    return Name(term, tuple(parts), tuple(links)) if parts else None


def _words(chunk: str) -> list[str]:
    if chunk in ("&", "+"):
        return ["&"]
    # What folding takes for a space is one here too, so that a name is cut as a text is.
    return "".join(char if fold(char) != " " else " " for char in chunk).split()


def _spellings(word: str) -> tuple[str, ...]:
    base = fold(word)
    bare = without_digraphs(base)
    found = [base, fold(word, DIGRAPH)] + ([bare] if not is_common(bare) and len(bare) >= STEM else [])
    return tuple(dict.fromkeys(found))


def without_digraphs(word: str) -> str:
    """ae, oe, ue and aa read as ä, ö, ü and å, then without the dots and the ring."""
    return _UMLAUT.sub(lambda match: match[1] or match[2], word)


def variants(name: Name) -> list[Name]:
    """The name with a part such as "project" in other languages; then, if others are rare, with it at the other end.

    The first is always the name itself, with more spellings.
    """
    if len(name.parts) == 1:
        return [name]
    parts = tuple(_with_family(part) for part in name.parts)
    whole = Name(name.term, parts, name.links)
    rest, links = parts[1:], name.links[1:]
    found = [whole]
    if _is_movable(parts[0]) and not name.links[0] and is_rare(rest):
        found.append(Name(name.term, (*rest, parts[0]), (*links, False)))
    if _is_movable(parts[-1]) and not name.links[-1] and is_rare(parts[:-1]):
        found.append(Name(name.term, (parts[-1], *parts[:-1]), (False, *name.links[:-1])))
    return found


def _with_family(part: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*part, *(word for family in FAMILIES if part[0] in family for word in family))))


def _is_movable(part: tuple[str, ...]) -> bool:
    return any(part[0] in family for family in MOVABLE)


def is_rare(parts: Iterable[tuple[str, ...]]) -> bool:
    """Whether these parts hold no ordinary word, and none is but a letter or two."""
    return all(len(part[0]) > 2 and not is_common(part[0]) for part in parts)


def needs_digraphs(name: Name) -> bool:
    """Whether an accented text must be read with digraphs too to find this name: Hås is Haas, and has is not."""
    return any(without_digraphs(text) not in part for part in name.parts for text in part)


def keys(name: Name) -> Iterator[Key]:
    """Every exact spelling of a name, those without their last vowel, and those that a derived word goes on from."""
    is_derivable = len(name.parts) > 1 and _is_derivable(name)
    for spelling in islice(product(*name.parts), SPELLINGS):
        for word in ("", *_connectors(name)):
            key = _key(name, spelling, word)
            yield key
            if len(key.text) > STEM and len(spelling[-1]) >= STEM and key.text[-1] in VOWELS:
                yield replace(key, text=key.text[:-1], stem=True)
            if left_off := min(len(spelling[-1]) - ROOT, DERIVED) if is_derivable else 0:
                yield replace(key, text=key.text[:-left_off], open_ended=left_off)


def _connectors(name: Name) -> Iterable[str]:
    """A short name has only the plain ones: "at a t" is no AT&T."""
    if not any(name.links):
        return ()
    return LINKS if name.size < CONNECTED else CONNECTORS


def _is_derivable(name: Name) -> bool:
    """Whether the other parts are rare, and the last one is a word of its own and no "project"."""
    last = name.parts[-1]
    return (
        is_rare(name.parts[:-1])
        and not is_generic(last[0])
        and all(len(text) > ROOT and text.isalpha() for text in last)
    )


def _key(name: Name, spelling: tuple[str, ...], connector: str) -> Key:
    text = spelling[0]
    cuts: list[int] = []
    links: list[int] = []
    for part, linked in zip(spelling[1:], name.links, strict=True):
        cuts.append(len(text))
        if linked and connector:
            text += connector
            cuts.append(len(text))
        elif linked:
            links.append(len(text))
        text += part
    spaced = bool(connector) and name.size < CONNECTED and not unspaced(connector)
    return Key(text, name.term, tuple(cuts), tuple(links), spaced=spaced)
