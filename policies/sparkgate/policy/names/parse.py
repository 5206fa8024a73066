"""The operator's names, cut into parts and spelled in every way that is still exactly the name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

from sparkgate.policy.names.fold import DIGRAPH, fold
from sparkgate.policy.names.words import CONNECTORS, VOWELS, is_common

STEM = 5
"""Letters a name needs before an ending is taken off, or a digraph read as an umlaut."""
SPELLINGS = 64

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
    its last vowel, so an ending must follow.
    """

    text: str
    term: int
    cuts: tuple[int, ...]
    links: tuple[int, ...]
    stem: bool = False


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
        if word == "&" or (0 < index < len(chunks) - 1 and fold(word) in CONNECTORS):
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


def needs_digraphs(name: Name) -> bool:
    """Whether an accented text must be read with digraphs too to find this name: Hås is Haas, and has is not."""
    return any(without_digraphs(text) not in part for part in name.parts for text in part)


def keys(name: Name) -> Iterator[Key]:
    """Every exact spelling of a name, and those without their last vowel."""
    for spelling in islice(product(*name.parts), SPELLINGS):
        for word in ("", *CONNECTORS) if any(name.links) else ("",):
            key = _key(name, spelling, word)
            yield key
            if len(key.text) > STEM and len(spelling[-1]) >= STEM and key.text[-1] in VOWELS:
                yield Key(key.text[:-1], key.term, key.cuts, key.links, stem=True)


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
    return Key(text, name.term, tuple(cuts), tuple(links))
