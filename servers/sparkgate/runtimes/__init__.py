"""Who may own an engine's process, one file each."""

from __future__ import annotations

from collections.abc import Callable

from sparkgate.runtimes.daemon import DaemonRuntime
from sparkgate.runtimes.docker import DockerRuntime
from sparkgate.runtimes.kubernetes import KubernetesRuntime
from sparkgate.runtimes.process import ProcessRuntime
from sparkgate.runtimes.sparkrun import SparkrunRuntime
from sparkgate.runtimes.spec import Place, Runtime
from sparkgate.runtimes.systemd import SystemdRuntime

RUNTIMES: dict[str, Callable[[Place], Runtime]] = {
    "process": ProcessRuntime,
    "docker": DockerRuntime,
    "systemd": SystemdRuntime,
    "kubernetes": KubernetesRuntime,
    "sparkrun": SparkrunRuntime,
    "daemon": DaemonRuntime,
}
"""Name in the catalogue → what makes the runtime of one engine."""
