"""Traps of what an engine serves: the wrong one, too slowly, with too little context, or not at all."""

from __future__ import annotations

import re

from sparkgate.doctor.evidence import Evidence
from sparkgate.doctor.rules.check import (
    Check,
    either,
    flag_given,
    gauge,
    is_up,
    last_line,
    log_says,
    option,
    variable_is,
    when,
    whole_option,
    words,
)

LLAMA = ("llamacpp", "llamacpp-router", "docker-model-runner")
COLD_S = 60.0
HERMES_CONTEXT = 65_536
"""Tokens that Hermes Agent wants at least."""
OLLAMA_CONTEXT = 4096
"""What Ollama serves when nothing asks for more on a small machine."""
VLLM_FOR_GB10 = (0, 25)
SEEN_TOKENS = 1000
ACCEPTED_LOW = 0.4
RANK_OPTIONS = ("--dist-init-addr", "--nccl-init-addr", "--master-addr", "--head-addr")
DRAFT_OPTIONS = re.compile(r"--spec[\w-]*|--num-drafts|--num-speculative[\w-]*")


def wedged(evidence: Evidence) -> str:
    return "it says it is ready, and did not generate one token" if evidence.status.state == "wedged" else ""


def stale_port(evidence: Evidence) -> str:
    """Another engine answers, or one answers although its owner has none."""
    wanted, found = evidence.entry.engine, evidence.status
    if found.state in ("down", "unknown"):
        return ""
    if wanted and wanted != "openai" and found.engine != wanted:
        return f"the catalogue says {wanted}, and {found.engine} answers at its URL"
    owned = None if evidence.entry.resident else evidence.look
    if owned and owned.state in ("stopped", "failed") and not owned.pids:
        return f"its owner says it is {owned.state}, and {found.engine} answers at its URL"
    return ""


def old_release(evidence: Evidence) -> str:
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})", evidence.status.version or "")
    old = found is not None and (int(found[1]), int(found[2])) < VLLM_FOR_GB10
    return f"its release is {evidence.status.version}" if old and evidence.memory.unified else ""


def cold(evidence: Evidence) -> str:
    generated = gauge(evidence, "generated_tokens")
    since_s = evidence.look.since_s if evidence.look else None
    if generated == 0:
        return "it had generated no token since its start when it was looked at"
    young = since_s is not None and evidence.now_s - since_s < COLD_S
    return f"it was started {evidence.now_s - (since_s or 0):.0f} s ago" if young and generated is None else ""


def layers_left_out(evidence: Evidence) -> str:
    found = last_line(evidence, r"offloaded (\d{1,5})/(\d{1,5}) layers")
    return f"offloaded {found[1]}/{found[2]} layers to the GPU" if found and int(found[1]) < int(found[2]) else ""


def shrunk_context(evidence: Evidence) -> str:
    wanted = whole_option(evidence, "--ctx-size", "-c", "--ctx")
    served, slots = evidence.model.context if evidence.model else None, slots_of(evidence)
    shrunk = wanted and served and slots and served * slots < wanted - slots * 256
    return f"its command asks for {wanted} tokens, and {slots} slots serve {served} each" if shrunk else ""


def slots_of(evidence: Evidence) -> int | None:
    found = re.search(r'"total_slots":\s*(\d{1,4})\b', evidence.pages.get("/props", ""))
    return int(found[1]) if found else None


def split_context(evidence: Evidence) -> str:
    slots, served = slots_of(evidence), evidence.model.context if evidence.model else None
    whole = whole_option(evidence, "--ctx-size", "-c", "--ctx")
    if not slots or slots < 2 or not served:
        return ""
    short = (
        served < evidence.entry.context if evidence.entry.context else whole is not None and served <= whole // slots
    )
    return f"{slots} slots, and one request has {served} tokens" if short else ""


def outside_gpu(evidence: Evidence) -> str:
    found = evidence.status.processor
    names = [one.id for one in evidence.status.models or () if one.gpu_share is not None and one.gpu_share < 1]
    return f"{', '.join(names)}: {found}" if found in ("cpu", "mixed") and not evidence.entry.allow_cpu else ""


def small_context(evidence: Evidence) -> str:
    """Less than the catalogue or Hermes wants, or less than Hermes is told."""
    served = evidence.model.context if evidence.model else None
    hermes = any(one.host == "Hermes" for one in evidence.hosts)
    wanted = max(evidence.entry.context, HERMES_CONTEXT if hermes else 0)
    if served is None:
        return ""
    if served < wanted:
        who = "the catalogue" if wanted == evidence.entry.context else "Hermes"
        return f"it serves {served} tokens of context, and {who} wants {wanted}"
    told = evidence.told_context or 0
    return f"it serves {served} tokens of context, and Hermes is told {told}" if told > served else ""


def default_context(evidence: Evidence) -> str:
    served = evidence.model.context if evidence.model else None
    unset = "OLLAMA_CONTEXT_LENGTH" not in evidence.environment
    return f"it serves {served} tokens of context" if served and served <= OLLAMA_CONTEXT and unset else ""


def few_accepted(evidence: Evidence) -> str:
    rate = gauge(evidence, "accept_rate")
    seen = gauge(evidence, "draft_tokens") or (gauge(evidence, "generated_tokens") if rate is not None else 0)
    low = rate is not None and (seen or 0) >= SEEN_TOKENS and rate < ACCEPTED_LOW
    return f"{100 * (rate or 0):.0f} % of its draft tokens are accepted" if low else ""


def ranks_differ(evidence: Evidence) -> str:
    """Another engine of the catalogue is a rank of the same job, and drafts in another way."""
    meeting = next((found for name in RANK_OPTIONS if (found := option(evidence, name))), None)
    for name, look in evidence.others.items() if meeting else ():
        other = Evidence(name, evidence.box.entries.get(name, evidence.entry), evidence.status, look)
        if meeting in words(other) and _drafting(other) != _drafting(evidence):
            odd = sorted({flag for flag, _ in _drafting(other) ^ _drafting(evidence)})
            return f"{', '.join(odd)} is not the same as with {name}"
    return ""


def _drafting(evidence: Evidence) -> frozenset[tuple[str, str]]:
    flags = {word for word in words(evidence) if DRAFT_OPTIONS.fullmatch(word)}
    return frozenset((flag, option(evidence, flag) or "") for flag in flags)


METRICS_OFF = when(
    lambda evidence: is_up(evidence) and not evidence.status.load, lambda evidence: "/metrics tells nothing"
)

CHECKS: tuple[Check[Evidence], ...] = (
    Check(
        "engine.wedged",
        "error",
        (),
        wedged,
        "Its health route answers 200 and nothing is generated: it is stuck, and may stay so for hours.",
        "Restart it through its owner, and let a watchdog ask for one token instead of the health route.",
    ),
    Check(
        "port.stale",
        "error",
        (),
        stale_port,
        "Something else has its port, most likely an old process, so that requests reach the wrong model.",
        "See with `ss -ltnp` who listens there, and stop it through its owner.",
    ),
    Check(
        "engine.old_image",
        "warning",
        ("vllm",),
        either(
            log_says(r"cap(?:ability)? 12\.0\b|\(\d+\.\d+\) - \(12\.0\)|maximum cuda capability.*\b12\.0\b"),
            old_release,
        ),
        "The image is older than the GPU (compute capability 12.1): kernels are compiled during the first requests.",
        "Use an image with vLLM 0.25 or later, and pin it by its digest instead of a tag.",
    ),
    Check(
        "engine.cold",
        "info",
        (),
        when(is_up, cold),
        "The first requests of an engine compile kernels and capture graphs, and take up to half a minute longer.",
        "Send a few requests of the usual length before anybody waits for it or measures it.",
    ),
    Check(
        "llamacpp.cpu_split",
        "error",
        LLAMA,
        when(
            lambda evidence: not evidence.entry.allow_cpu,
            either(layers_left_out, log_says(r"no usable gpu found|compiled without (?:gpu|cuda) support")),
        ),
        "The CPU computes part of the model, or all of it: it is several times slower than it could be.",
        "Make room in memory, set --n-gpu-layers to all layers, and check that the build is one for CUDA.",
    ),
    Check(
        "llamacpp.ctx_shrunk",
        "warning",
        ("llamacpp",),
        shrunk_context,
        "The context was made smaller until it fitted into free memory, and no request is told.",
        "Make room in memory, or ask for less; `--fit off` turns a start that does not fit into an error.",
    ),
    Check(
        "ollama.cpu",
        "error",
        ("ollama",),
        outside_gpu,
        "Part of the model lies outside GPU memory, and the CPU computes it.",
        "Unload other models, ask for less context, or take a smaller one; then look at `ollama ps`.",
    ),
    Check(
        "ollama.library",
        "warning",
        ("ollama",),
        variable_is("OLLAMA_LLM_LIBRARY", "cuda"),
        "There is no library of that name, so that everything is computed on the CPU.",
        "Take OLLAMA_LLM_LIBRARY out of its environment: Ollama finds the right library by itself.",
    ),
    Check(
        "ctx.hermes",
        "error",
        (),
        small_context,
        "Agents read the context from the engine: with too little of it they refuse to start, or lose their history.",
        "Start it with the context that is wanted; a larger number in the host's configuration alone changes nothing.",
    ),
    Check(
        "ctx.per_slot",
        "info",
        ("llamacpp",),
        split_context,
        "The context of --ctx-size is parted among the slots: one request has a part of it only.",
        "Set --parallel 1, multiply --ctx-size by the number of slots, or share it with --kv-unified.",
    ),
    Check(
        "context.truncating",
        "warning",
        ("ollama",),
        either(log_says(r"truncating input prompt"), default_context),
        "What is longer than the context is cut off at its front without an error: system prompt and tools go first.",
        "Set OLLAMA_CONTEXT_LENGTH for the service, or context in its table of config.toml.",
    ),
    Check(
        "spec.low_accept",
        "warning",
        (),
        few_accepted,
        "Most drafts are thrown away, so that speculative decoding costs more time than it saves.",
        "Draft fewer tokens, take another draft model, or turn speculative decoding off, and measure again.",
    ),
    Check(
        "spec.flags_per_node",
        "error",
        (),
        ranks_differ,
        "All nodes of one job must draft in the same way; otherwise they wait for each other, or answer nonsense.",
        "Give every node the same options for speculative decoding.",
    ),
    Check(
        "fp4.marlin_warning",
        "info",
        ("vllm", "sglang"),
        log_says(r"native support for fp4|no native fp4|fp4.*marlin|marlin.*fp4"),
        "It computes FP4 weights through Marlin kernels, which is usual on GB10, and no error.",
        "Nothing is to be done; measure before you change the backend.",
    ),
    Check(
        "flashinfer.sampler",
        "warning",
        ("vllm",),
        lambda evidence: (
            "VLLM_USE_FLASHINFER_SAMPLER is not 0"
            if "vllm-node-tf5" in " ".join((evidence.look.image if evidence.look else "", *evidence.argv))
            and evidence.environment.get("VLLM_USE_FLASHINFER_SAMPLER") != "0"
            else ""
        ),
        "The sampler of FlashInfer fails with this image.",
        "Start it with VLLM_USE_FLASHINFER_SAMPLER=0 in its environment.",
    ),
    Check(
        "hf.gated",
        "error",
        (),
        when(
            lambda evidence: not is_up(evidence),
            log_says(r"gatedrepoerror|cannot access gated repo|gated repo\b|access to model .{1,200} is restricted"),
        ),
        "The model is behind a licence that the account of its token has not accepted, or there is no token.",
        "Accept the licence on the page of the model, and give HF_TOKEN to the engine by its environment.",
    ),
    Check(
        "dmr.backend_noise",
        "info",
        ("docker-model-runner",),
        either(
            log_says(r"backend installation failed for backend=(?!llama\.cpp)"),
            lambda evidence: (
                "/engines/status says that a backend is not installed"
                if re.search(
                    r'"(?!llama\.cpp)[\w.-]{1,40}":\s*"(?:not installed|error)',
                    evidence.pages.get("/engines/status", ""),
                )
                else ""
            ),
        ),
        "Its image holds llama.cpp alone, so that its other backends cannot be installed: that is expected.",
        "Nothing is to be done; `installed llama-server gpuSupport=true` is the line that counts.",
    ),
    Check(
        "metrics.off",
        "info",
        ("sglang", "llamacpp"),
        when(lambda evidence: not flag_given("--metrics", "--enable-metrics")(evidence), METRICS_OFF),
        "Without metrics nobody sees its load, its cache and how many drafts are accepted, and a benchmark lacks them.",
        "Start it with --metrics (llama.cpp) or --enable-metrics (SGLang).",
    ),
)
