"""The Datasette instance behind `sparkgate audit web`: one log, which nothing here can change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from datasette import hookimpl  # type: ignore[import-untyped]
from datasette.app import Datasette  # type: ignore[import-untyped]
from datasette.database import Database  # type: ignore[import-untyped]
from datasette.plugins import pm  # type: ignore[import-untyped]
from datasette.utils.asgi import Response  # type: ignore[import-untyped]
from datasette.utils.sqlite import sqlite3  # type: ignore[import-untyped]

from sparkgate.clients.audit_web import pages
from sparkgate.clients.audit_web.cells import render_cell
from sparkgate.clients.audit_web.guard import App, guarded
from sparkgate.clients.audit_web.queries import DATABASE, metadata
from sparkgate.policy.trail.file import BUSY_TIMEOUT_S

HERE = Path(__file__).parent
PLUGIN = "sparkgate-audit"
NEEDED_PLUGINS = (
    PLUGIN,
    "datasette.facets",
    "datasette.filters",
    "datasette.default_permissions",
    "datasette.blob_renderer",
    "datasette.forbidden",
)
"""Any other plugin is left out, whoever installed it: it might write, or load something from elsewhere."""
SETTINGS = {
    "sql_time_limit_ms": 3000,
    "facet_time_limit_ms": 1000,
    "max_returned_rows": 1000,
    "default_page_size": 50,
    "default_cache_ttl": 0,
    "allow_download": False,
    "suggest_facets": False,
    "truncate_cells_html": 2000,
}
MAX_VALUE_BYTES = 16_000_000
"""Longest text or blob that a statement may build."""
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
PRAGMAS = {
    "data_version",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "page_count",
    "page_size",
    "schema_version",
    "table_info",
    "table_xinfo",
}
"""`database_list` is not among them, as it tells where the file is."""


class ReadOnly(Exception):
    """Something wanted to write to the log."""


class Site(Datasette):  # type: ignore[misc]
    """Datasette without its catalogue of all tables, which is kept in memory and which nobody may see here."""

    async def refresh_schemas(self) -> None:
        return


class Log(Database):  # type: ignore[misc]
    """The log for Datasette: every connection of it can read, and nothing else."""

    def connect(self, write: bool = False) -> Any:
        """A new connection. Raises ReadOnly when one is wanted to write."""
        if write:
            raise ReadOnly("the log is read-only here")
        uri = f"{Path(self.path).absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
        self._all_file_connections.append(connection)
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA temp_store = MEMORY")  # a sort leaves no text of the log in a temporary file
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        connection.set_authorizer(_authorized)
        return connection

    async def execute(self, *args: Any, **more: Any) -> Any:
        """As in Datasette, without printing statements that fail: they hold what the user looks for."""
        return await super().execute(*args, **{**more, "log_sql_errors": False})

    async def attached_databases(self) -> list[Any]:
        return []


def _authorized(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """SQLite's question whether a part of a statement may be compiled."""
    if action == sqlite3.SQLITE_PRAGMA:
        allowed = (first or "").lower() in PRAGMAS
    elif action == sqlite3.SQLITE_UPDATE:
        allowed = first == "sqlite_master"  # asked when FTS5 declares its table; a real change SQLite itself refuses
    else:
        allowed = action in READING and (second or "").lower() != "load_extension"
    return int(sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY)


def make_site(path: Path) -> Site:
    """A Datasette instance that serves one log and nothing else."""
    _only_needed_plugins()
    made = Site(
        metadata=metadata(),
        settings=SETTINGS,
        template_dir=str(HERE / "templates"),
        static_mounts=[("assets", str(HERE / "static"))],
    )
    for own in list(made.databases):
        made.remove_database(own)
    made.add_database(Log(made, str(path)), name=DATABASE)
    return made


@contextmanager
def opened_site(path: Path) -> Iterator[Site]:
    """A Datasette instance that is closed in the end, with its threads and connections."""
    made = make_site(path)
    try:
        yield made
    finally:
        made.executor.shutdown()
        for database in made.databases.values():
            database.close()


def _only_needed_plugins() -> None:
    """Datasette keeps its plugins once a process; ours is one of them."""
    for name, _ in pm.list_name_plugin():
        if name not in NEEDED_PLUGINS:
            pm.unregister(name=name)
    if not pm.has_plugin(PLUGIN):
        plugin = ModuleType(PLUGIN)
        hooks = (asgi_wrapper, prepare_connection, register_routes, extra_template_vars, handle_exception, render_cell)
        vars(plugin).update({hook.__name__: hookimpl(hook) for hook in hooks})
        pm.register(plugin, PLUGIN)


def asgi_wrapper() -> Any:
    """Around every route, so that none is answered unguarded."""

    def wrapped(app: App) -> App:
        return guarded(app)

    return wrapped


def prepare_connection(conn: Any) -> None:
    """The function that Datasette's search and the saved one call."""
    conn.create_function("escape_fts", 1, phrases, deterministic=True)


def phrases(words: object) -> str:
    """Each word as a phrase of FTS5, so that no sign in it is an operator; a phrase without words finds nothing."""
    found = str(words or "").replace("\0", " ").replace('"', '""').split()
    return " ".join(f'"{word}"' for word in found) or '""'


def register_routes() -> list[tuple[str, Any]]:
    return [(r"/$", pages.start), (r"/session/(?P<session>[^/]+)$", pages.session)]


def extra_template_vars() -> dict[str, Any]:
    return pages.shared()


def handle_exception(datasette: Any, request: Any, exception: Exception) -> Any:
    """The page of an error. Datasette's own prints the values of all variables to the terminal as well."""
    status = int(getattr(exception, "status", 500))
    told = getattr(exception, "message", None) or (exception.args[0] if exception.args else type(exception).__name__)
    if getattr(exception, "message_is_html", False):
        told = "This took longer than is allowed here, and was stopped."
    found = {"status": status, "title": getattr(exception, "title", None), "error": str(told)}

    async def answer() -> Any:
        if request.path.endswith(".json"):
            return Response.json({"ok": False, **found}, status=status)
        return Response.html(await datasette.render_template("error.html", found, request=request), status=status)

    return answer
