"""What each check of the doctor finds, and something near it that it must not find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparkgate.change.protect import Served
from sparkgate.doctor.chat import Chat
from sparkgate.doctor.evidence import Box, Evidence
from sparkgate.doctor.machine import Clocks, Machine, Worker
from sparkgate.engine_settings import EngineSettings
from sparkgate.engine_state import Status
from sparkgate.engines.spec import Model
from sparkgate.machine.listeners import Listener
from sparkgate.machine.memory import Held, Holder, Memory
from sparkgate.routes import RoutedModel
from sparkgate.runtimes.spec import Look

NOW_S = 1_800_000_000.0
GB10 = Memory(121.7, 60.0, unified=True, gpu=True, holders=())
URL = "http://127.0.0.1:8000"
VLLM = ("vllm", "serve", "Qwen/Qwen3.6-35B", "--tool-call-parser", "qwen3_xml", "--reasoning-parser", "qwen3")
LMCACHE = (*VLLM, "--kv-transfer-config", '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}')
LLAMA = ("llama-server", "-m", "x.gguf", "--metrics")
DOCKER = {"image_id": "sha256:1", "status": "running"}
SECRET = "hunter2-hunter2"
EXTERNAL = 'vllm:external_prefix_cache_{what}_total{{engine="0"}} {value}\n'


def an(kind: str, *argv: str, entry: EngineSettings | None = None, **more: Any) -> Evidence:
    """A ready engine of GB10 that answers, and the command it was started with."""
    chosen = entry or EngineSettings(engine=kind, url=URL, command=argv)
    status = Status("main", kind, "ready", models=(Model("m", context=131_072),), load={"generated_tokens": 5000.0})
    return replace(Evidence("main", chosen, status, now_s=NOW_S, box=Box(memory=GB10)), **more)


def with_(evidence: Evidence, **status: Any) -> Evidence:
    return replace(evidence, status=replace(evidence.status, **status))


def owned(evidence: Evidence, **look: Any) -> Evidence:
    """With what its owner says; SECRET is among its variables."""
    variables = {"HF_TOKEN": SECRET} | look.pop("environment", {})
    told = Look("running", pids=(7,), argv=evidence.argv, environment=variables, **look)
    return replace(evidence, look=told)


def beside(evidence: Evidence, **looks: Look) -> Evidence:
    return replace(evidence, box=replace(evidence.box, looks=looks))


def logged(evidence: Evidence, *lines: str) -> Evidence:
    return replace(evidence, log=("INFO starting", *lines, "INFO: done"))


def serves(evidence: Evidence, context: int, id_: str = "m") -> Evidence:
    return with_(evidence, models=(Model(id_, context=context),))


def paged(evidence: Evidence, **pages: str) -> Evidence:
    return replace(evidence, pages={f"/{name}": text for name, text in pages.items()})


def external(queries: int, hits: int) -> str:
    return EXTERNAL.format(what="queries", value=queries) + EXTERNAL.format(what="hits", value=hits)


def listening(evidence: Evidence, *, public: bool) -> Evidence:
    return replace(evidence, box=replace(evidence.box, listeners=(Listener(8000, public),)))


def container(evidence: Evidence, **traits: str) -> Evidence:
    return owned(evidence, traits=DOCKER | traits)


def routed(*routes: RoutedModel) -> Evidence:
    return replace(litellm, box=Box(routers={"main": routes}))


def route(**more: Any) -> RoutedModel:
    return replace(RoutedModel("main", ("127.0.0.1:8000",), False, (), False), **more)


vllm, llama, sglang = an("vllm", *VLLM), an("llamacpp", *LLAMA), an("sglang", "sglang", "serve", "--enable-metrics")
ollama, atlas, litellm = an("ollama", "ollama", "serve"), an("atlas", "atlas", "serve", "M"), an("litellm")
nodes = an("vllm", *VLLM, "--nnodes", "2")
qwen = serves(vllm, 131_072, "qwen3.6-35b")
rank = an("sglang", "sglang", "serve", "--dist-init-addr", "10.0.0.1:5000", "--speculative-algorithm", "EAGLE")
other_rank = Look("running", argv=("sglang", "serve", "--dist-init-addr=10.0.0.1:5000", "--node-rank", "1"))
same_rank = replace(other_rank, argv=(*other_rank.argv, "--speculative-algorithm=EAGLE"))
hermes = (Served("Hermes", URL),)
rdma = {"devices": "/dev/infiniband", "cap_add": "IPC_LOCK", "ulimits": "memlock=-1:-1"}
drafts = {"generated_tokens": 5000.0, "draft_tokens": 4000.0, "accept_rate": 0.2}
wants_64k = EngineSettings(engine="atlas", url=URL, context=65_536)
props = '{{"total_slots": {slots}}}'

ENGINE_CASES: list[tuple[str, Evidence, Evidence]] = [
    ("engine.wedged", with_(vllm, state="wedged", proven=False), vllm),
    ("port.stale", with_(vllm, engine="llamacpp"), with_(vllm, engine="unknown", state="down")),
    ("port.stale", replace(vllm, look=Look("stopped")), owned(vllm)),
    ("engine.old_image", with_(vllm, version="0.19.0"), with_(vllm, version="0.25.1")),
    ("engine.old_image", logged(vllm, "  (8.0) - (12.0)"), logged(vllm, "  (8.0) - (12.1)")),
    ("engine.cold", with_(vllm, load={"generated_tokens": 0.0}), with_(vllm, load={"generated_tokens": 9.0})),
    ("engine.cold", owned(with_(atlas, load={}), since_s=NOW_S - 20), owned(with_(atlas, load={}), since_s=NOW_S - 90)),
    (
        "llamacpp.cpu_split",
        logged(llama, "offloaded 20/37 layers to GPU"),
        logged(llama, "offloaded 37/37 layers to GPU"),
    ),
    (
        "llamacpp.cpu_split",
        logged(llama, "warning: no usable GPU found, --gpu-layers option will be ignored"),
        replace(logged(llama, "warning: no usable GPU found"), entry=EngineSettings(url=URL, allow_cpu=True)),
    ),
    (
        "llamacpp.ctx_shrunk",
        paged(serves(an("llamacpp", *LLAMA, "--ctx-size", "65536"), 8192), props=props.format(slots=2)),
        paged(serves(an("llamacpp", *LLAMA, "--ctx-size", "65536"), 32_768), props=props.format(slots=2)),
    ),
    ("ollama.cpu", with_(ollama, processor="cpu", models=(Model("m", gpu_share=0.0),)), with_(ollama, processor="gpu")),
    ("ollama.cpu", with_(ollama, processor="mixed"), replace(ollama, entry=replace(ollama.entry, allow_cpu=True))),
    (
        "ollama.library",
        owned(ollama, environment={"OLLAMA_LLM_LIBRARY": "cuda"}),
        owned(ollama, environment={"OLLAMA_LLM_LIBRARY": "cuda_v13"}),
    ),
    ("ctx.hermes", serves(replace(atlas, entry=wants_64k), 12_288), serves(replace(atlas, entry=wants_64k), 65_536)),
    ("ctx.hermes", serves(replace(atlas, hosts=hermes), 12_288), serves(atlas, 12_288)),
    (
        "ctx.hermes",
        replace(vllm, hosts=hermes, told_context=262_144),
        replace(vllm, hosts=hermes, told_context=131_072),
    ),
    (
        "ctx.per_slot",
        paged(serves(an("llamacpp", *LLAMA, "-c", "16384"), 4096), props=props.format(slots=4)),
        paged(serves(an("llamacpp", *LLAMA, "-c", "16384", "--kv-unified"), 16_384), props=props.format(slots=4)),
    ),
    (
        "context.truncating",
        logged(ollama, 'level=WARN msg="truncating input prompt" limit=2050 prompt=8707'),
        logged(ollama, 'level=INFO msg="input prompt" limit=8192 prompt=700'),
    ),
    (
        "context.truncating",
        serves(ollama, 4096),
        owned(serves(ollama, 4096), environment={"OLLAMA_CONTEXT_LENGTH": "4096"}),
    ),
    ("spec.low_accept", with_(vllm, load=drafts), with_(vllm, load=drafts | {"accept_rate": 0.7})),
    ("spec.low_accept", with_(sglang, load={"accept_rate": 0.1, "generated_tokens": 2e3}), with_(vllm, load={})),
    ("spec.flags_per_node", beside(rank, second=other_rank), beside(rank, second=same_rank)),
    (
        "fp4.marlin_warning",
        logged(vllm, "WARNING Your GPU does not have native support for FP4 computation but FP4 is used"),
        logged(vllm, "INFO Using MARLIN for BF16"),
    ),
    (
        "flashinfer.sampler",
        owned(vllm, image="vllm-node-tf5:latest"),
        owned(vllm, image="vllm-node-tf5:latest", environment={"VLLM_USE_FLASHINFER_SAMPLER": "0"}),
    ),
    (
        "hf.gated",
        logged(with_(vllm, state="down"), "huggingface_hub.errors.GatedRepoError: 401 Client Error."),
        logged(vllm, "huggingface_hub.errors.GatedRepoError: 401 Client Error."),
    ),
    (
        "dmr.backend_noise",
        logged(an("docker-model-runner"), 'level=warning msg="Backend installation failed for backend=vllm"'),
        logged(an("docker-model-runner"), 'level=error msg="Backend installation failed for backend=llama.cpp"'),
    ),
    (
        "dmr.backend_noise",
        replace(
            an("docker-model-runner"), pages={"/engines/status": '{"llama.cpp": "running", "vllm": "not installed"}'}
        ),
        replace(an("docker-model-runner"), pages={"/engines/status": '{"llama.cpp": "not installed"}'}),
    ),
    ("metrics.off", with_(an("llamacpp", "llama-server"), load=None), llama),
    (
        "template.wrong",
        replace(llama, chat=Chat(500, error="tools param requires --jinja flag")),
        replace(llama, chat=Chat(200, "Hi.")),
    ),
    (
        "template.wrong",
        replace(vllm, chat=Chat(200, "the cat " * 12)),
        replace(vllm, chat=Chat(200, "the cat and " * 3)),
    ),
    ("template.wrong", an("llamacpp", *LLAMA, "--no-jinja"), an("llamacpp", *LLAMA, "--jinja")),
    ("template.wrong", with_(llama, version="b5200-1a2b"), with_(llama, version="b9917-1a2b")),
    (
        "template.wrong",
        logged(llama, "chat template parsing error: x"),
        logged(llama, "chat template, example_format: x"),
    ),
    ("parser.mismatch", replace(vllm, chat=Chat(200, "<think>\nfirst")), replace(vllm, chat=Chat(200, "first"))),
    (
        "parser.mismatch",
        replace(vllm, chat=Chat(400, error='"auto" tool choice requires --enable-auto-tool-choice')),
        replace(vllm, chat=Chat(400, error="max_tokens is too large")),
    ),
    (
        "parser.mismatch",
        replace(llama, chat=Chat(200, '<tool_call>{"name": "clock"}')),
        replace(llama, chat=Chat(200, '<tool_call>{"name": "clock"}', called=True)),
    ),
    ("parser.mismatch", serves(an("vllm", *VLLM, "--tool-call-parser=hermes"), 9, "qwen3.6-35b"), qwen),
    (
        "parser.mismatch",
        serves(an("vllm", "vllm", "serve", "--tool-call-parser=hermes"), 9, "Qwen3-8B"),
        serves(an("vllm", "vllm", "serve", "--tool-call-parser=hermes"), 9, "Qwen3-8B-Instruct"),
    ),
    (
        "parser.mismatch",
        serves(paged(sglang, server_info='{"tool_call_parser": null, "reasoning_parser": "qwen3"}'), 9, "qwen3.5"),
        serves(
            paged(sglang, server_info='{"tool_call_parser":"qwen3_coder","reasoning_parser":"qwen3"}'), 9, "qwen3.5"
        ),
    ),
    (
        "thinking.kwarg",
        replace(vllm, chat=Chat(200, "12", "Let me think", quiet=True)),
        replace(vllm, chat=Chat(200, "12", "Let me think", quiet=False)),
    ),
    (
        "thinking.kwarg",
        qwen,
        serves(an("vllm", *VLLM, "--default-chat-template-kwargs", '{"enable_thinking": false}'), 9, "qwen3.6-35b"),
    ),
    (
        "vllm.util_surprise",
        logged(vllm, "INFO Estimated CUDA graph memory: -20.50 GiB total"),
        logged(vllm, "INFO Estimated CUDA graph memory: 1.10 GiB total"),
    ),
    (
        "vllm.util_surprise",
        logged(
            replace(vllm, held=Held(81.7, "nvidia-smi")),
            "Model loading took 21.9 GiB memory and 41.2 seconds",
            "Available KV cache memory: 33.07 GiB",
        ),
        logged(
            replace(vllm, held=Held(60.0, "nvidia-smi")),
            "Model loading took 21.9 GiB memory and 41.2 seconds",
            "Available KV cache memory: 33.07 GiB",
        ),
    ),
    (
        "sglang.overreserve",
        paged(sglang, metrics="sglang:kv_cache_memory_usage_gb 74.5\nsglang:weight_memory_usage_gb 6.0\n"),
        paged(sglang, metrics="sglang:kv_cache_memory_usage_gb 20\nsglang:weight_memory_usage_gb 6.0\n"),
    ),
    (
        "sglang.overreserve",
        logged(
            sglang,
            "Load weight end. type=Qwen2, avail mem=104.1 GB, mem usage=5.98 GB.",
            "KV Cache is allocated. #tokens: 9, K size: 37.20 GB, V size: 37.20 GB",
        ),
        replace(
            logged(
                sglang,
                "Load weight end. type=Qwen2, avail mem=20.1 GB, mem usage=5.98 GB.",
                "KV Cache is allocated. #tokens: 9, K size: 37.20 GB, V size: 37.20 GB",
            ),
            box=Box(memory=replace(GB10, unified=False)),
        ),
    ),
    (
        "zml.overreserve",
        logged(an("llmd"), "Allocating 26238 pages for the KvCache: 44.840GiB", "Loaded weights [1.40GiB, 46.282s]"),
        logged(an("llmd"), "Allocating 2623 pages for the KvCache: 4.484GiB", "Loaded weights [1.40GiB, 46.282s]"),
    ),
    ("atlas.lazy_kv", atlas, an("atlas", "atlas", "serve", "M", "--oom-guard-mb", "4096")),
    (
        "atlas.lazy_kv",
        replace(an("atlas"), held=Held(21.0, "nvidia-smi")),
        replace(an("atlas"), held=Held(99.0, "nvidia-smi")),
    ),
    (
        "lmcache.hashseed",
        logged(vllm, "LMCache WARNING: Using builtin hash without PYTHONHASHSEED set."),
        logged(vllm, "LMCache INFO: PYTHONHASHSEED is 0"),
    ),
    (
        "lmcache.hashseed",
        owned(an("vllm", *LMCACHE)),
        owned(an("vllm", *LMCACHE), environment={"PYTHONHASHSEED": "0"}),
    ),
    ("lmcache.no_hits", paged(vllm, metrics=external(9000, 0)), paged(vllm, metrics=external(9000, 256))),
    (
        "lmcache.disk_restart",
        owned(an("vllm", *LMCACHE), environment={"LMCACHE_LOCAL_DISK": "file:///cache"}, restarts=2),
        owned(an("vllm", *LMCACHE), restarts=2),
    ),
    (
        "lmcache.disk_restart",
        replace(
            an("vllm", *LMCACHE),
            pages={"LMCACHE_CONFIG_FILE": "chunk_size: 256\nlocal_disk: /cache\n", "/metrics": external(9000, 0)},
        ),
        replace(
            an("vllm", *LMCACHE),
            pages={"LMCACHE_CONFIG_FILE": "chunk_size: 256\nlocal_disk: null\n", "/metrics": external(9000, 0)},
        ),
    ),
    ("sleep.uma", an("vllm", *VLLM, "--enable-sleep-mode"), vllm),
    ("sleep.uma", with_(vllm, state="sleeping"), replace(with_(vllm, state="sleeping"), box=Box())),
    (
        "ollama.copies",
        owned(ollama),
        owned(ollama, environment={"OLLAMA_MAX_LOADED_MODELS": "1"}),
    ),
    (
        "llamacpp_router.copies",
        an("llamacpp-router", "llama-server", "--models-dir", "/m"),
        an("llamacpp-router", "llama-server", "--models-dir", "/m", "--models-max", "1"),
    ),
    (
        "k8s.strategy",
        owned(vllm, traits={"strategy": "RollingUpdate"}),
        owned(vllm, traits={"strategy": "Recreate"}),
    ),
    (
        "dist.debug",
        owned(vllm, environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
        owned(vllm, environment={"TORCH_DISTRIBUTED_DEBUG": "INFO"}),
    ),
    ("dist.debug", logged(vllm, "RuntimeError: Detected mismatch between collectives on ranks"), vllm),
    ("rdma.missing", container(nodes, devices="/dev/infiniband"), container(nodes, **rdma)),
    ("rdma.missing", logged(nodes, "NCCL INFO NET/IB : No device found."), logged(vllm, "NET/IB : No device found.")),
    (
        "engine.root",
        beside(container(vllm), atlas=Look("stopped", traits=DOCKER | {"user": "1000"})),
        beside(container(vllm), atlas=Look("stopped", traits=DOCKER | {"user": "0"})),
    ),
    ("bind.public", listening(vllm, public=True), listening(vllm, public=False)),
    (
        "bind.public",
        listening(owned(vllm, environment={"VLLM_SERVER_DEV_MODE": "1"}), public=True),
        listening(owned(vllm, environment={"VLLM_API_KEY": SECRET}), public=True),
    ),
    ("watchdog", owned(vllm, revived_by="Argo CD"), owned(vllm)),
    (
        "watchdog",
        replace(vllm, box=Box(machine=Machine(watchdogs={"main": "vllm-watchdog"}))),
        replace(vllm, box=Box(machine=Machine(watchdogs={"other": "vllm-watchdog"}))),
    ),
    ("docker.shm", container(vllm, shm_size="64M"), container(vllm, shm_size="64M", ipc="host")),
    ("docker.log_lost", container(vllm, rm="true"), container(vllm)),
    (
        "litellm.fallback_offbox",
        routed(route(fallbacks=("cloud",), fallbacks_off_box=True)),
        routed(route(name="cloud", via=("openai",), off_box=True), route()),
    ),
    (
        "litellm.star",
        routed(route(), route(name="*", catch_all=True)),
        routed(route(), route(name="qwen/*")),
    ),
    (
        "litellm.budget_nodb",
        replace(litellm, pages={"/health/readiness": '{"db":"Not connected"}', "--config": "  max_budget: 10\n"}),
        replace(litellm, pages={"/health/readiness": '{"db":"connected"}', "--config": "  max_budget: 10\n"}),
    ),
    (
        "litellm.budget_nodb",
        replace(litellm, pages={"/health/readiness": '{"db":"Not connected"}', "/model/info": '{"max_budget": 3.5}'}),
        replace(litellm, pages={"/health/readiness": '{"db":"Not connected"}', "/model/info": '{"max_budget": null}'}),
    ),
]
"""(id of the check, an engine with the trap, one near it without)."""

running, stopped = Look("running", pids=(7,)), Look("stopped")
two = {"a": EngineSettings(url="http://127.0.0.1:1"), "b": EngineSettings(url="http://127.0.0.1:2")}
ready = {name: Status(name, "vllm", "ready", models=(Model("m"),)) for name in two}
both = Box(two, {"a": running, "b": running}, ready, memory=GB10)
elsewhere = {"b": replace(two["b"], url="http://10.0.0.9:2")}
pods = {name: Look("running", traits={"strategy": "Recreate", "gpus": "1", "replicas": "1"}) for name in two}
models = (Model("x"), Model("y"))
left = Machine(orphans=(Worker(99, "VLLM::EngineCore"),))
foreign = replace(GB10, holders=(Holder(55, "python3", 30.0),))

BOX_CASES: list[tuple[str, Box, Box]] = [
    ("uma.two_copies", both, replace(both, looks={"a": running, "b": stopped})),
    ("uma.two_copies", both, replace(both, entries=two | {"b": replace(two["b"], beside=True)})),
    ("uma.two_copies", replace(both, looks={}), replace(both, looks={}, entries=two | elsewhere)),
    (
        "uma.two_copies",
        Box({"a": two["a"]}, {}, {"a": Status("a", "ollama", "ready", models=models)}, memory=GB10),
        Box({"a": two["a"]}, {}, {"a": Status("a", "ollama", "ready", models=models[:1])}, memory=GB10),
    ),
    (
        "uma.two_copies",
        replace(both, looks={"a": running, "b": stopped}, memory=foreign),
        replace(both, looks={"a": running, "b": stopped}, memory=replace(foreign, holders=(Holder(7, "vllm", 30.0),))),
    ),
    ("k8s.timeslicing", Box(machine=Machine(gpus=1, gpus_offered=4)), Box(machine=Machine(gpus=4, gpus_offered=4))),
    ("k8s.timeslicing", replace(both, looks=pods, machine=Machine(gpus=1)), Box(looks=pods, machine=Machine(gpus=2))),
    (
        "restart.policy",
        Box(
            two,
            {
                "a": Look("running", traits={"restart_policy": "always"}),
                "b": Look("stopped", traits={"enabled": "enabled"}),
            },
        ),
        Box(
            two,
            {
                "a": Look("running", traits={"restart_policy": "always"}),
                "b": Look("stopped", traits={"restart_policy": "no"}),
            },
        ),
    ),
    (
        "orphan.enginecore",
        Box(machine=left, memory=replace(GB10, holders=(Holder(99, "VLLM::EngineCore", 40.0),))),
        Box(machine=left, listeners=(Listener(8000, False, (99,)),)),
    ),
    (
        "mem.pressure",
        Box(memory=replace(GB10, pressure_full_avg10=12.0)),
        Box(memory=replace(GB10, pressure_full_avg10=2.0)),
    ),
    (
        "mem.pressure",
        Box(memory=replace(GB10, swap_free_gib=0.5, swap_total_gib=16.0)),
        Box(memory=replace(GB10, swap_free_gib=0.0, swap_total_gib=0.0)),
    ),
    ("nvsmi.na", Box(memory=GB10), Box(memory=replace(GB10, unified=False))),
    (
        "gpu.lowpower",
        Box(machine=Machine(clocks=(Clocks(96, 700, 3003),))),
        Box(machine=Machine(clocks=(Clocks(96, 2220, 3003),))),
    ),
    (
        "gpu.lowpower",
        Box(machine=Machine(clocks=(Clocks(3, 2220, 3003, 0x40),))),
        Box(machine=Machine(clocks=(Clocks(3, 208, 3003, 0x1),))),
    ),
]
"""(id of the check, a machine with the trap, one near it without)."""
