"""What SearXNG found → what a model reads: each kind of result with the fields that matter, nothing twice.

Shapes: searx/result_types/ and the result templates of SearXNG (2025.8 to 2026.8). Any field may be null, absent or of
another type than it should be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from sparkgate.policy.views import is_invisible

Shown = dict[str, Any]
Field = Callable[[Mapping[str, Any]], Any]
CODE_LINES, CODE_CHARS = 12, 800
FACTS = 8
AUTHORS = 4

_TAG = re.compile(
    r"</?(?:a|b|br|code|div|em|font|h[1-6]|i|li|mark|p|pre|q|small|span|strong|sub|sup|u|ul)\b[^<>]*>", re.I
)
_SPACE = re.compile(r"\s+")
_TRACKING = re.compile(
    r"utm_\w+|(?:g|fb)clid|gclsrc|dclid|msclkid|yclid|igshid|mc_[ce]id|_hs(?:enc|mi)|ref_src|ref_url|spm|vero_id|wickedid",
    re.IGNORECASE,
)
"""Parameters that tell where a reader came from and change nothing of the page."""


def plain(value: object, limit_chars: int = 500) -> str:
    """Text from the web as one line: known tags out, entities decoded, invisible characters out, cut at a word."""
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return ""
    text = unescape(_TAG.sub("", str(value)[: limit_chars * 8]))
    text = _SPACE.sub(" ", "".join(c for c in text if c.isspace() or not is_invisible(c))).strip()
    if len(text) <= limit_chars:
        return text
    return text[:limit_chars].rsplit(" ", 1)[0] + "…"


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(name: str, limit_chars: int = 120) -> Field:
    return lambda item: plain(item.get(name), limit_chars)


def _address(name: str) -> Field:
    """A web address; others, such as pictures in the text itself, are left out."""
    return lambda item: plain(url, 2000) if str(url := item.get(name) or "").startswith(("http://", "https://")) else ""


def _names(name: str, most: int = AUTHORS) -> Field:
    def read(item: Mapping[str, Any]) -> str:
        names = [word for word in (plain(one, 80) for one in as_list(item.get(name))) if word]
        return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")

    return read


def _code(item: Mapping[str, Any]) -> str:
    """The lines as they are, some of them; each is a pair of its number and its text."""
    pairs = [pair for pair in as_list(item.get("codelines")) if isinstance(pair, (list, tuple)) and len(pair) == 2]
    lines = ["".join(c for c in str(line) if c == "\t" or not is_invisible(c)) for _, line in pairs[:CODE_LINES]]
    return "\n".join(lines)[:CODE_CHARS]


def _facts(item: Mapping[str, Any]) -> dict[str, str]:
    pairs = item.get("kvmap")
    told = {plain(key, 60): plain(value, 120) for key, value in pairs.items()} if isinstance(pairs, dict) else {}
    return dict(list(told.items())[:FACTS])


def _length(item: Mapping[str, Any]) -> str:
    """Seconds as hours, minutes and seconds; a text as it is."""
    length = item.get("length")
    if isinstance(length, bool) or not isinstance(length, (int, float)) or not math.isfinite(length):
        return plain(length, 20)
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
            "language": lambda item: plain(item.get("code_language"), 30).strip("<>").removeprefix("guess"),
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


def read_result(item: object, snippet_chars: int) -> Shown | None:
    """One result as the tool shows it; None when it has neither title, address nor facts."""
    if not isinstance(item, dict):
        return None
    kind, more = KINDS.get(str(item.get("template") or "").removesuffix(".html"), ("", {}))
    url = item.get("url") if isinstance(item.get("url"), str) else ""
    shown = {
        "title": plain(item.get("title") or item.get("caption"), 200),
        "url": plain(url, 2000),
        "snippet": plain(item.get("content"), snippet_chars),
        "engines": sorted(plain(name, 40) for name in as_list(item.get("engines")) or [item.get("engine")]),
        "date": plain(item.get("publishedDate"), 40)[:10],
        "kind": kind,
        **{name: field(item) for name, field in more.items()},
    }
    told = {key: value for key, value in shown.items() if value}
    return told if shown["title"] or url or told.get("facts") else None


def read_answer(item: object) -> str:
    """An entry of `answers` in words: an object since 2025, a string before; a translation or the weather as well."""
    if not isinstance(item, dict):
        return plain(item)
    if isinstance(item.get("translations"), list):
        return "; ".join(filter(None, map(_translation, item["translations"][:4])))
    if isinstance(item.get("current"), dict):
        return _weather(item)
    return plain(item.get("answer"))


def _translation(item: object) -> str:
    if not isinstance(item, dict):
        return ""
    more = {"also": _names("synonyms", 6)(item), "as in": _names("examples", 2)(item)}
    return plain(item.get("text")) + "".join(f" ({word}: {told})" for word, told in more.items() if told)


def _weather(item: Mapping[str, Any]) -> str:
    now = _moment(item["current"])
    later = [_moment(one) for one in as_list(item.get("forecasts"))[:3] if isinstance(one, dict)]
    return ". Then ".join(filter(None, [now, "; ".join(filter(None, later))]))


def _moment(item: Mapping[str, Any]) -> str:
    """`Berlin: 12 °C, light rain`; a time before it in a forecast."""
    told = plain(item.get("summary"), 200)
    degrees = item.get("temperature")
    if not told and isinstance(degrees, dict):
        told = ", ".join(
            filter(None, (f"{degrees.get('val')} {degrees.get('unit', '')}".strip(), plain(item.get("condition"), 60)))
        )
    at = plain(item.get("datetime"), 40)[:16]
    return f"{at} {told}".strip() if told else ""


def read_infobox(item: object) -> Shown | None:
    if not isinstance(item, dict):
        return None
    urls = [link.get("url") for link in as_list(item.get("urls")) if isinstance(link, dict)]
    facts = {
        plain(fact.get("label"), 60): plain(fact.get("value"), 120)
        for fact in as_list(item.get("attributes"))
        if isinstance(fact, dict) and fact.get("value")
    }
    shown = {
        "title": plain(item.get("infobox"), 200),
        "text": plain(item.get("content"), 600),
        "url": plain(next((url for url in urls if isinstance(url, str)), ""), 500),
        "facts": dict(list(facts.items())[:FACTS]),
    }
    return {key: value for key, value in shown.items() if value} or None


def canonical(url: str) -> str:
    """The address that several spellings of one page have in common; for comparing, not for opening."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    host = (parts.hostname or "").removeprefix("www.").rstrip(".")
    if port not in (None, 80, 443):
        host = f"{host}:{port}"
    kept = [
        (key, value) for key, value in parse_qsl(parts.query, keep_blank_values=True) if not _TRACKING.fullmatch(key)
    ]
    fragment = parts.fragment if parts.fragment.startswith(("!", "/")) else ""
    return urlunsplit(("https", host, parts.path.rstrip("/"), urlencode(sorted(kept)), fragment))


def without_twins(results: Iterable[Shown]) -> list[Shown]:
    """Each page once, where it came first, with the engines of all."""
    found: dict[str, Shown] = {}
    for place, result in enumerate(results):
        key = canonical(result["url"]) if result.get("url") else f"#{place}"
        first = found.setdefault(key, result)
        if first is not result:
            first["engines"] = sorted({*first.get("engines", ()), *result.get("engines", ())})
    return list(found.values())


def of_sites(results: Iterable[Shown], wanted: Sequence[str], unwanted: Sequence[str]) -> list[Shown]:
    """Those of the wanted hosts and none of the unwanted ones; a host stands for those below it as well."""

    def fits(result: Shown) -> bool:
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
