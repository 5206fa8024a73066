"""The engines sparkgate knows, one file each, in the order in which they are tried."""

from __future__ import annotations

from sparkgate.engines.atlas import ATLAS
from sparkgate.engines.docker_model_runner import DOCKER_MODEL_RUNNER
from sparkgate.engines.dynamo import DYNAMO
from sparkgate.engines.exo import EXO
from sparkgate.engines.litellm import LITELLM
from sparkgate.engines.llamacpp import LLAMACPP
from sparkgate.engines.llamacpp_router import LLAMACPP_ROUTER
from sparkgate.engines.llamaswap import LLAMASWAP
from sparkgate.engines.llmd import LLMD
from sparkgate.engines.lmcache import LMCACHE
from sparkgate.engines.lmstudio import LMSTUDIO
from sparkgate.engines.mlx import MLX
from sparkgate.engines.modular_max import MAX
from sparkgate.engines.nim import NIM
from sparkgate.engines.ollama import OLLAMA
from sparkgate.engines.openai import OPENAI
from sparkgate.engines.sglang import SGLANG
from sparkgate.engines.spec import Engine
from sparkgate.engines.trtllm import TRTLLM
from sparkgate.engines.vllm import VLLM
from sparkgate.engines.wandler import WANDLER

# Those that others imitate come after the imitators; the generic one is last.
ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        *(SGLANG, DOCKER_MODEL_RUNNER, EXO, LLAMASWAP, LITELLM, NIM, DYNAMO, TRTLLM, ATLAS, LLMD, WANDLER, MAX),
        *(LLAMACPP, LLAMACPP_ROUTER, VLLM, LMSTUDIO, LMCACHE, OLLAMA, MLX, OPENAI),
    )
}
