"""An engine as a systemd unit of the system, or of the user manager (`user:NAME`)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from sparkgate.machine.commands import Completed
from sparkgate.runtimes.owner import (
    CGROUPS,
    FOR_MEMORY,
    Trouble,
    fault,
    for_memory,
    is_trouble,
    joined,
    main_first,
    pids_in,
    printed,
    step,
    told,
    traits,
    without_flag_values,
    words_of_exit,
)
from sparkgate.runtimes.spec import Look, Owned, Place, RuntimeFault

LOOK_S = 10.0
KILL_S = 30.0
USER = "user:"
TRAITS: Mapping[str, str] = {
    "restart": "Restart",
    "type": "Type",
    "enabled": "UnitFileState",
    "timeout_stop": "TimeoutStopUSec",
    "memory_max": "MemoryMax",
    "conflicts": "Conflicts",
    "user": "User",
    "result": "Result",
    "sub_state": "SubState",
}
"""Trait → property of the unit, as `systemctl show` prints it."""
PROPERTIES = (
    "LoadState",
    "ActiveState",
    "Job",
    "MainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "ExecMainStartTimestamp",
    "NRestarts",
    "ControlGroup",
    "ExecStart",
    "Environment",
    "TriggeredBy",
    "UpheldBy",
    *TRAITS.values(),
)
TROUBLES = (
    Trouble(
        "interactive authentication required|access denied|permission denied",
        "forbidden",
        "allow the account of the gate org.freedesktop.systemd1.manage-units for this unit with a polkit rule, or run"
        ' it in the user manager (unit = "user:…"); a person can do it with sudo systemctl',
    ),
    Trouble(
        "not been booted with systemd|failed to connect to (?:bus|user scope bus)",
        "unreachable",
        "the gate reaches no such systemd; for units of a user run `loginctl enable-linger` and set XDG_RUNTIME_DIR",
    ),
    Trouble("is without_flag_values", "without_flag_values", "run `systemctl unmask` for it"),
    Trouble(
        r"unit \S+ (?:could not be found|not found|not loaded)|no such file or directory",
        "absent",
        "check engines.{name}.unit; after writing a unit file run `systemctl daemon-reload`",
    ),
    Trouble("repeated too quickly|start-limit", "start_limit", "it has failed too often: read its log"),
)
RESULTS: Mapping[str, str] = {
    "oom-kill": FOR_MEMORY,
    "timeout": "it did not start or stop in the time its unit allows",
    "watchdog": "systemd's watchdog ended it",
    "start-limit-hit": "it has failed so often that systemd starts it no more",
    "resources": "systemd could not set up what its unit asks for",
    "protocol": "it did not tell systemd that it had started",
}
WORDS_OF_STATUS: Mapping[int, str] = {
    200: "exit 200: its working folder cannot be entered",
    203: "exit 203: its command cannot be executed",
    217: "exit 217: its user does not exist",
}
"""Codes by which systemd itself tells why a command did not start."""
STATES: Mapping[str, Owned] = {
    "active": "running",
    "reloading": "running",
    "refreshing": "running",
    "deactivating": "running",
    "activating": "starting",
    "inactive": "stopped",
    "maintenance": "stopped",
    "failed": "failed",
}
_EXITED, _SIGNALLED, _DUMPED = "1", "2", "3"
_ARGV = re.compile(r"argv\[\]=(.*?) ; ignore_errors=")


class SystemdRuntime:
    """Owns the unit `entry.unit`; `user:vllm.service` is one of the user manager.

    `Restart=` does not revive what `systemctl stop` has stopped; it is the trait `restart`. A unit that waits to be
    started again after a crash is "failed", and revived by it. `cgroups` is where control groups lie.
    """

    def __init__(self, place: Place, cgroups: Path = CGROUPS) -> None:
        self._place, self._cgroups = place, cgroups
        self._unit = place.entry.unit.removeprefix(USER)
        self._manager = ["--user"] if place.entry.unit.startswith(USER) else []

    def look(self) -> Look:
        ended = self._show()
        shown = _properties(ended.stdout)
        if not ended.ok or "ActiveState" not in shown:
            return Look("unknown", detail=told(self._place, ended, TROUBLES))
        if shown.get("LoadState") == "not-found":
            return Look("stopped", detail=f"there is no unit {self._unit}")
        return self._read(shown)

    def start(self) -> None:
        """Start the unit; returns when systemd has the job.

        Raises:
            RuntimeFault: a code of `TROUBLES`.
        """
        shown = _properties(self._show().stdout)
        if shown.get("ActiveState") == "active":
            return
        if shown.get("Result") == "start-limit-hit":
            self._systemctl("reset-failed", self._unit)
        ended = self._systemctl("start", "--no-block", self._unit)
        if not ended.ok:
            raise fault(self._place, "systemd did not start it", ended, TROUBLES)

    def stop(self, grace_s: float) -> None:
        """Stop the unit; kills all its processes when it has not ended after `grace_s` seconds.

        Raises:
            RuntimeFault: `not_stopped`, or a code of `TROUBLES`.
        """
        ended = self._systemctl("stop", self._unit, timeout_s=max(grace_s, 1))
        if is_trouble(ended, TROUBLES, "timeout"):
            self._systemctl("kill", "-s", "KILL", self._unit)
            ended = self._systemctl("stop", self._unit)
        if is_trouble(ended, TROUBLES, "absent"):
            return
        if not ended.ok:
            raise fault(self._place, "systemd did not stop it", ended, TROUBLES)
        state = _properties(self._show().stdout).get("ActiveState")
        if state == "failed":
            # Our own kill is not a failure of the engine, so it must not be read as one later.
            self._systemctl("reset-failed", self._unit)
        elif state not in ("inactive", None):
            raise RuntimeFault("not_stopped", f"{self._place.name}: the unit {self._unit} is {state} after a stop")

    def log(self, lines: int) -> Sequence[str]:
        words = ["journalctl", *self._manager, "-u", self._unit, "-n", str(lines), "-o", "cat", "--no-pager"]
        ended = self._place.run(words, LOOK_S)
        return [text for text in printed(ended.stdout) if text != "-- No entries --"] if ended.ok else []

    def steps(self) -> Sequence[str]:
        return [step(["systemctl", *self._manager, "start", "--no-block", self._unit], self._place)]

    def _systemctl(self, *words: str, timeout_s: float = KILL_S) -> Completed:
        return self._place.run(["systemctl", *self._manager, *words], timeout_s)

    def _show(self) -> Completed:
        return self._systemctl("show", self._unit, "--timestamp=unix", "-p", ",".join(PROPERTIES), timeout_s=LOOK_S)

    def _read(self, shown: Mapping[str, str]) -> Look:
        owned = _owned(shown)
        lives = owned in ("running", "starting")
        code = None if lives else _exit_code(shown)
        return Look(
            owned,
            pids=self._pids(shown) if lives else (),
            since_s=_since_s(shown) if lives else None,
            exit_code=code,
            killed_for_memory=for_memory(code, shown.get("Result") == "oom-kill"),
            restarts=_count(shown, "NRestarts") if "NRestarts" in shown else None,
            revived_by=_revived_by(shown),
            argv=without_flag_values(argv_of(shown.get("ExecStart", ""))),
            environment=dict(word.split("=", 1) for word in _words(shown.get("Environment", "")) if "=" in word),
            detail=_detail(shown, code),
            traits=traits({name: shown.get(key) for name, key in TRAITS.items()}),
        )

    def _pids(self, shown: Mapping[str, str]) -> tuple[int, ...]:
        group = shown.get("ControlGroup", "").lstrip("/")
        return main_first(_count(shown, "MainPID"), pids_in(self._cgroups / group) if group else ())


def argv_of(exec_start: str) -> tuple[str, ...]:
    """The words of the first command in an `ExecStart` as `systemctl show` prints it; () when there is none."""
    found = _ARGV.search(exec_start)
    return tuple(_words(found[1])) if found else ()


def _properties(text: str) -> dict[str, str]:
    return dict(one.split("=", 1) for one in text.splitlines() if "=" in one)


def _count(shown: Mapping[str, str], key: str) -> int:
    value = shown.get(key, "")
    return int(value) if value.isdecimal() else 0


def _owned(shown: Mapping[str, str]) -> Owned:
    state = STATES.get(shown["ActiveState"], "unknown")
    if _again(shown):
        return "failed"
    return "starting" if state in ("failed", "stopped") and _count(shown, "Job") else state


def _again(shown: Mapping[str, str]) -> bool:
    return shown.get("SubState") in ("auto-restart", "auto-restart-queued")


def _revived_by(shown: Mapping[str, str]) -> str:
    units = " ".join(filter(None, (shown.get("TriggeredBy"), shown.get("UpheldBy"))))
    return f"Restart={shown.get('Restart')}" if _again(shown) and not units else units


def _exit_code(shown: Mapping[str, str]) -> int | None:
    """`ExecMainStatus` is an exit code or a signal, as `ExecMainCode` tells; None when it has not run yet."""
    status = _count(shown, "ExecMainStatus")
    return {_EXITED: status, _SIGNALLED: 128 + status, _DUMPED: 128 + status}.get(shown.get("ExecMainCode", ""))


def _since_s(shown: Mapping[str, str]) -> float | None:
    stamp = shown.get("ExecMainStartTimestamp", "").removeprefix("@")
    return float(stamp) if stamp.isdecimal() and stamp != "0" else None


def _detail(shown: Mapping[str, str], code: int | None) -> str:
    result = RESULTS.get(shown.get("Result", ""), "")
    return joined(
        result,
        "" if result == FOR_MEMORY else WORDS_OF_STATUS.get(code or 0) or words_of_exit(code),
        f"activating (auto-restart), started again {_count(shown, 'NRestarts')} times" if _again(shown) else "",
        "its unit is without_flag_values" if shown.get("LoadState") == "without_flag_values" else "",
    )


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
