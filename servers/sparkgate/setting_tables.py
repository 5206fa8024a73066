"""The tables of `config.toml` but those of engines and access: each setting with type, unit, default and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparkgate.setting import setting


@dataclass(frozen=True, slots=True)
class SearxngSettings:
    url: str = setting(
        "", "Base URL of your SearXNG; empty means the embedded one of `sparkgate searxng up`.", unit="URL"
    )
    urls: tuple[str, ...] = setting(
        (), "More instances that may stand in for it, asked in this order when one before them cannot.", unit="URL"
    )
    auth_file: str = setting(
        "",
        "File, mode 0600, of credentials: lines `ADDRESS basic USER:PASSWORD`, "
        "`ADDRESS bearer TOKEN` or `ADDRESS header NAME: VALUE`; `*` is every instance.",
    )
    ca_file: str = setting("", "PEM file of certificate authorities of your own, beside the usual ones.")
    per_minute: int = setting(
        30,
        "Searches sent to one instance in a minute, a quarter of them at once; 0 is no limit.",
        unit="searches",
        low=0,
        high=100_000,
    )
    html_fallback: bool = setting(False, "Read the web page of results where an instance refuses JSON; it holds less.")
    allow_get: bool = setting(False, "Send by GET when a proxy refuses POST; the query then stands in access logs.")
    timeout_s: float = setting(15.0, "Longest wait for one search.", unit="s", low=1, high=120)
    max_answer_bytes: int = setting(
        4_000_000, "Longest answer read, after decoding.", unit="bytes", low=10_000, high=100_000_000
    )

    @property
    def instances(self) -> tuple[str, ...]:
        """Every configured instance once, the first choice first."""
        return tuple(dict.fromkeys(url.rstrip("/") for url in (self.url, *self.urls) if url))

    @property
    def authorities(self) -> str:
        return str(Path(self.ca_file).expanduser()) if self.ca_file else ""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    max_query_chars: int = setting(2000, "Longest query accepted.", unit="characters", low=10, high=8000)
    snippet_chars: int = setting(300, "Longest snippet shown for a result.", unit="characters", low=50, high=2000)
    answer_bytes: int = setting(6000, "Size a search answer is kept to.", unit="bytes", low=1500, high=100_000)
    full_snippet_chars: int = setting(
        1200, "Longest snippet with detail = full.", unit="characters", low=50, high=10_000
    )
    full_answer_bytes: int = setting(
        20_000, "Size an answer with detail = full is kept to.", unit="bytes", low=1500, high=200_000
    )
    cache_s: float = setting(
        300.0,
        "How long an answer serves the same question again, from memory; 0 is never.",
        unit="s",
        low=0,
        high=86_400,
    )
    lite: bool = setting(False, "List few tools with few arguments, for a small model.")


@dataclass(frozen=True, slots=True)
class PagesSettings:
    links: str = setting(
        "results",
        "Which pages may be read: results (what a search of the session or a page of the same site led to), allowlist "
        "(hosts of pages.allow) or any.",
        choices=("results", "allowlist", "any"),
    )
    allow: tuple[str, ...] = setting(
        (), "Hosts for links = allowlist, such as docs.vllm.ai; those below them too.", unit="host"
    )
    inner: tuple[str, ...] = setting(
        (), "Origins of this machine or network whose pages may be read, such as http://wiki.lan:8080.", unit="origin"
    )
    more_ports: tuple[str, ...] = setting(
        (), "Ports of the web that may be connected to, beside 80 and 443.", unit="port"
    )
    robots: bool = setting(True, "Read no page that the site's robots.txt keeps from programs.")
    robots_timeout_s: float = setting(3.0, "Longest wait for a robots.txt.", unit="s", low=0.1, high=30)
    timeout_s: float = setting(15.0, "Longest wait for one page, each redirect anew.", unit="s", low=1, high=60)
    read_s: float = setting(10.0, "Longest time to make text of one page.", unit="s", low=1, high=60)
    max_bytes: int = setting(8_000_000, "Longest page read, after decoding.", unit="bytes", low=10_000, high=50_000_000)
    answer_bytes: int = setting(8000, "Size one part of a page is kept to.", unit="bytes", low=1500, high=100_000)
    cache_s: int = setting(600, "How long a page is kept for its next part; 0 is not.", unit="s", low=0, high=86_400)


@dataclass(frozen=True, slots=True)
class PolicySettings:
    deadline_ms: int = setting(250, "Longest decision; past it the text is blocked.", unit="ms", low=10, high=5000)
    max_input_bytes: int = setting(
        16_384, "Longest text judged; a longer one is blocked.", unit="bytes", low=1024, high=65_536
    )
    known_files: tuple[str, ...] = setting(
        (), "More files, patterns or folders of values that must never leave, beside the usual ones."
    )
    known_env: tuple[str, ...] = setting((), "More environment variables of such values, such as ACME_*.")
    unreleased: tuple[str, ...] = setting((), "Folders whose code must not leave.")
    window_queries: int = setting(
        12,
        "Texts with odd words that are looked back at, for secrets cut into pieces.",
        unit="queries",
        low=2,
        high=100,
    )
    window_chars: int = setting(6000, "Most characters of their odd words.", unit="characters", low=200, high=50_000)
    window_minutes: float = setting(30.0, "How long a text is looked back at.", unit="min", low=1, high=1440)
    queries_per_hour: int = setting(
        600, "Most queries of a session to one class of destination in an hour.", unit="queries", low=1, high=100_000
    )
    queries_per_day: int = setting(5000, "The same in a day.", unit="queries", low=1, high=1_000_000)
    bytes_per_hour: int = setting(
        262_144, "Most text of a session to one class of destination in an hour.", unit="bytes", low=1000, high=10**9
    )
    bytes_per_day: int = setting(2_097_152, "The same in a day.", unit="bytes", low=1000, high=10**10)
    bits_per_hour: int = setting(
        65_536, "Most random-looking text in an hour, as an estimate.", unit="bits", low=256, high=10**9
    )
    bits_per_day: int = setting(262_144, "The same in a day.", unit="bits", low=256, high=10**10)


@dataclass(frozen=True, slots=True)
class AuditSettings:
    head_file: str = setting("", "Where the last link is kept outside the log; empty means audit.head beside it.")
    tell_syslog: bool = setting(True, "Tell the last link to the system's log now and then.")
    keep_days: int = setting(
        365, "Rows older than this are pruned by the gate; 0 keeps all.", unit="days", low=0, high=36_500
    )
    max_megabytes: int = setting(
        2000, "Size from which the oldest rows are pruned; 0 is no limit.", unit="MB", low=0, high=1_000_000
    )


@dataclass(frozen=True, slots=True)
class GateSettings:
    idle_minutes: float = setting(
        15.0, "Minutes without session and job before the gate ends.", unit="min", low=0.01, high=10_000
    )


@dataclass(frozen=True, slots=True)
class BenchSettings:
    max_seconds: int = setting(
        3600,
        "Longest time that one benchmark may be given; one that asks for more is refused.",
        unit="s",
        low=10,
        high=86_400,
    )


@dataclass(frozen=True, slots=True)
class ConfineSettings:
    write: tuple[str, ...] = setting(
        (), "Folders and files that a confined command may change, beside the one it starts in and its host's own."
    )
    read: tuple[str, ...] = setting((), "Folders and files to show it that would be hidden, such as ~/.npmrc.")
    env: tuple[str, ...] = setting((), "Variables to pass on to it, whatever they hold.")
    sockets: tuple[str, ...] = setting(
        (), "Unix sockets of others that it may use, such as that of D-Bus; each is a way out."
    )
