"""A minimal MCP host: starts the very command a host would, and calls one tool after another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from sparkgate.version import __version__

PROTOCOL = "2025-11-25"


class HostError(Exception):
    """The server answered with an error, or not at all."""


class HostSession:
    """An MCP session with `python -I -m sparkgate.stdio TOOLSET`.

    Args:
        toolset: search, engine or bench.
        config: path of config.toml.
        environment: replaces this process's environment for the server.
    """

    def __init__(self, toolset: str, config: str, environment: Mapping[str, str] | None = None) -> None:
        self._command = [sys.executable, "-I", "-m", "sparkgate.stdio", toolset, "--config", config]
        self._environment = dict(environment if environment is not None else os.environ)
        self._id = 0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment
        )
        client = {"name": "sparkgate-cli", "version": __version__}
        self.ask("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The structured answer of a tool.

        Raises:
            HostError: the server failed.
        """
        result = self.ask("tools/call", {"name": tool, "arguments": dict(arguments)})
        if result.get("isError") or "structuredContent" not in result:
            raise HostError(result["content"][0]["text"])
        return dict(result["structuredContent"])

    def page(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """What read_page tells of a page, and the text of it with the boundary around it; "" when there is none.

        Raises:
            HostError: the server failed.
        """
        result = self.ask("tools/call", {"name": "read_page", "arguments": dict(arguments)})
        text = result["content"][0]["text"]
        if result.get("isError"):
            raise HostError(text)
        told, between, rest = text.partition("\n\n<")
        return dict(json.loads(told)), between[2:] + rest

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """One request and its result.

        Raises:
            HostError: an error came back, or the server ended.
        """
        self._id += 1
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": dict(params)})
        assert self._process.stdout
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._id:
                if "error" in answer:
                    raise HostError(answer["error"]["message"])
                return dict(answer["result"])
        raise HostError("the server ended without an answer")

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
