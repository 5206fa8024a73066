"""A box with two engines in its catalogue, of which one may run: real processes that speak as llama.cpp does."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from box import PATIENCE_S, Box, Host, a_box, is_running, wait_until_ended

from sparkgate.change.jobs import Job, Jobs
from sparkgate.policy.local import free_port

FAKE = Path(__file__).with_name("fake_engine.py")
NAMES = ("old", "new")
_tick = threading.Event()
NVIDIA_SMI = """
import os, pathlib, sys
folder, total, held = pathlib.Path({0!r}), {1}, {2}
pids = [one.read_text() for one in folder.glob("alive/*")]
pids = [pid for pid in pids if os.path.exists(f"/proc/{{pid}}/exe")]
if "--query-gpu" in sys.argv[1]:
    used = held * (len(pids) + (folder / "keep-memory").exists())
    print(f"{{total}}, {{used}}, {{total - used}}")
else:
    shown = [] if (folder / "off-gpu").exists() else pids
    print("".join(f"{{pid}}, engine, {{held}}\\n" for pid in shown), end="")
"""


def until(condition: Callable[[], Any], what: str) -> Any:
    """Look until something holds; fails when it does not within the patience of the tests."""
    for _ in range(int(PATIENCE_S / 0.02)):
        if found := condition():
            return found
        _tick.wait(0.02)
    raise AssertionError(f"it never came about: {what}")


class EngineBox:
    """`old` and `new` share nothing but the folder that tells them how to misbehave."""

    def __init__(self, box: Box, **control: Any) -> None:
        self.box = box
        self.folder = box.root / "engines"
        self.folder.mkdir()
        self.ports = {name: free_port() for name in NAMES}
        limits = {"release_s": 20.0, "drain_s": 20.0, "pressure_max_percent": 100.0}
        self.control = {"lock": f"test-{os.getpid()}-{box.root.name}", **limits, **control}
        self.extra: dict[str, dict[str, Any]] = {name: {} for name in NAMES}
        self.more = ""
        self.configure()

    def configure(self) -> None:
        """Write the configuration anew, after a change of `control`, `extra` or `more`."""
        tables = {f"engines.{name}": self.entry(name) for name in NAMES} | {"control": self.control}
        lines = [f"[{table}]\n{_toml(values)}" for table, values in tables.items()]
        self.box.configure("\n".join([*lines, self.more]))

    def entry(self, name: str) -> dict[str, Any]:
        return {
            "url": f"http://127.0.0.1:{self.ports[name]}",
            "engine": "llamacpp",
            "runtime": "process",
            "command": [sys.executable, "-I", "-S", str(FAKE), str(self.ports[name]), name, str(self.folder)],
            "model": name,
            "patience_s": 25,
            "stop_grace_s": 20,
        } | self.extra[name]

    def habit(self, name: str, text: str = "") -> None:
        """Make the engines misbehave; `habit-old` means the old one alone."""
        (self.folder / name).write_text(text)

    def drop(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def give_it_a_gpu(self, total_mib: int, held_mib: int) -> None:
        """A `nvidia-smi` for the gate: each engine that runs holds `held_mib`, and so does a file `keep-memory`.

        With a file `off-gpu` it lists no process.
        """
        folder = self.box.root / "bin"
        folder.mkdir()
        program = folder / "nvidia-smi"
        program.write_text(f"#!{sys.executable} -IS\n{NVIDIA_SMI.format(str(self.folder), total_mib, held_mib)}")
        program.chmod(0o755)
        self.box.environment["PATH"] = f"{folder}:{self.box.environment['PATH']}"

    def host(self) -> Host:
        host = self.box.host(sys.executable, "-I", "-m", "sparkgate.stdio", "engine")
        host.initialize()
        return host

    def load(self, name: str, host: Host) -> dict[str, Any]:
        """Load an engine; the job at its good end."""
        ended = self.finished(host, host.call("engine_load", {"name": name}))
        assert ended["state"] == "done", ended
        return ended

    def tried(self, name: str, host: Host) -> dict[str, Any]:
        """Load an engine; how it ended, or why it was refused."""
        return self.finished(host, host.call("engine_load", {"name": name}))

    def finished(self, host: Host, answer: dict[str, Any]) -> dict[str, Any]:
        """The job of an answer at its end."""
        while answer.get("state") == "running":
            answer = host.call("engine_job", {"id": answer["job"], "wait_s": 20})
        return answer

    def job(self) -> Job:
        """The latest job, read from its file by another process than the gate."""
        jobs = Jobs(self.box.state / "jobs.db")
        try:
            return jobs.latest(1)[0]
        finally:
            jobs.close()

    def until_phase(self, phase: str) -> None:
        until(lambda: self.job().phase == phase and self.job().state == "running", f"phase {phase}")

    def pid(self, name: str) -> int | None:
        """The process of an engine, when it runs."""
        file = self.folder / "alive" / name
        pid = int(file.read_text()) if file.exists() else 0
        return pid if pid and is_running(pid) else None

    def kill(self, name: str) -> None:
        """End an engine that runs as a crash would."""
        pid = self.pid(name)
        assert pid, f"{name} does not run"
        os.kill(pid, signal.SIGKILL)

    def up(self) -> list[str]:
        return [name for name in NAMES if self.pid(name)]

    def never_two(self) -> bool:
        """Whether no engine has ever been started beside another."""
        file = self.folder / "started"
        lines = file.read_text().splitlines() if file.exists() else []
        return not any(json.loads(line)["beside"] for line in lines)

    def states(self, host: Host) -> dict[str, str]:
        return {one["name"]: one["state"] for one in host.call("engine_status", {})["engines"]}

    def actions(self) -> list[tuple[str, str, str]]:
        """(action, engine, outcome) of what was done to engines or refused, oldest first."""
        return [row for row in self.logged() if row[0] not in ("end", "plan", "confirm", "cancel")]

    def logged(self) -> list[tuple[str, str, str]]:
        """(action, engine, outcome) of every row about an engine in the log, oldest first."""
        rows = [row for row in self.box.rows() if row["destination"] == "engine"]
        return [(row["fields"]["action"], row["fields"]["engine"], row["outcome"]) for row in rows]

    def kill_gate(self) -> None:
        pids = self.box.gate_pids()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_until_ended(pids)


@contextmanager
def an_engine_box(**control: Any) -> Iterator[EngineBox]:
    with a_box() as box:
        made = EngineBox(box, **control)
        try:
            yield made
        finally:
            for habit in list(made.folder.iterdir()):
                if habit.is_file():
                    habit.unlink()


def _toml(values: dict[str, Any]) -> str:
    """Values as TOML; JSON writes strings, numbers, booleans and lists of strings in the same way."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
