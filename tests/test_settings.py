"""Every setting is explained and bounded, and a mistake in any file of the folder is told with its place."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import pytest

from sparkgate.policy.guard import Guard
from sparkgate.policy.judge import Policy
from sparkgate.policy.rules import RuleError
from sparkgate.policy.terms import load_terms
from sparkgate.services import NotReady, Services
from sparkgate.settings import Settings, SettingsError, load, rows

SECTIONS = get_type_hints(Settings)
FIELDS = [
    (f"{name}.{row.name}", row, get_type_hints(kind)[row.name])
    for name, kind in SECTIONS.items()
    if dataclasses.is_dataclass(kind)
    for row in dataclasses.fields(kind)
]
EVERY_FIELD = pytest.mark.parametrize(("key", "row", "kind"), FIELDS, ids=[key for key, _, _ in FIELDS])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def complaint(config: Path, text: str | bytes) -> str:
    """What is said of a configuration that cannot be used."""
    config.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(SettingsError) as caught:
        load(config)
    return str(caught.value)


# -- the table


@EVERY_FIELD
def test_a_setting_has_a_meaning_a_unit_and_a_default_within_its_bounds(key: str, row: Any, kind: type) -> None:
    about = row.metadata
    assert about["meaning"].endswith(".") and len(about["meaning"]) > 12
    assert isinstance(row.default, get_origin(kind) or kind) or row.default is dataclasses.MISSING
    if kind in (int, float):
        assert about["unit"] and about["low"] <= row.default <= about["high"]
        assert about["low"] >= 0


@EVERY_FIELD
def test_a_bound_itself_is_accepted_and_a_step_past_it_is_refused(key: str, row: Any, kind: type, config: Path) -> None:
    if kind not in (int, float):
        return
    section, name = key.split(".")
    for value, step in ((row.metadata["low"], -1), (row.metadata["high"], 1)):
        config.write_text(f"[{section}]\n{name} = {value}\n")
        assert getattr(getattr(load(config), section), name) == value
        assert "must be between" in complaint(config, f"[{section}]\n{name} = {value + step}\n")


def test_without_a_file_every_default_holds(config: Path) -> None:
    assert load(config) == Settings()
    assert {row.origin for row in rows(load(config), config)} == {"default"}


def test_rows_name_the_value_its_default_and_the_line_it_comes_from(config: Path) -> None:
    config.write_text(
        "# mine\n[policy]\ndeadline_ms = 100\n\n[searxng]\n# url = 'old'\nurl = 'http://h:1'\ntimeout_s = 3\n"
    )
    found = {row.key: row for row in rows(load(config), config)}
    assert found["policy.deadline_ms"].value == 100 and found["policy.deadline_ms"].default == 250
    assert found["policy.deadline_ms"].origin == f"{config}:3"
    assert (found["searxng.url"].origin, found["searxng.timeout_s"].origin) == (f"{config}:7", f"{config}:8")
    assert isinstance(found["searxng.timeout_s"].value, float)
    assert found["gate.idle_minutes"].origin == "default"
    assert all(row.meaning for row in found.values())


# -- mistakes in config.toml


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[serxng]\nurl = ''\n", ":1: unknown section or key 'serxng'; did you mean 'searxng'?"),
        ("\n[searxng]\ntimeout = 3\n", ":3: searxng.timeout is not a setting; did you mean 'timeout_s'?"),
        ("[searxng]\nqqqq = 3\n", ":2: searxng.qqqq is not a setting (known: "),
        ("url = ''\n[searxng]\n", ":1: unknown section or key 'url'"),
        ("[[searxng]]\nurl = ''\n", "searxng"),
        ("searxng = 3\n", "searxng"),
    ],
)
def test_an_unknown_name_is_told_with_its_line_and_the_nearest_one(config: Path, text: str, said: str) -> None:
    assert said in complaint(config, text)
    assert complaint(config, text).startswith(f"{config}:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[searxng]\nurl = 5\n", "text in quotes"),
        ("[searxng]\nurl = ['http://h']\n", "text in quotes"),
        ("[searxng]\ntimeout_s = '3'\n", "a number"),
        ("[searxng]\ntimeout_s = true\n", "a number"),
        ("[searxng]\ntimeout_s = nan\n", "between"),
        ("[searxng]\ntimeout_s = inf\n", "between"),
        (f"[searxng]\ntimeout_s = {'9' * 400}\n", "between"),
        ("[policy]\ndeadline_ms = true\n", "a whole number"),
        ("[policy]\ndeadline_ms = 250.0\n", "a whole number"),
        (f"[policy]\ndeadline_ms = {'9' * 100}\n", "between"),
        ("[policy]\ndeadline_ms = 2026-01-01\n", "a whole number"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_the_kind_that_is_wanted(config: Path, text: str, said: str) -> None:
    message = complaint(config, text)
    assert said in message and message.startswith(f"{config}:2: ")


@pytest.mark.parametrize(
    "url",
    [
        "http://jane:s3cret@h",
        "http://jane@h",
        "http://@h",
        "http://h/?q=1",
        "http://h/#top",
        "http://h:0",
        "http://h:65536",
        "http://h:x",
        "ftp://h",
        "file:///etc/passwd",
        "h:8888",
        "127.0.0.1:8888",
        "http://",
        "http://:8888",
        "http:///path",
        "http://[::1",
        " http://h",
        "http://h ",
        "http://a b",
        "http://h/a b",
        "http://h/\\u0009x",
        "http://h/\\nx",
        "http://h\\\\evil",
        "javascript:alert(1)",
    ],
)
def test_an_address_that_is_no_plain_base_address_is_refused_and_not_repeated(config: Path, url: str) -> None:
    message = complaint(config, f'[searxng]\nurl = "{url}"\n')
    assert "must look like http://127.0.0.1:8888" in message and message.startswith(f"{config}:2: searxng.url")
    assert "s3cret" not in message


@pytest.mark.parametrize(
    "url", ["", "http://127.0.0.1:8888", "https://h", "http://h:1/sx/", "http://[::1]:80", "HTTP://H"]
)
def test_a_base_address_is_accepted(config: Path, url: str) -> None:
    config.write_text(f'[searxng]\nurl = "{url}"\n')
    assert load(config).searxng.url == url


@pytest.mark.parametrize(
    "text",
    [
        "[searxng\n",
        "x",
        "[searxng]\nurl = 'a'\nurl = 'b'\n",
        b"\xff\xfe",
        b"[searxng]\nurl = '\xe9'\n",
        "a = " + "[" * 5_000,
        "a = " + "9" * 5_000,
    ],
    ids=["section", "word", "twice", "utf-16", "latin-1", "nested", "number"],
)
def test_a_file_that_is_not_toml_in_utf8_is_refused_by_name(config: Path, text: str | bytes) -> None:
    assert complaint(config, text).startswith(f"{config}:")


def test_a_folder_in_the_place_of_the_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[gate]\nurl = 1\n[searxng]\nurl = 2\n", 4),
        ("[searxng]\n# url = 1\nurl = 2\n", 3),
        ("[searxng] # url = 1\n'url' = 2\n", 2),
        ('[searxng]\n"url"=2\n', 2),
        ("\n\n[ searxng ]\n  url   = 2\n", 4),
        ("[policy]\ndeadline_ms = 100\n[searxng]\ntimeout_s = 3\nurl = 2\n", 5),
        ('\n["searxng"]\nurl = 2\n', 3),
        ("\n['searxng']\nurl = 2\n", 3),
        ("\n\nsearxng.url = 2\n", 3),
        ("\n\nsearxng = { url = 2 }\n", 3),
    ],
)
def test_a_mistake_is_told_with_the_line_it_stands_on(config: Path, text: str, line: int) -> None:
    assert complaint(config, text).startswith(f"{config}:{line}: ")


# -- mistakes in terms.toml and in rule files

RULE = {
    "id": '"zorp"',
    "class": '"secret"',
    "verdict": '"block"',
    "keywords": '["zorp_"]',
    "pattern": '"zorp_[a-z]{8}"',
    "why": '"w"',
    "source": '"s"',
    "leaks": '["zorp_{lower:8}"]',
    "clean": '["zorp_ prefix"]',
}


@pytest.mark.parametrize(
    "text",
    [
        "[[term]]\n",
        "[[term]]\nname = ''\n",
        "[[term]]\nname = 'A'\n",
        "[[term]]\nname = 5\n",
        "[[term]]\nname = ['Alder']\n",
        "[[term]]\nname = 'Alder'\nverdict = 'allow'\n",
        "[[term]]\nname = 'Alder'\nverdict = ['block']\n",
        "[[term]]\nname = 'Alder'\ncolour = 'red'\n",
        "[[term]]\nname = 'Alder'\nforms = 'Alders'\n",
        "[[term]]\nname = 'Alder'\nforms = [5]\n",
        "[[term]]\nname = 'Alder'\nforms = 5\n",
        "[[term]]\nname = 'Alder'\nforms = ['']\n",
        "[[term]]\nname = 'Alder'\nforms = {a = 'b'}\n",
        "[term]\nname = 'Alder'\n",
        "term = 5\n",
        "term = ['Alder']\n",
        "[[name]]\nname = 'Alder'\n",
        "[[term]\n",
        "a = " + "[" * 5_000,
        "a = " + "9" * 5_000,
    ],
    ids=lambda text: text[:60],
)
def test_a_mistake_in_the_terms_is_told_with_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "terms.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RuleError) as caught:
        load_terms(path)
    assert str(caught.value).startswith(f"{path}:")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pattern", "5"),
        ("pattern", '"(open"'),
        ("pattern", '"x*"'),
        ("keywords", '"zorp_"'),
        ("keywords", "[5]"),
        ("keywords", '[""]'),
        ("checks", "[5]"),
        ("checks", '"real"'),
        ("checks", '["entropy:abc"]'),
        ("checks", '["entropy:nan"]'),
        ("leaks", "[5]"),
        ("leaks", '"zorp_aaaaaaaa"'),
        ("clean", "[5]"),
        ("id", "5"),
        ("why", "5"),
        ("replacement", "5"),
        ("class", '["secret"]'),
        ("verdict", '["block"]'),
        ("verdict", '"warn"'),
    ],
)
def test_a_mistake_in_a_rule_file_is_told_with_its_file_and_rule(tmp_path: Path, key: str, value: str) -> None:
    path = tmp_path / "rules" / "mine.toml"
    path.parent.mkdir()
    path.write_text("[[rule]]\n" + "".join(f"{name} = {text}\n" for name, text in (RULE | {key: value}).items()))
    with pytest.raises(RuleError) as caught:
        Policy.from_folder(tmp_path)
    assert str(caught.value).startswith(f"{path}:") and "rule" in str(caught.value)


@pytest.mark.parametrize("text", ["[rule]\nid = 'x'\n", "rule = 5\n", "rule = ['x']\n", "a = " + "[" * 5_000])
def test_a_rule_file_of_another_shape_is_told_with_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rules" / "mine.toml"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(RuleError, match=r"mine\.toml"):
        Policy.from_folder(tmp_path)


def test_two_rules_of_the_operator_with_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rules" / "mine.toml"
    path.parent.mkdir()
    path.write_text(2 * ("[[rule]]\n" + "".join(f"{name} = {text}\n" for name, text in RULE.items())))
    with pytest.raises(RuleError, match="two are called"):
        Policy.from_folder(tmp_path)


# -- the set that a tool call works with


@pytest.mark.parametrize(
    ("file", "text", "code"),
    [
        ("config.toml", "[searxng]\nurl = 5\n", "config_error"),
        ("config.toml", "a = " + "[" * 5_000, "config_error"),
        ("terms.toml", "[[term]]\nname = ''\n", "policy_error"),
        ("terms.toml", "[[term]]\nname = 'Alder'\nforms = [5]\n", "policy_error"),
        ("terms.toml", "[term]\nname = 'Alder'\n", "policy_error"),
        ("rules/mine.toml", "[[rule]]\nid = 'x'\n", "policy_error"),
    ],
)
def test_a_start_with_a_mistake_in_any_file_stops_everything_until_it_is_mended(
    tmp_path: Path, file: str, text: str, code: str
) -> None:
    services = Services(tmp_path / "config.toml", tmp_path / "state", Guard())
    broken = tmp_path / file
    broken.parent.mkdir(exist_ok=True)
    broken.write_text(text)
    for _ in range(2):
        with pytest.raises(NotReady) as caught:
            services.live()
        assert caught.value.code == code and broken.name in str(caught.value)
    broken.unlink()
    assert services.live().settings == Settings()


def test_a_setting_that_breaks_later_stops_everything_and_a_policy_that_does_leaves_the_last_good_one(
    tmp_path: Path,
) -> None:
    services = Services(tmp_path / "config.toml", tmp_path / "state", Guard())
    good = services.live().egress.policy
    (tmp_path / "terms.toml").write_text("[[term]]\nname = ''\n")
    assert services.live().egress.policy is good and "terms.toml" in services.policy_fault
    (tmp_path / "config.toml").write_text("[searxng]\nurl = 5\n")
    with pytest.raises(NotReady, match="url"):
        services.live()
    (tmp_path / "config.toml").unlink()
    with pytest.raises(NotReady, match=r"terms\.toml"):
        services.live()
    (tmp_path / "terms.toml").unlink()
    assert services.live().settings == Settings() and services.policy_fault == ""


def test_a_new_term_holds_from_the_next_call_on(tmp_path: Path) -> None:
    services = Services(tmp_path / "config.toml", tmp_path / "state", Guard())
    assert services.live().egress.policy.judge("at Alder Bank").verdict == "allow"
    (tmp_path / "terms.toml").write_text("[[term]]\nname = 'Alder Bank'\n")
    assert services.live().egress.policy.judge("at Alder Bank").released == "at [name]"


def test_a_file_in_the_place_of_the_log_folder_is_a_reason_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(NotReady) as caught:
        Services(tmp_path / "config.toml", tmp_path / "state", Guard()).live()
    assert caught.value.code == "log_unavailable"
