"""What a tool call needs, made from the configuration and made anew when a file of it has changed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sparkgate.machine.processes import Process
from sparkgate.policy.audit import AuditLog, LogUnavailable
from sparkgate.policy.egress import Egress
from sparkgate.policy.guard import Guard
from sparkgate.policy.judge import Policy
from sparkgate.policy.keys import load_key
from sparkgate.policy.rules import RuleError
from sparkgate.settings import Settings, SettingsError, load

if TYPE_CHECKING:
    from sparkgate.bench_service import Bench
    from sparkgate.change.control import Control

EMBEDDED_RECORD = "searxng/instance.json"
Stamps = tuple[tuple[str, int, int, int], ...]


class NotReady(Exception):
    """Nothing can be sent now; `code` is stable, the message says what to mend."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Live:
    """One consistent set: settings, the way out that enforces them, and the SearXNG in use ("" when none)."""

    settings: Settings
    egress: Egress
    searxng_url: str


class Services:
    """Gives the current `Live` set.

    Args:
        config: path of config.toml; `rules/` and `terms.toml` are looked for beside it.
        state: folder of the log, the keys and the embedded SearXNG.
        guard: the connection guard of this process.
    """

    def __init__(self, config: Path, state: Path, guard: Guard) -> None:
        self.config, self.state, self.guard = config, state, guard
        self._log: AuditLog | None = None
        self._live: Live | None = None
        self._stamps: Stamps | None = None
        self._making = threading.Lock()

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
                self._live = None
                self._live, self._stamps = self._build(), stamps
            return replace(self._live, searxng_url=self._live.settings.searxng.url or embedded_url(self.state))

    def _files(self) -> Iterable[Path]:
        folder = self.config.parent
        yield from (self.config, folder / "terms.toml", folder / "rules")
        yield from sorted((folder / "rules").glob("*.toml"))

    def _build(self) -> Live:
        try:
            settings = load(self.config)
            policy = Policy.from_folder(
                self.config.parent,
                deadline_s=settings.policy.deadline_ms / 1000,
                max_bytes=settings.policy.max_input_bytes,
            )
            self._log = self._log or AuditLog(self.state / "audit.db", load_key(self.state / "keys" / "audit.key"))
        except SettingsError as error:
            raise NotReady("config_error", str(error)) from error
        except RuleError as error:
            raise NotReady("policy_error", str(error)) from error
        except LogUnavailable as error:
            raise NotReady("log_unavailable", str(error)) from error
        return Live(settings, Egress(policy, self._log, self.guard), settings.searxng.url)


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


def _stamps(files: Iterable[Path]) -> Iterable[tuple[str, int, int, int]]:
    for file in files:
        try:
            found = file.stat()
        except OSError:
            yield str(file), 0, 0, 0
        else:
            yield str(file), found.st_ino, found.st_mtime_ns, found.st_size
