"""A request before it is sent, and the last look: it holds what was logged, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from sparkgate.policy.syntax import Neutral, neutralise

METHODS = ("GET", "POST")


def _no_syntax(text: str) -> Neutral:
    return Neutral(text, ())


SYNTAX: dict[str, Callable[[str], Neutral]] = {"searxng": neutralise, "web": _no_syntax, "engine": _no_syntax}
"""What a destination class does to text that the policy released: its query syntax is taken out."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a tool builds from the released text, which goes under the name `q`; to the web it is the address."""

    url: str
    form: dict[str, str] = field(default_factory=dict)
    method: str = "POST"


def objections(
    request: Request, released: str, url: str, fields: Mapping[str, str], destination: str
) -> tuple[str, ...]:
    """Ids of what stands against sending `request`; () when it holds what was logged, and nothing else.

    Args:
        released: what may leave of the text.
        url: where it must go, without a query.
        fields: what must stand beside the text, by name.
        destination: class of destination, a key of `SYNTAX`.
    """
    if destination == "web":
        return _objections_to_address(request, released, url)
    try:
        parts = urlsplit(request.url)
        elsewhere = parts._replace(query="") != urlsplit(url) or "@" in parts.netloc
        sent = [
            *parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)),
            *request.form.items(),
        ]
    except ValueError:
        return ("other-origin",)
    if elsewhere:
        return ("other-origin",)
    if request.method not in METHODS:
        return ("unusual-request",)
    wanted = [("q", released)] * bool(released) + list(fields.items())
    if sorted(sent) != sorted(wanted):
        return ("undeclared-field",)
    return tuple(form.rule for form in SYNTAX[destination](released).forms)


def _objections_to_address(request: Request, released: str, url: str) -> tuple[str, ...]:
    """A page is asked for by the address that was judged, with nothing beside it."""
    if request.url != released or not released.startswith(url) or released[len(url) : len(url) + 1] not in ("/", "?"):
        return ("other-origin",)
    return ("unusual-request",) if request.method != "GET" else ("undeclared-field",) if request.form else ()
