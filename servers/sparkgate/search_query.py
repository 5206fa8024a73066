"""What a model asks of web_search, checked: words, SearXNG's fields for them, and how the answer is to be."""

from __future__ import annotations

from dataclasses import dataclass

from sparkgate import searxng
from sparkgate.languages import language_of
from sparkgate.results import plain
from sparkgate.search_answer import LAST_PAGE
from sparkgate.searxng import Problem
from sparkgate.setting_tables import SearchSettings
from sparkgate.toolset import Arguments, Parameter

PARAMETERS = (
    Parameter("query", "string", "What to search for, in plain words.", required=True),
    Parameter("max_results", "integer", "Results to show, 1 to 20.", default=5, low=1, high=20),
    Parameter("page", "integer", "Page of results, 1 to 50.", default=1, low=1, high=LAST_PAGE),
    Parameter("start", "integer", "First result of the page to show, 1 to 200.", default=1, low=1, high=200),
    Parameter(
        "time_range",
        "string",
        "Only results this fresh.",
        default="",
        choices=("day", "week", "month", "year"),
    ),
    Parameter("language", "string", "Language such as en, de or pt-BR; empty for any.", default=""),
    Parameter("categories", "array", "SearXNG categories such as general, it, science, news.", default=()),
    Parameter("engines", "array", "SearXNG engines to use instead of the default ones.", default=()),
    Parameter("sites", "array", "Only results of these hosts, such as docs.vllm.ai; -host leaves one out.", default=()),
    Parameter(
        "detail", "string", "full gives longer snippets, and more of them.", default="brief", choices=("brief", "full")
    ),
    Parameter("fetch_top", "integer", "Read the pages of the first results too, 0 to 3.", default=0, low=0, high=3),
    Parameter(
        "safesearch",
        "string",
        "Filter adult results.",
        default="off",
        choices=("off", "moderate", "strict"),
        aliases=(("0", "off"), ("1", "moderate"), ("2", "strict")),
    ),
)
LITE = (
    Parameter("query", "string", "Plain words.", required=True),
    Parameter("page", "integer", "1 to 50.", default=1, low=1, high=LAST_PAGE),
    Parameter("time_range", "string", "How fresh.", default="", choices=("day", "week", "month", "year")),
)
MAX_SITES = 5
SAFESEARCH = {"off": "0", "moderate": "1", "strict": "2"}


@dataclass(frozen=True, slots=True)
class Search:
    """One checked search: the words, SearXNG's fields for it, and how the answer is to be."""

    query: str
    max_results: int
    fields: dict[str, str]
    engines: tuple[str, ...]
    categories: tuple[str, ...]
    full: bool = False
    sites: tuple[str, ...] = ()
    not_sites: tuple[str, ...] = ()
    start: int = 1

    @property
    def text(self) -> str:
        """The words with the hosts in the syntax that search engines share; what they make of it is checked after."""
        of = " OR ".join(f"site:{site}" for site in self.sites)
        some = f"({of})" if len(self.sites) > 1 else of
        return " ".join(filter(None, (self.query, some, *(f"-site:{site}" for site in self.not_sites))))


def checked(arguments: Arguments, limits: SearchSettings) -> Search | Problem:
    """Arguments of the tool → a search, or what is wrong with them. Nothing has been sent or logged yet."""
    language = language_of(arguments["language"])
    query = clean_query(arguments["query"][: limits.max_query_chars * 2])
    if not query:
        return Problem("empty_query", "query is empty; say what to search for.")
    if len(query) > limits.max_query_chars:
        return Problem(
            "query_too_long",
            f"query has {len(arguments['query'])} characters; at most {limits.max_query_chars} can be searched for.",
        )
    if language is None:
        return Problem("invalid_argument", "language must look like en, de or pt-BR, or be all or auto.")
    sites = [searxng.site_of(one) for one in arguments["sites"]]
    if None in sites:
        return searxng.problem("bad_site", site=plain(arguments["sites"][sites.index(None)], 60))
    fields = {
        "format": "json",
        "pageno": str(arguments["page"]),
        "language": language,
        "time_range": arguments["time_range"],
        "safesearch": SAFESEARCH[arguments["safesearch"]],
    }
    return Search(
        query,
        arguments["max_results"],
        {name: value for name, value in fields.items() if value},
        arguments["engines"],
        arguments["categories"],
        arguments["detail"] == "full",
        tuple(site for site in sites if site and site[0] != "-")[:MAX_SITES],
        tuple(site[1:] for site in sites if site and site[0] == "-")[:MAX_SITES],
        arguments["start"],
    )


def clean_query(text: str) -> str:
    """Control characters become spaces, lone surrogates U+FFFD; everything else stays as it is."""
    encodable = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    return "".join(" " if ord(c) < 32 or ord(c) == 127 else c for c in encodable).strip()
