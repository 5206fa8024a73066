"""A request before it is sent, and the last look at everything in it that could carry something out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from sparkgate.policy.judge import Policy
from sparkgate.policy.syntax import Neutral, neutralise

METHODS = ("GET", "POST")


def _no_syntax(text: str) -> Neutral:
    return Neutral(text, ())


SYNTAX: dict[str, Callable[[str], Neutral]] = {"searxng": neutralise, "web": _no_syntax, "engine": _no_syntax}
"""What a destination class does to text that the policy released: its query syntax is taken out."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a tool builds from the released text."""

    url: str
    form: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "POST"


def objections(
    request: Request, origin: str, destination: str, fields: Mapping[str, str], policy: Policy
) -> tuple[str, ...]:
    """Ids of what stands against sending `request`; () when it may go.

    Args:
        origin: base URL it must go to.
        destination: class of destination, a key of `SYNTAX`.
        fields: what may stand beside the text, which goes under the name `q`.
        policy: judges every decoded string of it once more.

    """
    try:
        url = urlsplit(request.url)
        elsewhere = _origin(url) != _origin(urlsplit(origin)) or "@" in url.netloc
    except ValueError:
        return ("other-origin",)
    if elsewhere:
        return ("other-origin",)
    if request.method not in METHODS or any(name.lower() == "host" for name in request.headers):
        return ("unusual-request",)
    sent = [*parse_qsl(url.query, keep_blank_values=True), *request.form.items()]
    for part in _parts(request, url):
        decision = policy.judge(part)
        if decision.verdict != "allow":
            return decision.rules
    if any(name != "q" and fields.get(name) != value for name, value in sent):
        return ("undeclared-field",)
    live = (form.rule for name, value in sent if name == "q" for form in SYNTAX[destination](value).forms)
    return tuple(live)


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port


def _parts(request: Request, url: SplitResult) -> Iterator[str]:
    """Every string of the request, decoded, and the values of a form as one text."""
    yield from (unquote(url.path), unquote(url.fragment))
    for pairs in (parse_qsl(url.query, keep_blank_values=True), request.headers.items(), request.form.items()):
        for name, value in pairs:
            yield from (name, value)
    yield " ".join(request.form.values())
