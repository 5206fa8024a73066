"""A private SearXNG on loopback: installed, started, watched and stopped without a person's help.

It runs as a process of its own in a virtual environment of its own (SearXNG is AGPL software; nothing of it
is imported here). Queries reach it by POST, and its web server writes no access log.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from sparkgate.embedded_files import EmbeddedError, Progress, exclusive, silent
from sparkgate.embedded_install import LOCK, PINNED, Installer, Program
from sparkgate.embedded_process import start
from sparkgate.embedded_settings import settings_yaml
from sparkgate.machine.files import private_folder, rotate, tail, text_of, write_private
from sparkgate.machine.processes import Process
from sparkgate.policy.local import LocalDoor, LocalDoorError, free_port, is_free

__all__ = ["PINNED", "Embedded", "EmbeddedError", "Instance", "Progress", "Status"]

State = Literal["running", "not answering", "stopped"]
# SearXNG's own server (one thread a request: a slow engine holds up nobody), less its access log.
_LAUNCH = """\
import logging, runpy
logging.getLogger("werkzeug").setLevel(logging.WARNING)
runpy.run_module("searx.webapp", run_name="__main__", alter_sys=True)
"""
_HEAD = """\
# Written by sparkgate at each start: changes made here are lost.
# An engines.yml beside it (YAML that begins with "engines:") replaces the engines.
"""
_ADVICE = {
    401: "it asks for a login",
    403: "JSON is off (add json to search.formats in its settings.yml), or a proxy asks for a login",
    404: "the path is wrong: give the address of its start page",
    429: "its limiter is on: turn it off, or let this machine pass (pass_ip in limiter.toml)",
}


@dataclass(frozen=True, slots=True)
class Instance:
    """A SearXNG that can be asked at `url`; `pid` is None when its process is not ours."""

    url: str
    port: int
    pid: int | None
    source: str
    version: str
    settings: Path
    log: Path


@dataclass(frozen=True, slots=True)
class Status:
    """`state` is "running", "not answering" or "stopped"; `detail` is a sentence for people."""

    state: State
    detail: str
    instance: Instance | None = None


@dataclass(frozen=True, slots=True)
class _Record:
    """What instance.json remembers; `port` and `source` outlive the process."""

    url: str = ""
    port: int = 0
    pid: int = 0
    birth: str = ""
    source: str = ""
    version: str = ""

    def stopped(self) -> _Record:
        """What stays of it; a URL is forgotten."""
        return _Record(port=self.port, source="" if _is_url(self.source) else self.source)


class Embedded:
    """The private SearXNG whose files live under `root`.

    `installs` holds the virtual environment (default: `root`), `patience_s` (seconds) bounds a start,
    `python` makes the environment from the requirements file `lock`. An `engines.yml` under `root` replaces
    our engines.
    """

    def __init__(
        self,
        root: Path,
        progress: Progress = silent,
        *,
        installs: Path | None = None,
        patience_s: float = 30.0,
        python: str = sys.executable,
        lock: Path = LOCK,
    ) -> None:
        self.root = root
        self.log = root / "searxng.log"
        self.settings = root / "settings.yml"
        self._progress = progress
        self._patience_s = patience_s
        self._installer = Installer(installs or root, progress, python, lock)

    def install(self, source: str | None = None) -> Program:
        """Install what `up` would start, without starting it. Raises EmbeddedError."""
        return self._installer.install(self._source(source, self._read()))

    def up(self, source: str | None = None, port: int | None = None, engines_yaml: str | None = None) -> Instance:
        """Start it, or report the one that runs already; what differs from the arguments is started anew.

        `source` is "pinned", a checkout's folder, its .tar.gz or .zip, or the http(s) URL of an instance that
        runs elsewhere; None means as last time. `engines_yaml` is YAML text that begins with `engines:`.

        Raises:
            EmbeddedError: it cannot be installed, does not start, or does not answer JSON.
        """
        with self._alone():
            record = self._read()
            wanted = self._source(source, record)
            if _is_url(wanted):
                return self._adopt(record, wanted.rstrip("/"))
            if self._serves(record, wanted, port, engines_yaml):
                return self._instance(record)
            self._refuse_taken(port, record)
            program = self._installer.install(wanted)
            _process(record).stop()
            write_private(self.settings, self._settings_text(engines_yaml))
            self._write(record.stopped())
            return self._start(program, wanted, self._port(port or record.port), record.stopped())

    def down(self) -> bool:
        """Stop it; True when a process was stopped. A URL is only forgotten. Port, key and log are kept."""
        with self._alone():
            record = self._read()
            stopped = _process(record).stop()
            self._write(record.stopped())
            return stopped

    def status(self) -> Status:
        """Whether it runs and answers JSON; asks it with a request that costs no engine."""
        record = self._read()
        if not record.url or (record.pid and not _process(record).alive()):
            return Status("stopped", "it does not run; `sparkgate searxng up` starts it")
        instance = self._instance(record)
        try:
            with _door(record.url) as door:
                _expect_json(door, record.url)
        except EmbeddedError as error:
            return Status("not answering", str(error), instance)
        return Status("running", f"it answers at {record.url}", instance)

    def log_tail(self, lines: int = 20) -> list[str]:
        """The last `lines` lines of its log."""
        return tail(self.log, lines)

    def _serves(self, record: _Record, source: str, port: int | None, engines_yaml: str | None) -> bool:
        same = record.source == source and port in (None, record.port)
        if engines_yaml is not None:
            same = same and text_of(self.settings) == self._settings_text(engines_yaml)
        current = same and (source != PINNED or self._installer.is_current(source))
        return current and self.status().state == "running"

    def _adopt(self, record: _Record, url: str) -> Instance:
        self._progress(f"Asking {url}")
        with _door(url) as door:
            _expect_json(door, url)
            version = _version(door, url)
        _process(record).stop()
        return self._remember(_Record(url=url, port=record.port, source=url, version=version))

    def _start(self, program: Program, source: str, port: int, before: _Record) -> Instance:
        rotate(self.log)
        url = f"http://127.0.0.1:{port}"
        argv = [str(program.python), "-P", "-c", _LAUNCH]
        process = start(argv, self._environment(program, port), self.root, self.log)
        record = _Record(url=url, port=port, pid=process.pid, birth=process.birth, source=source)
        self._write(record)
        try:
            version = self._healthy(process, url)
        except BaseException:
            process.stop()
            self._write(before)
            raise
        return self._remember(replace(record, version=version))

    def _healthy(self, process: Process, url: str) -> str:
        self._progress(f"Waiting for SearXNG at {url}")
        with _door(url) as door:
            deadline = monotonic() + self._patience_s
            while not _is_up(door, url):
                if process.ends_within(0.1):
                    raise self._failed("SearXNG ended while starting")
                if monotonic() > deadline:
                    raise self._failed(f"SearXNG did not answer in {self._patience_s:g} s")
            _expect_json(door, url)
            if process.ends_within(0):
                raise self._failed(f"Another program answers at {url}")
            return _version(door, url)

    def _failed(self, what: str) -> EmbeddedError:
        last = "\n".join(f"  {line}" for line in self.log_tail(12))
        return EmbeddedError(f"{what}. The last lines of {self.log}:\n{last}")

    def _refuse_taken(self, port: int | None, record: _Record) -> None:
        if port and port != record.port and not is_free(port):
            raise EmbeddedError(f"port {port} is taken; leave --port out and a free one is chosen")

    def _port(self, wanted: int) -> int:
        if wanted and not is_free(wanted):
            self._progress(f"Port {wanted} is taken now; choosing another")
            return free_port()
        return wanted or free_port()

    def _environment(self, program: Program, port: int) -> dict[str, str]:
        env = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        # A home and a folder for temporary files of its own: no ~/.netrc, no guessable names under /tmp.
        env |= {"HOME": str(self.root), "TMPDIR": str(private_folder(self.root / "tmp"))}
        env |= {"SEARXNG_SETTINGS_PATH": str(self.settings), "SEARXNG_DISABLE_ETC_SETTINGS": "1"}
        env |= {"SEARXNG_BIND_ADDRESS": "127.0.0.1", "SEARXNG_PORT": str(port)}
        if program.code:
            env |= {"PYTHONPATH": str(program.code), "PYTHONPYCACHEPREFIX": str(self.root / "tmp")}
        return env

    def _settings_text(self, engines_yaml: str | None) -> str:
        engines = engines_yaml or text_of(self.root / "engines.yml") or None
        return _HEAD + settings_yaml(self._secret(), engines)

    def _secret(self) -> str:
        kept = self.root / "secret"
        if not text_of(kept):
            write_private(kept, secrets.token_hex(32))
        return text_of(kept)

    def _source(self, asked: str | None, record: _Record) -> str:
        source = asked or record.source or PINNED
        return source if source == PINNED or _is_url(source) else str(Path(source).expanduser().resolve())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            with exclusive(private_folder(self.root) / "up.lock", self._progress):
                yield
        except OSError as error:
            raise EmbeddedError(f"{error.filename or self.root}: {error.strerror}") from error

    def _read(self) -> _Record:
        try:
            return _Record(**json.loads(text_of(self.root / "instance.json")))
        except (ValueError, TypeError):
            return _Record()

    def _write(self, record: _Record) -> None:
        write_private(self.root / "instance.json", json.dumps(asdict(record), indent=1) + "\n")

    def _remember(self, record: _Record) -> Instance:
        self._write(record)
        return self._instance(record)

    def _instance(self, record: _Record) -> Instance:
        pid = record.pid or None
        return Instance(record.url, record.port, pid, record.source, record.version, self.settings, self.log)


def _is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _process(record: _Record) -> Process:
    return Process(record.pid, record.birth)


def _door(url: str) -> LocalDoor:
    try:
        return LocalDoor([url])
    except LocalDoorError as error:
        raise EmbeddedError(f"the URL cannot be used: {error}") from error


def _is_up(door: LocalDoor, url: str) -> bool:
    try:
        return door.get(f"{url}/healthz").status == 200
    except LocalDoorError:
        return False


def _expect_json(door: LocalDoor, url: str) -> None:
    """Without a query SearXNG asks no engine, and says so as JSON when JSON is on."""
    try:
        answer = door.post_form(f"{url}/search", {"format": "json"})
    except LocalDoorError as error:
        raise EmbeddedError(str(error)) from error
    if (answer.status, answer.content_type) != (400, "application/json"):
        advice = _ADVICE.get(answer.status, "it is no SearXNG, or a login page stands before it")
        raise EmbeddedError(f"{url} does not serve JSON searches (HTTP {answer.status}): {advice}")


def _version(door: LocalDoor, url: str) -> str:
    try:
        config: Any = json.loads(door.get(f"{url}/config").text)
        return str(config["version"])
    except (LocalDoorError, ValueError, KeyError, TypeError):
        return ""
