"""A box with engines that answer for their state, and a benchmark server whose measuring process makes numbers up."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from box import Box, Host, a_box
from recorded_engine import RecordedEngine

from sparkgate.measure.store import Run, Store, StoredBurst, StoredCell

HERE = Path(__file__).parent
MAKES_UP = (sys.executable, "-I", str(HERE / "bench_worker.py"))


def a_llama_cpp(model: str) -> RecordedEngine:
    """One that tells its state as llama.cpp does."""
    as_json = "application/json"
    return RecordedEngine(
        {
            "/health": [200, as_json, {"status": "ok"}],
            "/v1/models": [200, as_json, {"data": [{"id": model, "owned_by": "llamacpp", "meta": {"n_ctx": 40960}}]}],
            "/props": [200, as_json, {"total_slots": 1, "build_info": "b1-fake"}],
        }
    )


class BenchBox:
    """`engines` are in the catalogue, with the keys in `extra`, and so are those at the URLs `more`.

    A box that is `configured` already keeps its configuration.
    """

    def __init__(
        self, box: Box, engines: dict[str, RecordedEngine], more: Mapping[str, str], *, configured: bool = False
    ) -> None:
        self.box, self.engines, self.more = box, engines, more
        self.folder = box.root / "worker"
        self.folder.mkdir()
        self.lock = f"bench-{os.getpid()}-{box.root.name}"
        self.extra: dict[str, str] = dict.fromkeys(engines, "")
        self.more_settings = ""
        if not configured:
            self.configure()

    def configure(self) -> None:
        """Write the configuration anew, after a change of `engines`, `extra` or `more_settings`."""
        urls = {name: one.url for name, one in self.engines.items()} | dict(self.more)
        tables = [
            f'[engines.{name}]\nurl = "{url}"\nengine = "llamacpp"\n{self.extra.get(name, "")}'
            for name, url in urls.items()
        ]
        self.box.configure("\n".join([f'[control]\nlock = "{self.lock}"', *tables, self.more_settings]))

    def habit(self, name: str, value: object = "") -> None:
        (self.folder / name).write_text(json.dumps(value))

    def drop(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def host(self) -> Host:
        """A host whose benchmark server is a process of its own."""
        command = (*MAKES_UP, str(self.folder))
        places = (str(self.box.config), str(self.box.state))
        host = self.box.host(sys.executable, "-I", str(HERE / "bench_server.py"), *places, *command)
        host.initialize()
        return host

    def gate_host(self) -> Host:
        """A host that talks to the gate, where the real measuring process works."""
        host = self.box.host(sys.executable, "-I", "-m", "sparkgate.stdio", "bench")
        host.initialize()
        return host

    def ended(self, host: Host, **asked: Any) -> dict[str, Any]:
        """The answer at the end of a run."""
        answer = host.call("bench_run", asked)
        assert answer["ok"], answer
        while answer["state"] == "running":
            answer = host.call("bench_job", {"id": answer["run"], "wait_s": 20})
        return answer

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The file of the runs, read by another process than the one that writes it."""
        store = Store(self.box.state / "bench.db")
        try:
            yield store
        finally:
            store.close()

    def stored(self) -> tuple[Run, list[StoredCell], list[StoredBurst]]:
        """The latest run with all that was measured."""
        with self.store() as store:
            run = store.latest(1)[0]
            return run, store.cells(run.id), store.bursts(run.id)

    def pids(self) -> list[int]:
        """Measuring processes that were started."""
        file = self.folder / "pids"
        return [int(word) for word in file.read_text().split()] if file.exists() else []

    def orders(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in (self.folder / "orders").read_text().splitlines()]


@contextmanager
def a_bench_box(*names: str, **urls: str) -> Iterator[BenchBox]:
    """Engines of these names, "main" without any; or those at the URLs instead."""
    with ExitStack() as stack:
        engines = {
            name: stack.enter_context(a_llama_cpp(f"model-of-{name}")) for name in names or (() if urls else ("main",))
        }
        made = BenchBox(stack.enter_context(a_box()), engines, urls)
        try:
            yield made
        finally:
            for habit in list(made.folder.iterdir()):
                habit.unlink()
