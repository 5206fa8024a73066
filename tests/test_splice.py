"""One value goes into a configuration file of another program and out again, and no other byte of it moves."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import yaml
from splice.laws import FORMATS, SERVER, hold, only_added

from sparkgate.clients.hosts.host import Format
from sparkgate.clients.splice import CannotEdit, Edit, drop, put, read, where
from sparkgate.clients.splice.edit import MAX_BYTES
from sparkgate.clients.splice.proof import was_dropped, was_put
from sparkgate.clients.splice.yaml_tree import tree

FILES = Path(__file__).parent / "splice"
TABLES = {"json": ("mcpServers",), "jsonc": ("mcp", "servers"), "json5": ("mcp", "servers")}
FIXTURES: dict[str, tuple[Format, tuple[str, ...]]] = {
    "hermes.yaml": ("yaml", ("mcp_servers",)),
    "openclaw.json5": ("json5", ("mcp", "servers")),
    "codex.toml": ("toml", ("mcp_servers",)),
    "settings.jsonc": ("jsonc", ("mcp", "servers")),
    "claude.json": ("json", ("mcpServers",)),
}

JSON = [
    "",
    " ",
    "\n",
    "\r\n",
    "\ufeff",
    "{}",
    "{ }",
    "{\n}",
    "{\r\n}\r\n",
    "{}\n",
    "{\t}",
    "{ \n }",
    "[]"[:0],
    '{"a":1}',
    '{"a": 1}',
    '{ "a": 1 }',
    '{"a": {}}',
    '{"mcp": {}}',
    '{ "mcp": { } }\n',
    '{"mcp":{"servers":{}}}',
    '{"mcp":{"servers":{\n}}}',
    '{"a":1\n}',
    '{\n"a":1}',
    '{\n  "a": 1\n}',
    '{\n  "a": 1\n}\n',
    '{\n\t"a": 1\n}',
    '{\r\n    "a": {\r\n        "b": 1\r\n    }\r\n}\r\n',
    '\ufeff{\n   "mcp": {\n   }\n}',
    '{\n        "mcp": {}\n}',
    '{\n  "mcp": {\n    "servers": {\n      "o": {"k": [1, 2]}\n    }\n  }\n}',
    '{"a": 1,\n "mcp": {"x": "}"}}',
    '{\n  "mcp": {\n    "servers": {\n      "o": {\n        "k": [\n          1\n        ]\n      }\n    }\n  }\n}',
    '{"\\u006dcp": {"servers": {"a": "\\\\"}}}',
    '{"mcp": {"servers": {"a": "\\""}, "z": [[{"mcp": {}}]]}}',
    '{"a"\n:\n1\n,\n"mcp"\n:\n{"servers":{"q"\n:1\n}\n}\n}',
    '{\n  "a": 1\n,\n  "b": 2\n}',
    '{\n  "a": 1\n, "b": 2\n}',
]
JSONC = [
    "// c",
    "// c\n",
    "/* c */",
    "/* c */\n{}",
    "\ufeff// c\r\n",
    "{}// c",
    "{} // c\n// d",
    "{// c\n}",
    "{ // c\n}",
    "{/* c */}",
    "{ /* c */ }",
    "{\n  // c\n}",
    "{\n  /* c\n */\n}\n",
    '{"a": 1,}',
    '{"a": 1 /* c */}',
    '{"a": 1, /* c */}',
    '{"a": 1 // c\n}',
    '{"a": 1, // c\n}',
    '{\n  "a": 1, // c\n}',
    '{\n  "a": 1 // c\n  // d\n}',
    '{\n  "a": 1 /* c */ , // d\n}',
    '{\n  "mcp": {\n    "servers": {\n      // "spark": {}\n    }, // end\n  },\n}\n',
    '{"mcp"/*1*/:/*2*/{/*3*/"servers"/*4*/:{}/*5*/}/*6*/}',
    '{"mcp": {"servers": {"a": "// no"} // yes\n}\n}',
    '{\r\n\t"mcp": { // c\r\n\t},\r\n}',
    '// {"mcp":\n{"mcp":{ } }',
    '{\n  "a": 1,\n  // it\'s "b\n}',
]
JSON5 = [
    "{a: 1}",
    "{a:1,}",
    "{ 'a': 'it\\'s', }",
    "{mcp: {servers: {}}}",
    "{'mcp': {\"servers\": {a: '}'}}}",
    "{\n  mcp: {\n    servers: {\n      o: { command: 'x' }, // hi\n    },\n  },\n}\n",
    "{a: +1, b: .5, c: 5., d: 0xFF, e: -0x1}",
    "{a: 'x \\\ny', mcp: {}}",
    "{$a_: 1, \u00fc: 2, \\u0061b: 3}",
    "{\u00a0a\u2003: 1}",
    "{a: '\\x41\\v\\0\\u0041\\q'}",
    "{a: '\"', b: \"'\"}",
]
YAML = [
    "",
    "\n",
    " ",
    "\ufeff",
    "# c",
    "# c\n",
    "\ufeff# c\n",
    "---",
    "---\n",
    "--- # c",
    "---\n# c\n...\n",
    "a: 1",
    "a: 1\n",
    "a: 1\n...\n",
    "a: 1 # c",
    "a:\r\n    b: 1\r\n",
    "{}",
    "{ }\n",
    '{"a": 1}',
    "  a: 1\n  b: 2\n",
    "a: 1\n\n\n",
    "a: 1\n# c\n\n  # d",
    "mcp:",
    "mcp:\n",
    "mcp: # c",
    "mcp:\n  # c\n\n  # d\n\n# e\nz: 1\n",
    "mcp:\nz: 1\n",
    "mcp: {}\n",
    "mcp: { } # c\n",
    "mcp: {servers: {}}",
    "mcp: {servers: {a: 1}, }\n",
    "mcp:\n  servers:\n",
    "mcp:\n  servers:\n    a:\n      b: 1\n      # c\n    # d\n  # e\n# f\n",
    "mcp:\n    servers:\n        a: |\n          x\n\n\nz: 1",
    "mcp:\n  servers:\n    a: |+\n      x\n\n\nz: 1\n",
    "mcp:\n  servers:\n    a:\n    - 1\n    -\nz: 1\n",
    "mcp:\n  servers:\n    a: >-\n      x\n      # no comment\n",
    "mcp:\n  servers:\n    a: 'x\n\n      y'  # c\n",
    "mcp:\n  servers:\n    a: x\n      y\n",
    "x: &x {a: 1}\nmcp:\n  servers:\n    a: *x\n",
    "x: &x {a: 1}\nmcp:\n  servers:\n    a:\n      <<: *x\n      b: 1\n",
    "mcp:\n  servers:\n    a: [1,\n 2]\n",
    "mcp:\n servers:\n  'a': 1\n",
    "mcp:\n  servers:\n    a: &x\n      b: 1\nz: *x\n",
    "%YAML 1.1\n---\nmcp:\n",
    "1: a\non: b\nnull: c\n2020-01-01: d\n",
    "mcp: {\n  servers: {\n    a: 1\n  }\n}\n",
    "mcp:\n  servers:\n    a: !!str 1\n",
    "\"mcp\":\n  'servers':\n    a:   \n",
    "mcp :\n  servers  :\n    a : 1\n",
    "mcp:\n  servers:\n    ? a\n    : b\n",
]
TOML = [
    "",
    "\n",
    "\r\n",
    " ",
    "\ufeff",
    "# c",
    "# c\n",
    "a = 1",
    "a = 1\n",
    "\ufeffa = 1\r\n[b]\r\nc = 2\r\n",
    "a = 1\n  ",
    "a = 1\n\n\n",
    "[mcp]",
    "[mcp]\n",
    "[mcp] # c",
    "[mcp.servers]\n",
    "[mcp.servers.o]\nk = 1 # c\n# d\n[z]\nq = 1\n",
    "[mcp.servers.o.env]\nk = 1\n\n# tail",
    "mcp = {}\n",
    "mcp = { }",
    "mcp = { servers = {} }\n[z]\n",
    "mcp.servers = { a = 1 }",
    "mcp.servers.a.k = 1\nb = 2\n[z]\n",
    "[mcp]\nservers.a.k = 1\n\n[z]\n",
    "[mcp]\nservers = { a = { k = 1 } }\n",
    "[[z]]\na = 1\n[[z]]\n[z.y]\n",
    's = """\n[mcp.servers.spark]\n"""\n',
    "s = '''\n[mcp]\n''''\n",
    "a = [ # c\n  1,\n]\n# e\n",
    "[z]\nmcp.servers = 1\n",
    '[ mcp . "servers" ]\n',
    "[mcp.servers]\n\"a b\" = 1\n'c' = 2\n",
    "[mcp.servers.a]\n[z]\n[mcp.servers.b]\n",
    "[mcp.servers.a]\nk = 1\n  [[mcp.servers.a.l]]\n  m = 1\n",
    "d = 1979-05-27 07:32:00Z # c\n",
    'a = 1_000 # c\nb = "#"\n',
    "[mcp]\n[mcp.servers]\n[mcp.servers.o]",
    "[z]\n\n\n\n[y]",
]
TEXTS: list[tuple[Format, str]] = [
    *(("json", text) for text in JSON),
    *(("jsonc", text) for text in JSON + JSONC),
    *(("json5", text) for text in JSON + JSONC + JSON5),
    *(("yaml", text) for text in YAML),
    *(("toml", text) for text in TOML),
]


def fixture(name: str, change: str) -> str:
    text = (FILES / name).read_text()
    return {"as it is": text, "CRLF": text.replace("\n", "\r\n"), "BOM": "\ufeff" + text, "no end": text.rstrip()}[
        change
    ]


@pytest.mark.parametrize(("format", "text"), TEXTS)
def test_what_is_put_in_comes_out_without_a_trace(format: Format, text: str) -> None:
    for key in (("mcp", "servers", "spark"), ("mcp", "spark"), ("spark",)):
        if not (format == "json" and "//" in text):
            hold(text, format, key, SERVER)


@pytest.mark.parametrize(("format", "text"), TEXTS)
def test_a_single_word_goes_in_and_out_like_a_whole_server(format: Format, text: str) -> None:
    for key in (("tools", "web"), ("alone",)):
        hold(text, format, key, False)


@pytest.mark.parametrize("change", ["as it is", "CRLF", "BOM", "no end"])
@pytest.mark.parametrize("name", FIXTURES)
def test_a_file_of_every_host_is_edited_exactly(name: str, change: str) -> None:
    (format, key), text = FIXTURES[name], fixture(name, change)
    after = hold(text, format, (*key, "sparksearch"), SERVER)
    assert only_added(text, after)
    for inner, value in (
        (("args",), ["-I"]),
        (("env", "A"), "1"),
        (("timeout",), 9),
        (("own",), {"a": [1, {"b": None}]}),
    ):
        if format != "toml" or inner != ("own",):
            hold(after, format, (*key, "sparksearch", *inner), value)


@pytest.mark.parametrize("name", FIXTURES)
def test_three_servers_leave_in_any_order(name: str) -> None:
    (format, key), text = FIXTURES[name], fixture(name, "no end")
    names = ("sparksearch", "sparkengine", "sparkbench")
    after = text
    for server in names:
        after = put(after, format, (*key, server), SERVER).text
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)):
        left = after
        for index in order:
            left = drop(left, format, (*key, names[index])).text
        assert left == text


def test_where_tells_the_member_and_its_line() -> None:
    for name, (format, key) in FIXTURES.items():
        text = fixture(name, "as it is")
        found = where(put(text, format, (*key, "sparksearch"), SERVER).text, format, (*key, "sparksearch"))
        assert found and where(text, format, (*key, "sparksearch")) is None
        after = put(text, format, (*key, "sparksearch"), SERVER).text
        assert "sparksearch" in after.splitlines()[found.line - 1]
        assert after[found.start : found.end].count("sparksearch") == 1


STYLES: list[tuple[Format, str, str]] = [
    (
        "json",
        '{\n    "s": {\n        "o": 1\n    }\n}\n',
        '{\n    "s": {\n        "o": 1,\n        "n": {\n            "a": ["b", "c"]\n        }\n    }\n}\n',
    ),
    ("json", '{"s":{"o":1}}', '{"s":{"o":1,"n":{"a":["b","c"]}}}'),
    ("json", '{\r\n\t"s": {}\r\n}', '{\r\n\t"s": {\r\n\t\t"n": {\r\n\t\t\t"a": ["b", "c"]\r\n\t\t}\r\n\t}\r\n}'),
    (
        "json",
        '{\n  "s": {\n    "o": [\n      1\n    ]\n  }\n}',
        '{\n  "s": {\n    "o": [\n      1\n    ],\n    "n": {\n      "a": [\n        "b",\n        "c"\n      ]\n    }'
        "\n  }\n}",
    ),
    (
        "jsonc",
        '{\n  "s": {\n    "o": 1, // x\n    // y\n  },\n}',
        '{\n  "s": {\n    "o": 1, // x\n    // y\n    "n": {\n      "a": ["b", "c"]\n    },\n  },\n}',
    ),
    (
        "json5",
        "{\n  s: {\n    o: { k: 'v' } // x\n  }\n}",
        '{\n  s: {\n    o: { k: \'v\' }, // x\n    n: { a: ["b", "c"] }\n  }\n}',
    ),
    ("yaml", "s:\n    o: 1\nz: 2\n", 's:\n    o: 1\n    "n":\n        a: ["b", "c"]\nz: 2\n'),
    ("yaml", "s: {o: 1} # x\n", 's: {o: 1, "n": {a: ["b", "c"]}} # x\n'),
    ("toml", "[s.o]\nk = 1\n\n[z]\n", '[s.o]\nk = 1\n\n[s.n]\na = ["b", "c"]\n\n[z]\n'),
    ("toml", "s = { o = 1 }\n", 's = { o = 1, n = { a = ["b", "c"] } }\n'),
]


@pytest.mark.parametrize(("format", "text", "expected"), STYLES)
def test_a_new_member_is_written_like_its_neighbours(format: Format, text: str, expected: str) -> None:
    assert put(text, format, ("s", "n"), {"a": ["b", "c"]}).text == expected


REPLACED: list[tuple[Format, str, Any, str]] = [
    ("json", '{\n  "s": {"n": 1, "z": 2}\n}', [1, "x"], '{\n  "s": {"n": [1, "x"], "z": 2}\n}'),
    ("json5", "{s: {n: 'a', /* c */ z: 2}} // d", {"q": None}, "{s: {n: {q: null}, /* c */ z: 2}} // d"),
    ("yaml", "s:\n  n: 'a'  # c\n  z: 2\n", "b", 's:\n  n: "b"  # c\n  z: 2\n'),
    ("yaml", "s:\n  n:  # c\n  z: 2\n", 5, "s:\n  n: 5  # c\n  z: 2\n"),
    ("yaml", "s:\n  n:  # c\n  z: 2\n", {"q": [1]}, "s:\n  n:  # c\n    q: [1]\n  z: 2\n"),
    ("yaml", "s:\n  n:  # c\n    - 1\n    - 2\n  z: 2\n", [3], "s:\n  n: [3]  # c\n  z: 2\n"),
    ("yaml", "s:\n  n:  # c\n    a: 1 # d\n  z: 2\n", {"b": 2}, "s:\n  n:  # c\n    b: 2 # d\n  z: 2\n"),
    ("yaml", "s:\n  n: |\n    x\n    y\n\n  # c\n  z: 2\n", "b", 's:\n  n: "b"\n\n  # c\n  z: 2\n'),
    ("yaml", "s: {n: [a, b], z: 2}\n", {"q": "r"}, 's: {n: {q: "r"}, z: 2}\n'),
    ("toml", "[s]\nn = 'a' # c\nz = 2\n", True, "[s]\nn = true # c\nz = 2\n"),
    ("toml", "[s.n]\na = 1 # c\n[s.n.b]\nq = 1\n# d\n[z]\n", {"a": 1.5}, "[s.n]\na = 1.5\n# d\n[z]\n"),
    ("toml", "s.n = [1,\n2]\nz = 2\n", 3, "s.n = 3\nz = 2\n"),
]


@pytest.mark.parametrize(("format", "text", "value", "expected"), REPLACED)
def test_a_value_that_is_there_is_replaced_in_place(format: Format, text: str, value: Any, expected: str) -> None:
    assert put(text, format, ("s", "n"), value) == Edit(expected, 0)


DROPPED: list[tuple[Format, str, str]] = [
    ("json", '{"s": {"n": 1, "z": 2}}', '{"s": {"z": 2}}'),
    ("json", '{"s": {"a": 0, "n": 1, "z": 2}}', '{"s": {"a": 0, "z": 2}}'),
    (
        "jsonc",
        '{\n  "s": {\n    "n": 1, // own\n    // next\n    "z": 2\n  }\n}',
        '{\n  "s": {\n    // next\n    "z": 2\n  }\n}',
    ),
    ("jsonc", '{"s": {\n  "a": 0, // a\n  /* b */ "n": 1\n}}', '{"s": {\n  "a": 0 // a\n  /* b */\n}}'),
    ("json5", "{s: {n: 1,}}", "{s: {}}"),
    ("yaml", "s:\n  # before\n  n:\n    a: 1  # own\n  # after\n  z: 2\n", "s:\n  # before\n  # after\n  z: 2\n"),
    ("yaml", "s:\n  n: 1\n", "s:\n"),
    ("yaml", "s: {a: 0, n: 1, z: 2}", "s: {a: 0, z: 2}"),
    ("toml", "[s.n]\na = 1\n# tail\n[z]\n[s.n.env]\nb = 1\n", "# tail\n[z]\n"),
    ("toml", "s = { n = 1, z = 2 }\n", "s = { z = 2 }\n"),
    ("toml", "[s]\n# c\nn = 1 # own\nz = 2\n", "[s]\n# c\nz = 2\n"),
]


@pytest.mark.parametrize(("format", "text", "expected"), DROPPED)
def test_what_a_user_wrote_comes_out_and_comments_stay_with_their_neighbours(
    format: Format, text: str, expected: str
) -> None:
    assert drop(text, format, ("s", "n")) == Edit(expected, 0)


@pytest.mark.parametrize("format", FORMATS)
def test_a_parent_that_was_made_stays_when_the_user_added_to_it(format: Format) -> None:
    edit = put("", format, ("mcp", "servers", "spark"), SERVER)
    more = put(edit.text, format, ("mcp", "servers", "other"), {"command": "y"}).text
    left = drop(more, format, ("mcp", "servers", "spark"), edit.made).text
    assert read(left, format) == {"mcp": {"servers": {"other": {"command": "y"}}}}


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("jsonc", '{\n  "mcp": { // mine\n    "spark": 1\n  }\n}'),
        ("yaml", "mcp:  # mine\n  spark: 1\n"),
        ("toml", "[mcp]\n# mine\nspark = 1\n"),
    ],
)
def test_a_parent_with_a_comment_in_it_stays(format: Format, text: str) -> None:
    assert "mine" in drop(text, format, ("mcp", "spark"), made=1).text


def test_an_absent_value_leaves_the_text() -> None:
    for name, (format, key) in FIXTURES.items():
        assert drop(fixture(name, "CRLF"), format, (*key, "absent", "too"), made=3) == Edit(fixture(name, "CRLF"))


def test_an_equal_value_in_another_order_changes_nothing_and_another_type_does() -> None:
    text = '{"s": {"b": 1, "a": true}}'
    assert put(text, "json", ("s",), {"a": True, "b": 1}).text == text
    assert put(text, "json", ("s",), {"a": 1, "b": 1}).text == '{"s": {"a": 1, "b": 1}}'


@pytest.mark.parametrize("format", FORMATS)
def test_strings_that_look_like_something_else_stay_strings(format: Format) -> None:
    value = {
        "on": "on",
        "y": "yes",
        "1": "0123",
        "a b": "~",
        "": "",
        "q\"'": "#: \\ \u0085\u2028\ufeff\x7f\x1b\n\t",
        "é": "\U0001f600",
    }
    hold(
        "", format, ("mcp", 'é ."x'), {**value, "list": ["true", "1e3", "2020-01-01"], "n": [1, -2.5, 1e-7, 1e22, True]}
    )


REFUSED: list[tuple[Format, str, str]] = [
    ("json", '{"a": 1,}', "1:8: a comma"),
    ("json", '{\n  "a": 1 // c\n}', "2:10: comments"),
    ("json", "{'a': 1}", "1:2: a string"),
    ("json", "{a: 1}", "1:2: a name"),
    ("json", '{"a": NaN}', "1:7: a number"),
    ("json", '{"a": -Infinity}', "1:7: a number"),
    ("json", "// c", "1:1: comments"),
    ("json", '{"a": 01}', "1:7: a value"),
    ("json", '{"a": "x\ny"}', "1:7: a string"),
    ("json", '{"a": 1} 2', "1:10: something"),
    ("json", "[]", "1:1: the file is not"),
    ("json", '{"mcp": "x"}', "1:9: `mcp` is not"),
    ("json", '{"mcp": null}', "1:9: `mcp` is not"),
    ("json", '{"mcp": {"servers": []}}', "1:21: `mcp.servers` is not"),
    ("json", '{"mcp": {}, "m\\u0063p": {}}', "1:13: this name stands twice"),
    ("json", '{"mcp": {"servers": {}, "servers": {}}}', "1:25: this name"),
    ("json", '{"a": "\\ud83d"', "1:15: `,`"),
    ("json", "\ufeff{", "1:2: a name"),
    ("json", '\ufeff{\n"a" 1}', "2:5: `:`"),
    ("json", '{"a": "\0"}', "1:8: a NUL"),
    ("json", '{"a": "\udc00"}', "1:8: half"),
    ("json", "[" * 201, "1:201: nested"),
    ("json", '{"a":' * 90000, "1:1001: nested"),
    ("json", "{" + "9" * 9000, "1:2: a name"),
    ("json", '{"a": ' + "9" * 9000 + "}", "1:7: a number"),
    ("json", '{"a": tru}', "1:7: a value"),
    ("json", '{"a": {"b": 1}', "1:15: `,`"),
    ("jsonc", '{"a": 1 /* c', "1:9: a comment"),
    ("jsonc", "{'a': 1}", "1:2: a string"),
    ("jsonc", "{,}", "1:2: a name"),
    ("jsonc", '{"a": +1}', "1:7: a value"),
    ("json5", "{$include: './x.json5', mcp: {}}", "1:2: `$include`"),
    ("json5", "{mcp: {servers: {'$include': 'x'}}}", "1:18: `$include`"),
    ("json5", "{a: Infinity}", "1:5: a number"),
    ("json5", "{a: -NaN}", "1:5: a number"),
    ("json5", "{a: '\\x4'}", "1:6: an escape"),
    ("json5", "{a: '\\1'}", "1:6: an escape"),
    ("json5", "{a: 0x}", "1:5: a value"),
    ("json5", "{a-b: 1}", "1:3: `:`"),
    ("json5", "{mcp: 1, 'mcp': 2}", "1:10: this name"),
    ("json5", "{a: 1 b: 2}", "1:7: `,`"),
    ("yaml", "- a\n", "1:1: the file is not"),
    ("yaml", "text", "1:1: the file is not"),
    ("yaml", "...\n", "1:1: not YAML"),
    ("yaml", "null", "1:1: the file is not"),
    ("yaml", "a:\n\tb: 1\n", "2:1: not YAML"),
    ("yaml", "a: 1\n\tb: 1\n", "2:1: not YAML"),
    ("yaml", "a: 1\n---\nb: 1\n", "2:1: a second document"),
    ("yaml", "mcp: &x\n  a: 1\n", "1:6: `mcp` has an anchor"),
    ("yaml", "x: &x {a: 1}\nmcp: *x\n", "2:6: `mcp` is an alias"),
    ("yaml", "x: &x {a: 1}\nmcp:\n  <<: *x\n", "3:3: `<<`"),
    ("yaml", "mcp: ~\n", "1:6: `mcp` is not"),
    ("yaml", "mcp: !!map {}\n", "1:6: `mcp` has an anchor or a tag"),
    ("yaml", "a: 1\nmcp:\na: 2\n", "3:1: this name"),
    ("yaml", "mcp: {}\n'mcp': {}\n", "2:1: this name"),
    ("yaml", "a: [1", "1:6: not YAML"),
    ("yaml", "a: .nan\n", "1:4: a number"),
    ("yaml", "a: -.INF\n", "1:4: a number"),
    ("yaml", "a: !x b\n", "1:4: a tag"),
    ("yaml", "a: *x\n", "1:4: an alias"),
    ("yaml", "a: &x [*x]\n", "1:8: an alias"),
    ("yaml", "[" * 300, "1:201: nested"),
    ("yaml", "a: \x01\n", "1:4: a character"),
    ("yaml", "a: 1\rb: 2", "1:5: a character"),
    ("yaml", "? mcp\n: {a: 1}\n", "1:3: a name with"),
    ("yaml", "&k mcp: {a: 1}\n", "1:1: a name with"),
    ("yaml", "mcp: [a]\n", "1:6: `mcp` is not"),
    ("yaml", "a: !!int x\n", "1:4: a value that is not"),
    ("yaml", "? [a]\n: b\n", "1:3: a name that is"),
    ("yaml", "<<: 1\n", "1:5: `<<` without"),
    ("yaml", "mcp: &x\n", "1:6: `mcp` is not"),
    ("toml", "a = \n", "1:5: not TOML"),
    ("toml", "a = 1\na = 2\n", "2:6: not TOML"),
    ("toml", "[mcp]\n[mcp]\n", "2:5: not TOML"),
    ("toml", "[[mcp]]\n", "1:1: `mcp` is a list of tables"),
    ("toml", "mcp = 5", "1:1: `mcp` is not"),
    ("toml", "mcp = []", "1:1: `mcp` is not"),
    ("toml", "a = nan", "1:8: a number"),
    ("toml", "a = [1, -inf]", "1:13: a number"),
    ("toml", "mcp = { servers.a = 1 }", "1:9: a dotted name"),
    ("toml", "a = " + "[" * 300, "1:205: nested"),
    ("toml", "\ufeffa = 1\nb =\n", "2:4: not TOML"),
    ("toml", 'a = "x', "1:7: not TOML"),
    ("toml", ".".join("a" * 300) + " = 1", "1:1: nested"),
    ("toml", ".".join("a" * 5000) + " = 1", "1:1: a number"),
    ("toml", "a = " + "9" * 9000, "1:1: a number"),
]


@pytest.mark.parametrize(("format", "text", "begins"), REFUSED)
def test_a_file_that_is_broken_or_not_certain_is_refused_with_its_place(format: Format, text: str, begins: str) -> None:
    key = ("mcp", "servers", "spark")
    for edit in (partial(put, text, format, key, SERVER), partial(drop, text, format, key)):
        with pytest.raises(CannotEdit) as caught:
            edit()
        error = caught.value
        assert str(error).startswith(begins)
        assert str(error) == f"{error.line}:{error.column}: {error.why}"


TELLING: list[tuple[Format, str]] = [
    ("json", '{"k": "s3cr3t" x}'),
    ("yaml", "k: 's3cr3t' s3cr3t: [\n"),
    ("yaml", "k: *s3cr3t\n"),
    ("yaml", "k: !s3cr3t x\n"),
    ("toml", "k = s3cr3t\n"),
    ("toml", "[s3cr3t]\n[s3cr3t]\n"),
    ("toml", 'k = "s3cr3t" s3cr3t\n'),
]


@pytest.mark.parametrize(("format", "text"), TELLING)
def test_an_error_holds_no_value_of_the_file(format: Format, text: str) -> None:
    with pytest.raises(CannotEdit) as caught:
        read(text, format)
    assert "s3cr3t" not in str(caught.value)


def test_a_table_of_toml_that_is_spread_or_dotted_is_not_replaced_whole() -> None:
    for text in ("[s.n]\na = 1\n[z]\n[s.n.b]\nc = 1\n", "[s]\nn.a = 1\n"):
        with pytest.raises(CannotEdit, match="spread over the file"):
            put(text, "toml", ("s", "n"), {"a": 2})


def test_a_name_without_a_value_between_braces_gets_no_members() -> None:
    with pytest.raises(CannotEdit, match="1:2: a name without a value"):
        put("{mcp: }", "yaml", ("mcp", "servers"), SERVER)


def test_a_block_of_text_that_ends_with_the_file_is_not_lengthened_by_a_line_break() -> None:
    with pytest.raises(CannotEdit, match="cannot be edited safely by hand"):
        put("a: |\n  x", "yaml", ("mcp", "spark"), SERVER)


def test_an_anchor_that_others_need_stays() -> None:
    text = "mcp:\n  spark: {command: &c x}\nother: *c\n"
    with pytest.raises(CannotEdit, match="cannot be edited safely by hand"):
        drop(text, "yaml", ("mcp", "spark"))


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 2**63, "\ud800", "\0", {1: 2}, {"a": {2, 3}}, (1,), object()]
)
def test_a_value_that_no_file_can_hold_is_refused(value: Any) -> None:
    for format in FORMATS:
        with pytest.raises(CannotEdit, match="cannot be written"):
            put("", format, ("a",), {"b": value})


def test_a_null_is_refused_for_toml_and_an_empty_path_for_all() -> None:
    with pytest.raises(CannotEdit, match="no null"):
        put("", "toml", ("a",), {"b": [None]})
    for format in FORMATS:
        with pytest.raises(CannotEdit):
            put("", format, (), {})


DEEP: list[tuple[Format, str]] = [
    ("json", '{"a": %s}'),
    ("jsonc", '{"a": %s} // c'),
    ("json5", "{a: %s}"),
    ("yaml", "a: %s"),
    ("toml", "a = %s\n"),
]


@pytest.mark.parametrize(("format", "frame"), DEEP)
def test_what_is_nested_as_deep_as_allowed_is_edited(format: Format, frame: str) -> None:
    hold(frame % ("[" * 198 + "]" * 198), format, ("mcp", "spark"), SERVER)


def test_a_file_over_the_limit_is_refused_before_it_is_read() -> None:
    for format in FORMATS:
        with pytest.raises(CannotEdit, match="larger than 20 MB"):
            read("#" * (MAX_BYTES + 1), format)


def test_aliases_that_would_never_end_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(CannotEdit, match="grow beyond all measure"):
        put("\n".join(lines), "yaml", ("mcp", "spark"), SERVER)


def test_the_proof_sees_every_other_change() -> None:
    wrong: Any
    before: Any = {"a": 1, "s": {"o": True, "p": [1]}}
    good: Any = {"a": 1, "s": {"o": True, "p": [1], "n": 5}}
    assert was_put(before, json.loads(json.dumps(good)), ("s", "n"), 5)
    for wrong in (
        {**good, "a": 1.0},
        {**good, "b": 2},
        {"s": good["s"], "a": 1},
        {"a": 1, "s": {"o": 1, "p": [1], "n": 5}},
        {**good, "s": {"o": True, "p": [1], "n": 6}},
        {"a": 1, "s": {"n": 5}},
        before,
    ):
        assert not was_put(before, json.loads(json.dumps(wrong)), ("s", "n"), 5)
    assert was_dropped(json.loads(json.dumps(good)), before, ("s", "n"), 0)
    for wrong in ({"a": 1}, {"a": 1, "s": None}, {"a": 2, "s": before["s"]}, good):
        assert not was_dropped(json.loads(json.dumps(good)), wrong, ("s", "n"), 2)
    assert was_dropped({"a": 1, "s": {"n": 1}}, {"a": 1}, ("s", "n"), 1)
    assert not was_dropped({"a": 1, "s": {"n": 1}}, {"a": 1}, ("s", "n"), 0)
    assert was_dropped({"a": 1, "s": {"n": 1}}, {"a": 1, "s": None}, ("s", "n"), 0)


@pytest.mark.parametrize("text", YAML)
def test_both_readers_of_yaml_tell_the_same_places(text: str) -> None:
    def shape(loader: Any) -> list[Any]:
        root, found = tree(text, loader), list[Any]()
        stack = [root] if root else []
        while stack:
            node = stack.pop()
            found.append((node.kind, node.data, node.empty or (node.start, node.end), node.flow))
            stack += node.parts
        return found

    assert shape(yaml.SafeLoader) == shape(yaml.CSafeLoader)


def huge(format: Format, projects_count: int = 6600) -> str:
    history = [{"display": "text " * 8, "n": n, "t": 1.5, "ok": True} for n in range(10)]
    projects = {f"/home/u/p{n}": {"allowedTools": ["a", "b"], "history": history} for n in range(projects_count)}
    text = json.dumps({"projects": projects, "mcpServers": {"files": {"command": "npx"}}}, indent=2)
    return text if format == "json" else f"// head\n{text}"


@pytest.mark.parametrize("format", ["json", "json5"])
def test_ten_megabytes_take_ten_times_as_long_as_one(format: Format) -> None:
    def edited(text: str) -> tuple[str, float]:
        started = process_time()
        return put(text, format, ("mcpServers", "spark"), SERVER).text, process_time() - started

    text = huge(format)
    assert len(text) > 10_000_000
    after, took_s = edited(text)
    assert took_s < 20 * edited(huge(format, 660))[1] + 1  # 100 times, if it were quadratic
    assert drop(after, format, ("mcpServers", "spark")).text == text
