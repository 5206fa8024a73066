"""Level 5: how long a start takes, against how long the host waits for tools before its model goes on without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sparkgate.clients.doctoring.finding import Finding
from sparkgate.clients.hosts.host import Host

CLOSE = 0.5
"""Part of the time that may pass without a word; a busy machine takes twice as long."""
KEEP = "keep the gate running (`sparkgate gate run` under a service manager, or a larger gate.idle_minutes)"
Verdict = Literal["ok", "close", "over"]


@dataclass(frozen=True, slots=True)
class Starts:
    """Milliseconds from the start of a server to its list of tools, without a gate and with one; None: not measured."""

    cold_ms: float | None = None
    warm_ms: float | None = None


def verdict(ms: float, grace_ms: float) -> Verdict:
    return "over" if ms > grace_ms else "close" if ms > grace_ms * CLOSE else "ok"


def is_quick(host: Host, ms: float) -> bool:
    """Nothing to look at twice."""
    return host.grace_s is None or verdict(ms, host.grace_s * 1000) == "ok"


def examine_grace(host: Host, server: str, entry: Mapping[str, Any], starts: Starts) -> Finding:
    """A start with a gate must fit; one that has to start the gate costs at most the first turn."""
    measured = _measured(starts)
    if starts.cold_ms is None and starts.warm_ms is None:
        return Finding("grace", "not_measured", "skip", f"The start of {server} was not measured.", server=server)
    if host.grace_s is None or waits(host.name, entry):
        words = f"{server} lists its tools {measured}; the host waits for it."
        return Finding("grace", "waits", "ok", words, server=server, facts=_facts(starts, None))
    grace_ms = host.grace_s * 1000
    words = f"{server} lists its tools {measured}; the host waits {grace_ms:.0f} ms"
    return _judged(server, words, starts, grace_ms, _way_out(host.name, server))


def _judged(server: str, words: str, starts: Starts, grace_ms: float, way_out: str) -> Finding:
    facts = _facts(starts, grace_ms)
    warm = "ok" if starts.warm_ms is None else verdict(starts.warm_ms, grace_ms)
    cold = "ok" if starts.cold_ms is None else verdict(starts.cold_ms, grace_ms)
    if warm == "over":
        return Finding("grace", "over", "fail", f"{words}, and goes on without them.", way_out, server, facts)
    if cold == "over":
        words = f"{words}: a first turn that has to start the gate goes without them."
        return Finding("grace", "over_cold", "warn", words, way_out, server, facts)
    if "close" in (warm, cold):
        words = f"{words}, which is close on a busy machine."
        return Finding("grace", "close", "warn", words, way_out, server, facts)
    also = " As a gate runs, a start without one was not measured." if starts.cold_ms is None else ""
    return Finding("grace", "in_time", "ok", f"{words}.{also}", server=server, facts=facts)


def examine_list(host: Host, server: str, ms: float | None) -> Iterator[Finding]:
    """The answer to tools/list has a time of its own in some hosts, however long the start may take."""
    if host.list_s is None or ms is None:
        return
    limit_ms, facts = host.list_s * 1000, {"list_ms": round(ms), "limit_ms": round(host.list_s * 1000)}
    words = f"{server} answers tools/list within {ms:.0f} ms; the host waits {limit_ms:.0f} ms for that"
    state: dict[Verdict, Finding] = {
        "ok": Finding("grace", "list_in_time", "ok", f"{words}.", server=server, facts=facts),
        "close": Finding("grace", "list_close", "warn", f"{words}, which is close.", KEEP, server, facts),
        "over": Finding("grace", "list_over", "fail", f"{words}, and has no tools then.", KEEP, server, facts),
    }
    yield state[verdict(ms, limit_ms)]


def waits(host: str, entry: Mapping[str, Any]) -> bool:
    """Codex waits for what the entry says it needs."""
    return host == "codex" and entry.get("required") is True


def _way_out(host: str, server: str) -> str:
    return f"{KEEP}, or set `mcp_servers.{server}.required` to true" if host == "codex" else KEEP


def _measured(starts: Starts) -> str:
    cold = "" if starts.cold_ms is None else f"{starts.cold_ms:.0f} ms after a start that has to start the gate"
    warm = "" if starts.warm_ms is None else f"{starts.warm_ms:.0f} ms after a start while the gate runs"
    return " and ".join(filter(None, (cold, warm)))


def _facts(starts: Starts, grace_ms: float | None) -> dict[str, Any]:
    values = {"cold_ms": starts.cold_ms, "warm_ms": starts.warm_ms, "grace_ms": grace_ms}
    return {name: None if value is None else round(value) for name, value in values.items()}
