"""Traps of memory: reserves nobody expects, second copies, and caches that never hit."""

from __future__ import annotations

import re

from sparkgate.doctor.evidence import Evidence
from sparkgate.doctor.rules.check import (
    Check,
    both,
    either,
    flag_given,
    is_up,
    knows_flags,
    log_says,
    metric,
    number_in_log,
    option,
    shares_memory,
    variable_missing,
    when,
    whole_option,
    words,
)

SURPRISE_GIB = 10.0
OVERRESERVED = 5.0
LAZY_SHARE = 0.5
ATLAS_SHARE = 0.9
MISSED_TOKENS = 2000


def util_surprise(evidence: Evidence) -> str:
    if option(evidence, "--kv-cache-memory-bytes") is not None:
        return ""
    guess = number_in_log(evidence, r"estimated cuda graph memory: (-\d+(?:\.\d+)?)")
    if guess is not None:
        return f"it estimated {guess:.1f} GiB for its CUDA graphs"
    weights = number_in_log(evidence, r"model loading took (\d+(?:\.\d+)?) gi?b")
    cache = number_in_log(evidence, r"available kv cache memory: (\d+(?:\.\d+)?) gib")
    held = evidence.held.gib
    if weights is None or cache is None or held is None or held - weights - cache <= SURPRISE_GIB:
        return ""
    return f"it holds {held:.1f} GiB, of which weights and KV cache are {weights + cache:.1f} GiB"


def sglang_reserve(evidence: Evidence) -> str:
    cache = metric(evidence, "sglang:kv_cache_memory_usage_gb")
    weights = metric(evidence, "sglang:weight_memory_usage_gb")
    if not cache or not weights:
        weights = number_in_log(evidence, r"load weight end.*mem usage=(\d+(?:\.\d+)?) gb")
        halves = [
            number_in_log(evidence, rf"kv cache is allocated.*\b{half} size: (\d+(?:\.\d+)?) gb") for half in "kv"
        ]
        cache = sum(half or 0.0 for half in halves)
    return _reserve(cache, weights)


def llmd_reserve(evidence: Evidence) -> str:
    cache = number_in_log(evidence, r"pages for the kvcache: (\d+(?:\.\d+)?)gib")
    return _reserve(cache, number_in_log(evidence, r"loaded weights \[(\d+(?:\.\d+)?)gib"))


def _reserve(cache: float | None, weights: float | None) -> str:
    too_much = cache and weights and cache > OVERRESERVED * weights
    return f"{cache:.1f} GiB of KV cache beside {weights:.1f} GiB of weights" if too_much else ""


def lazy_cache(evidence: Evidence) -> str:
    """It holds far less than it may take, or nothing in its command keeps a rest free."""
    share, total, held = option(evidence, "--gpu-memory-utilization"), evidence.memory.total_gib, evidence.held.gib
    if option(evidence, "--oom-guard-mb") is not None:
        return ""
    may_gib = (
        total * (float(share) if share and re.fullmatch(r"0?\.\d{1,4}", share) else ATLAS_SHARE) if total else None
    )
    if may_gib and held is not None and held < LAZY_SHARE * may_gib:
        return f"it holds {held:.1f} GiB now, and may grow to {may_gib:.1f} GiB"
    return "its command has no --oom-guard-mb" if knows_flags(evidence) else ""


def has_lmcache(evidence: Evidence) -> str:
    return "LMCache is on" if re.search(r"lmcache", " ".join(words(evidence)), re.IGNORECASE) else ""


def no_external_hits(evidence: Evidence) -> str:
    queries = metric(evidence, "vllm:external_prefix_cache_queries_total") or 0
    hits = metric(evidence, "vllm:external_prefix_cache_hits_total")
    return f"{queries:.0f} tokens were looked for, and none was found" if queries >= MISSED_TOKENS and not hits else ""


def lost_index(evidence: Evidence) -> str:
    """A store on disk, and a start after which nothing of it is found."""
    file = evidence.pages.get("LMCACHE_CONFIG_FILE", "")
    on_disk = (
        "LMCACHE_LOCAL_DISK" in evidence.environment
        or re.search(r"^\s*local_disk:\s*[\"']?(?!null|~|[\"'])\S", file, re.MULTILINE)
        or log_says(r"local_?disk(?:backend|[\"']?:\s*[\"'])")(evidence)
    )
    restarts = evidence.look.restarts if evidence.look else None
    if not on_disk or not (restarts or no_external_hits(evidence)):
        return ""
    return (
        f"it stores on disk, and was started again {restarts} times"
        if restarts
        else "it stores on disk, and finds nothing"
    )


def several_loaded(evidence: Evidence) -> str:
    return f"OLLAMA_MAX_LOADED_MODELS is not 1{_loaded(evidence)}" if _may_load_several(evidence) else ""


def _may_load_several(evidence: Evidence) -> bool:
    return bool(evidence.look and evidence.look.environment) and (
        evidence.environment.get("OLLAMA_MAX_LOADED_MODELS") != "1"
    )


def _loaded(evidence: Evidence) -> str:
    count = sum(1 for one in evidence.status.models or () if one.loaded)
    return f"; {count} are loaded" if count > 1 else ""


def router_copies(evidence: Evidence) -> str:
    most = whole_option(evidence, "--models-max")
    if most == 1 or not knows_flags(evidence):
        return ""
    return f"it keeps up to {most if most is not None else 4} models loaded{_loaded(evidence)}"


CHECKS: tuple[Check[Evidence], ...] = (
    Check(
        "vllm.util_surprise",
        "warning",
        ("vllm",),
        util_surprise,
        "--gpu-memory-utilization is what it plans with at its start, and no limit: it may hold far more.",
        "Set --kv-cache-memory-bytes instead: then the cache has this size, whatever the estimate says.",
    ),
    Check(
        "sglang.overreserve",
        "warning",
        ("sglang",),
        when(shares_memory, sglang_reserve),
        "--mem-fraction-static is a share of all memory, which the system and other programs need as well.",
        "Lower --mem-fraction-static until the cache has room for the requests that run at the same time.",
    ),
    Check(
        "zml.overreserve",
        "warning",
        ("llmd",),
        when(shares_memory, llmd_reserve),
        "--gpu-memory-fraction is a share of the whole machine, not of what the model needs.",
        "Lower --gpu-memory-fraction; one user needs a cache of a few GiB.",
    ),
    Check(
        "atlas.lazy_kv",
        "warning",
        ("atlas",),
        when(is_up, lazy_cache),
        "Atlas takes memory for its cache as requests come: it may run out of memory long after its start.",
        "Leave room for all it may take, and set --oom-guard-mb.",
    ),
    Check(
        "lmcache.hashseed",
        "error",
        ("vllm",),
        either(
            log_says(r"without pythonhashseed set|could not load 'builtin' from vllm"),
            both(has_lmcache, variable_missing("PYTHONHASHSEED")),
        ),
        "Without a fixed seed each process hashes in another way, so that the cache never hits across processes.",
        "Start it with PYTHONHASHSEED=0 in its environment, on every node.",
    ),
    Check(
        "lmcache.no_hits",
        "warning",
        ("vllm",),
        no_external_hits,
        "The external cache costs memory and time, and gives nothing back.",
        "Send one long prompt twice; when nothing is found then, check PYTHONHASHSEED, or take it out.",
    ),
    Check(
        "lmcache.disk_restart",
        "info",
        ("vllm",),
        both(has_lmcache, lost_index),
        "The index of the store on disk lives in memory: after a restart nothing that was stored before is found.",
        "Do not count on the disk across restarts, and empty its folder when it grows.",
    ),
    Check(
        "sleep.uma",
        "warning",
        ("vllm",),
        when(
            shares_memory,
            either(
                flag_given("--enable-sleep-mode"),
                lambda evidence: "it sleeps" if evidence.status.state == "sleeping" else "",
            ),
        ),
        "Sleep at level 1 moves the weights into CPU memory, which is the same memory here: little comes back.",
        "Stop it to free memory; sleep level 2 needs its weights loaded anew after it wakes.",
    ),
    Check(
        "ollama.copies",
        "info",
        ("ollama",),
        several_loaded,
        "Ollama keeps several models loaded when it thinks that there is room.",
        "Set OLLAMA_MAX_LOADED_MODELS=1 for the service.",
    ),
    Check(
        "llamacpp_router.copies",
        "warning",
        ("llamacpp-router",),
        router_copies,
        "The router counts models and not memory: one too many ends with an error, or stops the machine.",
        "Start it with --models-max 1.",
    ),
)
