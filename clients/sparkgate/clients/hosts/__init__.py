"""The hosts sparkgate knows, one file each."""

from __future__ import annotations

from sparkgate.clients.hosts.entry import Host
from sparkgate.clients.hosts.hermes import HERMES
from sparkgate.clients.hosts.openclaw import OPENCLAW

HOSTS: dict[str, Host] = {host.name: host for host in (HERMES, OPENCLAW)}
