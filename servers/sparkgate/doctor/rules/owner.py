"""Traps of owners: who starts an engine again, as whom it runs, what it may use, and who reaches it."""

from __future__ import annotations

import re

from sparkgate.doctor.evidence import Evidence
from sparkgate.doctor.rules.check import (
    Check,
    Find,
    either,
    log_says,
    option,
    variable_is,
    when,
    whole_option,
)
from sparkgate.runtimes.spec import Look

ROOT = ("", "0", "root", "0:0", "root:root", "0:root", "root:0")
KEY_OPTIONS = ("--api-key", "--api-key-file", "--api-keys", "--admin-api-key", "--auth-token")
KEY_VARIABLES = ("VLLM_API_KEY", "LLAMA_API_KEY", "LLAMA_ARG_API_KEY", "SGLANG_API_KEY", "LITELLM_MASTER_KEY")
NODE_OPTIONS = ("--nnodes", "--num-nodes")
RDMA = {"devices": r"/dev/infiniband", "cap_add": r"\b(?:CAP_)?(?:IPC_LOCK|ALL)\b", "ulimits": r"\bmemlock=-1"}
"""Trait of a container → what it must hold so that nodes reach each other's memory."""
SMALL_SHM = re.compile(r"\d+K|\d{1,3}M")
_DEVELOPER = re.compile(r"1|true", re.IGNORECASE)


def in_docker(look: Look | None) -> bool:
    return look is not None and "image_id" in look.traits


def strategy(evidence: Evidence) -> str:
    found = evidence.traits.get("strategy", "Recreate")
    return f"the strategy of its Deployment is {found}" if found != "Recreate" else ""


def spans_nodes(evidence: Evidence) -> bool:
    return any((whole_option(evidence, name) or 0) > 1 for name in NODE_OPTIONS)


def rdma_missing(evidence: Evidence) -> str:
    if not in_docker(evidence.look) or evidence.traits.get("privileged") == "true":
        return ""
    missing = [name for name, wanted in RDMA.items() if not re.search(wanted, evidence.traits.get(name, ""))]
    return f"its container lacks {', '.join(missing)}" if missing else ""


def files_of_root(evidence: Evidence) -> str:
    """It runs as root in a container, and another engine, which may read the same files, does not."""
    if not in_docker(evidence.look) or evidence.traits.get("user", "") not in ROOT:
        return ""
    others = [name for name, look in evidence.others.items() if _is_plain_user(look)]
    return f"its container runs as root, and {', '.join(others)} does not" if others else ""


def _is_plain_user(look: Look) -> bool:
    return look.traits.get("user", "") not in ROOT


def open_to_all(evidence: Evidence) -> str:
    """It listens on more than loopback, answers without a key, and was given none."""
    listener, state = evidence.listener, evidence.status.state
    if listener is None or not listener.public or state == "down" or _has_key(evidence):
        return ""
    developer = _DEVELOPER.fullmatch(evidence.environment.get("VLLM_SERVER_DEV_MODE", ""))
    more = ", with the routes for developers" if developer else ""
    return f"port {listener.port} is open to other machines, without a key{more}"


def _has_key(evidence: Evidence) -> bool:
    asked = any("wants a key" in warning for warning in evidence.status.warnings)
    given = any(option(evidence, name) is not None for name in KEY_OPTIONS)
    return asked or given or any(evidence.environment.get(name) for name in KEY_VARIABLES)


def revived(evidence: Evidence) -> str:
    by = evidence.look.revived_by if evidence.look else ""
    job = evidence.box.machine.watchdogs.get(evidence.name)
    found = [by] if by else []
    return ", ".join(found + ([f"CronJob {job}"] if job else []))


def small_shm(evidence: Evidence) -> str:
    size = evidence.traits.get("shm_size", "")
    small = SMALL_SHM.fullmatch(size) and evidence.traits.get("ipc") != "host"
    return f"/dev/shm of its container has {size}" if small else ""


def log_lost(evidence: Evidence) -> str:
    return "its container is removed when it ends" if evidence.traits.get("rm") == "true" else ""


def several_nodes(find: Find) -> Find:
    return when(spans_nodes, find)


CHECKS: tuple[Check[Evidence], ...] = (
    Check(
        "k8s.strategy",
        "warning",
        (),
        strategy,
        "A new pod starts before the old one has ended: it waits for the GPU for ever, or two models are loaded.",
        "Set spec.strategy.type of the Deployment to Recreate.",
    ),
    Check(
        "dist.debug",
        "warning",
        (),
        either(
            variable_is("TORCH_DISTRIBUTED_DEBUG", "detail"),
            log_says(r"detected mismatch between collectives"),
        ),
        "At this level PyTorch reports mismatches between nodes that are none, and ends a healthy job.",
        "Take TORCH_DISTRIBUTED_DEBUG out of the environment on every node.",
    ),
    Check(
        "rdma.missing",
        "warning",
        (),
        several_nodes(either(rdma_missing, log_says(r"net/ib : no device found|using network socket|via net/socket"))),
        "Without RDMA the nodes talk over plain sockets: nothing fails, and it is less than half as fast.",
        "Give the container --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1, and set NCCL_IB_HCA.",
    ),
    Check(
        "engine.root",
        "warning",
        (),
        files_of_root,
        "Files that it downloads belong to root, and the next engine that shares the folder cannot write there.",
        "Run both with the same user (--user), or give each its own cache; `chown` what there is already.",
    ),
    Check(
        "bind.public",
        "warning",
        (),
        open_to_all,
        "Anybody on the network may use it, and with some engines load models or run code.",
        "Let it listen on 127.0.0.1 (with docker `-p 127.0.0.1:PORT:PORT`), or give it a key.",
    ),
    Check(
        "watchdog",
        "warning",
        (),
        revived,
        "It comes back by itself after it has been stopped, possibly beside the engine that took its place.",
        "Suspend that while engines are changed, or take it away.",
    ),
    Check(
        "docker.shm",
        "warning",
        ("vllm", "sglang", "trtllm", "nim"),
        small_shm,
        "Its processes share memory through /dev/shm, and end with obscure errors when that is too small.",
        "Start the container with --ipc=host, or with --shm-size=16g.",
    ),
    Check(
        "docker.log_lost",
        "info",
        (),
        log_lost,
        "When it crashes, its log is gone with it, and nobody can tell why.",
        "Leave --rm out (--no-rm with sparkrun).",
    ),
)
