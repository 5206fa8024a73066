"""Folders that hosts are given by the system, each with the variables that move it."""

from __future__ import annotations

from pathlib import Path

from sparkgate.clients.hosts.host import Where


def moved(where: Where, variable: str, usual: Path) -> Path:
    """What a variable says when it names an absolute folder (`~` counts), else the usual one."""
    given = where.environment.get(variable, "").strip()
    if given == "~" or given.startswith(("~/", "~\\")):
        return where.home / given[2:]
    return Path(given) if given and Path(given).is_absolute() else usual


def dot_config(where: Where) -> Path:
    """`~/.config` on every system, for hosts that look there on all."""
    return moved(where, "XDG_CONFIG_HOME", where.home / ".config")


def roaming(where: Where) -> Path:
    return moved(where, "APPDATA", where.home / "AppData" / "Roaming")


def local(where: Where) -> Path:
    return moved(where, "LOCALAPPDATA", where.home / "AppData" / "Local")


def application_data(where: Where) -> Path:
    """Where a desktop program of each system keeps its files."""
    if where.system == "windows":
        return roaming(where)
    return where.home / "Library" / "Application Support" if where.system == "darwin" else dot_config(where)


def vscode_folders(where: Where) -> list[Path]:
    """The `User` folders of VS Code and of its Insiders build."""
    return [application_data(where) / name / "User" for name in ("Code", "Code - Insiders")]
