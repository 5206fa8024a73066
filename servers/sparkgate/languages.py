"""Languages as SearXNG takes them, out of what a model writes."""

from __future__ import annotations

import re

_CODES = """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da
    de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz
    ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln
    lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi
    pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti
    tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu ckb dsb fil gsw hsb
"""
LANGUAGES = frozenset(_CODES.split())
"""ISO 639-1, and the longer codes SearXNG uses."""
_NAMES = """
    any:all arabic:ar bengali:bn brazilian:pt-BR bulgarian:bg cantonese:zh-HK catalan:ca chinese:zh croatian:hr czech:cs
    danish:da dutch:nl english:en estonian:et farsi:fa filipino:fil finnish:fi french:fr german:de greek:el hebrew:he
    hindi:hi hungarian:hu icelandic:is indonesian:id irish:ga italian:it japanese:ja korean:ko latvian:lv lithuanian:lt
    malay:ms mandarin:zh norwegian:nb persian:fa polish:pl portuguese:pt romanian:ro russian:ru serbian:sr slovak:sk
    slovenian:sl spanish:es swahili:sw swedish:sv tamil:ta telugu:te thai:th turkish:tr ukrainian:uk urdu:ur
    vietnamese:vi welsh:cy deutsch:de español:es français:fr italiano:it português:pt
"""
NAMES = dict(pair.split(":") for pair in _NAMES.split())
"""Names that models write instead of a code."""
OPEN = ("", "all", "auto")
SCRIPT = re.compile(r"[A-Za-z]{4}")
REGION = re.compile(r"[A-Z]{2}")


def language_of(text: str) -> str | None:
    """A language as SearXNG takes it: "" for any, `de`, `pt-BR`, `all`; None when it is none.

    Only known languages pass: five free letters a call would be a way to carry something out. A script
    (`zh-Hans-CN`) is left out, as SearXNG refuses it.
    """
    word = text.strip().replace("_", "-")
    language, *more = NAMES.get(word.lower(), word).split("-")
    language = language.lower()
    if language in OPEN and not more:
        return language
    if more and SCRIPT.fullmatch(more[0]):
        more = more[1:]
    region = "-".join(more).upper()
    if language not in LANGUAGES or (region and not REGION.fullmatch(region)):
        return None
    return f"{language}-{region}" if region else language
