"""Where the values that must never leave are read: a table of files, the environment, and what the user names."""

from __future__ import annotations

import glob
import os
import pwd
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from sparkgate.policy.known.choice import Take, Value, chosen, embedded
from sparkgate.policy.known.formats import READERS, assignments
from sparkgate.policy.known.identity import Name, git_includes, of_git

MAX_BYTES = 4_000_000
MAX_FILES = 64
MAX_VALUES = 1000


@dataclass(frozen=True, slots=True)
class Source:
    """A file that holds credentials. `path`: `{folder}` of `FOLDERS`, `~`, `$VARIABLE` and `*` are filled in."""

    path: str
    format: str
    take: Take = "credentials"


FOLDERS: dict[str, tuple[str, ...]] = {
    "huggingface": ("$HF_HOME", "$XDG_CACHE_HOME/huggingface", "~/.cache/huggingface"),
    "config": ("$XDG_CONFIG_HOME", "~/.config"),
    "data": ("$XDG_DATA_HOME", "~/.local/share"),
    "docker": ("$DOCKER_CONFIG", "~/.docker"),
    "hermes": ("$HERMES_HOME", "~/.hermes"),
    "openclaw": ("$OPENCLAW_STATE_DIR", "~/.openclaw"),
    "claude": ("$CLAUDE_CONFIG_DIR", "~/.claude"),
    "codex": ("$CODEX_HOME", "~/.codex"),
    "gh": ("$GH_CONFIG_DIR", "$XDG_CONFIG_HOME/gh", "~/.config/gh"),
}
"""Folders that may have been moved: every place that is set is read."""

SOURCES = (
    Source("{sparkgate}/config.toml", "toml"),
    Source("{sparkgate}/.env", "assignments"),
    Source("{huggingface}/token", "whole"),
    Source("{huggingface}/stored_tokens", "assignments"),
    Source("$HF_TOKEN_PATH", "whole"),
    Source("~/.netrc", "netrc"),
    Source("$NETRC", "netrc"),
    Source("{docker}/config.json", "json"),
    Source("{config}/containers/auth.json", "json"),
    Source("$XDG_RUNTIME_DIR/containers/auth.json", "json"),
    Source("~/.env", "assignments"),
    Source("{hermes}/.env", "assignments"),
    Source("{hermes}/config.yaml", "assignments"),
    Source("{hermes}/auth.json", "json"),
    Source("{hermes}/profiles/*/.env", "assignments"),
    Source("{hermes}/profiles/*/config.yaml", "assignments"),
    Source("{openclaw}/.env", "assignments"),
    Source("{openclaw}/openclaw.json", "assignments"),
    Source("{openclaw}/credentials/*.json", "json"),
    Source("{openclaw}/agents/*/agent/auth-profiles.json", "json"),
    Source("{claude}/.credentials.json", "json"),
    Source("{claude}/settings.json", "json"),
    Source("{claude}/.env", "assignments"),
    Source("~/.claude.json", "json"),
    Source("{config}/Claude/claude_desktop_config.json", "json"),
    Source("{codex}/auth.json", "json"),
    Source("{codex}/config.toml", "toml"),
    Source("{codex}/.env", "assignments"),
    Source("~/.gemini/oauth_creds.json", "json"),
    Source("~/.gemini/settings.json", "json"),
    Source("~/.gemini/.env", "assignments"),
    Source("~/.qwen/oauth_creds.json", "json"),
    Source("~/.qwen/settings.json", "json"),
    Source("~/.qwen/.env", "assignments"),
    Source("~/.cursor/mcp.json", "json"),
    Source("{config}/Code/User/mcp.json", "assignments"),
    Source("{config}/zed/settings.json", "assignments"),
    Source("{config}/opencode/opencode.json", "assignments"),
    Source("{data}/opencode/auth.json", "json"),
    Source("{config}/goose/config.yaml", "assignments"),
    Source("{config}/goose/secrets.yaml", "assignments"),
    Source("~/.continue/config.yaml", "assignments"),
    Source("~/.continue/config.json", "json"),
    Source("~/.continue/.env", "assignments"),
    Source("~/.aider.conf.yml", "assignments"),
    Source("{config}/io.datasette.llm/keys.json", "json", "dense"),
    Source("~/.ngc/config", "assignments"),
    Source("~/.kaggle/kaggle.json", "json"),
    Source("{gh}/hosts.yml", "assignments"),
    Source("{config}/glab-cli/config.yml", "assignments"),
    Source("~/.git-credentials", "embedded"),
    Source("{config}/git/credentials", "embedded"),
    Source("~/.npmrc", "npmrc"),
    Source("$NPM_CONFIG_USERCONFIG", "npmrc"),
    Source("~/.pypirc", "assignments"),
    Source("{config}/pip/pip.conf", "embedded"),
    Source("~/.cargo/credentials.toml", "toml"),
    Source("~/.gem/credentials", "assignments"),
    Source("~/.kube/config", "assignments"),
    Source("$KUBECONFIG", "assignments"),
    Source("~/.ssh/id_*", "embedded"),
    Source("~/.ssh/*.pem", "embedded"),
    Source("~/.ssh/*.key", "embedded"),
    Source("~/.aws/credentials", "assignments"),
    Source("$AWS_SHARED_CREDENTIALS_FILE", "assignments"),
    Source("{config}/gcloud/application_default_credentials.json", "json"),
    Source("~/.azure/msal_token_cache.json", "json"),
    Source("~/.terraform.d/credentials.tfrc.json", "json"),
    Source("~/.vault-token", "whole"),
    Source("~/.s3cfg", "assignments"),
    Source("{config}/rclone/rclone.conf", "assignments"),
    Source("{config}/doctl/config.yaml", "assignments"),
    Source("{config}/sops/age/keys.txt", "lines"),
    Source("~/.pgpass", "pgpass"),
    Source("$PGPASSFILE", "pgpass"),
    Source("~/.my.cnf", "assignments"),
    Source("~/.gitconfig", "git"),
    Source("{config}/git/config", "git"),
)
CANARIES = Source("{state}/canaries", "canaries")
NAMED_FORMATS = {
    ".json": "json",
    ".toml": "toml",
    ".yaml": "assignments",
    ".yml": "assignments",
    ".env": "assignments",
    ".ini": "assignments",
    ".cfg": "assignments",
    ".conf": "assignments",
    ".netrc": "netrc",
    ".pem": "embedded",
    ".key": "embedded",
}
"""By the end of the name of a file that the user names; any other is read line by line."""


@dataclass(frozen=True, slots=True, repr=False)
class Places:
    """What surrounds the gate: folders, environment, account, and what `[policy]` names.

    `files` (known_files) are paths, patterns or folders, relative ones beside the configuration; `env` (known_env) are
    names of variables, `*` for any end. Without `config` or `state`, nothing is read there. `hosts` is the text of
    /etc/hosts. `searxng_auth` is the file of credentials for SearXNG.
    """

    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    config: Path | None = None
    state: Path | None = None
    files: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    user: str = ""
    full_name: str = ""
    host: str = ""
    hosts: str = ""
    searxng_auth: str = ""

    @classmethod
    def of_this_process(
        cls, config: Path, state: Path, files: tuple[str, ...] = (), env: tuple[str, ...] = ()
    ) -> Places:
        """The account, environment and machine that this process runs in; nothing is asked of a network."""
        try:
            account = pwd.getpwuid(os.getuid())
            user, full_name = account.pw_name, account.pw_gecos.partition(",")[0]
        except KeyError:
            user = full_name = ""
        try:
            hosts = Path("/etc/hosts").read_text(errors="replace")
        except OSError:
            hosts = ""
        home, host = Path.home(), os.uname().nodename
        return cls(home, os.environ, config, state, files, env, user, full_name, host, hosts)


@dataclass(frozen=True, slots=True, repr=False)
class Contents:
    """What was read in one place. `note`: what was wrong with it, without a value."""

    values: tuple[Value, ...] = ()
    names: tuple[Name, ...] = ()
    note: str = ""


def patterns(places: Places) -> Iterator[tuple[str, Source]]:
    """Every path to look at, `*` still in it: those the user names first."""
    for name in places.files:
        path = _filled(name, places)
        if path:
            path = path if path.startswith("/") else f"{_literal(places.config or places.home, name)}/{path}"
            yield path, Source(name, "", "named")
    if places.searxng_auth:
        yield _filled(places.searxng_auth, places), Source(places.searxng_auth, "searxng", "named")
    for source in SOURCES:
        yield from ((path, source) for template in _moved(source.path, places) for path in _split(template, places))


def _format(path: Path, source: Source) -> str:
    ending = ".env" if path.name.startswith(".env") else path.suffix or path.name
    return source.format or NAMED_FORMATS.get(ending, "lines")


def _literal(folder: Path | str, template: str) -> str:
    """A folder as a pattern that matches it and nothing else, for a template that is a pattern."""
    return glob.escape(str(folder)) if "*" in template else str(folder)


def _moved(path: str, places: Places) -> Iterator[str]:
    found = re.match(r"\{(\w+)\}", path)
    if found is None:
        yield path
    elif found[1] in FOLDERS:
        yield from (folder + path[found.end() :] for folder in FOLDERS[found[1]])
    elif found[1] == "sparkgate" and places.config:
        yield _literal(places.config, path) + path[found.end() :]


def _split(template: str, places: Places) -> Iterator[str]:
    """One variable may hold several paths (KUBECONFIG)."""
    path = _filled(template, places)
    yield from (one for one in path.split(os.pathsep) if one.startswith("/"))


def _filled(template: str, places: Places) -> str:
    """With `~` and `$VARIABLE` at its start filled in; "" when the variable is not set."""
    head, slash, tail = template.partition("/")
    if head.startswith("$"):
        given = places.environ.get(head[1:], "")
        return _literal(given, template) + slash + tail if given else ""
    return _literal(places.home, template) + slash + tail if head == "~" else template


def paths(pattern: str, source: Source) -> list[Path]:
    """The files of a pattern, at most `MAX_FILES`; without `*` a path, there or not, or what a named folder holds."""
    path = Path(pattern)
    try:
        if "*" not in pattern and not (source.take == "named" and path.is_dir()):
            return [path]
        folder, wanted = (Path("/"), pattern.lstrip("/")) if "*" in pattern else (path, "*")
        return sorted(one for one in islice(folder.glob(wanted), MAX_FILES) if one.suffix != ".pub")
    except (OSError, ValueError):
        return [path]


def environment(places: Places) -> Contents:
    """Variables whose name is one of a credential, or that the user names."""
    values: list[Value] = []
    for name, value in places.environ.items():
        named = any(fnmatchcase(name, wanted) for wanted in places.env)
        values += chosen([("" if named else name, value)], "named" if named else "credentials")
        values += embedded(value)
    return Contents(tuple(values))


def read_text(path: Path) -> tuple[str, str]:
    """(text of a file, what is wrong with it). Never raises; a note names no content."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return "", "is no regular file"
        if status.st_size > MAX_BYTES:
            return "", f"is longer than {MAX_BYTES // 1_000_000} MB"
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES)
    except OSError as error:
        return "", f"cannot be read ({error.strerror})"
    except ValueError:
        return "", "has no name that a file can have"
    text = raw.decode("utf-8-sig", "replace")
    return text, "is not all text" if "\ufffd" in text or "\0" in text else ""


def contents(path: Path, source: Source, home: Path) -> Contents:
    """Read one file by its row. Never raises."""
    text, note = read_text(path)
    if source.format == "git":
        included = (read_text(other)[0] for other in islice(git_includes(text, path.parent, home), MAX_FILES))
        return Contents(names=tuple(name for part in (text, *included) for name in of_git(part)), note=note)
    form = _format(path, source)
    try:
        values = list(chosen(READERS[form](text), source.take))
    except (ValueError, RecursionError):
        values = list(chosen(assignments(text), source.take))
        note = note or f"is no {form.upper()}"
    values += embedded(text)
    if len(values) > MAX_VALUES:
        note = f"holds more than {MAX_VALUES} values; the others are not known"
    return Contents(tuple(values[:MAX_VALUES]), note=note)
