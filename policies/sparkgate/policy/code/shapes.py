"""Code that is known by its frame: stack frames, marked headers, configuration files.

Each function takes a text and gives spans (str indices, half open, whole lines where a line is all of that kind).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from sparkgate.policy.checks import own_path
from sparkgate.policy.code.signs import Signs
from sparkgate.policy.forms.view import View
from sparkgate.policy.literals import any_of

Span = tuple[int, int]

MARKED = 3
CONFIG_LINES = 5
CONFIG_OWN_SHARE = 0.75

_PY_FRAME = re.compile(r'[ \t]*File "(?P<path>[^"\n]{1,300})", line \d{1,6}(?:, in \S{1,80})?')
_SOURCE = re.compile(r"(?:\r?\n(?!\s*File \")[ \t]{2,}[^\r\n]+)+")
_JVM_FRAME = re.compile(r"\bat (?P<path>[\w$.]{3,200})\.[\w$<>]{1,80}\(\w{1,80}\.(?:java|kt|scala|groovy):\d{1,6}\)")
_FIRST_CLASS = re.compile(
    r"(?:Main|App|Application|Program|Test|Tests|Demo|Example|Hello|HelloWorld|Solution|Foo|Bar|MyClass|Sample)"
    r"(?:\.\w{1,40})?(?:Kt)?"
)
_NET_FRAME = re.compile(r"\bat (?P<path>[A-Z][\w.`]{3,200})\([^()\n]{0,200}\) in \S{1,300}:line \d{1,6}")
_JS_FRAME = re.compile(r"\bat (?:[\w$.<>\[\] ]{1,100} \()?(?:file://)?(?P<path>/[^\s():]{1,300}):\d{1,6}:\d{1,6}\)?")
_GO_FRAME = re.compile(r"(?:^|(?<=\n))[^\n]{1,300}\n\t(?P<path>/\S{1,300}\.go):\d{1,6}(?: \+0x[0-9a-f]+)?")
_RUST_FRAME = re.compile(
    r"(?:(?:^|(?<=\n))\s{0,8}\d{1,3}: [^\n]{1,300}\n\s{1,20})?"
    r"\bat (?P<path>(?:\./|/)[\w./-]{1,300}\.rs):\d{1,6}(?::\d{1,6})?"
)

_PARAGRAPH = re.compile(r"[^\r\n]+(?:\r?\n[^\r\n]+)*")
_ROW = re.compile(r"[^\r\n]+")
_MARK_WORDS = (
    "confiden", "propriet", "distribut", "internal", "restricted", "private", "secret", "unreleased", "vertraulich",
    "unpublished", "under nda", "under embargo", "reserved", "licenseref", "embargoed", "unauthori", "disclos",
    "riservato", "vertrouwelijk", "dienst", "copyright", "©", "(c)", "property of", "vorbehalten", "usage interne",
    "diffuser", "weitergabe", "trade secret", "prohibited", "forbidden",
)  # fmt: skip
_has_a_mark = any_of(_MARK_WORDS)
_COMMENTED = re.compile(r"\s*(?:#|//|/?\*|--|;|%|<!--|\"\"\")")

_CONFIG_ROW = re.compile(
    r"(?P<indent>[ \t]*)(?:- )?(?:(?P<key>[a-z][\w-]*(?:\.[\w-]+)*)(?:: *| ?= ?)(?P<value>[^\r\n]*)"
    r"|\[{1,2}(?P<section>[a-z][\w.-]*)\]{1,2}|- \S[^\r\n]*|#[^\r\n]*)$"
)
_VALUE = re.compile(
    r"""(?:"[^" ]*"|'[^' ]*'|\[.*\]|\{.*\}|[-+]?[\d._]+(?:[eE][-+]?\d+)?[a-zA-Z%]{0,4}|true|false|null|none|~"""
    r"""|[\w./:@$*-]+(?:, ?[\w./:@-]+)*)?(?:\s+#.*)?$"""
)


def frames(view: View, table: Signs) -> Iterator[Span]:
    """Stack frames of own code, with the source line below or the function above; frames of packages stay."""
    text, kinds = view.text, view.outlines["kinds"]
    if view.is_ascii and "a:0" not in kinds and ":aaaa 0" not in kinds and 'File "' not in text:
        return
    if 'File "' in text:
        for frame in _PY_FRAME.finditer(text):
            source = _SOURCE.match(text, frame.end())
            if _is_own_file(frame["path"], table):
                yield frame.start(), source.end() if source else frame.end()
    for endings, pattern, kind in _FRAMES:
        if any(map(text.__contains__, endings)):
            yield from (m.span() for m in pattern.finditer(text) if not kind(m["path"], table))


def _is_own_file(path: str, table: Signs) -> bool:
    """A file in a folder of one's own: no package, no toolchain, no folder every container has."""
    folders = path.replace("\\", "/").split("/")[:-1]
    if path.startswith(("<", "node:")) or any(one.lower() in table.public_projects for one in folders):
        return False
    if "rustc" in folders or ".cargo" in folders or "/go/src/" in path:
        return False
    if path.startswith("./"):
        return len(folders) > 1
    return len(folders) > 1 and own_path("/".join(folders), path, 0)


def _is_public_package(name: str, table: Signs) -> bool:
    """A package that everybody can read, or a class of no package that every first program has."""
    return f"{name.lower()}.".startswith(table.public_packages) or _FIRST_CLASS.fullmatch(name) is not None


def _is_public_file(path: str, table: Signs) -> bool:
    return not _is_own_file(path, table)


_FRAMES = (
    ((".java:", ".kt:", ".scala:", ".groovy:"), _JVM_FRAME, _is_public_package),
    ((":line ",), _NET_FRAME, _is_public_package),
    ((".js:", ".ts:", ".mjs:", ".cjs:", ".tsx:", ".jsx:", ".vue:"), _JS_FRAME, _is_public_file),
    ((".go:",), _GO_FRAME, _is_public_file),
    ((".rs:",), _RUST_FRAME, _is_public_file),
)


def marked(view: View, table: Signs) -> Iterator[Span]:
    """Header lines by which a firm marks its own, paragraph by paragraph; public licences stay."""
    if not _has_a_mark(view.lower):
        return
    text = view.text
    for paragraph in _PARAGRAPH.finditer(text):
        rows = [row.span() for row in _ROW.finditer(text, *paragraph.span())]
        scores = [_mark_score(text[start:end], table) for start, end in rows]
        if sum(scores) >= MARKED and not table.public_mark.search(paragraph[0]):
            yield _whole_comment(text, rows, [row for row, score in zip(rows, scores, strict=True) if score])


def _mark_score(row: str, table: Signs) -> int:
    if not _has_a_mark(row.lower()):
        return 0
    return max(0, sum(mark.weight for mark in table.marks if mark.pattern.search(row)))


def _whole_comment(text: str, rows: list[Span], hits: list[Span]) -> Span:
    """From the first to the last marked row, and the rows of the comment they stand in."""
    first, last = rows.index(hits[0]), rows.index(hits[-1])
    if _COMMENTED.match(text, *rows[first]):
        while first and _COMMENTED.match(text, *rows[first - 1]):
            first -= 1
        while last + 1 < len(rows) and _COMMENTED.match(text, *rows[last + 1]):
            last += 1
    return rows[first][0], rows[last][1]


def configs(text: str, table: Signs) -> Iterator[Span]:
    """YAML, TOML and INI blocks with a structure whose keys are mostly of no public format."""
    if text.count("\n") < CONFIG_LINES - 1 or not (":\n" in text or "]\n" in text):
        return
    run: list[re.Match[str]] = []
    for row in re.finditer(r"[^\r\n]+|(?<=\n)\r?\n(?=\r?\n)", text):
        match = _CONFIG_ROW.match(row[0])
        if match and (match["key"] is None or _VALUE.match(match["value"])):
            run.append(_CONFIG_ROW.match(text, *row.span()) or match)
            continue
        if _is_own_config(run, table):
            yield run[0].start(), run[-1].end()
        run = []
    if _is_own_config(run, table):
        yield run[0].start(), run[-1].end()


def _is_own_config(run: list[re.Match[str]], table: Signs) -> bool:
    keys = [row["key"] or row["section"] for row in run if row["key"] or row["section"]]
    if len(keys) < CONFIG_LINES or not _has_structure(run):
        return False
    if any(row["section"] and _is_public_key(row["section"], table) for row in run):
        return False
    own = [key for key in keys if not _is_public_key(key, table)]
    compound = [key for key in own if re.search(r"[a-z][_-][a-z]", key)]
    return len(own) >= CONFIG_OWN_SHARE * len(keys) and len(own) >= CONFIG_LINES - 1 and len(compound) >= 2


def _has_structure(run: list[re.Match[str]]) -> bool:
    """A section, or a key without value above deeper keys."""
    deeper = any(
        above["key"] and not above["value"].strip() and len(below["indent"]) > len(above["indent"])
        for above, below in pairwise(run)
    )
    return deeper or any(row["section"] for row in run)


def _is_public_key(key: str, table: Signs) -> bool:
    return key.lower().split(".")[0] in table.public_keys or key.lower().replace("_", "-") in table.public_keys
