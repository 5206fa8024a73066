"""Tools as data: what a model may pass, how tolerant we are about it, and the MCP server made of it."""

from __future__ import annotations

import base64
import difflib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext

from sparkgate import log
from sparkgate.version import __version__

Kind = Literal["string", "integer", "boolean", "array"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool. Bounds are checked here and said in `meaning`; the schema stays flat for every host.

    `aliases` are other spellings of `choices` that are understood but not offered.
    """

    name: str
    kind: Kind
    meaning: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    low: int | None = None
    high: int | None = None

    def schema(self) -> dict[str, Any]:
        shape: dict[str, Any] = {"type": self.kind, "description": self.meaning}
        if self.kind == "array":
            shape["items"] = {"type": "string"}
        if self.choices:
            shape["enum"] = list(self.choices)
        if not self.required and self.default not in (None, "", (), False):
            shape["default"] = self.default
        return shape


PICTURE = "picture"
PAGE_TEXT = "page_text"
NO_OBJECT = ""
"""Name of the argument that stands for arguments which were no object at all."""


class BadArgument(ValueError):
    """An argument that cannot be used. The message names it and the way out, never its value."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


Arguments = Mapping[str, Any]
Handler = Callable[[Arguments, ServerRequestContext[Any, Any]], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool with its parameters, all four annotations, and the function that answers with a JSON object."""

    name: str
    title: str
    meaning: str
    parameters: tuple[Parameter, ...]
    handler: Handler
    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool

    def listed(self) -> types.Tool:
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.meaning,
            input_schema={
                "type": "object",
                "properties": {p.name: p.schema() for p in self.parameters},
                "required": [p.name for p in self.parameters if p.required],
            },
            annotations=types.ToolAnnotations(
                read_only_hint=self.read_only,
                destructive_hint=self.destructive,
                idempotent_hint=self.idempotent,
                open_world_hint=self.open_world,
            ),
        )

    def arguments(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """What the model passed → one value for every parameter.

        Raises:
            BadArgument: unknown name, missing or unusable value.
        """
        given = given or {}
        known = {p.name: p for p in self.parameters}
        if NO_OBJECT in given:
            raise BadArgument("invalid_argument", f"arguments must be an object with {', '.join(known)}")
        for name in given:
            if name not in known:
                raise BadArgument("unknown_argument", _unknown(self.name, name, list(known)))
        return {p.name: _value(p, given.get(p.name)) for p in self.parameters}


@dataclass(frozen=True, slots=True)
class Offer:
    """One tool of a server that works on local things; `reads` changes nothing, `destroys` ends something.

    `answer` takes what the server works with, the arguments, who asks, and the context of the call.
    """

    name: str
    title: str
    meaning: str
    parameters: tuple[Parameter, ...]
    answer: Callable[[Any, Arguments, Any, ServerRequestContext[Any, Any]], Awaitable[dict[str, Any]]]
    reads: bool = False
    destroys: bool = False

    def tool(self, handler: Handler) -> Tool:
        """The tool, answered by `handler`, which wraps `answer`."""
        return Tool(
            name=self.name,
            title=self.title,
            meaning=self.meaning,
            parameters=self.parameters,
            handler=handler,
            read_only=self.reads,
            destructive=self.destroys,
            idempotent=True,
            open_world=False,
        )


def _unknown(tool: str, name: str, known: Sequence[str]) -> str:
    shown = f" {name!r}" if name.isidentifier() and name.isascii() and len(name) <= 24 else " of that name"
    near = difflib.get_close_matches(name[:64], known, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
    return f"{tool} has no argument{shown}; {hint}"


def _value(parameter: Parameter, given: Any) -> Any:
    if given is None or (not parameter.required and given in ("", "null")):
        if parameter.required:
            raise BadArgument("missing_argument", f"{parameter.name} is needed: {parameter.meaning}")
        return parameter.default
    try:
        value = COERCE[parameter.kind](given)
    except (TypeError, ValueError, OverflowError, KeyError):
        raise BadArgument("invalid_argument", f"{parameter.name} must be {KIND_WORDS[parameter.kind]}") from None
    return _bounded(parameter, value)


def _bounded(parameter: Parameter, value: Any) -> Any:
    if parameter.choices:
        chosen = dict(parameter.aliases).get(value, value.lower())
        if chosen not in parameter.choices:
            raise BadArgument("invalid_argument", f"{parameter.name} must be one of {', '.join(parameter.choices)}")
        return chosen
    if parameter.low is not None and parameter.high is not None and not parameter.low <= value <= parameter.high:
        raise BadArgument("invalid_argument", f"{parameter.name} must be between {parameter.low} and {parameter.high}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise TypeError
    return str(value)


def _whole(value: Any) -> int:
    """`5`, `"5"`, `5.0` and `"5.0"` are the same number."""
    if isinstance(value, bool):
        raise TypeError
    number = float(value)
    if not number.is_integer():
        raise ValueError
    return int(number)


def _yes_or_no(value: Any) -> bool:
    """`true`, `"true"` and `1` are the same."""
    return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[str(value).strip().lower()]


def _words(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise TypeError
    return tuple(part.strip() for part in parts if part.strip())


COERCE: dict[Kind, Callable[[Any], Any]] = {
    "string": _text,
    "integer": _whole,
    "boolean": _yes_or_no,
    "array": _words,
}
KIND_WORDS: dict[Kind, str] = {
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list of names, or names with commas between",
}


def failure(code: str, message: str, **more: Any) -> dict[str, Any]:
    """An answer that says no: a successful result for the host, with a stable code and the way out."""
    return {"ok": False, "code": code, "message": message, **more}


def result(payload: dict[str, Any]) -> types.CallToolResult:
    """The same payload as structured content and as text, written as JSON.stringify(payload, null, 2) writes it.

    Bytes under `PICTURE` are a PNG; they follow as an image and stand in neither of the two. Text under `PAGE_TEXT`
    follows the rest as it is, and then there is text only: JSON would make one long line of it.
    """
    if PAGE_TEXT in payload:
        told = {name: value for name, value in payload.items() if name != PAGE_TEXT}
        text = f"{json.dumps(told, ensure_ascii=False, indent=2)}\n\n{payload[PAGE_TEXT]}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])
    told = {name: value for name, value in payload.items() if name != PICTURE}
    content: list[types.ContentBlock] = [
        types.TextContent(type="text", text=json.dumps(told, ensure_ascii=False, indent=2))
    ]
    if picture := payload.get(PICTURE):
        data = base64.b64encode(picture).decode("ascii")
        content.append(types.ImageContent(type="image", data=data, mime_type="image/png"))
    return types.CallToolResult(content=content, structured_content=told)


def _nothing() -> str:
    return ""


def build_server(
    name: str,
    title: str,
    instructions: str,
    tools: Sequence[Tool],
    warning: Callable[[], str] = _nothing,
    locked: Callable[[], str] = _nothing,
) -> Server[Any]:
    """An MCP server with these tools and nothing else: no prompts, no resources.

    Args:
        warning: what every answer of a tool must say as long as it holds; "" for nothing.
        locked: what every answer at all must say, also that of a tool which could not be called.
    """
    by_name = {tool.name: tool for tool in tools}
    listed = types.ListToolsResult(tools=[tool.listed() for tool in tools])

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return listed

    async def answer(context: ServerRequestContext[Any, Any], call: types.CallToolRequestParams) -> dict[str, Any]:
        tool = by_name.get(call.name)
        if tool is None:
            return failure("unknown_tool", f"{name} has the tools {', '.join(by_name)}")
        try:
            arguments = tool.arguments(call.arguments)
        except BadArgument as error:
            return failure(error.code, str(error))
        told = await tool.handler(arguments, context)
        return {**told, "warning": words} if (words := warning()) else told

    async def call_tool(context: ServerRequestContext[Any, Any], call: types.CallToolRequestParams) -> Any:
        try:
            told = await answer(context, call)
            return result({**told, "locked": words} if (words := locked()) else told)
        except Exception as error:
            log.error("tool_fault", tool=call.name, **log.describe(error))
            return fault(call.name, locked())

    return Server(
        name,
        title=title,
        version=__version__,
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def fault(tool: str, locked: str = "") -> types.CallToolResult:
    """A mistake of ours: the only answer that is an error for the host. Exception text stays out of it."""
    text = f"{tool} failed because of a fault in sparkgate. The log of the gate says where."
    text += f" Also, it is locked: {locked}." if locked else ""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
