"""A plan as the command line of bubblewrap (bwrap(1), run with 0.8)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparkgate.confine.plan import CLOSED_PROC, Mount, Plan, to_close

PROGRAM = "bwrap"
NAMESPACES = (
    "--unshare-user",
    "--unshare-net",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
)
"""Of these only the one of control groups may be missing in a kernel; it hides a name and closes nothing."""


def bwrap_argv(program: str, plan: Plan, command: Sequence[str], low_ports: bool) -> list[str]:
    """The command line that runs `command` in the view of `plan`, without a network and without capabilities.

    With `low_ports` it keeps the one that listening below port 1024 needs, in a network that is its own.
    """
    kept = ("--cap-add", "CAP_NET_BIND_SERVICE") if low_ports else ()
    places = [word for mount in plan.mounts for word in _words(mount)]
    closed = [word for mount in to_close(plan.mounts) for word in ("--remount-ro", mount.target)]
    return [
        *(program, *NAMESPACES, "--as-pid-1", "--die-with-parent", "--cap-drop", "ALL", *kept),
        *places,
        *closed,
        *("--chdir", plan.folder, "--", *command),
    ]


def _words(mount: Mount) -> tuple[str, ...]:
    match mount.kind:
        case "show":
            return ("--ro-bind-try" if mount.optional else "--ro-bind", mount.source, mount.target)
        case "write":
            return ("--bind", mount.source, mount.target)
        case "hide":
            return ("--ro-bind", "/dev/null", mount.target) if mount.is_file else ("--tmpfs", mount.target)
        case "link":
            return ("--symlink", mount.source, mount.target)
        case "fresh":
            return ("--tmpfs", mount.target)
        case "proc":
            closed = [f"/proc/{name}" for name in CLOSED_PROC if Path(f"/proc/{name}").exists()]
            return ("--proc", mount.target, *(word for path in closed for word in ("--ro-bind", path, path)))
        case "dev":
            return ("--dev", mount.target)
