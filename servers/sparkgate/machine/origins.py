"""Host and port of a URL, with one name for this machine."""

from __future__ import annotations

import platform
import re
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from sparkgate.machine.files import text_of

THIS_MACHINE = "localhost"
_HOST_ALIASES = ("docker", "containers", "k3d", "minikube", "lima")
LOCAL_NAMES = frozenset(
    {"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"}
    | {f"host.{name}.internal" for name in _HOST_ALIASES}
)
"""Names of this machine, also those by which a container or a small cluster on it reaches it."""
PORTS = {"http": 80, "https": 443}


def origin(url: str) -> tuple[str, int]:
    """(host, port) of a URL, this machine always as "localhost"; ("", 0) when it is none."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
    except (ValueError, KeyError):
        return "", 0
    host = (parts.hostname or "").lower()
    return (THIS_MACHINE if _is_here(host) else host), port


def _is_here(host: str) -> bool:
    """By a name of this machine, a loopback address, or one of its own; names are not looked up."""
    name = host.removesuffix(".")
    if name in LOCAL_NAMES or name.endswith(".localhost") or name == platform.node().lower():
        return True
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    plain = getattr(address, "ipv4_mapped", None) or address
    return plain.is_loopback or plain.is_unspecified or str(plain) in own_addresses()


def own_addresses(proc: Path = Path("/proc")) -> frozenset[str]:
    """IP addresses of this machine's own interfaces (`/proc/net/fib_trie`, `/proc/net/if_inet6`)."""
    four, six = text_of(proc / "net/fib_trie"), text_of(proc / "net/if_inet6")
    local = re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", four)
    return frozenset([*local, *(str(ip_address(bytes.fromhex(row.split()[0]))) for row in six.splitlines() if row)])


def local_port(url: str) -> int | None:
    """The port of a URL on this machine; None for another machine's."""
    host, port = origin(url)
    return port if host == THIS_MACHINE else None
