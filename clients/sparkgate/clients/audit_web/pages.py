"""The pages of our own: the start page and one for each session."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from datasette.utils import tilde_decode  # type: ignore[import-untyped]
from datasette.utils.asgi import NotFound, Response  # type: ignore[import-untyped]

from sparkgate.clients.audit_rows import nothing
from sparkgate.clients.audit_web import timeline
from sparkgate.clients.audit_web.cells import how_long, row_url, session_url, shown, when
from sparkgate.clients.audit_web.queries import DATABASE, LESS_LOOKED_AT, QUERIES
from sparkgate.policy.trail.columns import NEVER_LEFT
from sparkgate.policy.trail.read import Filter, newest, oldest_first

NEWEST, MOST_SESSIONS, MOST_NAMES, SESSION_ROWS = 20, 8, 6, 500
FACETED = ("verdict", "tool", "host", "destination")
BOUNDS = "SELECT (SELECT min(at_us) FROM outbound), (SELECT max(at_us) FROM outbound)"
COUNTS = f"SELECT at_us / :step_us, {', '.join(FACETED)}, count(*) FROM outbound GROUP BY 1, 2, 3, 4, 5"
ENDS_UNKNOWN = "SELECT (SELECT count(*) FROM outbound) - (SELECT count(*) FROM outcome)"
RULES = f"SELECT rule, count(DISTINCT outbound_id) FROM finding GROUP BY rule ORDER BY 2 DESC, 1 LIMIT {MOST_NAMES}"
SESSIONS = f"""
SELECT found.session, found.rows, outbound.host, outbound.at_us
FROM (SELECT session, count(*) AS rows, max(id) AS last FROM outbound GROUP BY session ORDER BY last DESC
      LIMIT {MOST_SESSIONS}) AS found JOIN outbound ON outbound.id = found.last ORDER BY outbound.id DESC
"""
SESSION = """
SELECT count(*) AS rows, min(at_us) AS first_us, max(at_us) AS last_us FROM outbound WHERE session = :session
"""
ASKERS = """
SELECT host, host_version, pid, uid, gid, confined, cwd, count(*) AS rows FROM outbound WHERE session = :session
GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY min(id) LIMIT 20
"""
SESSION_COUNTS = "SELECT at_us / :step_us, verdict, count(*) FROM outbound WHERE session = :session GROUP BY 1, 2"


def rows_url(**filters: str) -> str:
    """The table of rows with the columns that are looked at, and those facets."""
    return f"/{DATABASE}/outbound?" + urlencode([*filters.items(), *(("_nocol", name) for name in LESS_LOOKED_AT)])


def query_url(name: str, **values: str) -> str:
    return f"/{DATABASE}/{name}" + (f"?{urlencode(values)}" if values else "")


async def start(datasette: Any, request: Any) -> Any:
    """`/`: what the log is, how much left, when, and the newest rows."""
    found = await datasette.get_database(DATABASE).execute_fn(overview)
    return Response.html(await datasette.render_template("start.html", found, request=request))


async def session(datasette: Any, request: Any) -> Any:
    """`/session/ID`: who asked, and all that was asked in it."""
    name = tilde_decode(request.url_vars["session"])
    found = await datasette.get_database(DATABASE).execute_fn(lambda connection: one_session(connection, name))
    if not found:
        raise NotFound("There is no such session.")
    return Response.html(await datasette.render_template("session.html", found, request=request))


def overview(connection: sqlite3.Connection) -> dict[str, Any]:
    """What the start page shows."""
    first_us, last_us = connection.execute(BOUNDS).fetchone()
    step = timeline.step_s(first_us or 0, last_us or 0, timeline.HOUR_S)
    counted = connection.execute(COUNTS, {"step_us": step * timeline.SECOND_US}).fetchall()
    groups: dict[str, Counter[str]] = {name: Counter() for name in FACETED}
    for _, *values, rows in counted:
        for name, value in zip(FACETED, values, strict=True):
            groups[name][value] += rows
    total = groups["verdict"].total()
    return {
        "total": total,
        "verdicts": groups["verdict"],
        "blocked_share": groups["verdict"]["block"] / total if total else 0.0,
        "unknown": connection.execute(ENDS_UNKNOWN).fetchone()[0],
        "first": when(first_us) if first_us else "",
        "last": when(last_us) if last_us else "",
        **_drawn([(step_no, values[0], rows) for step_no, *values, rows in counted], step),
        "rows": [_told(row) for row in newest(connection, limit=NEWEST)],
        "facets": [_facet(name, groups[name]) for name in FACETED[1:]],
        "rules": [(shown(rule), rows, rows_of_rule(rule)) for rule, rows in connection.execute(RULES)],
        "sessions": [
            {"session": shown(name), "url": session_url(name), "rows": rows, "host": shown(host), "last": when(at_us)}
            for name, rows, host, at_us in connection.execute(SESSIONS)
        ],
    }


def one_session(connection: sqlite3.Connection, name: str) -> dict[str, Any] | None:
    """What the page of a session shows; None when it has no rows."""
    rows, first_us, last_us = connection.execute(SESSION, {"session": name}).fetchone()
    if not rows:
        return None
    step = timeline.step_s(first_us, last_us)
    values = {"session": name, "step_us": step * timeline.SECOND_US}
    counted = connection.execute(SESSION_COUNTS, values).fetchall()
    verdicts: Counter[str] = Counter()
    for _, verdict, count in counted:
        verdicts[verdict] += count
    return {
        "session": name,
        "name": shown(name),
        "total": rows,
        "verdicts": verdicts,
        "first": when(first_us),
        "last": when(last_us),
        "lasted": how_long(last_us - first_us),
        "askers": [_asker(one) for one in connection.execute(ASKERS, values)],
        **_drawn([tuple(one) for one in counted], step),
        "rows": [_told(row) for row in islice(oldest_first(connection, Filter(session=name)), SESSION_ROWS)],
        "all_rows": rows_url(session=name),
        "what_left": query_url("left_in_session", session=name),
    }


def shared() -> dict[str, Any]:
    """What every template may use."""
    return {
        "rows_url": rows_url,
        "query_url": query_url,
        "saved": [(title, about, query_url(name)) for name, (title, about, _) in QUERIES.items()],
        "blocked_url": rows_url(verdict="block"),
    }


def rows_of_rule(rule: str) -> str:
    """The table of rows with a finding of one rule."""
    quoted = rule.replace("'", "''")
    return rows_url(_where=f"id IN (SELECT outbound_id FROM finding WHERE rule = '{quoted}')")


def _drawn(counts: Sequence[timeline.Count], step: int) -> dict[str, Any]:
    bars = timeline.bars(counts, step)
    return {
        "bars": bars,
        "is_spread": sum(1 for one in bars if one.rows) > 1,
        "most": max((one.rows.total() for one in bars), default=0),
        "picture": timeline.picture(bars, "timeline"),
        "step": STEP_NAMES.get(step, f"{step} seconds"),
    }


STEP_NAMES: Mapping[int, str] = {
    1: "second",
    10: "10 seconds",
    60: "minute",
    600: "10 minutes",
    3600: "hour",
    86_400: "day",
    7 * 86_400: "week",
    28 * 86_400: "4 weeks",
}


def _facet(name: str, counts: Counter[str]) -> dict[str, Any]:
    values = [(shown(value or "-"), rows, rows_url(**{name: value})) for value, rows in counts.most_common(MOST_NAMES)]
    return {"name": name, "values": values, "more": max(len(counts) - MOST_NAMES, 0), "url": rows_url(_facet=name)}


def _asker(one: sqlite3.Row) -> dict[str, Any]:
    return {name: shown(value or "-") if isinstance(value, str) else value for name, value in dict(one).items()}


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as templates show it."""
    held = row["verdict"] == "block" or row["outcome"] in NEVER_LEFT
    return {
        "id": row["id"],
        "url": row_url(row["id"]),
        "session": shown(row["session"]),
        "session_url": session_url(row["session"]),
        "at": when(row["at_us"]),
        "host": shown(row["host"] or "-"),
        "tool": shown(row["tool"]),
        "destination": row["destination"],
        "verdict": row["verdict"],
        "sent": shown(row["sent"]) if row["sent"] else "",
        "instead": "" if row["sent"] else nothing(dict(row)),
        "held": held,
        "rules": list(dict.fromkeys(str(finding["rule"]) for finding in row["findings"])),
        "outcome": row["outcome"] or "unknown",
        "status": "" if row["status"] in (None, 200) else row["status"],
        "decision": how_long(row["decision_us"]),
        "took": how_long(row["elapsed_us"]) if row["elapsed_us"] else "",
    }
