"""The pages of the log: they show what is there, as text, to this user alone, and can change nothing."""

from __future__ import annotations

import gc
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from box import PATIENCE_S, Box
from click.testing import CliRunner

from sparkgate.clients.audit_web import command, timeline
from sparkgate.clients.audit_web.guard import POLICY
from sparkgate.clients.audit_web.peer import for_user, owner
from sparkgate.clients.audit_web.queries import QUERIES
from sparkgate.policy.audit import AuditLog, Caller, Intent, Outcome

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ResourceWarning)
    from sparkgate.clients.audit_web.cells import how_long, row_url, session_url, shown
    from sparkgate.clients.audit_web.pages import rows_url
    from sparkgate.clients.audit_web.site import Log, ReadOnly, opened_site

    gc.collect()

# Datasette leaves small connections in memory to the collector, which Python tells of since 3.13.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")

KEY = b"k" * 32
HOSTILE = "<script>alert(1)</script><img src=http://evil.example/x.png onerror=alert(2)>"
HOSTILE_SESSION = '"><script>alert(3)</script>/../x'
CALLER = Caller("s1", "hermes", "0.9", 4711, 1000, "/home/ada")


def intent(sent: str, verdict: str = "allow", rules: Sequence[str] = (), caller: Caller = CALLER) -> Intent:
    findings = [{"rule": rule, "class": "pii", "start": 0, "end": 3} for rule in rules]
    digests = [f"{number:064x}" for number, _ in enumerate(rules)]
    return Intent(caller, "web_search", "searxng", "http://h:1", verdict, sent, {}, findings, digests, "p", 210)


def write(log: AuditLog) -> None:
    """Seven rows: allowed, redacted, blocked, of unknown end, hostile, one web address, and one of a hostile caller."""
    answered = Outcome("answered", 200, 4000, 412_000)
    log.close(log.intend(intent("plain words")), answered)
    log.close(log.intend(intent("run [home path]/x.py", "redact", ["home-path"])), answered)
    log.intend(intent("", "block", ["huggingface-token"]))
    log.intend(intent("no end yet"))
    log.close(log.intend(intent(HOSTILE)), answered)
    log.close(log.intend(intent("https://evil.example/?q=1")), answered)
    stranger = Caller(HOSTILE_SESSION, "<b>host</b>", "'\"", 1, 1000, "/tmp/<i>")
    log.close(log.intend(intent("other words", rules=["a'b<i>"], caller=stranger)), answered)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


@pytest.fixture
def log(path: Path) -> AuditLog:
    made = AuditLog(path, KEY)
    write(made)
    return made


@pytest.fixture
def site(log: AuditLog) -> Iterator[Any]:
    with opened_site(log.path) as made:
        yield made


PAGES = (
    "/",
    "/audit",
    "/audit?_show_hidden=1",
    rows_url(),
    "/audit/outbound",
    rows_url(_search="alert"),
    row_url(5),
    row_url(7),
    "/audit/outcome",
    "/audit/finding",
    "/audit/chain",
    session_url("s1"),
    session_url(HOSTILE_SESSION),
    *(f"/audit/{name}?session=s1&words=alert" for name in QUERIES),
    "/audit?sql=select+sent,session,host,findings+from+outbound",
    f"/audit?sql=select+1+where+{quote(HOSTILE)}",
    f"/audit/search?words={quote(HOSTILE)}",
    session_url(HOSTILE),
    f"/{quote('<script>')}",
)


class Elements(HTMLParser):
    """The start tags of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


async def page(site: Any, url: str, status: int = 200, **headers: str) -> str:
    answer = await site.client.get(url, headers=headers)
    assert answer.status_code == status, answer.text
    return str(answer.text)


def as_text(sent: str) -> str:
    return sent.replace("<", "&lt;").replace(">", "&gt;")


@pytest.mark.anyio
async def test_the_start_page_tells_how_much_left_and_shows_the_newest_rows(site: Any) -> None:
    text = await page(site, "/")
    tiles = re.findall(r"<dt>([^<]+)</dt><dd><a[^>]*>([\d,]+)</a>", text)
    assert dict(tiles) == {
        "Rows": "7",
        "Left as they were": "5",
        "Left redacted": "1",
        "Blocked": "1",
        "End unknown": "1",
    }
    assert "14.3%" in text
    rows = re.findall(r'<td class="number"><a href="/audit/outbound/(\d+)">', text)
    assert rows == ["7", "6", "5", "4", "3", "2", "1"]
    assert 'class="verdict block"' in text and "huggingface-token" in text and "run [home path]/x.py" in text
    assert '<svg class="timeline"' in text
    for name in QUERIES:
        assert f'href="/audit/{name}"' in text
    assert f'href="{session_url("s1")}"' in text


@pytest.mark.anyio
async def test_a_log_without_rows_has_a_start_page(path: Path) -> None:
    AuditLog(path, KEY)
    with opened_site(path) as site:
        assert "Nothing has been asked to leave yet" in await page(site, "/")


@pytest.mark.anyio
async def test_new_rows_show_without_a_restart(site: Any, log: AuditLog) -> None:
    assert "a later question" not in await page(site, "/") + await page(site, rows_url())
    log.intend(intent("a later question"))
    assert "a later question" in await page(site, "/")
    assert "a later question" in await page(site, rows_url())
    assert "a later question" in await page(site, "/audit/search?words=later")


@pytest.mark.anyio
@pytest.mark.parametrize("url", PAGES)
async def test_what_an_attacker_wrote_shows_as_text_and_nothing_is_loaded_from_elsewhere(site: Any, url: str) -> None:
    text = (await site.client.get(url)).text
    for tag, attributes in Elements(text).found:
        assert tag not in ("script", "iframe", "object", "embed", "img", "b", "i", "style"), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "action"):
            target = (attributes.get(name) or "").removeprefix("http://localhost/")
            assert not re.match(r"(?i)\s*([a-z]+:|//)", target), attributes


@pytest.mark.anyio
async def test_a_script_that_left_is_shown_on_each_page_that_has_its_row(site: Any) -> None:
    script = as_text("<script>alert(1)</script>")
    own = "/audit?sql=select+sent+from+outbound"
    for url in ("/", rows_url(), row_url(5), session_url("s1"), "/audit/search?words=alert", own):
        assert script in await page(site, url)


@pytest.mark.anyio
async def test_an_address_that_left_is_no_link(site: Any) -> None:
    for url in (rows_url(), row_url(6), session_url("s1"), "/audit?sql=select+sent+from+outbound"):
        assert "https://evil.example/?q=1" in await page(site, url)


def test_characters_that_cannot_be_seen_are_shown_as_numbers() -> None:
    assert shown("a\u202eb\u200b<") == (
        '<bdi>a<span class="unseen">U+202E</span>b<span class="unseen">U+200B</span>&lt;</bdi>'
    )
    assert shown("two\nlines\tand 日本語") == "<bdi>two\nlines\tand 日本語</bdi>"


STATEMENTS = (
    "insert into outbound (sent) values ('x')",
    "with x as (select 1) delete from outbound",
    "with x as (select 1) update outbound set sent = 'x'",
    "with x as (select 1) insert into mark (at_us, what, detail) values (1, 'x', 'y')",
    "with x as (select 1) update sqlite_master set sql = ''",
    "with x as (select 1) insert into outbound_text (outbound_text) values ('rebuild')",
    "select * from outbound; delete from outbound",
    "select load_extension('/tmp/x.so')",
    "select * from pragma_journal_mode",
    "attach database '/tmp/x.db' as x",
    "vacuum into '/tmp/x.db'",
    "create table x (y)",
    "pragma query_only = off",
    "explain delete from outbound",
)


@pytest.mark.anyio
@pytest.mark.parametrize("statement", STATEMENTS)
async def test_no_statement_through_a_page_writes(site: Any, log: AuditLog, statement: str) -> None:
    before = contents(log.path)
    for url in (
        f"/audit?sql={quote(statement)}",
        f"/audit.json?sql={quote(statement)}",
        f"/audit/outbound?_where={quote(statement)}",
    ):
        assert (await site.client.get(url)).status_code in (400, 403)
    assert contents(log.path) == before


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_connection_to_the_log_refuses_what_a_page_would_not_even_ask(
    site: Any, log: AuditLog, statement: str
) -> None:
    before = contents(log.path)
    with closing(Log(site, str(log.path)).connect()) as connection, pytest.raises((sqlite3.Error, sqlite3.Warning)):
        connection.execute(statement).fetchall()
    assert contents(log.path) == before


def contents(path: Path) -> list[Any]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [connection.execute(f"SELECT * FROM [{table}]").fetchall() for table in sorted(tables)]


@pytest.mark.anyio
async def test_datasette_gets_no_connection_that_writes(site: Any) -> None:
    with pytest.raises(ReadOnly):
        await site.get_database("audit").execute_write("delete from outbound")


@pytest.mark.anyio
@pytest.mark.parametrize("url", ["/audit/outbound.csv", "/audit/outbound?%5Fformat=csv", "/audit.csv?sql=select+1"])
async def test_there_is_no_csv_whose_cells_a_spreadsheet_would_run(site: Any, url: str) -> None:
    answer = await site.client.get(url)
    assert answer.status_code == 404 and "audit export --format csv" in answer.text


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("url", ["/", "/audit", "/audit/search", "/audit/outbound/1", "/-/messages", "/-/logout"])
async def test_no_route_takes_anything_but_a_question(site: Any, method: str, url: str) -> None:
    assert (await site.client.request(method, url)).status_code == 405


@pytest.mark.anyio
async def test_a_statement_without_an_end_or_with_a_huge_value_is_stopped(site: Any) -> None:
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n"
    assert "and was stopped" in await page(site, f"/audit?sql={quote(endless)}&_timelimit=50", 400)
    assert "too big" in await page(site, "/audit?sql=select+zeroblob(20000000)", 400)


async def status_of(site: Any, url: str, **headers: str) -> int:
    answer = await site.client.request("GET", url, headers=headers, avoid_path_rewrites=True)
    return int(answer.status_code)


@pytest.mark.anyio
@pytest.mark.parametrize("host", ["127.0.0.1:8001", "localhost:8001", "LocalHost:8001", "[::1]:8001"])
async def test_the_names_of_this_machine_are_answered(site: Any, host: str) -> None:
    assert await status_of(site, "http://127.0.0.1:8001/", host=host) == 200


@pytest.mark.anyio
@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8001", "127.0.0.1", "127.0.0.1:8002", "localhost.evil.example:8001",
        "0.0.0.0:8001", "", "127.0.0.1:8001, x",
    ],
)  # fmt: skip
@pytest.mark.parametrize("url", ["/", "/audit/outbound.json", "/assets/audit.css", "/nowhere", "/-/databases"])
async def test_another_name_is_refused_on_every_route(site: Any, host: str, url: str) -> None:
    assert await status_of(site, f"http://127.0.0.1:8001{url}", host=host) == 403


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8001"}, 200),
    ],
)
async def test_what_a_page_of_another_site_asks_for_is_refused(site: Any, headers: dict[str, str], status: int) -> None:
    assert await status_of(site, "http://127.0.0.1:8001/", **headers) == status


@pytest.mark.anyio
@pytest.mark.parametrize(
    "url",
    ["/", "/audit/outbound", "/audit/outbound.json", "/audit/outbound.csv", "/assets/audit.css", "/nowhere", "/-/x"],
)
async def test_every_answer_has_the_headers_that_shut_a_browser_in(site: Any, url: str) -> None:
    for host in ("localhost", "evil.example"):
        headers = (await site.client.get(url, headers={"host": host, "cookie": "ds_actor=x"})).headers
        assert headers["content-security-policy"] == POLICY and "unsafe" not in POLICY
        assert headers["x-frame-options"] == "DENY" and headers["referrer-policy"] == "no-referrer"
        assert headers.get_list("cache-control") == ["no-store"]
        assert "set-cookie" not in headers and "access-control-allow-origin" not in headers


@pytest.mark.anyio
@pytest.mark.parametrize(
    "name",
    ["databases", "databases.json", "metadata", "versions", "plugins", "settings", "threads", "actor", "patterns"],
)
async def test_pages_of_datasette_about_itself_are_not_there(site: Any, name: str) -> None:
    for url in (f"/-/{name}", f"/%2D/{name}", f"/%2d%2f{name}"):
        assert (await site.client.get(url, follow_redirects=True)).status_code in (403, 404)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "url", [*PAGES, "/.json", "/audit.json", "/_internal", "/audit?sql=select+*+from+pragma_database_list"]
)
async def test_no_page_tells_where_the_log_is(site: Any, path: Path, url: str) -> None:
    assert str(path.parent) not in (await site.client.get(url)).text


@pytest.mark.anyio
async def test_the_file_cannot_be_taken_away(site: Any) -> None:
    assert (await site.client.get("/audit.db")).status_code == 403
    for url in ("/assets/../site.py", "/assets/%2e%2e/site.py", "/assets//etc/passwd"):
        assert (await site.client.get(url)).status_code in (302, 400, 404)


@pytest.mark.anyio
async def test_rows_can_be_narrowed_by_facets_and_searched(site: Any) -> None:
    text = await page(site, rows_url())
    for name in ("verdict", "tool", "host", "destination", "session"):
        assert f'data-column="{name}"' in text and f'id="facet-{name}"' in text
    blocked = json.loads(await page(site, "/audit/outbound.json?verdict=block&_shape=array"))
    assert [row["id"] for row in blocked] == [3]
    found = json.loads(await page(site, "/audit/outbound.json?_search=plain&_shape=array"))
    assert [row["sent"] for row in found] == ["plain words"]


RESULTS = {
    "blocked": [3],
    "slowest": [1, 2, 3, 4, 5, 6, 7],
    "left_in_session?session=s1": [1, 2, 4, 5, 6],
    "unknown_end": [4],
    "search?words=words": [7, 1],
    "search?words=plain+words": [1],
    "search?words=": [],
}
ODD_WORDS = ('"', "'", "a AND", "NOT", "sent:x", "*", "(", "-x", "ü—", "\x00")


@pytest.mark.anyio
@pytest.mark.parametrize("query", RESULTS)
async def test_a_saved_query_finds_what_its_title_says(site: Any, query: str) -> None:
    name, _, values = query.partition("?")
    rows = json.loads(await page(site, f"/audit/{name}.json?{values}&_shape=array"))
    assert [row["row"] for row in rows] == RESULTS[query]


@pytest.mark.anyio
async def test_saved_queries_count_by_rule_by_host_and_day_and_by_session(site: Any) -> None:
    rules = json.loads(await page(site, "/audit/by_rule.json?_shape=array"))
    assert {row["rule"]: row["rows"] for row in rules} == {"home-path": 1, "huggingface-token": 1, "a'b<i>": 1}
    days = json.loads(await page(site, "/audit/by_host_and_day.json?_shape=array"))
    assert [(row["host"], row["rows"], row["block"]) for row in days] == [("hermes", 6, 1), ("<b>host</b>", 1, 0)]
    sessions = json.loads(await page(site, "/audit/sessions.json?_shape=array"))
    assert [(row["session"], row["rows"]) for row in sessions] == [(HOSTILE_SESSION, 1), ("s1", 6)]


@pytest.mark.anyio
@pytest.mark.parametrize("words", ODD_WORDS)
async def test_words_with_signs_of_the_query_language_are_words(site: Any, words: str) -> None:
    assert "message-error" not in await page(site, f"/audit/search?words={quote(words)}")


@pytest.mark.anyio
async def test_every_link_of_the_start_page_leads_somewhere(site: Any) -> None:
    links = {attributes["href"] for _, attributes in Elements(await page(site, "/")).found if attributes.get("href")}
    assert len(links) > 30
    for link in links:
        assert (await site.client.get(link)).status_code == 200, link


@pytest.mark.anyio
async def test_the_page_of_a_session_tells_who_asked_and_what_left_in_order(site: Any) -> None:
    text = await page(site, session_url("s1"))
    for told in ("hermes", "0.9", "4711", "1000", "/home/ada", "6 rows", "0.21 ms", "412 ms", "withheld", "unknown"):
        assert told in text
    assert re.findall(r'<td class="number"><a href="/audit/outbound/(\d+)">', text) == ["1", "2", "3", "4", "5", "6"]
    assert "other words" not in text


@pytest.mark.anyio
async def test_a_session_of_any_name_has_a_page_and_an_unknown_one_has_none(site: Any) -> None:
    text = await page(site, session_url(HOSTILE_SESSION))
    assert as_text("<script>alert(3)</script>/../x") in text and "&lt;b&gt;host&lt;/b&gt;" in text
    await page(site, "/session/nobody", 404)


@pytest.mark.anyio
async def test_another_plugin_of_datasette_is_left_out(log: AuditLog) -> None:
    from types import ModuleType

    from datasette import hookimpl  # type: ignore[import-untyped]
    from datasette.plugins import pm  # type: ignore[import-untyped]

    other = ModuleType("other")
    vars(other)["extra_js_urls"] = hookimpl(lambda: ["https://evil.example/x.js"])
    pm.register(other, "other")
    with opened_site(log.path) as site:
        assert "evil.example/x.js" not in await page(site, rows_url())
    assert not pm.has_plugin("other")


def test_a_timeline_has_a_bar_for_each_step_and_one_for_the_reader_who_cannot_see_it() -> None:
    bars = timeline.bars([(100, "allow", 500), (100, "block", 1), (140, "redact", 3)], timeline.DAY_S)
    assert len(bars) == 41 and (bars[0].label, bars[-1].label) == ("1970-04-11", "1970-05-21")
    drawn = ElementTree.fromstring(timeline.picture(bars, "x"))
    assert drawn.attrib["aria-labelledby"] == "x-title x-desc"
    assert drawn.findtext("desc") == "500 allow, 3 redact, 1 block, from 1970-04-11 to 1970-05-21 UTC."
    groups = drawn.findall("g")
    assert groups[0].findtext("title") == "1970-04-11: 500 allow, 0 redact, 1 block"
    parts = [rect for rect in groups[0] if rect.tag == "rect" and rect.attrib["class"] != "slot"]
    assert [rect.attrib["class"] for rect in parts] == ["allow", "block"]
    assert all(1 <= float(rect.attrib["height"]) <= 100 and float(rect.attrib["y"]) >= 0 for rect in parts)


def test_a_timeline_without_rows_and_with_one_row_can_be_drawn() -> None:
    assert ElementTree.fromstring(timeline.picture([], "x")).findtext("desc") == "No rows."
    bars = timeline.bars([(1000, "allow", 1)], timeline.HOUR_S)
    assert len(bars) == timeline.MIN_BARS and bars[-1].rows == {"allow": 1} and not bars[0].rows


@pytest.mark.parametrize(
    ("days", "step"),
    [(0.0, 3600), (3.0, 3600), (20.0, 86_400), (200.0, 86_400), (1000.0, 7 * 86_400), (9e4, 28 * 86_400)],
)
def test_the_step_of_a_timeline_fits_the_time_it_shows(days: float, step: int) -> None:
    assert timeline.step_s(0, int(days * 86_400 * timeline.SECOND_US), timeline.HOUR_S) == step


@pytest.mark.parametrize(
    ("us", "told"),
    [(210, "0.21 ms"), (412_000, "412 ms"), (61_000_000, "61 s"), (2_740_000_000, "46 min"), (9e11, "10.4 days")],
)
def test_durations_are_told_in_units_that_people_read(us: float, told: str) -> None:
    assert how_long(int(us)) == told


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: {server} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1
   1: {client} {server} {state} 00000000:00000000 00:00000000 00000000  {uid}        0 2 1
"""


@pytest.mark.parametrize(
    ("uid", "state", "mapped", "status"),
    [
        (1000, "01", False, 200),
        (1000, "01", True, 200),
        (0, "01", False, 200),
        (1001, "01", False, 403),
        (0, "06", False, 403),
    ],
)
@pytest.mark.anyio
async def test_only_programs_of_the_user_are_answered(
    tmp_path: Path, uid: int, state: str, mapped: bool, status: int
) -> None:
    prefix = "0000000000000000FFFF0000" if mapped else ""
    ends = {"client": f"{prefix}0100007F:C001", "server": f"{prefix}0100007F:1F41"}
    (tmp_path / "tcp").write_text(TABLE.format(**ends, uid=uid, state=state))
    answers: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        answers.append(message)

    async def receive() -> Any:
        raise AssertionError

    scope = {"type": "http", "client": ("127.0.0.1", 0xC001), "server": ("127.0.0.1", 8001)}
    await for_user(app, 1000, [tmp_path / "none", tmp_path / "tcp"])(scope, receive, send)
    assert answers[0]["status"] == status
    assert owner(("127.0.0.1", 5), ("127.0.0.1", 8001), [tmp_path / "tcp"]) is None


@contextmanager
def served(box: Box) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`sparkgate audit web` as a process over a log in its box: the URL and the process."""
    write(AuditLog(box.state / "audit.db", KEY))
    process = box.host(sys.executable, "-I", "-m", "sparkgate.clients.cli", "audit", "web", "--port", "0").process
    assert process.stdout
    line = process.stdout.readline().decode()
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
    assert found, line
    yield found[0], process


def fetched(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


OTHER_USER = """
import encodings.idna, os, sys, urllib.request, urllib.error
os.setuid(65534)
try:
    urllib.request.urlopen(sys.argv[1])
except urllib.error.HTTPError as error:
    print(error.code)
"""


def test_a_real_server_answers_this_user_on_loopback_alone_and_ends_at_ctrl_c(box: Box) -> None:
    with served(box) as (url, process):
        status, text = fetched(url)
        assert status == 200 and as_text("<script>alert(1)</script>") in text
        assert fetched(url, Host="evil.example")[0] == 403
        port = int(url.rsplit(":", 1)[1].strip("/"))
        assert listeners(port) == ["0100007F"]
        run = subprocess.run([sys.executable, "-I", "-c", OTHER_USER, url], capture_output=True, text=True, check=False)
        assert run.stdout.strip() == "403" or "PermissionError" in run.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr and process.stderr.read() == b""


def listeners(port: int) -> list[str]:
    """Addresses, as the kernel writes them, that are listened on at a port."""
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return [line[1].split(":")[0] for line in lines if line[3] == "0A" and int(line[1].split(":")[1], 16) == port]


def test_without_datasette_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "NEEDED", ("no_such_module",))
    run = CliRunner().invoke(command.web, [])
    assert run.exit_code == 1 and "pip install 'sparkgate[web]'" in run.output


def test_without_a_log_there_is_nothing_to_serve(box: Box) -> None:
    run = box.command("audit", "web")
    assert run.returncode == 1 and "there is no log yet" in run.stderr


LISTENING = """
import json, sys
from sparkgate.clients.audit_web.command import _listening
first = int(sys.argv[1])
print(json.dumps(_listening(range(first, first + 20)).getsockname()))
"""


def test_a_port_that_is_taken_is_told_and_by_default_the_next_is_used(box: Box) -> None:
    AuditLog(box.state / "audit.db", KEY)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        taken = other.server_address[1]
        run = box.command("audit", "web", "--port", str(taken))
        assert run.returncode == 1 and f"port {taken} is taken" in run.stderr
        next_free = [sys.executable, "-I", "-c", LISTENING, str(taken)]
        address, port = json.loads(subprocess.check_output(next_free, text=True))
        assert address == "127.0.0.1" and port > taken


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return found or pytest.skip("no chromium is installed (Debian: apt-get install chromium)")


@contextmanager
def trap() -> Iterator[tuple[str, list[str]]]:
    """A server that nothing should ask, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/", asked
        finally:
            server.shutdown()
            thread.join()


def browse(url: str, folder: Path, *options: str) -> tuple[str, set[str]]:
    """What a real browser makes of a page: its DOM, and every URL that the page made it ask for.

    Requests of the browser itself, for updates and the like, are not counted; they reach nothing either.
    """
    log, origin = folder / "net.json", "/".join(url.split("/")[:3]) + "/"
    run = subprocess.run(
        [
            chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
            f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", "--window-size=1280,1400",
            "--virtual-time-budget=3000", *options, url,
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 4,
        check=True,
    )  # fmt: skip
    asked = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    return run.stdout, {one["url"] for one in asked if one.get("initiator", "") + "/" == origin and "url" in one}


@pytest.mark.host
def test_a_real_browser_shows_the_rows_runs_nothing_and_asks_nobody_else(box: Box, tmp_path: Path) -> None:
    with trap() as (bait, asked), served(box) as (url, process):
        with closing(sqlite3.connect(box.state / "audit.db")):
            AuditLog(box.state / "audit.db", KEY).intend(intent(f"<img src={bait}img><script src={bait}js></script>"))
        for place in ("", session_url("s1").lstrip("/"), rows_url().lstrip("/"), "audit/search?words=script"):
            dom, urls = browse(url + place, tmp_path, "--dump-dom")
            assert as_text("<script>alert(1)</script>") in dom and "<script" not in dom and "<img" not in dom
            assert "plain words" in dom or "search" in place
            assert f"{url}assets/audit.css" in urls and all(one.startswith(url) for one in urls), urls
        picture = tmp_path / "start.png"
        browse(url, tmp_path, f"--screenshot={picture}")
        data = picture.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n" and int.from_bytes(data[16:20], "big") == 1280 and len(data) > 30_000
        assert asked == []
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
