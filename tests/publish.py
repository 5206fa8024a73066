"""What registries and hosts are told of sparkgate, made from the code: `python tests/publish.py` writes `.publish/`.

`.publish/server-*.json` are for the MCP registry (schema of 2025-12-11), `.publish/hosts/*.md` say for each host what
to do. `python tests/publish.py bundle FOLDER` makes a `.mcpb` of each server (manifest 0.4, type uv).
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparkgate.clients.hosts import HOSTS
from sparkgate.clients.hosts.entry import SERVER_NAMES, Launch
from sparkgate.clients.hosts.host import Door, Host, Where
from sparkgate.clients.hosts.snippet import snippet
from sparkgate.version import __version__

ROOT = Path(__file__).parent.parent
PUBLISHED = ROOT / ".publish"
OWNER = "io.github.sparkgate"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
PYTHON = "/path/to/.venv/bin/python"
SEEN = {
    "run": "Known from running it.",
    "read": "Known from reading its code; it was not run.",
    "told": "Known from its documentation and from reports; it was neither run nor read.",
}
SCRIPTS = {"search": "sparkgate-search", "engine": "sparkgate-engine", "bench": "sparkgate-bench"}
DESCRIPTIONS = {
    "search": "Web search and page reading through your own SearXNG: one policy, one log, no raw network.",
    "engine": "Status, load, swap and unload of your inference engines: one model copy at a time.",
    "bench": "Honest benchmarks of the inference engine you run on, with a verdict on what they prove.",
}
"""Toolset → what the registry shows, at most 100 characters."""


def registry_entry(toolset: str) -> dict[str, Any]:
    """`server.json` of one server."""
    return {
        "$schema": SCHEMA,
        "name": f"{OWNER}/{SERVER_NAMES[toolset]}",
        "description": DESCRIPTIONS[toolset],
        "version": __version__,
        "packages": [
            {
                "registryType": "pypi",
                "identifier": "sparkgate",
                "version": __version__,
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "packageArguments": [
                    {"type": "positional", "value": "serve"},
                    {"type": "positional", "value": toolset},
                ],
            }
        ],
    }


def bundle_manifest(toolset: str) -> dict[str, Any]:
    """`manifest.json` of a bundle whose host has uv. The pipe asks a Linux kernel who is at the other end."""
    return {
        "manifest_version": "0.4",
        "name": SERVER_NAMES[toolset],
        "display_name": f"sparkgate {toolset}",
        "version": __version__,
        "description": DESCRIPTIONS[toolset],
        "author": {"name": "sparkgate"},
        "license": "Apache-2.0",
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {"command": "uv", "args": ["run", "--directory", "${__dirname}", SCRIPTS[toolset]]},
        },
        "compatibility": {"platforms": ["linux"], "runtimes": {"python": ">=3.11"}},
    }


def bundle_files(toolset: str) -> dict[str, str]:
    """Name in the bundle → content."""
    project = (
        f'[project]\nname = "{SERVER_NAMES[toolset]}-bundle"\nversion = "{__version__}"\nrequires-python = ">=3.11"\n'
        f'dependencies = ["sparkgate=={__version__}"]\n'
    )
    start = f"from sparkgate.stdio import {toolset}\n\nraise SystemExit({toolset}())\n"
    return {
        "manifest.json": as_json(bundle_manifest(toolset)),
        "pyproject.toml": project,
        "server.py": start,
    }


def host_page(host: Host) -> str:
    """What a person who uses this host needs to know, with the exact text of an entry."""
    where = Where(Path("/home/you"), {})
    target = host.targets(where)[0]
    launch = Launch(SERVER_NAMES["search"], PYTHON, ("-I", "-m", "sparkgate.stdio", "search", "--host", host.name))
    file = str(target.file).replace("/home/you", "~")
    doors = [*host.doors({}), *(door for one in host.beside for door in one.doors({}))]
    lines = [f"# sparkgate in {host.title}", "", SEEN[host.seen], ""]
    if host.why:
        lines += [f"{host.why[:1].upper()}{host.why[1:]}.", ""]
    if host.instead:
        lines += ["```", host.instead.rstrip(), "```", ""]
    else:
        if host.how != "print":
            lines += [
                "```sh",
                f"sparkgate register --host {host.name} --dry-run   # shows what would change",
                "```",
                "",
            ]
        fence = target.format if target.format in ("yaml", "toml") else "json"
        text = snippet(host, target.format, target.key, (launch,)).rstrip()
        lines += [f"By hand, in `{file}`, with the interpreter that has sparkgate:", "", f"```{fence}", text, "```", ""]
        lines += [f"Its model sees `{host.tool_name(launch.server, 'web_search')}`. {host.after}", ""]
    if host.minds:
        lines += ["## To mind", "", *(f"* {one}" for one in host.minds), ""]
    if doors:
        lines += ["## Its own ways to the network", "", *(f"* {_door(door)}" for door in doors), ""]
    return "\n".join(lines).rstrip() + "\n"


def _door(door: Door) -> str:
    how = "`sparkgate register --close-doors` closes it." if door.changes else ""
    return " ".join(filter(None, (door.what, f"{door.way_out[:1].upper()}{door.way_out[1:]}.", how)))


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def published() -> Iterator[tuple[Path, str]]:
    """Every file below `.publish` with what must stand in it."""
    for toolset in SERVER_NAMES:
        yield PUBLISHED / f"server-{toolset}.json", as_json(registry_entry(toolset))
    for host in HOSTS.values():
        yield PUBLISHED / "hosts" / f"{host.name}.md", host_page(host)


def bundle(folder: Path) -> list[Path]:
    """The bundles of this version, made in `folder`."""
    made = []
    for toolset, name in SERVER_NAMES.items():
        path = folder / f"{name}-{__version__}.mcpb"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for inside, text in bundle_files(toolset).items():
                file.writestr(zipfile.ZipInfo(inside, (2026, 1, 1, 0, 0, 0)), text)
        made.append(path)
    return made


def main() -> None:
    if sys.argv[1:2] == ["bundle"]:
        print(*bundle(Path(sys.argv[2])), sep="\n")
        return
    for path, text in published():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
