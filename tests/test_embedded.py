"""The private SearXNG, with the real one: installed, started, found again, stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from real_searxng import Live, as_json, ensure_installed, keeper, python_of, running, search, small, tiny_checkout
from upstream import BROKEN

from sparkgate.clients.searxng import searxng
from sparkgate.embedded import PINNED, Embedded, EmbeddedError
from sparkgate.embedded_settings import ENGINES, settings_yaml
from sparkgate.machine.processes import Process, birth


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with running(tmp_path_factory.mktemp("searxng")) as live:
        yield live


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkout(tmp_path_factory.mktemp("tiny"))


# What a search finds


def test_a_search_gets_the_results_of_every_loopback_engine(live: Live) -> None:
    live.upstream.forget()
    answer = search(live.url, "python")
    engines = {engine for result in answer["results"] for engine in result["engines"]}
    assert engines == {"alpha", "beta"}
    assert [box["infobox"] for box in answer["infoboxes"]] == ["Python"]
    assert live.upstream.queries() == ["python", "python"]


def test_broken_engines_are_named(live: Live) -> None:
    answer = search(live.url, "python", categories="broken")
    assert answer["results"] == []
    assert {name for name, _ in answer["unresponsive_engines"]} == {*BROKEN, "refused"}


def test_many_searches_at_once_are_all_answered(live: Live) -> None:
    words = [f"word{number}" for number in range(24)]
    with ThreadPoolExecutor(len(words)) as pool:
        answers = list(pool.map(lambda word: search(live.url, word), words))
    assert [answer["query"] for answer in answers] == words
    assert all(answer["results"] for answer in answers)


def test_neither_queries_nor_requests_stand_in_the_log(live: Live) -> None:
    search(live.url, "unmistakable", categories="broken")
    log = live.embedded.log.read_text()
    assert "unmistakable" not in log
    assert "POST /search" not in log
    assert live.embedded.log_tail(1)


# Life of the process


def test_up_again_reports_the_running_one(live: Live) -> None:
    first = live.embedded.status()
    again = live.embedded.up()
    assert first.state == "running"
    assert again == first.instance
    assert (again.url, again.source, again.version) == (live.url, PINNED, "0.1.0")


def test_it_leads_its_own_session_and_gets_no_environment_of_ours(live: Live) -> None:
    instance = live.embedded.up()
    assert instance.pid
    environment = Path(f"/proc/{instance.pid}/environ").read_text().split("\0")
    names = {entry.partition("=")[0] for entry in environment if entry}
    assert os.getsid(instance.pid) == instance.pid
    assert names <= {"PATH", "LANG", "TZ", "HOME", "TMPDIR"} | {name for name in names if "SEARXNG_" in name}


def test_it_listens_on_loopback_only(live: Live) -> None:
    port = live.embedded.up().port
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    addresses = [row[1] for row in listening if row[3] == "0A" and row[1].endswith(f":{port:04X}")]
    assert addresses == [f"0100007F:{port:04X}"]


def test_its_files_are_for_their_owner_only(live: Live) -> None:
    root = live.embedded.root
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*"))}
    assert {"settings.yml", "secret", "instance.json", "searxng.log"} <= modes.keys()
    assert {name for name, mode in modes.items() if mode & 0o077} == set()
    assert modes[root.name] == 0o700


def test_down_then_up_keeps_port_and_key(tmp_path: Path) -> None:
    embedded = keeper(tmp_path)
    first = embedded.up(engines_yaml="engines: []")
    settings = embedded.settings.read_text()
    assert embedded.down()
    assert embedded.status().state == "stopped"
    assert not embedded.down()
    second = embedded.up(engines_yaml="engines: []")
    assert embedded.down()
    assert (second.port, embedded.settings.read_text()) == (first.port, settings)
    assert second.pid != first.pid


def test_two_ups_at_once_give_one_process(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: keeper(tmp_path).up(engines_yaml="engines: []"), range(2))
    keeper(tmp_path).down()
    assert one == other


def test_another_port_is_chosen_when_the_remembered_one_is_taken(tmp_path: Path, tiny: Path) -> None:
    said: list[str] = []
    embedded = small(tmp_path / "state", tiny, said.append)
    first = embedded.up(str(tiny))
    embedded.down()
    with socket.create_server(("127.0.0.1", first.port)):
        second = embedded.up()
        with pytest.raises(EmbeddedError, match=f"port {first.port} is taken"):
            embedded.up(port=first.port)
        assert embedded.status().state == "running"
    embedded.down()
    assert second.port != first.port
    assert any(f"Port {first.port} is taken" in text for text in said)


def test_a_process_that_only_has_the_same_id_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        boot, _, ticks = birth(stranger.pid).partition("/")
        for stale in (f"{boot}/{int(ticks) - 1}", f"another-boot/{ticks}", ""):
            record = {"url": "http://127.0.0.1:1", "port": 1, "pid": stranger.pid, "birth": stale}
            (tmp_path / "instance.json").write_text(json.dumps(record))
            embedded = Embedded(tmp_path)
            assert embedded.status().state == "stopped"
            assert not embedded.down()
        assert stranger.poll() is None
        stranger.communicate(b"\n")
    assert stranger.returncode == 0


def test_a_process_deaf_to_sigterm_is_killed_with_its_group() -> None:
    program = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as deaf:
        assert deaf.stdout and deaf.stdout.readline()
        process = Process(deaf.pid, birth(deaf.pid))
        assert process.stop(grace_s=0.05)
        assert not process.alive()
    assert deaf.returncode == -signal.SIGKILL


def test_a_damaged_record_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "instance.json").write_text('{"pid": 1, "unheard": 2}')
    assert Embedded(tmp_path).status().state == "stopped"


def test_a_start_that_fails_says_the_last_words_and_where_they_stand(tmp_path: Path) -> None:
    embedded = keeper(tmp_path)
    with pytest.raises(EmbeddedError) as failure:
        embedded.up(engines_yaml="engines: [")
    assert "SearXNG ended while starting" in str(failure.value)
    assert "settings.yml" in str(failure.value)
    assert str(embedded.log) in str(failure.value)
    assert embedded.status().state == "stopped"


def test_a_source_that_did_not_start_is_not_kept_for_next_time(tmp_path: Path, tiny: Path) -> None:
    broken = tiny_checkout(tmp_path)
    (broken / "searx" / "webapp.py").write_text("raise SystemExit('no engine today')")
    embedded = small(tmp_path / "state", tiny)
    before = embedded.up(str(tiny))
    with pytest.raises(EmbeddedError, match="no engine today"):
        embedded.up(str(broken))
    assert embedded.status().state == "stopped"
    again = embedded.up()
    embedded.down()
    assert (again.source, again.port) == (str(tiny), before.port)


def test_a_state_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match="file/searxng"):
        Embedded(tmp_path / "file" / "searxng").up()


def test_a_long_log_is_put_aside_at_the_next_start(tmp_path: Path, tiny: Path) -> None:
    embedded = small(tmp_path / "state", tiny)
    embedded.root.mkdir()
    embedded.log.write_text("old\n" * 300_000)
    embedded.up(str(tiny))
    embedded.down()
    assert embedded.log.with_name("searxng.log.1").stat().st_size == 1_200_000
    assert embedded.log.stat().st_size < 10_000


# Settings


def test_every_engine_of_ours_exists_in_the_pinned_package_and_can_be_used() -> None:
    program = (
        "import json, pathlib, searx, yaml; text = (pathlib.Path(searx.__file__).parent / 'settings.yml').read_text();"
        "print(json.dumps([e['name'] for e in yaml.safe_load(text)['engines'] if not e.get('inactive')]))"
    )
    assert set(ENGINES) <= set(json.loads(python_of(ensure_installed(), program)))


def test_the_settings_turn_json_on_and_everything_that_leaks_off() -> None:
    settings = as_json(settings_yaml("k" * 64))
    assert settings["server"] == {
        "secret_key": "k" * 64,
        "bind_address": "127.0.0.1",
        "limiter": False,
        "public_instance": False,
        "image_proxy": False,
        "method": "POST",
    }
    assert settings["search"] == {"autocomplete": "", "favicon_resolver": "", "formats": ["html", "json"]}
    assert settings["use_default_settings"]["engines"]["keep_only"] == list(ENGINES)
    assert settings["engines"] == [{"name": name, "disabled": False} for name in ENGINES]


def test_engines_of_ones_own_replace_all_of_ours(tmp_path: Path, tiny: Path) -> None:
    embedded = small(tmp_path / "state", tiny)
    embedded.root.mkdir()
    (embedded.root / "engines.yml").write_text("engines:\n  - name: mine\n")
    embedded.up(str(tiny))
    embedded.down()
    settings = as_json(embedded.settings.read_text())
    assert settings["use_default_settings"]["engines"]["keep_only"] == []
    assert settings["engines"] == [{"name": "mine"}]


# The command line


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SPARKGATE_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path


def test_the_commands_tell_the_same_story_as_json(live: Live, home: Path) -> None:
    def told(*words: str) -> Any:
        return json.loads(CliRunner().invoke(searxng, [*words, "--json"], catch_exceptions=False).stdout)

    assert told("status")["state"] == "stopped"
    assert told("up", "--source", live.url)["url"] == live.url
    assert told("status")["state"] == "running"
    assert told("logs", "-n", "3") == {"log": str(home / "state/sparkgate/searxng/searxng.log"), "lines": []}
    assert told("down") == {"stopped": False}
    assert told("status")["instance"] is None


def test_a_failure_ends_with_1_and_says_why_on_stderr(home: Path) -> None:
    result = CliRunner().invoke(searxng, ["up", "--source", "http://127.0.0.1:1"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "http://127.0.0.1:1 cannot be reached" in result.stderr


def test_a_configured_url_is_said_to_win(live: Live, home: Path) -> None:
    (home / "config.toml").write_text('[searxng]\nurl = "http://127.0.0.1:9"\n')
    result = CliRunner().invoke(searxng, ["up", "--source", live.url])
    assert result.exit_code == 0
    assert "searxng.url is set to http://127.0.0.1:9 and wins" in result.stderr
