"""A stdio server that crashes once in mid-call, and its gate with it.

    python crash_in_mid_call.py MARKER TOOL BEGUN COMMAND…

It passes lines between a host and COMMAND. The first answer to a call of TOOL never reaches the host: once the file
BEGUN is there, the gate, COMMAND and this process are killed. Where MARKER is there already, it is COMMAND and no more.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

MARKER, TOOL, BEGUN, COMMAND = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4:]
called: list[object] = []


def pass_on(to: IO[bytes]) -> None:
    """Lines of the host, noting the calls of the tool."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("method") == "tools/call" and message["params"]["name"] == TOOL:
            called.append(message["id"])
        to.write(line)
        to.flush()
    to.close()


def crash(server: subprocess.Popen[bytes]) -> None:
    while not BEGUN.exists():
        time.sleep(0.02)
    MARKER.touch()
    for log in (Path(os.environ["XDG_STATE_HOME"]) / "sparkgate" / "logs").glob("*.log"):
        events = map(json.loads, log.read_text().splitlines())
        for pid in [event["pid"] for event in events if event["event"] == "gate_started"]:
            os.kill(pid, signal.SIGKILL)
    server.kill()
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    if MARKER.exists():
        os.execv(COMMAND[0], COMMAND)
    server = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin and server.stdout
    threading.Thread(target=pass_on, args=(server.stdin,), daemon=True).start()
    for line in server.stdout:
        if json.loads(line).get("id") in called:
            crash(server)
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
