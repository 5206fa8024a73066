"""A model on loopback that does what a test says, for hosts that speak OpenAI's chat API.

Asked by a user, it calls the offered tool whose name contains `word`, once for each of `calls`, and then answers with
the last result. What it was offered and what its calls brought back can be read afterwards. A request without that
tool (a host asks for a title that way) gets a plain sentence.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

NAME = "scripted"
CONTEXT_TOKENS = 131_072
Message = Mapping[str, Any]


class Step(NamedTuple):
    """A call of a tool: the shortest name that holds `word`."""

    word: str
    arguments: Mapping[str, Any]


class ScriptedModel:
    """Serves at `url` within `with`.

    `word` is part of the name of the tool to call, `calls` are the arguments of each call, or a `Step`. `meanwhile`
    runs whenever a result has come back, while the host waits for the model.
    """

    def __init__(self, word: str, *calls: Mapping[str, Any] | Step) -> None:
        self.word = word
        self.calls = [call if isinstance(call, Step) else Step(word, call) for call in calls]
        self.offered: list[str] = []
        self.results: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next_message(self, messages: Sequence[Message], tools: Sequence[str]) -> dict[str, Any]:
        """The assistant's message: the next call of the script, or an answer."""
        wanted = next((tool for tool in tools if self.word in tool), None)
        if wanted is None:
            return {"role": "assistant", "content": "There is no tool for that."}
        self.offered = list(tools)
        self.results = [_text(message["content"]) for message in messages if message["role"] == "tool"]
        if self.results:
            self.meanwhile()
        if len(self.results) >= len(self.calls):
            return {"role": "assistant", "content": f"The tool said: {self.results[-1]}"}
        step = self.calls[len(self.results)]
        named = min((tool for tool in tools if step.word in tool), key=len, default=None)
        if named is None:
            raise AssertionError(f"{step.word} is not offered; these are: {', '.join(tools)}")
        return {"role": "assistant", "content": None, "tool_calls": [self._call(named, step)]}

    def _call(self, tool: str, step: Step) -> dict[str, Any]:
        number = len(self.results)
        function = {"name": tool, "arguments": json.dumps(step.arguments)}
        return {"id": f"call_{number}", "type": "function", "function": function}


def _text(content: str | Sequence[Message]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _whole(message: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": _reason(message)}
    return {**_frame("chat.completion"), "choices": [choice], "usage": _USAGE}


def _chunks(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The same message as a stream tells it: everything in the first piece, then why it ends, then the usage."""
    calls = [{"index": number, **call} for number, call in enumerate(message.get("tool_calls", []))]
    delta = message | ({"tool_calls": calls} if calls else {})
    frame = _frame("chat.completion.chunk")
    return [
        {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": _reason(message)}]},
        {**frame, "choices": [], "usage": _USAGE},
    ]


_USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


def _frame(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": NAME}


def _reason(message: Message) -> str:
    return "tool_calls" if "tool_calls" in message else "stop"


def _handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            card = {"id": NAME, "object": "model", "owned_by": "test", "context_length": CONTEXT_TOKENS}
            if self.path.endswith("/v1/models"):
                self._send("application/json", json.dumps({"object": "list", "data": [card]}))
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            if not self.path.endswith("/chat/completions"):
                self.send_error(404)
                return
            tools = [tool["function"]["name"] for tool in asked.get("tools") or []]
            message = model.next_message(asked["messages"], tools)
            if asked.get("stream"):
                events = [*map(json.dumps, _chunks(message)), "[DONE]"]
                self._send("text/event-stream", "".join(f"data: {event}\n\n" for event in events))
            else:
                self._send("application/json", json.dumps(_whole(message)))

        def _send(self, kind: str, body: str) -> None:
            data = body.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler
