"""One fake of every resident engine: models come and go by its requests, counted in polls and not in seconds."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

Reply = tuple[int, Any]
NEVER = 10**9
OK: Reply = (200, {"success": True})


@dataclass
class Copy:
    """A model in memory, or on its way in or out; `polls_left` lists show it as it is before that changes."""

    id: str
    model: str
    context: int
    phase: str = "loading"
    polls_left: int = 0


@dataclass
class Knobs:
    """How it misbehaves.

    Attributes:
        load_polls: lists of models during which a load goes on.
        leave_polls: lists that show a model after it was unloaded.
        busy_asks: requests to unload that are refused, as the model is in use.
        deaf: it accepts an unload and does nothing.
        refuses: its answer to a load.
        dies: a load that has begun fails.
        vanishes: it accepts a load, and nothing comes of it.
        runners_stay: a process stays when its model has gone (EXO).
        leaves_mark: a model that was unloaded is marked as failed (llama.cpp router).
    """

    load_polls: int = 0
    leave_polls: int = 0
    busy_asks: int = 0
    deaf: bool = False
    refuses: Reply | None = None
    dies: bool = False
    vanishes: bool = False
    runners_stay: bool = False
    leaves_mark: bool = False


@dataclass
class ResidentEngine:
    """`profile` is the name of the engine; it knows the models a, b, c and org/a.

    `asked` holds (method, path, JSON body or None) of every request, `held_at_load` what was in memory at each load.
    """

    profile: str
    knobs: Knobs = field(default_factory=Knobs)
    known: tuple[str, ...] = ("a", "b", "c", "org/a")
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    held_at_load: list[list[str]] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._closing = False
        self._made = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def lists(self) -> str:
        return LISTS[self.profile]

    @property
    def actions(self) -> list[tuple[str, str, Any]]:
        """What it was asked to do, without the lists that were read."""
        return [one for one in self.asked if one[:2] != ("GET", self.lists)]

    def hold(self, model: str, phase: str = "loaded", context: int = 4096, polls: int = NEVER) -> Copy:
        """Put a copy of a model into memory; in another phase it stays for `polls` lists."""
        self._made += 1
        same = sum(1 for copy in self.copies if copy.model == model)
        ids = {"lmstudio": f"{model}:{same + 1}" if same else model, "exo": f"i-{self._made}"}
        copy = Copy(ids.get(self.profile, model), model, context, phase, polls)
        self.copies.append(copy)
        return copy

    def answer(self, method: str, path: str, body: Any, header: str) -> Reply:
        with self._changed:
            self.asked.append((method, path, body))
            if (method, path) == ("GET", "/api/version"):
                return 200, {"version": "0.30.10"}
            if (method, path) == ("GET", "/v1/models") and self.lists != path:
                return 200, {"data": [{"id": model, "owned_by": "library"} for model in self.known]}
            if (method, path) == ("GET", self.lists):
                self._tick()
                return 200, LISTINGS[self.profile](self)
            return ROUTES[self.profile](self, method, unquote(path), body or {}, header)

    def load(self, model: str, context: int = 0, *, blocks: bool, done: Any) -> Reply:
        """Begin to load, and with `blocks` wait until it is loaded; `done` is the answer then."""
        self.held_at_load.append([copy.id for copy in self.copies])
        if self.knobs.refuses:
            return self.knobs.refuses
        if self.knobs.vanishes:
            return 200, done
        copy = self.hold(model, "loading", context or 4096, self.knobs.load_polls)
        if self.knobs.load_polls == 0 and not self.knobs.dies:
            copy.phase = "loaded"
        while blocks and copy.phase == "loading" and not self._closing:
            self._changed.wait()
        return 200, done

    def release(self, id_: str) -> int:
        """Let go of the copies with this id, unless they leave already; how many that were."""
        if self.knobs.busy_asks > 0:
            self.knobs.busy_asks -= 1
            return 0
        found = [copy for copy in self.copies if copy.id == id_ and copy.phase != "leaving"]
        if self.knobs.deaf:
            return len(found)
        for copy in found:
            copy.phase, copy.polls_left = "leaving", self.knobs.leave_polls
            self.marks |= {copy.model: 0} if self.knobs.leaves_mark else {}
        self.copies = [copy for copy in self.copies if copy.phase != "leaving" or copy.polls_left]
        return len(found)

    def _tick(self) -> None:
        for copy in list(self.copies):
            if copy.polls_left > 0:
                copy.polls_left -= 1
            elif copy.phase == "loading":
                copy.phase = "failed" if self.knobs.dies else "loaded"
            elif copy.phase == "leaving":
                self.copies.remove(copy)
        self._changed.notify_all()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(engine: ResidentEngine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(text) if text else None
            status, told = engine.answer(self.command, self.path, body, self.headers.get("X-Preload-Only", ""))
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            return

    return Handler


# -- Ollama


def _ollama_list(engine: ResidentEngine) -> Any:
    """A model is listed once it is loaded; its name has a tag."""
    rows = [copy for copy in engine.copies if copy.phase in ("loaded", "leaving")]
    return {
        "models": [{"name": f"{c.model}:latest", "size": 9, "size_vram": 9, "context_length": c.context} for c in rows]
    }


def _ollama(engine: ResidentEngine, method: str, path: str, body: Any, header: str) -> Reply:
    if (method, path) != ("POST", "/api/generate") or body.get("prompt"):
        return 404, {"error": "not found"}
    model = body["model"].removesuffix(":latest")
    if model not in engine.known:
        return 404, {"error": f"model '{model}' not found"}
    done = {"model": body["model"], "response": "", "done": True}
    if body["keep_alive"] == 0:
        engine.release(model)
        return 200, done | {"done_reason": "unload"}
    context = body.get("options", {}).get("num_ctx", 0)
    return engine.load(model, context, blocks=True, done=done | {"done_reason": "load"})


# -- LM Studio


def _lmstudio_list(engine: ResidentEngine) -> Any:
    """Instances stand under the key of their model, once they are loaded."""

    def instances(model: str) -> list[Any]:
        rows = [copy for copy in engine.copies if copy.model == model and copy.phase in ("loaded", "leaving")]
        return [{"id": copy.id, "config": {"context_length": copy.context}} for copy in rows]

    return {"models": [{"type": "llm", "key": key, "loaded_instances": instances(key)} for key in engine.known]}


def _lmstudio(engine: ResidentEngine, method: str, path: str, body: Any, header: str) -> Reply:
    if (method, path) == ("POST", "/api/v1/models/load"):
        done = {"type": "llm", "instance_id": body["model"], "load_time_seconds": 1.5, "status": "loaded"}
        return engine.load(body["model"], body.get("context_length", 0), blocks=True, done=done)
    if (method, path) == ("POST", "/api/v1/models/unload"):
        if engine.release(body["instance_id"]):
            return 200, {"instance_id": body["instance_id"]}
        return 404, {"error": {"type": "model_not_found", "message": "no such instance"}}
    return 200, {"error": f"Unexpected endpoint or method. ({method} {path}). Returning 200 anyway"}


# -- Docker Model Runner


def _dmr_list(engine: ResidentEngine) -> Any:
    return [
        {"backend_name": "llama.cpp", "model_name": copy.model, "in_use": False, "loading": copy.phase == "loading"}
        for copy in engine.copies
    ]


def _dmr(engine: ResidentEngine, method: str, path: str, body: Any, header: str) -> Reply:
    if (method, path) == ("POST", "/engines/v1/chat/completions") and header == "true":
        return engine.load(body["model"], blocks=True, done=None)
    if (method, path) == ("POST", "/engines/unload"):
        return 200, {"unloaded_runners": sum(engine.release(model) for model in body["models"])}
    return 404, {"error": "not found"}


# -- llama.cpp router


def _router_list(engine: ResidentEngine) -> Any:
    """Every model that it knows; one that is being unloaded still counts as loaded."""
    values = {"loaded": "loaded", "leaving": "loaded", "loading": "loading", "asleep": "sleeping"}
    rows: dict[str, Any] = {model: {"value": "unloaded"} for model in engine.known}
    rows |= {model: {"value": "unloaded", "failed": True, "exit_code": code} for model, code in engine.marks.items()}
    for copy in engine.copies:
        dead = {"value": "unloaded", "failed": True, "exit_code": 1}
        rows[copy.model] = {"value": values[copy.phase]} if copy.phase in values else dead
    return {"object": "list", "data": [{"id": model, "status": status} for model, status in rows.items()]}


def _router(engine: ResidentEngine, method: str, path: str, body: Any, header: str) -> Reply:
    model = body.get("model")
    if model not in engine.known or method != "POST":
        return 404, {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}
    if path == "/models/unload":
        return OK if engine.release(model) else _bad("model is not running")
    if any(copy.model == model and copy.phase != "failed" for copy in engine.copies):
        return _bad("model is already running")
    return engine.load(model, blocks=False, done={"success": True})


def _bad(message: str) -> Reply:
    return 400, {"error": {"code": 400, "message": message, "type": "invalid_request_error"}}


# -- llama-swap


def _swap_list(engine: ResidentEngine) -> Any:
    states = {"loaded": "ready", "loading": "starting", "leaving": "stopping"}
    return {"running": [{"model": copy.model, "state": states[copy.phase], "ttl": 0} for copy in engine.copies]}


def _swap(engine: ResidentEngine, method: str, path: str, body: Any, header: str) -> Reply:
    upstream = re.fullmatch(r"/upstream/(.+)/v1/models", path)
    if method == "GET" and upstream:
        return engine.load(upstream[1], blocks=True, done={"object": "list", "data": []})
    unload = re.fullmatch(r"/api/models/unload/(.+)", path)
    if method == "POST" and unload:
        engine.release(unload[1])
        return 200, {"msg": "ok"}
    return 404, {"error": "not found"}


# -- EXO


def _exo_list(engine: ResidentEngine) -> Any:
    """Instances and the runners that they name; the runner of a dead one is missing."""
    kinds = {"loaded": "RunnerReady", "loading": "RunnerLoading", "leaving": "RunnerShuttingDown"}
    instances: dict[str, Any] = {}
    runners: dict[str, Any] = {}
    for copy in engine.copies:
        runner = copy.id.replace("i-", "r-")
        failed = {"RunnerFailed": {"errorMessage": "out of memory"}}
        if copy.phase != "dead":
            runners |= {runner: {kinds[copy.phase]: {}} if copy.phase in kinds else failed}
        shards = {"modelId": copy.model, "runnerToShard": {runner: {}}, "nodeToRunner": {"node-1": runner}}
        instances[copy.id] = {"MlxRingInstance": {"instanceId": copy.id, "shardAssignments": shards}}
    left: dict[str, Any] = {"r-old": {"RunnerReady": {}}} if engine.marks else {}
    return {"instances": instances, "runners": left | runners}


def _exo(engine: ResidentEngine, method: str, path: str, body: Any, header: str) -> Reply:
    received = {"message": "Command received.", "command_id": "c-1"}
    if (method, path) == ("POST", "/place_instance"):
        return engine.load(body["model_id"], blocks=False, done=received)
    instance = re.fullmatch(r"/instance/(.+)", path)
    if method == "DELETE" and instance:
        found = engine.release(instance[1])
        engine.marks |= {"r-old": 1} if engine.knobs.runners_stay else {}
        return (200, received) if found else (404, {"detail": "Instance not found"})
    return 404, {"detail": "Not Found"}


LISTS = {
    "ollama": "/api/ps",
    "lmstudio": "/api/v1/models",
    "docker-model-runner": "/engines/ps",
    "llamacpp-router": "/models",
    "llama-swap": "/running",
    "exo": "/state",
}
LISTINGS: dict[str, Callable[[ResidentEngine], Any]] = {
    "ollama": _ollama_list,
    "lmstudio": _lmstudio_list,
    "docker-model-runner": _dmr_list,
    "llamacpp-router": _router_list,
    "llama-swap": _swap_list,
    "exo": _exo_list,
}
ROUTES: dict[str, Callable[[ResidentEngine, str, str, Any, str], Reply]] = {
    "ollama": _ollama,
    "lmstudio": _lmstudio,
    "docker-model-runner": _dmr,
    "llamacpp-router": _router,
    "llama-swap": _swap,
    "exo": _exo,
}
PROFILES = tuple(LISTS)
