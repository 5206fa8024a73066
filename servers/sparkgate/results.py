"""What SearXNG found → what a model reads: each kind of result with the fields that matter, nothing twice.

Shapes: searx/result_types/ and the result templates of SearXNG (2025.8 to 2026.8). Any field may be null, absent or of
another type than it should be.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from html import unescape
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from sparkgate.untrusted.strip import Removed, block, line

Field = Callable[[Mapping[str, Any], Removed], Any]
CODE_LINES, CODE_CHARS = 12, 800
FACTS = 8
AUTHORS = 4
URL_CHARS = 2000
ENGINES = 8

_TAG = re.compile(
    r"</?(?:a|b|br|code|div|em|font|h[1-6]|i|li|mark|p|pre|q|small|span|strong|sub|sup|u|ul)\b[^<>]*>", re.I
)
_TRACKING = re.compile(
    r"utm_\w+|(?:g|fb)clid|gclsrc|dclid|msclkid|yclid|igshid|mc_[ce]id|_hs(?:enc|mi)|ref_src|ref_url|spm|vero_id|wickedid",
    re.IGNORECASE,
)
"""Parameters that tell where a reader came from and change nothing of the page."""


class Shown(dict[str, Any]):
    """One result as the tool shows it, and how much was taken out that nobody would have seen."""

    def __init__(self, told: Mapping[str, Any], removed: Removed) -> None:
        super().__init__(told)
        self.removed = removed


class Found(dict[str, Any]):
    """One result of which only address and engines are read: by these it is chosen, and most are not shown.

    Attributes:
        item: what SearXNG sent.
        removed: what was taken out of the address.
    """

    def __init__(self, item: Mapping[str, Any]) -> None:
        self.item, self.removed = item, Removed()
        url = item.get("url") if isinstance(item.get("url"), str) else ""
        engines = _engines(as_list(item.get("engines")) or [item.get("engine")], Removed())
        super().__init__(url=address(url or ""), engines=engines)

    def shown(self, snippet_chars: int, *, with_engines: bool = True) -> Shown:
        """All of it that is told."""
        item, removed = self.item, Removed(self.removed)
        kind, more = KINDS.get(str(item.get("template") or "").removesuffix(".html"), ("", {}))
        told = {
            "title": plain(item.get("title") or item.get("caption"), 200, removed),
            "url": self["url"],
            "snippet": plain(item.get("content"), snippet_chars, removed),
            "engines": self["engines"] if with_engines else [],
            "date": plain(item.get("publishedDate"), 40, removed)[:10],
            "kind": kind,
            **{name: field(item, removed) for name, field in more.items()},
        }
        return Shown({key: value for key, value in told.items() if value}, removed)


One = TypeVar("One", bound=dict[str, Any])
"""A result, or what has the fields of one."""


def plain(value: object, limit_chars: int = 500, removed: Removed | None = None) -> str:
    """Text from the web as one line: known tags out, entities decoded, invisible characters out, cut at a word.

    Those are counted in `removed`.
    """
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return ""
    text = str(value)[: limit_chars * 8]
    if "<" in text or "&" in text:
        text = unescape(_TAG.sub("", text))
    text = line(text, Counter() if removed is None else removed)
    if len(text) <= limit_chars:
        return text
    return text[:limit_chars].rsplit(" ", 1)[0] + "…"


def address(url: str) -> str:
    """An address as it came: entities are none here, and no part of it is left out, as it would lead elsewhere.

    Blanks and what nobody sees become percent codes. One that is longer than any is none.
    """
    url = url.strip()
    if len(url) > URL_CHARS:
        return ""
    if url.isascii() and url.isprintable() and " " not in url:
        return url
    return "".join(quote(c, errors="replace") if c.isspace() or block(c, Counter()) != c else c for c in url)


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(name: str, limit_chars: int = 120) -> Field:
    return lambda item, removed: plain(item.get(name), limit_chars, removed)


def _address(name: str) -> Field:
    """A web address; others, such as pictures in the text itself, are left out."""

    def read(item: Mapping[str, Any], removed: Removed) -> str:
        url = str(item.get(name) or "")
        return address(url) if url.startswith(("http://", "https://")) else ""

    return read


def _names(name: str, most: int = AUTHORS) -> Field:
    def read(item: Mapping[str, Any], removed: Removed) -> str:
        listed = as_list(item.get(name))
        names = [word for word in (plain(one, 80, removed) for one in listed[:most]) if word]
        return ", ".join(names) + (f" and {len(listed) - most} more" if len(listed) > most else "")

    return read


def _code(item: Mapping[str, Any], removed: Removed) -> str:
    """The lines as they are, some of them; each is a pair of its number and its text."""
    pairs = [pair for pair in as_list(item.get("codelines")) if isinstance(pair, (list, tuple)) and len(pair) == 2]
    lines = [block(str(text)[:CODE_CHARS], removed).replace("\n", " ") for _, text in pairs[:CODE_LINES]]
    return "\n".join(lines)[:CODE_CHARS]


def _facts(item: Mapping[str, Any], removed: Removed) -> dict[str, str]:
    kvmap = item.get("kvmap")
    pairs = list(kvmap.items())[:FACTS] if isinstance(kvmap, dict) else []
    return {plain(key, 60, removed): plain(value, 120, removed) for key, value in pairs}


def _length(item: Mapping[str, Any], removed: Removed) -> str:
    """Seconds as hours, minutes and seconds; a text as it is."""
    length = item.get("length")
    if isinstance(length, bool) or not isinstance(length, (int, float)) or not math.isfinite(length):
        return plain(length, 20, removed)
    minutes, seconds = divmod(round(length), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


KINDS: Mapping[str, tuple[str, Mapping[str, Field]]] = {
    "paper": (
        "paper",
        {
            "authors": _names("authors"),
            "journal": _text("journal"),
            "doi": _text("doi"),
            "pdf": _address("pdf_url"),
            "comments": _text("comments", 200),
        },
    ),
    "code": (
        "code",
        {
            "repository": _text("repository", 300),
            "file": _text("filename", 200),
            "language": lambda item, removed: (
                plain(item.get("code_language"), 30, removed).strip("<>").removeprefix("guess")
            ),
            "code": _code,
        },
    ),
    "file": (
        "file",
        {
            "file": _text("filename", 200),
            "size": _text("size", 40),
            "type": _text("mimetype", 80),
            "author": _text("author"),
            "about": _text("abstract", 300),
        },
    ),
    "images": (
        "image",
        {
            "image": _address("img_src"),
            "resolution": _text("resolution", 40),
            "format": _text("img_format", 40),
            "size": _text("filesize", 40),
            "source": _text("source"),
        },
    ),
    "videos": ("video", {"length": _length, "views": _text("views", 40), "author": _text("author")}),
    "torrent": (
        "torrent",
        {"size": _text("filesize", 40), "seeders": _text("seed", 20), "leechers": _text("leech", 20)},
    ),
    "packages": (
        "package",
        {
            "package": _text("package_name"),
            "version": _text("version", 60),
            "maintainer": _text("maintainer"),
            "license": _text("license_name", 80),
            "homepage": _address("homepage"),
            "source": _address("source_code_url"),
            "tags": _names("tags", 6),
        },
    ),
    "products": ("product", {"price": _text("price", 60), "shipping": _text("shipping", 80)}),
    "map": ("place", {"latitude": _text("latitude", 30), "longitude": _text("longitude", 30)}),
    "keyvalue": ("facts", {"facts": _facts}),
}
"""Template of SearXNG → our word for the kind, and what it has beside title, address, snippet, engines and date."""


def _engines(names: Sequence[object], removed: Removed) -> list[str]:
    """In the order of the alphabet, as SearXNG has none."""
    return sorted({plain(name, 40, removed) for name in names[:ENGINES]})


def find_result(item: object) -> Found | None:
    """One result, read as far as it takes to choose; None when it has neither title, address nor facts."""
    if not isinstance(item, dict):
        return None
    found = Found(item)
    return found if found["url"] or found.shown(0).keys() & {"title", "facts"} else None


def read_answer(item: object, removed: Removed) -> str:
    """An entry of `answers` in words: an object since 2025, a string before; a translation or the weather as well."""
    if not isinstance(item, dict):
        return plain(item, removed=removed)
    if isinstance(item.get("translations"), list):
        return "; ".join(told for one in item["translations"][:4] if (told := _translation(one, removed)))
    if isinstance(item.get("current"), dict):
        return _weather(item, removed)
    return plain(item.get("answer"), removed=removed)


def _translation(item: object, removed: Removed) -> str:
    if not isinstance(item, dict):
        return ""
    more = {"also": _names("synonyms", 6)(item, removed), "as in": _names("examples", 2)(item, removed)}
    return plain(item.get("text"), removed=removed) + "".join(
        f" ({word}: {told})" for word, told in more.items() if told
    )


def _weather(item: Mapping[str, Any], removed: Removed) -> str:
    now = _moment(item["current"], removed)
    later = [_moment(one, removed) for one in as_list(item.get("forecasts"))[:3] if isinstance(one, dict)]
    return ". Then ".join(filter(None, [now, "; ".join(filter(None, later))]))


def _moment(item: Mapping[str, Any], removed: Removed) -> str:
    """`Berlin: 12 °C, light rain`; a time before it in a forecast."""
    told = plain(item.get("summary"), 200, removed)
    degrees = item.get("temperature")
    if not told and isinstance(degrees, dict):
        value = plain(f"{degrees.get('val')} {degrees.get('unit', '')}", 40, removed)
        told = ", ".join(filter(None, (value, plain(item.get("condition"), 60, removed))))
    at = plain(item.get("datetime"), 40, removed)[:16]
    return f"{at} {told}".strip() if told else ""


def read_infobox(item: object) -> Shown | None:
    if not isinstance(item, dict):
        return None
    removed: Removed = Counter()
    urls = [link.get("url") for link in as_list(item.get("urls")) if isinstance(link, dict)]
    facts = [one for one in as_list(item.get("attributes")) if isinstance(one, dict) and one.get("value")][:FACTS]
    shown = {
        "title": plain(item.get("infobox"), 200, removed),
        "text": plain(item.get("content"), 600, removed),
        "url": plain(next((url for url in urls if isinstance(url, str)), ""), 500, removed),
        "facts": {plain(one.get("label"), 60, removed): plain(one["value"], 120, removed) for one in facts},
    }
    told = {key: value for key, value in shown.items() if value}
    return Shown(told, removed) if told else None


def read_failed(item: object, removed: Removed) -> dict[str, str] | None:
    """`[engine, reason]` of an engine that did not answer → a record."""
    if not isinstance(item, (list, tuple)) or len(item) < 2:
        return None
    return {"engine": plain(item[0], 60, removed), "reason": plain(item[1], 120, removed)}


@lru_cache(maxsize=500)
def canonical(url: str) -> str:
    """The address that several spellings of one page have in common; for comparing, not for opening."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    host = (parts.hostname or "").removeprefix("www.").rstrip(".")
    if port not in (None, {"http": 80, "https": 443}.get(parts.scheme)):
        host = f"{host}:{port}"
    kept = [
        (key, value) for key, value in parse_qsl(parts.query, keep_blank_values=True) if not _TRACKING.fullmatch(key)
    ]
    fragment = parts.fragment if parts.fragment.startswith(("!", "/")) else ""
    return urlunsplit(("https", host, parts.path.rstrip("/"), urlencode(sorted(kept)), fragment))


def without_twins(results: Iterable[One]) -> list[One]:
    """Each page once, where it came first, with the engines of all."""
    found: dict[str, One] = {}
    for place, result in enumerate(results):
        key = canonical(result["url"]) if result.get("url") else f"#{place}"
        first = found.setdefault(key, result)
        if first is not result:
            first["engines"] = sorted({*first.get("engines", ()), *result.get("engines", ())})[:ENGINES]
    return list(found.values())


def of_sites(results: Iterable[One], wanted: Sequence[str], unwanted: Sequence[str]) -> list[One]:
    """Those of the wanted hosts and none of the unwanted ones; a host stands for those below it as well."""

    def fits(result: One) -> bool:
        host = _host(result.get("url", ""))
        return not any(_is_of(host, site) for site in unwanted) and (
            not wanted or any(_is_of(host, site) for site in wanted)
        )

    return [result for result in results if fits(result)]


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_of(host: str, site: str) -> bool:
    return host == site or host.endswith(f".{site}")
