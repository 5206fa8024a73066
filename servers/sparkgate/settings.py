"""Every setting, typed, with unit, default and meaning; and the reader of `config.toml`."""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from sparkgate import paths
from sparkgate.engine_settings import NEEDS, ControlSettings, EngineSettings, mistakes
from sparkgate.setting import setting
from sparkgate.setting_words import BadWords, checked_words, is_base_url


class SettingsError(ValueError):
    """The configuration cannot be used; the message names file, line and the way out."""


@dataclass(frozen=True, slots=True)
class SearxngSettings:
    url: str = setting(
        "", "Base URL of your SearXNG; empty means the embedded one of `sparkgate searxng up`.", unit="URL"
    )
    urls: tuple[str, ...] = setting(
        (), "More instances that may stand in for it, asked in this order when one before them cannot.", unit="URL"
    )
    auth_file: str = setting(
        "",
        "File, mode 0600, of credentials: lines `ADDRESS basic USER:PASSWORD`, "
        "`ADDRESS bearer TOKEN` or `ADDRESS header NAME: VALUE`; `*` is every instance.",
    )
    ca_file: str = setting("", "PEM file of certificate authorities of your own, beside the usual ones.")
    per_minute: int = setting(
        30,
        "Searches sent to one instance in a minute, a quarter of them at once; 0 is no limit.",
        unit="searches",
        low=0,
        high=100_000,
    )
    html_fallback: bool = setting(False, "Read the web page of results where an instance refuses JSON; it holds less.")
    allow_get: bool = setting(False, "Send by GET when a proxy refuses POST; the query then stands in access logs.")
    timeout_s: float = setting(15.0, "Longest wait for one search.", unit="s", low=1, high=120)
    max_answer_bytes: int = setting(
        4_000_000, "Longest answer read, after decoding.", unit="bytes", low=10_000, high=100_000_000
    )

    @property
    def instances(self) -> tuple[str, ...]:
        """Every configured instance once, the first choice first."""
        return tuple(dict.fromkeys(url.rstrip("/") for url in (self.url, *self.urls) if url))

    @property
    def authorities(self) -> str:
        return str(Path(self.ca_file).expanduser()) if self.ca_file else ""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    max_query_chars: int = setting(2000, "Longest query accepted.", unit="characters", low=10, high=8000)
    snippet_chars: int = setting(300, "Longest snippet shown for a result.", unit="characters", low=50, high=2000)
    answer_bytes: int = setting(6000, "Size a search answer is kept to.", unit="bytes", low=1500, high=100_000)
    full_snippet_chars: int = setting(
        1200, "Longest snippet with detail = full.", unit="characters", low=50, high=10_000
    )
    full_answer_bytes: int = setting(
        20_000, "Size an answer with detail = full is kept to.", unit="bytes", low=1500, high=200_000
    )
    cache_s: float = setting(
        300.0,
        "How long an answer serves the same question again, from memory; 0 is never.",
        unit="s",
        low=0,
        high=86_400,
    )
    lite: bool = setting(False, "List few tools with few arguments, for a small model.")


@dataclass(frozen=True, slots=True)
class PagesSettings:
    links: str = setting(
        "results",
        "Which pages may be read: results (what a search of the session or a page of the same site led to), allowlist "
        "(hosts of pages.allow) or any.",
        choices=("results", "allowlist", "any"),
    )
    allow: tuple[str, ...] = setting(
        (), "Hosts for links = allowlist, such as docs.vllm.ai; those below them too.", unit="host"
    )
    inner: tuple[str, ...] = setting(
        (), "Origins of this machine or network whose pages may be read, such as http://wiki.lan:8080.", unit="origin"
    )
    more_ports: tuple[str, ...] = setting(
        (), "Ports of the web that may be connected to, beside 80 and 443.", unit="port"
    )
    robots: bool = setting(True, "Read no page that the site's robots.txt keeps from programs.")
    robots_timeout_s: float = setting(3.0, "Longest wait for a robots.txt.", unit="s", low=0.1, high=30)
    timeout_s: float = setting(15.0, "Longest wait for one page, each redirect anew.", unit="s", low=1, high=60)
    read_s: float = setting(10.0, "Longest time to make text of one page.", unit="s", low=1, high=60)
    max_bytes: int = setting(8_000_000, "Longest page read, after decoding.", unit="bytes", low=10_000, high=50_000_000)
    answer_bytes: int = setting(8000, "Size one part of a page is kept to.", unit="bytes", low=1500, high=100_000)
    cache_s: int = setting(600, "How long a page is kept for its next part; 0 is not.", unit="s", low=0, high=86_400)


@dataclass(frozen=True, slots=True)
class PolicySettings:
    deadline_ms: int = setting(250, "Longest decision; past it the text is blocked.", unit="ms", low=10, high=5000)
    max_input_bytes: int = setting(
        16_384, "Longest text judged; a longer one is blocked.", unit="bytes", low=1024, high=65_536
    )
    known_files: tuple[str, ...] = setting(
        (), "More files, patterns or folders of values that must never leave, beside the usual ones."
    )
    known_env: tuple[str, ...] = setting((), "More environment variables of such values, such as ACME_*.")
    unreleased: tuple[str, ...] = setting((), "Folders whose code must not leave.")
    window_queries: int = setting(
        12,
        "Texts with odd words that are looked back at, for secrets cut into pieces.",
        unit="queries",
        low=2,
        high=100,
    )
    window_chars: int = setting(6000, "Most characters of their odd words.", unit="characters", low=200, high=50_000)
    window_minutes: float = setting(30.0, "How long a text is looked back at.", unit="min", low=1, high=1440)
    queries_per_hour: int = setting(
        600, "Most queries of a session to one class of destination in an hour.", unit="queries", low=1, high=100_000
    )
    queries_per_day: int = setting(5000, "The same in a day.", unit="queries", low=1, high=1_000_000)
    bytes_per_hour: int = setting(
        262_144, "Most text of a session to one class of destination in an hour.", unit="bytes", low=1000, high=10**9
    )
    bytes_per_day: int = setting(2_097_152, "The same in a day.", unit="bytes", low=1000, high=10**10)
    bits_per_hour: int = setting(
        65_536, "Most random-looking text in an hour, as an estimate.", unit="bits", low=256, high=10**9
    )
    bits_per_day: int = setting(262_144, "The same in a day.", unit="bits", low=256, high=10**10)


@dataclass(frozen=True, slots=True)
class AuditSettings:
    head_file: str = setting("", "Where the last link is kept outside the log; empty means audit.head beside it.")
    tell_syslog: bool = setting(True, "Tell the last link to the system's log now and then.")
    keep_days: int = setting(
        365, "Rows older than this are pruned by the gate; 0 keeps all.", unit="days", low=0, high=36_500
    )
    max_megabytes: int = setting(
        2000, "Size from which the oldest rows are pruned; 0 is no limit.", unit="MB", low=0, high=1_000_000
    )


@dataclass(frozen=True, slots=True)
class GateSettings:
    idle_minutes: float = setting(
        15.0, "Minutes without session and job before the gate ends.", unit="min", low=0.01, high=10_000
    )


@dataclass(frozen=True, slots=True)
class BenchSettings:
    max_seconds: int = setting(
        3600,
        "Longest time that one benchmark may be given; one that asks for more is refused.",
        unit="s",
        low=10,
        high=86_400,
    )


@dataclass(frozen=True, slots=True)
class Settings:
    searxng: SearxngSettings = field(default_factory=SearxngSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    pages: PagesSettings = field(default_factory=PagesSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    gate: GateSettings = field(default_factory=GateSettings)
    control: ControlSettings = field(default_factory=ControlSettings)
    bench: BenchSettings = field(default_factory=BenchSettings)
    engines: dict[str, EngineSettings] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One setting as a person reads it; `origin` is "default" or `FILE:LINE`."""

    key: str
    value: Any
    default: Any
    unit: str
    meaning: str
    origin: str


def state_dir() -> Path:
    return Path(paths.state_dir())


def load(path: Path | None = None) -> Settings:
    """Read the configuration; without a file every default holds.

    Raises:
        SettingsError: the file is not TOML, or holds an unknown key or a bad value.
    """
    path = path or Path(paths.config_path())
    text = _read(path)
    data = _parsed(text, path)
    tables = data.pop("engines", {})
    sections = {name: kind for name, kind in get_type_hints(Settings).items() if name != "engines"}
    for name in data:
        if name not in sections or not isinstance(data[name], dict):
            raise SettingsError(
                f"{path}:{_line(text, name)}: unknown section or key {name!r}{_nearest(name, sections)}"
            )
    plain = {name: _section(sections[name], name, data.get(name, {}), path, text) for name in sections}
    return Settings(**plain, engines=_engines(tables, path, text))


def _engines(tables: Any, path: Path, text: str) -> dict[str, EngineSettings]:
    """`[engines.NAME]` tables by name; a name is what an agent may say."""
    if not isinstance(tables, dict):
        raise SettingsError(f"{path}: engines are tables such as [engines.main]")
    return {name: _engine(name, table, path, text) for name, table in tables.items()}


def _engine(name: str, table: Any, path: Path, text: str) -> EngineSettings:
    from sparkgate.engines import ENGINES

    section = f"engines.{name}"
    where = f"{path}:{_line(text, section)}: {section}"
    if not ENGINE_NAME.fullmatch(name) or not isinstance(table, dict):
        raise SettingsError(f"{where}: a table whose name has letters, digits, - and _, at most 32")
    entry: EngineSettings = _section(EngineSettings, section, table, path, text)
    for key, words in mistakes(entry, ENGINES):
        known = {"engine": ENGINES, "runtime": NEEDS}.get(key) if words.startswith("unknown") else None
        hint = _nearest(getattr(entry, key), known) if known else ""
        raise SettingsError(f"{where} {words}{hint}" if not hint else f"{where}: {words}{hint}")
    return entry


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else type(error).__name__
        raise SettingsError(f"{path}: not valid TOML: {reason}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read ({type(error).__name__}); make it a UTF-8 file you own") from error


def _section(kind: Any, name: str, table: dict[str, Any], path: Path, text: str) -> Any:
    fields = {f.name: f for f in dataclasses.fields(kind)}
    types = get_type_hints(kind)
    values = {}
    for key, value in table.items():
        where = f"{path}:{_line(text, key, name)}: {name}.{key}"
        if key not in fields:
            raise SettingsError(f"{where} is not a setting{_nearest(key, fields)}")
        values[key] = _checked(value, types[key], fields[key].metadata, where)
    return kind(**values)


def _checked(value: Any, kind: Any, about: Any, where: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(max(min(value, FLOAT_MAX), -FLOAT_MAX))
    if kind == WORDS:
        try:
            return checked_words(value, about["unit"])
        except BadWords as error:
            raise SettingsError(f"{where} {error}") from error
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise SettingsError(f"{where} must be {_TYPE_WORDS[kind]}")
    if about["choices"] and value not in about["choices"]:
        raise SettingsError(f"{where} must be one of {', '.join(about['choices'])}")
    low, high = about["low"], about["high"]
    if low is not None and not low <= value <= high:
        raise SettingsError(f"{where} must be between {low:g} and {high:g} {about['unit']}")
    if about["unit"] == "URL" and value and not is_base_url(value):
        raise SettingsError(f"{where} must look like http://127.0.0.1:8888 (http or https, no user name, no query)")
    return value


ENGINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
FLOAT_MAX = 10**300
WORDS = tuple[str, ...]
_TYPE_WORDS: dict[type, str] = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def _line(text: str, key: str, section: str = "") -> int:
    """The line where `key` is set, as people count; 1 when it cannot be told."""
    wanted = re.compile(rf"(?:^|[{{,.])\s*[\"']?{re.escape(key)}[\"']?\s*(?:=|\.)")
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+\s*[\"']?([\w.-]+)[\"']?\s*\]", line)
        if header:
            current = header[1]
            if not section and current == key:
                return number
        elif wanted.search(line) and (current == section or re.match(rf"\s*{re.escape(section)}\b", line)):
            return number
    return 1


def _nearest(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f" (known: {', '.join(sorted(known))})"


def rows(settings: Settings, path: Path) -> Iterator[Row]:
    """Every setting with its effective value and where it comes from."""
    text = _read(path)
    data = _parsed(text, path)
    groups = {one.name: getattr(settings, one.name) for one in dataclasses.fields(settings) if one.name != "engines"}
    tables = data | {f"engines.{name}": table for name, table in data.get("engines", {}).items()}
    for section, group in (groups | {f"engines.{name}": one for name, one in settings.engines.items()}).items():
        for row in dataclasses.fields(group):
            given = row.name in tables.get(section, {})
            yield Row(
                key=f"{section}.{row.name}",
                value=getattr(group, row.name),
                default=row.default,
                unit=row.metadata["unit"],
                meaning=row.metadata["meaning"],
                origin=f"{path}:{_line(text, row.name, section)}" if given else "default",
            )
