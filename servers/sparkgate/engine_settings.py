"""The settings of engines: one table for each, and one for how they are changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sparkgate.setting import setting


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """One `[engines.NAME]` table: an engine the operator lets agents see, by this name only."""

    engine: str = setting("", "Which engine answers there; `sparkgate engine kinds` lists them. Empty: find out.")
    url: str = setting("", "Base URL of the engine.", unit="URL")
    timeout_s: float = setting(3.0, "Longest wait for one of its answers.", unit="s", low=0.1, high=60)
    key_file: str = setting("", "File that holds the key it wants (sent as a bearer token to this URL alone).")
    runtime: str = setting("", "Who owns its process; empty: it is only watched and measured.")
    unit: str = setting("", "Its name with the owner: container, systemd unit, namespace/deployment, recipe.")
    command: tuple[str, ...] = setting((), "What starts it, word by word; never read by a shell.")
    environment: tuple[str, ...] = setting((), "NAME=VALUE words for a started process.")
    folder: str = setting("", "Folder it is started in; empty: the home folder.")
    model: str = setting("", "Id of the model it must serve; a daemon is asked to load it.")
    context: int = setting(0, "Context one request must have; 0: any.", unit="tokens", low=0, high=100_000_000)
    weights: str = setting("", "File or folder of its weights, for the memory it needs.")
    memory_gib: float = setting(
        0.0,
        "Memory it holds when ready; 0: learnt from earlier loads, or from the weights.",
        unit="GiB",
        low=0,
        high=1e6,
    )
    beside: bool = setting(False, "It may run while another engine runs (a small embedding model, say).")
    protect: bool = setting(False, "An agent lives on it: it is stopped only by a plan that a person confirmed.")
    chat: bool = setting(True, "It answers chat requests; one is sent as proof when it has been loaded.")
    allow_cpu: bool = setting(False, "It may compute on the CPU although there is a GPU.")
    patience_s: float = setting(
        0.0, "Longest wait until it is ready; 0: what is usual for its engine.", unit="s", low=0, high=86_400
    )
    stays_home: bool = setting(
        True,
        "A confined agent that asks through this router gets no answer from off this box; false writes that down only.",
    )
    home: tuple[str, ...] = setting(
        (), "Where else this router may send a confined agent's requests: origins such as vllm.svc:8000."
    )
    stop_grace_s: float = setting(30.0, "Seconds between asking it to end and killing it.", unit="s", low=0, high=3600)

    @property
    def base(self) -> str:
        """Its URL without the `/v1` that clients of the OpenAI protocol add, ready for a path."""
        return self.url.rstrip("/").removesuffix("/v1")

    @property
    def resident(self) -> bool:
        """Whether its process stays up while its model comes and goes by request."""
        return self.runtime == "daemon"


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """How engines are loaded, swapped and unloaded."""

    lock: str = setting(
        "engines", "Engines are changed by one gate of this machine at a time; gates with one lock name wait."
    )
    headroom_gib: float = setting(
        8.0,
        "Memory that must stay free beside a loaded engine, but no more than a tenth of all.",
        unit="GiB",
        low=0,
        high=1000,
    )
    pressure_max_percent: float = setting(
        10.0,
        "Nothing is loaded while everything waits for memory for more of the time than this.",
        unit="%",
        low=0,
        high=100,
    )
    drain_s: float = setting(
        30.0, "Longest wait for running requests before an engine is stopped.", unit="s", low=0, high=3600
    )
    release_s: float = setting(
        60.0, "Longest wait for memory and port of a stopped engine.", unit="s", low=1, high=3600
    )
    stall_s: float = setting(
        300.0, "A loading engine that prints nothing for so long has failed.", unit="s", low=1, high=86_400
    )
    allow_cloud_fallback: bool = setting(
        False, "Change engines although a router sends their requests off this box meanwhile."
    )
    off_box: tuple[str, ...] = setting(
        (), "Origins such as 127.0.0.1:9000 that lead off this box although they look local (a tunnel, say)."
    )
    plan_minutes: float = setting(15.0, "How long a confirmed plan is good for.", unit="min", low=0.1, high=1440)
    confirm_minutes: float = setting(
        5.0,
        "A protected engine comes back unless its replacement has answered its host within this time.",
        unit="min",
        low=0.05,
        high=1440,
    )


NEEDS = {
    "process": ("command",),
    "docker": ("unit",),
    "systemd": ("unit",),
    "kubernetes": ("unit",),
    "sparkrun": ("unit",),
    "daemon": ("engine", "model"),
}
"""Runtime → what its table must have."""


def mistakes(entry: EngineSettings, engines: Collection[str]) -> Iterator[tuple[str, str]]:
    """(key, what is wrong with it) of one table; `engines` are the known ones."""
    if not entry.url:
        yield "", "needs a url"
    if entry.engine and entry.engine not in engines:
        yield "engine", "unknown engine"
    if entry.runtime and entry.runtime not in NEEDS:
        yield "runtime", "unknown runtime"
    for key in NEEDS.get(entry.runtime, ()):
        if not getattr(entry, key):
            yield key, f'runtime = "{entry.runtime}" needs {key}'
    for word in entry.environment:
        if "=" not in word[1:]:
            yield "environment", "every word of environment must be NAME=VALUE"
