"""What a tool call needs, made from the configuration and made anew when a file of it has changed."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sparkgate import log
from sparkgate.instances import Instances
from sparkgate.machine.processes import Process
from sparkgate.policy.audit import AuditLog, Caller, Intent, LogUnavailable
from sparkgate.policy.code.fingerprints import FolderError
from sparkgate.policy.egress import Egress
from sparkgate.policy.guard import Guard
from sparkgate.policy.judge import Policy
from sparkgate.policy.keys import load_key
from sparkgate.policy.kill_switch import KillSwitch, kill_switch_of
from sparkgate.policy.known.sources import Places
from sparkgate.policy.outflow import Outflow
from sparkgate.policy.protected import Protected
from sparkgate.policy.rules import RuleError
from sparkgate.policy.rules import shipped as rules
from sparkgate.policy.trail.prune import Limits, prune
from sparkgate.searxng_auth import Logins, read_logins
from sparkgate.setting_tables import AuditSettings
from sparkgate.settings import Settings, SettingsError, load

if TYPE_CHECKING:
    from sparkgate.bench_service import Bench
    from sparkgate.change.control import Control
    from sparkgate.page_robots import Robots
    from sparkgate.reading.reader import Reader

MAX_NOTE_CHARS = 400
STALE = "the policy on disk cannot be used, and the last good one is in force: {error}"
NO_HEAD = "the head of the log cannot be kept outside it, so rows taken off its end would not be missed"
LONG_READER = "another program keeps the log open for reading, so {megabytes} MB wait beside it; end that program"
MAX_WAL_BYTES = 256 * 10**6
DAY_US = 86_400_000_000
WARM_UP_S = 0.5
EMBEDDED_RECORD = "searxng/instance.json"
Stamps = tuple[tuple[str, int, int, int, int], ...]


_making_rules = threading.Lock()
"""Who needs them while they are made waits for them, and does not make them as well."""


class NotReady(Exception):
    """Nothing can be sent now; `code` is stable, the message says what to mend."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Live:
    """One consistent set: settings, the way out that enforces them, and the instances of SearXNG that may be asked."""

    settings: Settings
    egress: Egress
    instances: Instances
    searxng_urls: tuple[str, ...] = ()
    logins: Logins = field(default_factory=Logins)


class Services:
    """Gives the current `Live` set.

    Args:
        config: path of config.toml; `rules/` and `terms.toml` are looked for beside it.
        state: folder of the log, the keys and the embedded SearXNG.
        guard: the connection guard of this process.
        switch: the kill switch; that of the state folder when left out.
    """

    def __init__(self, config: Path, state: Path, guard: Guard, switch: KillSwitch | None = None) -> None:
        self.config, self.state, self.guard = config, state, guard
        self.switch = switch or kill_switch_of(state)
        self._log: AuditLog | None = None
        self._live: Live | None = None
        self._stamps: Stamps | None = None
        self._making = threading.Lock()
        self.policy_fault = ""
        self._outflow = Outflow()
        self._protected: Protected | None = None
        self._protected_by: object = None
        self._instances = Instances()
        self._logins, self._logins_by = Logins(), ("", Stamps())
        self._warm = False

    @cached_property
    def control(self) -> Control:
        """The one that changes engines for this process."""
        from sparkgate.change.control import Control

        return Control(self)

    @cached_property
    def bench(self) -> Bench:
        """The one that measures for this process."""
        from sparkgate.bench_service import Bench

        return Bench(self)

    @cached_property
    def reader(self) -> Reader:
        """The one that makes text of pages."""
        from sparkgate.reading.reader import Reader

        return Reader(self.guard)

    @cached_property
    def robots(self) -> Robots:
        """What the robots.txt of sites say."""
        from sparkgate.page_robots import Robots

        return Robots(self.reader)

    def warm_up(self) -> None:
        """Make the rules that the first search needs ready before it comes, a while after the host is served."""
        if not self._warm:
            self._warm = True
            timer = threading.Timer(WARM_UP_S, _make_rules)
            timer.daemon = True
            timer.start()

    @property
    def running(self) -> int:
        """Changes of engines and benchmarks of this process; neither is made to find out that there is none."""
        made = vars(self)
        return sum(made[name].running for name in ("control", "bench") if name in made)

    def let_go(self) -> None:
        """Leave the changes of this process to the next one."""
        if "control" in vars(self):
            self.control.let_go.set()

    def live(self) -> Live:
        """The set that the files ask for now.

        Raises:
            NotReady: a file cannot be used, or the log cannot be opened. Nothing is sent until it is mended.
        """
        with self._making:
            stamps = tuple(_stamps(self._files()))
            if self._live is None or stamps != self._stamps:
                self._live, self._stamps = self._renewed(), stamps
            if self._protected:
                self._protected.refresh()
            return self._with_instances(self._live)

    def _with_instances(self, live: Live) -> Live:
        """Those of the settings, else the embedded one, which may have come or gone since."""
        told = live.settings.searxng
        urls = told.instances or tuple(filter(None, [embedded_url(self.state)]))
        self._instances.keep(urls, told.per_minute)
        stamps = tuple(_stamps([Path(told.auth_file).expanduser()])) if told.auth_file else ()
        if self._logins_by != (told.auth_file, stamps):
            self._logins, self._logins_by = read_logins(told.auth_file), (told.auth_file, stamps)
        return replace(live, searxng_urls=urls, logins=self._logins)

    def locked(self) -> str:
        """What every answer must say while it is locked, else ""."""
        return self.switch.words

    def mark_locked(self, what: str, by: str) -> None:
        """Write into the log, when it is open, that a file has locked or unlocked this process."""
        if self._log is not None:
            try:
                self._log.mark(what, {"by": by})
            except LogUnavailable as error:
                log.error("lock_not_marked", **log.describe(error))

    def warning(self) -> str:
        """What every answer must say: a policy that is not the one on disk, places not read, a log without its head."""
        notes = self._protected.notes if self._protected else ()
        told = f"what must not leave is not all known: {'; '.join(notes)}"[:MAX_NOTE_CHARS] if notes else ""
        return "; ".join(filter(None, (self.policy_fault, told, *self._log_notes())))

    def _log_notes(self) -> Iterable[str]:
        if self._log is not None and not self._log.is_anchored:
            yield NO_HEAD
        if self._log is not None and (size := self._log.wal_bytes) > MAX_WAL_BYTES:
            yield LONG_READER.format(megabytes=size // 10**6)

    @property
    def has_log(self) -> bool:
        """Whether a query has opened the log already."""
        return self._log is not None

    def prune_log(self, now_us: int) -> int:
        """Take away the rows that the settings keep no longer; how many.

        Raises:
            LogUnavailable: the log cannot be written.
        """
        if self._log is None or self._live is None:
            return 0
        keep = self._live.settings.audit
        before_us = now_us - keep.keep_days * DAY_US if keep.keep_days else None
        limits = Limits(before_us, keep.max_megabytes * 10**6 or None)
        return sum(batch.rows for batch in prune(self._log, limits))

    def close_log(self) -> None:
        """Tell the system's log where the log ends, as this process does. Raises LogUnavailable."""
        if self._log is not None:
            self._log.anchor()

    def _files(self) -> Iterable[Path]:
        folder = self.config.parent
        yield from (self.config, folder / "terms.toml", folder / "profiles.toml", folder / "rules")
        yield from sorted((folder / "rules").glob("*.toml"))

    def _renewed(self) -> Live:
        """What the files ask for; else the last good policy, and its fault is told with every answer."""
        try:
            made = self._build()
        except NotReady as error:
            if self._live is None or error.code != "policy_error":
                self._live = None
                raise
            self.policy_fault = STALE.format(error=error)
            log.error("policy_not_loaded", code=error.code)
            self._note_fault(self._live.egress, str(error))
            return self._live
        self.policy_fault = ""
        return made

    def _note_fault(self, egress: Egress, fault: str) -> None:
        """A row for whoever reads later why the policy of a row was not the one on disk."""
        intent = Intent(
            caller=Caller(pid=os.getpid(), uid=os.getuid(), gid=os.getgid()),
            tool="policy_load",
            destination="policy",
            origin=str(self.config.parent),
            verdict="block",
            sent="",
            fields={"fault": fault},
            findings=({"rule": "policy_error", "class": "policy", "start": 0, "end": 0},),
            withheld=(),
            policy=egress.policy.digest,
            decision_us=0,
        )
        with suppress(LogUnavailable):  # a log that cannot be written stops the query that asked
            egress.log.intend(intent)

    def _build(self) -> Live:
        try:
            settings = load(self.config)
            key = load_key(self.state / "keys" / "audit.key")
            protected = self._protection(settings, key)
            with _making_rules:
                rules()
            policy = Policy.from_folder(
                self.config.parent,
                values=(protected.values,),
                others=protected.folders,
                deadline_s=settings.policy.deadline_ms / 1000,
                max_bytes=settings.policy.max_input_bytes,
            )
            self._log = self._log or self._opened_log(key, settings.audit)
        except SettingsError as error:
            raise NotReady("config_error", str(error)) from error
        except RuleError as error:
            raise NotReady("policy_error", error.public) from error
        except FolderError as error:
            raise NotReady("policy_error", str(error)) from error
        except OSError as error:
            raise NotReady("policy_error", f"{error.filename} cannot be used: {error.strerror}") from error
        except LogUnavailable as error:
            raise NotReady("log_unavailable", str(error)) from error
        self._outflow.limit(settings.policy)
        egress = Egress(policy, self._log, self.guard, outflow=self._outflow, switch=self.switch)
        return Live(settings, egress, self._instances)

    def _protection(self, settings: Settings, key: bytes) -> Protected:
        """Made anew when the settings name other places. Raises FolderError and OSError."""
        auth = settings.searxng.auth_file
        told = (settings.policy.known_files, settings.policy.known_env, settings.policy.unreleased, auth)
        if self._protected is None or self._protected_by != told:
            files, names, folders, _ = told
            places = Places.of_this_process(self.config.parent, self.state, files, names)
            places = replace(places, searxng_auth=auth)
            paths = [Path(folder).expanduser() for folder in folders]
            self._protected, self._protected_by = Protected(key, places, paths, self.state), told
        return self._protected

    def _opened_log(self, key: bytes, settings: AuditSettings) -> AuditLog:
        """The log, with what left of late recalled from it. Raises LogUnavailable."""
        head = Path(settings.head_file).expanduser() if settings.head_file else None
        opened = AuditLog(self.state / "audit.db", key, head=head, tell_syslog=settings.tell_syslog)
        self._outflow.recall(opened.since(self._outflow.since_us))
        return opened


def _make_rules() -> None:
    """Both are kept by the functions that make them."""
    from sparkgate.untrusted.phrases import shipped as phrases

    with _making_rules:
        rules()
    phrases()


def embedded_url(state: Path) -> str:
    """Address of the embedded SearXNG as `sparkgate searxng up` recorded it; "" when there is none that runs.

    The recorded process must be the one that was started: after a reboot, its port may be somebody else's.
    """
    try:
        record = json.loads((state / EMBEDDED_RECORD).read_text(encoding="utf-8"))
        ours = record["source"] == record["url"] or Process(record["pid"], record["birth"]).alive()
        return str(record["url"]) if ours else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _stamps(files: Iterable[Path]) -> Iterable[tuple[str, int, int, int, int]]:
    for file in files:
        try:
            found = file.stat()
        except OSError:
            yield str(file), 0, 0, 0, 0
        else:
            yield str(file), found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
