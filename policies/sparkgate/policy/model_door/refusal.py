"""Why a request does not pass the model door: a table of rules, each with its status and the way out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Shape = Literal["openai", "anthropic", "ollama"]
"""Whose clients read the answer, so how its error looks."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        status: of the answer.
        says: what is wrong and the way out; `{door}` is the engine's name, `{what}` a word from our own tables.
        logged: whether each refusal is a row of the log; bad luck is none.
    """

    status: int
    says: str
    logged: bool = True


RULES: Mapping[str, Rule] = {
    # the way it is written
    "bad_framing": Rule(400, "this is no plain HTTP/1.1 request with one body; send it as an HTTP client would"),
    "bad_target": Rule(400, "the path is not a plain one; write it without a host, escapes and dots"),
    "upgrade": Rule(400, "the door carries requests and their answers; it neither tunnels nor changes the protocol"),
    "head_too_large": Rule(431, "the headers are too long for the door; send fewer"),
    "body_too_large": Rule(413, "the body is too long for the door; send less at a time"),
    "expectation": Rule(417, "the door knows no other expectation than 100-continue; leave it out"),
    "content_type": Rule(415, "the door reads JSON bodies only; forms and uploads of files are not carried"),
    "encoded": Rule(415, "the door reads bodies that are not compressed only; send it plain"),
    "not_json": Rule(400, "the body is not one JSON object in UTF-8; a door that cannot read it cannot let it pass"),
    "duplicate_key": Rule(400, "a key stands twice in one object, so two readers may read it in two ways"),
    "too_nested": Rule(400, "the body has more values, or values deeper in each other, than any engine needs"),
    # what it asks for
    "not_offered": Rule(403, "the door carries questions to models only; the operator does the rest on the engine"),
    "not_by_router": Rule(
        403, "answers of this route do not prove where {door} got them; ask it by /v1/chat/completions"
    ),
    "query": Rule(403, "this route takes no such query string here; leave it out"),
    "remote_media": Rule(403, "the engine would fetch this {what} itself; send the data within the request (data:)"),
    "remote_tool": Rule(403, "the engine would act on {what} itself over a network; offer tools of type function"),
    "remote_key": Rule(403, "{what} makes an engine reach another service; leave it out"),
    "router_key": Rule(403, "{what} is none of the fields that pass to a router; leave it out"),
    "cloud_model": Rule(403, "a model with this tag runs in a cloud; ask for one that runs here"),
    "model_path": Rule(403, "a model is asked for by the name that the engine lists, not by an address or a path"),
    "unknown_model": Rule(403, "{door} lists no such model, and would look for it elsewhere; ask for a listed one"),
    "model_leaves": Rule(
        403,
        "{door} may send this model off this box; ask for one that stays, or let the operator give it an api_base that "
        "is home, or set stays_home = false for {door}",
    ),
    "model_closed": Rule(
        403,
        "an answer of this model came from elsewhere; it stays closed until the operator mends the routes of {door}, "
        "or its table in the configuration",
    ),
    "left_the_box": Rule(
        502,
        "{door} let this request leave the box, and its answer is withheld; the operator mends its api_base and "
        "fallbacks, or sets stays_home = false for {door}",
        False,
    ),
    "hidden_router": Rule(
        502,
        "a router answers where {door} is configured as an engine; the operator sets engine to what it is",
        False,
    ),
    # what the operator has done
    "removed": Rule(403, "{door} is no longer configured; the operator puts [engines.{door}] back, or start anew"),
    "locked": Rule(403, "outbound calls are locked; `sparkgate gate status` says by which file; its owner ends that"),
    # bad luck
    "misconfigured": Rule(503, "the configuration of the gate cannot be used; `sparkgate config` says why", False),
    "not_known_yet": Rule(
        503, "what answers at {door} is not known; start it, or let the operator set its engine", False
    ),
    "routes_unknown": Rule(
        503,
        "{door} does not tell where it sends requests; the operator starts it, gives it a key_file, or sets its engine",
        False,
    ),
    "unreachable": Rule(502, "{door} cannot be reached; engine_status tells how it is", False),
    "no_answer": Rule(502, "{door} ended the connection without an answer, or its answer is no HTTP", False),
    "key_echoed": Rule(502, "the error of {door} repeats its key, so it is withheld; the operator looks at its log"),
    "slow_request": Rule(408, "the request did not come in time; send it again", False),
    "busy": Rule(503, "too much waits at the door; ask again", False),
    "fault": Rule(500, "the door failed; its log says where", False),
}

TYPES: Mapping[int, str] = {400: "invalid_request_error", 403: "permission_error", 408: "timeout_error"}
REASONS: Mapping[int, str] = {
    400: "Bad Request",
    403: "Forbidden",
    408: "Request Timeout",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    417: "Expectation Failed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


class Refused(Exception):
    """A request that does not pass. `rule` is a name of `RULES`; `what` is of our own tables."""

    def __init__(self, rule: str, what: str = "") -> None:
        super().__init__(rule)
        self.rule, self.what = rule, what


def message(door: str, rule: str, what: str = "") -> str:
    """What the agent reads."""
    return f"sparkgate: {RULES[rule].says.format(door=door, what=what or 'this')}"


def answer(door: str, refused: Refused, shape: Shape = "openai") -> bytes:
    """The whole HTTP answer: an error as clients of this API read it."""
    status = RULES[refused.rule].status
    text, kind = message(door, refused.rule, refused.what), TYPES.get(status, "api_error")
    code = f"sparkgate_{refused.rule}"
    bodies: Mapping[Shape, object] = {
        "openai": {"error": {"message": text, "type": kind, "code": code}},
        "anthropic": {"type": "error", "error": {"type": kind, "message": text, "code": code}},
        "ollama": {"error": text, "code": code},
    }
    body = json.dumps(bodies[shape]).encode()
    head = f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
