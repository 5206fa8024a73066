"""Random files in every style, and broken ones: an edit keeps every law, or the file is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import json5
import pytest
import tomlkit
import yaml
from splice.laws import FORMATS, SERVER, hold, only_added

from sparkgate.clients.hosts.host import Format
from sparkgate.clients.splice import CannotEdit, drop, put, read

FILES = Path(__file__).parent / "splice"
SUFFIX: dict[Format, str] = {
    "json": "claude.json",
    "jsonc": "settings.jsonc",
    "json5": "openclaw.json5",
    "yaml": "hermes.yaml",
    "toml": "codex.toml",
}
KEY = ("mcp", "servers", "spark")
NAMES = ("mcp", "servers", "spark", "a", "b c", "d-e", "on", "é", "$x", "1")
WORDS = ("", "x", "it's", 'a "b"', "// no", "# no", "{[", "a: b", "\\", "é\U0001f600", "true", "tab\t")
KNOWN = (" is not a table", "spread over", "without a value", "cannot be edited safely")
"""Why a well-formed file may be refused."""


class Writer:
    """Writes random data in a random style that stays through a file, with comments where the format has them."""

    def __init__(self, seed: int, format: Format) -> None:
        self.random, self.format = random.Random(seed), format
        self.line = self.random.choice(("\n", "\n", "\r\n"))
        self.step = self.random.choice(("  ", "    ", "   ", " " * 8, "\t"))
        self.end = self.random.choice(("", self.line, self.line * 2))
        self.start = self.random.choice(("", "", "\ufeff"))
        self.comments = format != "json" and self.random.random() < 0.7
        self.dense = self.random.random() < 0.2

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def scalar(self) -> Any:
        return self.random.choice(
            (*WORDS, 0, -7, 12345678901, 1.5, True, False, *((None,) if self.format != "toml" else ()))
        )

    def data(self, depth: int) -> Any:
        """A value; tables grow on the path of `KEY` more often than elsewhere."""
        pick = self.random.random()
        if depth <= 0 or pick < 0.4:
            return self.scalar()
        if pick < 0.55:
            return [self.data(depth - 2) for _ in range(self.random.randrange(3))]
        return self.table(depth)

    def table(self, depth: int) -> dict[str, Any]:
        return {name: self.data(depth - 1) for name in self.random.sample(NAMES, self.random.randrange(4))}

    def root(self) -> dict[str, Any]:
        data = self.table(3)
        if self.random.random() < 0.7:
            data["mcp"] = self.table(2)
            if self.random.random() < 0.7:
                data["mcp"]["servers"] = self.table(2)
        return data

    def remark(self, indent: str) -> str:
        if not self.comments or self.random.random() < 0.7:
            return ""
        mark = "#" if self.format in ("yaml", "toml") else "//"
        return self.one(f" {mark} {{'\" mcp:", f"{self.line}{indent}{mark} servers = [")

    def json(self, value: Any, indent: str = "") -> str:
        if not isinstance(value, (dict, list)):
            return self.json_scalar(value)
        ends = "{}" if isinstance(value, dict) else "[]"
        parts = list(value.items()) if isinstance(value, dict) else value
        dense = self.dense or self.random.random() < 0.2
        inner = "" if dense else self.line + indent + self.step
        shown = [self.json_member(part, indent + self.step) for part in parts]
        gaps = [self.remark(indent) if not dense else "" for _ in parts]
        body = "".join(f"{inner}{part}," + gap for part, gap in zip(shown[:-1], gaps, strict=False))
        if not parts:
            return ends[0] + self.one("", "", " ", self.line + indent) + ends[1]
        last = inner + shown[-1] + (self.one("", ",") if self.format != "json" else "")
        return ends[0] + body + last + (gaps[-1] + self.line + indent if not dense else self.one("", " ")) + ends[1]

    def json_member(self, part: Any, indent: str) -> str:
        if not isinstance(part, tuple):
            return self.json(part, indent)
        return f"{self.json_name(part[0])}:{self.one('', ' ')}{self.json(part[1], indent)}"

    def json_name(self, name: str) -> str:
        if self.format == "json5" and name.isidentifier() and self.random.random() < 0.6:
            return name
        return self.json_scalar(name)

    def json_scalar(self, value: Any) -> str:
        if isinstance(value, str) and self.format == "json5" and self.random.random() < 0.5:
            return "'" + json.dumps(value, ensure_ascii=False)[1:-1].replace("'", "\\'").replace('\\"', '"') + "'"
        if value == 1.5 and self.format == "json5":
            return self.one("+1.5", "1.5e0", "1.50")
        return json.dumps(value, ensure_ascii=self.format == "json" and self.random.random() < 0.5)

    def yaml(self, table: dict[str, Any], indent: str = "") -> str:
        step, text = self.step.replace("\t", " "), ""
        for name, value in table.items():
            shown = yaml_name(name) if self.random.random() < 0.5 else json.dumps(name, ensure_ascii=False)
            nested = isinstance(value, dict) and value and self.random.random() < 0.8
            if nested:
                text += f"{indent}{shown}:{self.remark(indent)}{self.line}{self.yaml(value, indent + step)}"
            elif value == {} and self.random.random() < 0.5:
                text += f"{indent}{shown}:{self.one('', '  ')}{self.remark(indent)}{self.line}"
            else:
                text += f"{indent}{shown}: {self.yaml_value(value, indent)}{self.remark(indent + step)}{self.line}"
        return text + self.one("", "", self.line)

    def yaml_value(self, value: Any, indent: str) -> str:
        if isinstance(value, list) and value and self.random.random() < 0.5:
            return "".join(f"{self.line}{indent}{self.one('', '  ')[:0]}- {yaml_flow(part)}" for part in value)
        if isinstance(value, str) and value.isalpha() and self.random.random() < 0.5:
            return self.one(
                f"|{self.line}{indent}    {value}", f">-{self.line}{indent}    {value}{self.line}", f"'{value}'"
            )
        return yaml_flow(value)

    def toml(self, table: dict[str, Any], path: tuple[str, ...] = ()) -> str:
        pairs = {
            name: value for name, value in table.items() if not isinstance(value, dict) or self.random.random() < 0.3
        }
        text = "".join(
            f"{toml_name(name)} = {toml_value(value)}{self.remark('')}{self.line}" for name, value in pairs.items()
        )
        if path and (text or len(pairs) == len(table) or self.random.random() < 0.5):
            text = f"[{'.'.join(map(toml_name, path))}]{self.line}{text}"
        for name, value in table.items():
            if name not in pairs:
                text += self.one("", self.line, self.line * 2) + self.toml(value, (*path, name))
        return text

    def text(self) -> str:
        data = self.root()
        if self.format == "yaml":
            body = self.yaml(data)
        elif self.format == "toml":
            body = self.toml(data)
        else:
            body = self.json(data)
        body = body.rstrip("\r\n") if self.random.random() < 0.3 else body + self.end
        return self.start + body


def yaml_name(name: str) -> str:
    return name if name.isalpha() and name.isascii() and name != "on" else f"'{name}'"


def yaml_flow(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace('":', '": ')


def toml_name(name: str) -> str:
    return name if name.isascii() and name.isalnum() else json.dumps(name, ensure_ascii=False)


def toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_name(name)} = {toml_value(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",\n ".join(map(toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def as_oracle(text: str, format: Format) -> Any:
    """What another reader of the format makes of it."""
    body = text.removeprefix("\ufeff")
    readers: dict[str, Callable[[str], Any]] = {
        "json": json.loads,
        "yaml": lambda text: yaml.safe_load(text) or {},
        "toml": lambda text: tomlkit.parse(text).unwrap(),
    }
    return readers.get(format, json5.loads)(body)


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("format", FORMATS)
def test_every_random_file_is_edited_by_the_laws(format: Format, part: int) -> None:
    done = 0
    for seed in range(part * 40, part * 40 + 40):
        text = Writer(seed, format).text()
        assert read(text, format) == as_oracle(text, format), seed
        for key, value in ((KEY, SERVER), (KEY[:2], SERVER), ((*KEY, "args"), ["x"]), (("tools", "web"), False)):
            try:
                after = hold(text, format, key, value)
            except CannotEdit as error:
                assert any(part in error.why for part in KNOWN), seed
                continue
            done += 1
            assert as_oracle(after, format) == read(after, format)
    assert done > 60


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("format", FORMATS)
def test_every_member_of_a_random_file_comes_out_alone(format: Format, part: int) -> None:
    for seed in range(part * 40, part * 40 + 40):
        text = Writer(seed, format).text()
        data = read(text, format)
        for key in [(name,) for name in data] + [
            (name, inner) for name in data if isinstance(data[name], dict) for inner in data[name]
        ]:
            try:
                left = drop(text, format, key).text
            except CannotEdit as error:
                assert format == "yaml" and KNOWN[-1] in error.why, (seed, key)
                continue
            assert only_added(left, text) or format in ("toml", "jsonc", "json5"), (seed, key)
            expected = read(text, format)
            (expected if len(key) == 1 else expected[key[0]]).pop(key[-1])
            found = read(left, format)
            assert found == expected or {**found, key[0]: {}} == expected or found.get(key[0]) is None, (seed, key)


def damaged(text: str, chance: random.Random) -> str:
    """The text with a few pieces taken out, doubled, moved or made up."""
    for _ in range(chance.randrange(1, 4)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.randrange(12))
        piece = chance.choice(
            (
                "",
                text[start:end] * 2,
                "{",
                "}",
                "[",
                "]",
                '"',
                "'",
                ",",
                ":",
                "\n",
                "\t",
                "#",
                "//",
                "/*",
                "*/",
                "\\",
                "=",
                "- ",
                "&a ",
                "*a",
                "<<: ",
                "---\n",
                "...\n",
                '"""',
                "!x ",
                "? ",
                "\r",
                "$include",
                "\u2028",
                "0x",
                "| \n",
                "[mcp]\n",
                "\ufeff",
                "mcp",
            )
        )
        text = text[:start] + piece + text[end:]
    return text


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("format", FORMATS)
def test_a_damaged_file_is_edited_by_the_laws_or_refused(format: Format, part: int) -> None:
    chance, refused, done = random.Random(f"{format} {part}"), 0, 0
    base = (FILES / SUFFIX[format]).read_text()
    parent = ("mcp_servers",) if format in ("yaml", "toml") else ("mcpServers",) if format == "json" else KEY[:2]
    for _ in range(100):
        text = damaged(base, chance)
        try:
            edit = put(text, format, (*parent, "sparksearch"), SERVER)
        except CannotEdit as error:
            refused += 1
            assert 1 <= error.line <= text.count("\n") + 1 and error.column >= 1
            continue
        done += 1
        assert only_added(text, edit.text)
        assert drop(edit.text, format, (*parent, "sparksearch"), edit.made).text == text
    assert refused and done
