"""An engine as a process of its own that speaks as llama.cpp does, with the bad habits that real engines have.

`python fake_engine.py PORT MODEL FOLDER`. Files in FOLDER, looked at again and again, make it misbehave:

* `hold-ready`: it listens and is not ready;      * `hold-generate`: it says ready and generates nothing;
* `busy`: it says that requests run;              * `ignore-term`: it does not end when asked to;
* `asleep`: it says that it sleeps;                  * `strict-names`: it answers to its own name alone;
* `die`: it ends with code 1 at its start, after printing what the file holds;
* `orphan`: it leaves a child in a session of its own, which ends when the file is gone;
* `keep-port`: a child holds its port after its end until the file is gone (it cannot be told to be its child).

At its start it appends to `started`, with the copies that ran already: NAME of each, or nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT, MODEL, FOLDER = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
WAIT_FOR = "import pathlib, sys, time\nwhile pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)"


def asked(name: str) -> bool:
    """A habit of all engines of the folder, or of this one alone."""
    return (FOLDER / name).exists() or (FOLDER / f"{name}-{MODEL}").exists()


def file_of(name: str) -> str:
    return str(next(path for path in (FOLDER / f"{name}-{MODEL}", FOLDER / name) if path.exists()))


def runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ready = not asked("hold-ready")
        busy = 1 if asked("busy") else 0
        routes: dict[str, object] = {
            "/health": {"status": "ok"},
            "/v1/models": {"data": [{"id": MODEL, "owned_by": "llamacpp", "meta": {"n_ctx": 4096}}]},
            "/props": {"total_slots": 1, "build_info": "fake", "is_sleeping": asked("asleep")},
            "/metrics": f"llamacpp:requests_processing {busy}\nllamacpp:tokens_predicted_total 7\n",
        }
        if not ready:
            self.say(503, {"error": {"message": "Loading model"}})
        elif self.path in routes:
            self.say(200, routes[self.path])
        else:
            self.say(404, {"error": "File Not Found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        while asked("hold-generate"):
            time.sleep(0.02)
        if asked("strict-names") and body.get("model") != MODEL:
            return self.say(404, {"error": "no such model"})
        return self.say(200, {"choices": [{"text": "1", "message": {"content": "1"}}]})

    def say(self, status: int, body: object) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


def end(*_: object) -> None:
    if not asked("ignore-term"):
        os._exit(0)


def child(name: str, *inherited: int, bare: bool = False) -> None:
    """A process that lives as long as the file does."""
    environment = {"PATH": os.environ["PATH"]} if bare else dict(os.environ)
    subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", WAIT_FOR, file_of(name)],
        start_new_session=True,
        pass_fds=inherited,
        env=environment,
    )


def main() -> None:
    alive = FOLDER / "alive"
    alive.mkdir(exist_ok=True)
    others = [one.name for one in alive.iterdir() if runs(one.read_text())]
    (FOLDER / f"{MODEL}.pid").write_text(str(os.getpid()))
    (FOLDER / f"{MODEL}.pid").replace(alive / MODEL)
    with (FOLDER / "started").open("a") as started:
        started.write(json.dumps({"model": MODEL, "beside": others}) + "\n")
    if asked("die"):
        print(Path(file_of("die")).read_text(), flush=True)
        raise SystemExit(1)
    signal.signal(signal.SIGTERM, end)
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    if asked("orphan"):
        child("orphan")
    if asked("keep-port"):
        child("keep-port", server.fileno(), bare=True)
    print(f"server is listening on http://127.0.0.1:{PORT}", flush=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()


if __name__ == "__main__":
    main()
