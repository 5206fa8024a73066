"""How changes of hosts' files look to people."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from sparkgate import paths
from sparkgate.clients.output import console
from sparkgate.clients.registering.report import Report

COLOURS = {
    "add": "green",
    "update": "green",
    "remove": "green",
    "keep": "yellow",
    "refuse": "red",
    "edited": "yellow",
    "outdated": "yellow",
    "missing": "red",
    "dead": "red",
    "foreign": "red",
}
DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def short(path: str) -> str:
    """A path with ~ for the home folder."""
    home = Path(paths.home())
    return f"~/{Path(path).relative_to(home)}" if Path(path).is_relative_to(home) else path


def show_plan(report: Report) -> None:
    """What happens to one file, and why some of it does not."""
    out = console()
    profile = f" ({report.profile})" if report.profile else ""
    out.print(Text.assemble((f"{report.title}{profile}", "bold"), f"  {short(report.file)}"), soft_wrap=True)
    for name, action in report.servers.items():
        out.print(Text.assemble(f"  {name:<12} ", (action, COLOURS.get(action, ""))))
    for sentence in report.why:
        out.print(Text(f"  {sentence}", style="red" if report.failed else "yellow"), soft_wrap=True)
    _show_doors(out, report)
    for line in report.diff.splitlines():
        out.print(Text(line, style=DIFF_COLOURS.get(line[:1], "")), soft_wrap=True)


def _show_doors(out: Console, report: Report) -> None:
    """Doors that nobody's file closes are told in one line."""
    for door in report.doors:
        if not door["confine"]:
            way_out = f" Way out: {door['way_out']}." if door["state"] == "open" else ""
            said = f" {door['state']}: {door['what']}{way_out}"
            out.print(Text.assemble("  door ", (door["code"], "yellow"), said), soft_wrap=True)
    if confined := [door["code"] for door in report.doors if door["confine"]]:
        out.print(
            Text(f"  only confinement of the host closes: {', '.join(confined)} (sparkgate confine)", style="dim"),
            soft_wrap=True,
        )


def show_result(report: Report) -> None:
    """How it went."""
    out = console()
    if report.failed:
        for sentence in report.why:
            out.print(Text(f"  {sentence}", style="red"), soft_wrap=True)
        return
    copy = f"; as it was: {short(report.backup)}" if report.backup else ""
    said = "written" if report.changed else "nothing to change any more"
    out.print(Text(f"  {said}{copy}", style="green"), soft_wrap=True)
    if report.after:
        out.print(Text(f"  {report.after}"), soft_wrap=True)
