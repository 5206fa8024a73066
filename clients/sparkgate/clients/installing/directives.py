"""The units of the gate as data: each directive with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

USERS_GROUP = "sparkgate-users"
"""Who is in it comes as far as the socket of the machine's gate; `[access]` says to what."""


@dataclass(frozen=True, slots=True)
class Directive:
    """One line of a unit; `$NAME` in the value stands for what the plan fills in."""

    name: str
    value: str
    why: str = ""


Unit = Mapping[str, Sequence[Directive]]
"""Section → its directives."""


def rendered(unit: Unit, values: Mapping[str, str]) -> str:
    """The text of a unit file."""
    lines = ["# Written by `sparkgate gate install`, which writes it anew; changes of yours belong in a drop-in."]
    for section, directives in unit.items():
        lines += ["", f"[{section}]"]
        for one in directives:
            lines += [f"# {one.why}"] if one.why else []
            lines.append(f"{one.name}={filled(one.value, values)}")
    return "\n".join(lines) + "\n"


def filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"${name}", value)
    return text


def with_environment(unit: Unit, given: Mapping[str, str]) -> Unit:
    """A service with these variables."""
    more = [Directive("Environment", quoted(f"{name}={value}")) for name, value in given.items()]
    return {**unit, "Service": (*more, *unit["Service"])}


def quoted(word: str) -> str:
    """A word as units take it (systemd.syntax(7)), without specifiers and escapes of its own."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{plain}"'


def in_command(word: str) -> str:
    """The same in ExecStart, which also knows variables (systemd.service(5))."""
    return quoted(word.replace("$", "$$"))


_COMMON = (
    Directive("Type", "exec"),
    Directive("Restart", "on-failure", "A gate that ends because nobody needs it is started by the next connection."),
    Directive("RestartSec", "1"),
    Directive("TimeoutStopSec", "45", "Calls that run get 30 s to end."),
    Directive("UMask", "0077"),
    Directive("LimitCORE", "0", "What a query held, and what was withheld from it, would stand in a core file."),
    Directive("LimitNOFILE", "4096"),
    Directive("NoNewPrivileges", "yes"),
)

SYSTEM_SERVICE: Unit = {
    "Unit": (
        Directive("Description", "The gate of sparkgate: policy and log before anything of an agent leaves"),
        Directive("Requires", "$SERVICE.socket"),
        Directive("After", "$SERVICE.socket network.target"),
    ),
    "Service": (
        Directive("ExecStart", "$PYTHON -I -m sparkgate.gate --system"),
        *_COMMON,
        Directive("User", "$ACCOUNT"),
        Directive("Group", "$ACCOUNT"),
        Directive("KillMode", "mixed", "Its own processes end with it; the gate asks them first."),
        Directive("OOMPolicy", "continue", "A page that takes too much memory ends its own process and not the gate."),
        Directive(
            "MemoryMax",
            "2G",
            "The gate takes 0.11 GB, each process that reads a page at most 0.7 GB, a benchmark's clients 0.2 GB.",
        ),
        Directive("TasksMax", "512"),
        Directive("StateDirectory", "sparkgate"),
        Directive("StateDirectoryMode", "0700"),
        Directive("ConfigurationDirectory", "sparkgate"),
        Directive("ConfigurationDirectoryMode", "0751"),
        Directive("ProtectSystem", "strict"),
        Directive(
            "ProtectHome", "yes", "Files of users that the gate must read (known_files, weights) need a drop-in."
        ),
        Directive("PrivateTmp", "yes"),
        Directive("PrivateMounts", "yes"),
        Directive("DevicePolicy", "closed", "PrivateDevices would hide the GPU from nvidia-smi."),
        Directive("DeviceAllow", "char-nvidia rw"),
        Directive("DeviceAllow", "char-nvidia-frontend rw"),
        Directive("DeviceAllow", "char-nvidia-uvm rw"),
        Directive("DeviceAllow", "char-nvidia-caps rw"),
        Directive("ProtectKernelTunables", "yes"),
        Directive("ProtectKernelModules", "yes"),
        Directive("ProtectKernelLogs", "yes"),
        Directive("ProtectControlGroups", "yes"),
        Directive("ProtectClock", "yes"),
        Directive("ProtectHostname", "yes"),
        Directive("ProtectProc", "default", "Engines are found by their processes, which are other users'."),
        Directive("PrivateUsers", "no", "The kernel would name every user of the socket nobody."),
        Directive("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6"),
        Directive("RestrictNamespaces", "yes"),
        Directive("RestrictRealtime", "yes"),
        Directive("RestrictSUIDSGID", "yes"),
        Directive("LockPersonality", "yes"),
        Directive("MemoryDenyWriteExecute", "yes"),
        Directive("RemoveIPC", "yes"),
        Directive("KeyringMode", "private"),
        Directive("CapabilityBoundingSet", ""),
        Directive("AmbientCapabilities", ""),
        Directive("SystemCallArchitectures", "native"),
        Directive("SystemCallFilter", "@system-service"),
        Directive("SystemCallFilter", "~@privileged"),
        Directive("SystemCallErrorNumber", "EPERM"),
    ),
}
SYSTEM_SOCKET: Unit = {
    "Unit": (Directive("Description", "Where agents of this machine reach the gate of sparkgate"),),
    "Socket": (
        Directive("ListenStream", "$SOCKET"),
        Directive("SocketUser", "root", "Nobody but root can put another socket in its place."),
        Directive("SocketGroup", USERS_GROUP),
        Directive("SocketMode", "0660"),
        Directive("DirectoryMode", "0755"),
        Directive("Backlog", "128"),
        Directive("RemoveOnStop", "yes"),
    ),
    "Install": (Directive("WantedBy", "sockets.target"),),
}
USER_SERVICE: Unit = {
    "Unit": (
        Directive("Description", "The gate of sparkgate of this user"),
        Directive("Requires", "$SERVICE.socket"),
        Directive("After", "$SERVICE.socket"),
    ),
    "Service": (
        Directive("ExecStart", "$PYTHON -I -m sparkgate.gate --config $CONFIG"),
        *_COMMON,
        Directive("KillMode", "process", "Engines that it started go on."),
    ),
}
USER_SOCKET: Unit = {
    "Unit": (Directive("Description", "Where this user's agents reach the gate of sparkgate"),),
    "Socket": (
        Directive("ListenStream", "$SOCKET"),
        Directive("SocketMode", "0600"),
        Directive("DirectoryMode", "0700"),
        Directive("Backlog", "128"),
        Directive("RemoveOnStop", "yes"),
    ),
    "Install": (Directive("WantedBy", "sockets.target"),),
}
SYSUSERS = f"""# Written by `sparkgate gate install`: the account of the gate, and the group of who may ask it.
g {USERS_GROUP} -
u sparkgate - "gate of sparkgate" /var/lib/sparkgate /usr/sbin/nologin
"""
FIRST_CONFIG = f"""# The gate of this machine. `sudo sparkgate config` shows every setting; README, "A gate of its own".
# Who is in the group {USERS_GROUP} comes as far as its socket, and may use what stands here:
#
# [access.users]
# alice = ["search", "engine", "models"]
# [access.groups]
# agents = ["search"]
"""
FIRST_TERMS = """# Names that never leave, as README, "The policy", tells: [[term]] tables with a name.
"""
