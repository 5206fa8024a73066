"""What a name may end in, what may join its parts, and words that are never a misspelt name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sparkgate.policy.names.fold import fold

COMMON = Path(__file__).parent / "common_words.txt"

PLURALS = frozenset({"s", "es"})
# German, then Slavic, Romance, Hungarian with Finnish and Turkish, then Slavic in Cyrillic.
_ENDINGS = """
n en e em er ern ens ers sche schen scher schem sches
a u y i om ou ov ova ove ovi ovu ovy ovou ego emu ach ami um ow owi owa owie ie
o os as
ban ben nak nek val vel in lle ssa da de den dan
а у ом ем е ы и ов ам ами ах ой ою ский ская ское ского ском
"""
_STEM_ENDINGS = "y u o e i ou om ach ami ovi ies ie os as en а у ы е и ой ом ами ах"
ENDINGS = PLURALS | frozenset(map(fold, _ENDINGS.split()))
STEM_ENDINGS = frozenset(map(fold, _STEM_ENDINGS.split()))
"""Endings that take the place of a last vowel."""
VOWELS = "aeiouyаеиоуыя"
LONGEST_ENDING = max(map(len, ENDINGS | STEM_ENDINGS))

LINKS = frozenset({"and", "und", "et", "y", "e", "u", "og", "och", "и", "和", "と"})
"""Words that are `&` when an operator writes them between the parts of a name."""
_ELSEWHERE = "i a en es si ja ve ir un oraz sowie plus та і й 与 與 及 및 과 와"
CONNECTORS = (*sorted(LINKS), *map(fold, _ELSEWHERE.split()))
"""Words that stand for `&` when others write such a name: many are words of their own in another language."""

_MOVABLE = (
    """project projects projekt projet proyecto progetto projeto projecte proiect projekti prosjekt projektet proje
    проект проекта проекту проектом проекте проєкт 项目 項目 專案 プロジェクト 案件 프로젝트""",
    """group gruppe groupe gruppo grupo grup grupa gruppen groep
    группа группы группу группой група 集团 集團 グループ 그룹""",
)
_FIXED = ("lab labs",)
MOVABLE = tuple(tuple(fold(word) for word in family.split()) for family in _MOVABLE)
FAMILIES = (*MOVABLE, *(tuple(family.split()) for family in _FIXED))
"""Parts that say what kind of thing a name is of, in many languages: each of a family stands for the others."""

LONGEST = 24
"""Letters of an ordinary word; no longer one is looked up."""
_INFLECTIONS = ("s", "es", "ed", "d", "ing", "ly", "er", "ers", "or", "al", "en", "n", "e", "em", "y", "ies")


@cache
def _common() -> frozenset[str]:
    return frozenset(COMMON.read_text(encoding="utf-8").split())


def is_common(word: str) -> bool:
    """Whether a folded word, or what it is an inflection of, is an ordinary word."""
    words = _common()
    if len(word) > LONGEST:
        return False
    if word in words:
        return True
    stems = [word[: -len(ending)] for ending in _INFLECTIONS if word.endswith(ending) and len(word) - len(ending) >= 4]
    return any(stem in words or f"{stem}e" in words or f"{stem}y" in words for stem in stems)


def is_generic(word: str) -> bool:
    """Whether a folded part of a name only says what kind of thing it is of."""
    return any(word in family for family in FAMILIES)
