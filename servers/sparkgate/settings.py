"""All settings together, and the reader of `config.toml`."""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_type_hints

from sparkgate import paths
from sparkgate.access_settings import GIVABLE, AccessSettings
from sparkgate.access_settings import TABLES as ACCESS_TABLES
from sparkgate.engine_settings import NEEDS, ControlSettings, EngineSettings, mistakes
from sparkgate.setting_tables import (
    AuditSettings,
    BenchSettings,
    ConfineSettings,
    GateSettings,
    PagesSettings,
    PolicySettings,
    SearchSettings,
    SearxngSettings,
)
from sparkgate.setting_words import BadWords, checked_words, is_base_url


class SettingsError(ValueError):
    """The configuration cannot be used; the message names file, line and the way out."""


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
    confine: ConfineSettings = field(default_factory=ConfineSettings)
    engines: dict[str, EngineSettings] = field(default_factory=dict)
    access: AccessSettings = field(default_factory=AccessSettings)


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
    tables, access = data.pop("engines", {}), data.pop("access", {})
    sections = {name: kind for name, kind in get_type_hints(Settings).items() if name not in BY_NAME}
    for name in data:
        if name not in sections or not isinstance(data[name], dict):
            raise SettingsError(
                f"{path}:{_line(text, name)}: unknown section or key {name!r}{_nearest(name, {*sections, *BY_NAME})}"
            )
    plain = {name: _section(sections[name], name, data.get(name, {}), path, text) for name in sections}
    return Settings(**plain, engines=_engines(tables, path, text), access=_access(access, path, text))


def _access(data: Any, path: Path, text: str) -> AccessSettings:
    """`[access]`: its two tables hold a list of what is given by name."""
    if not isinstance(data, dict):
        raise SettingsError(f"{path}:{_line(text, 'access')}: access holds tables such as [access.users]")
    for name in data:
        if name not in ACCESS_TABLES or not isinstance(data[name], dict):
            line = _line(text, name, "access")
            raise SettingsError(f"{path}:{line}: access.{name} is not a table of it{_nearest(name, ACCESS_TABLES)}")
    return AccessSettings(**{name: _given(name, table, path, text) for name, table in data.items()})


def _given(table: str, given: dict[str, Any], path: Path, text: str) -> dict[str, tuple[str, ...]]:
    words_of = {}
    for name, words in given.items():
        where = f"{path}:{_access_line(text, table, name)}: access.{table}.{name}"
        words_of[name] = _checked(words, WORDS, {"unit": "toolset"}, where)
        for unknown in [word for word in words_of[name] if word not in GIVABLE]:
            raise SettingsError(f"{where} holds {unknown!r}, which nobody can be given{_nearest(unknown, GIVABLE)}")
    return words_of


def _access_line(text: str, table: str, name: str) -> int:
    """In `[access.users]`, or written as `users.NAME` in `[access]`."""
    found = _line(text, name, f"access.{table}")
    return found if found > 1 else _line(text, f"{table}.{name}", "access")


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


BY_NAME = ("engines", "access")
"""Sections whose tables have names that the operator chooses."""
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
    groups = {one.name: getattr(settings, one.name) for one in dataclasses.fields(settings) if one.name not in BY_NAME}
    tables = data | {f"engines.{name}": table for name, table in data.get("engines", {}).items()}
    for section, group in (groups | {f"engines.{name}": one for name, one in settings.engines.items()}).items():
        for row in dataclasses.fields(group):
            given = row.name in tables.get(section, {})
            yield _row(
                section, row, getattr(group, row.name), f"{path}:{_line(text, row.name, section)}" if given else ""
            )
    for table in dataclasses.fields(settings.access):
        for name, words in getattr(settings.access, table.name).items():
            yield replace(
                _row("access", table, words, f"{path}:{_access_line(text, table.name, name)}"),
                key=f"access.{table.name}.{name}",
                default=(),
            )


def _row(section: str, of: dataclasses.Field[Any], value: Any, origin: str) -> Row:
    about = of.metadata
    return Row(f"{section}.{of.name}", value, of.default, about["unit"], about["meaning"], origin or "default")
