"""Ways to somewhere else: sockets of every family. The addresses are canaries, or those that nobody has."""

from __future__ import annotations

import os
import socket
from functools import partial
from pathlib import Path

from sparkgate.clients.attacking.attempt import Attack, NotTried, Reach, first_open

NOWHERE_4, NOWHERE_6 = "192.0.2.1", "2001:db8::1"
"""RFC 5737 and RFC 3849. Nothing is sent there: to connect a datagram socket only asks whether there is a way."""
WAIT_S = 2.0
NETLINK_KOBJECT_UEVENT = 15
AF_VSOCK, AF_ALG = 40, 38
"""socket(2); Python has the names only where it was built with them."""
SERVICES = (
    *("/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/snapd.socket"),
    *("/run/dbus/system_bus_socket", "/run/systemd/private", "/run/user/{uid}/bus", "/run/user/{uid}/docker.sock"),
    *("/run/user/{uid}/podman/podman.sock", "/run/user/{uid}/gnupg/S.gpg-agent", "/tmp/.X11-unix/X0"),
)
NO_SERVICE = "none of the usual services is in sight"


def _tcp(host: str, port: int) -> None:
    socket.create_connection((host, port), timeout=WAIT_S).close()


def _ipv6_local(reach: Reach) -> None:
    if not reach.targets.tcp6:
        raise NotTried("this machine has no IPv6")
    _tcp("::1", reach.targets.tcp6)


def _way(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect((address, 9))


def _datagram(reach: Reach) -> None:
    """Where nobody listens, the kernel says so at once on the same machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(WAIT_S)
        sender.connect(("127.0.0.1", reach.targets.udp))
        sender.send(b"?")
        sender.send(b"?")


def _name(_: Reach) -> None:
    """A name that nobody has (RFC 2606): a server of names that can be asked says so; else none could be asked."""
    if "nameserver" not in _text("/etc/resolv.conf"):
        raise ConnectionError(0, "there is no server of names")
    try:
        socket.getaddrinfo("sparkgate-attack.invalid", 443)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise ConnectionError(0, "no server of names can be asked") from error


def _made(family: int, kind: int, protocol: int = 0) -> None:
    socket.socket(family, kind, protocol).close()


def _ping(_: Reach) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as asking:
        asking.connect((NOWHERE_4, 0))


def _unix(address: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(WAIT_S)
        link.connect(address)


def _foreign(reach: Reach) -> None:
    """By its name in its folder, as its path may be too long for an address."""
    before = os.getcwd()
    os.chdir(os.path.dirname(reach.targets.path))
    try:
        _unix(os.path.basename(reach.targets.path))
    finally:
        os.chdir(before)


def _services(_: Reach) -> None:
    there = [path for one in SERVICES if os.path.exists(path := one.format(uid=os.getuid()))]
    there += [path for path in (os.environ.get("SSH_AUTH_SOCK", ""),) if path and os.path.exists(path)]
    if not there:
        raise FileNotFoundError(0, NO_SERVICE)
    first_open([partial(_unix, path) for path in there])


def _datagrams_by_name(_: Reach) -> None:
    for one in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM):
        one.close()


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


ATTACKS = (
    Attack("tcp", "TCP to a server of this machine that runs outside", lambda at: _tcp("127.0.0.1", at.targets.tcp)),
    Attack("tcp_web", "a way to an address of the web", lambda at: _way(socket.AF_INET, NOWHERE_4)),
    Attack("udp", "UDP to a program of this machine that runs outside", _datagram),
    Attack("ipv6", "a way to an address of the web by IPv6", lambda at: _way(socket.AF_INET6, NOWHERE_6)),
    Attack("ipv6_local", "IPv6 to a server of this machine that runs outside", _ipv6_local),
    Attack("dns", "asking a server of names, which carries text out as names", _name),
    Attack("icmp", "a ping, which carries text out", _ping),
    Attack("raw", "raw packets", lambda at: _made(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)),
    Attack("packet", "frames of the network card", lambda at: _made(17, socket.SOCK_RAW, 3)),
    Attack("vsock", "machine sockets, which no network namespace holds", lambda _: _made(AF_VSOCK, 1)),
    Attack("netlink", "news of devices from the kernel", lambda at: _made(16, socket.SOCK_RAW, NETLINK_KOBJECT_UEVENT)),
    Attack("kernel_crypto", "the kernel's cipher sockets", lambda at: _made(AF_ALG, socket.SOCK_SEQPACKET)),
    Attack(
        "abstract_socket", "an abstract Unix socket of a program outside", lambda at: _unix(f"\0{at.targets.abstract}")
    ),
    Attack("foreign_socket", "a Unix socket of a program outside that is in sight", _foreign),
    Attack("services", "docker, D-Bus, systemd, the agents of ssh and gpg, X11", _services),
    Attack("unix_datagrams", "Unix datagrams, which name their target without connect", _datagrams_by_name),
)
