"""Level 4: what a visit to a server says of it."""

from __future__ import annotations

from collections.abc import Iterator

from sparkgate.clients.doctoring.finding import Finding
from sparkgate.clients.doctoring.visit import AGAIN, MODERN, Visit
from sparkgate.clients.hosts.host import Host

STEPS = {
    "start": "It did not start",
    "initialize": "It did not answer initialize",
    "discover": "It did not answer server/discover",
    AGAIN: "It refused initialize behind server/discover, both of which this host asks",
    "tools_list": "It did not list its tools",
    "self_test": "Its tool for a test did not answer",
}
BY_HAND = "`sparkgate doctor --as-host {host}` prints the command, its environment and its folder: start it so by hand"

OTHER = "use a version of {host} that asks only one of the two; nothing in its configuration changes that"


def examine_visit(host: Host, server: str, seen: Visit) -> Iterator[Finding]:
    """Everything that is wrong; one finding that all is well when nothing is."""
    found = [*_wrong(host, server, seen), *_tools(host, server, seen)]
    if any(finding.state == "fail" for finding in found):
        yield from found
        return
    tested = f"{seen.tested} answered" if seen.tested else "there was no tool to test"
    words = f"{server} speaks {seen.revision}, lists {len(seen.tools)} tools, {tested}, and ends with its input."
    yield from [*found, Finding("spawn", "speaks", "ok", words, server=server, facts={"tools": len(seen.tools)})]


def _wrong(host: Host, server: str, seen: Visit) -> Iterator[Finding]:
    by_hand = BY_HAND.format(host=host.name)
    if seen.failed:
        way_out = OTHER.format(host=host.title) if seen.failed == AGAIN else by_hand
        yield _fail(seen.failed, f"{server}: {STEPS[seen.failed]}: {seen.why}.", way_out, server)
    wanted = host.protocol or MODERN
    if seen.revision and seen.revision != wanted and seen.failed != AGAIN:
        words = f"{server} speaks {seen.revision}; {host.title} asks for {wanted}."
        yield Finding("spawn", "revision", "warn", words, "update sparkgate, or the host", server)
    if seen.noise:
        words = f"{server} prints {seen.noise} lines on standard output that are no JSON-RPC, which breaks hosts."
        yield _fail("noise", words, "start the interpreter itself, without a wrapper that prints", server)
    if seen.leaked:
        words = f"{server} prints a secret of the environment, which hosts write into their logs."
        yield _fail("leak", words, by_hand, server)
    if not seen.ended:
        words = f"{server} does not end when its input is closed: each session of the host leaves one running."
        yield _fail("does_not_end", words, by_hand, server)


def _tools(host: Host, server: str, seen: Visit) -> Iterator[Finding]:
    """Limits of the host on names and descriptions."""
    if not seen.failed and not seen.tools:
        yield _fail("no_tools", f"{server} lists no tool.", "update sparkgate", server)
    for tool in seen.tools:
        name = host.tool_name(server, str(tool.get("name", "")))
        if host.max_tool_name is not None and len(name) > host.max_tool_name:
            words = f"The name {name} is longer than the {host.max_tool_name} characters that the host takes."
            yield _fail("long_name", words, "shorten the name of the server", server)
        if host.max_description is not None and len(str(tool.get("description", ""))) > host.max_description:
            words = f"The host cuts what {name} says of itself at {host.max_description} characters."
            yield Finding("spawn", "long_description", "warn", words, server=server)


def _fail(code: str, words: str, way_out: str, server: str) -> Finding:
    return Finding("spawn", code, "fail", words, way_out, server)
