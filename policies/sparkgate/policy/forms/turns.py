"""Texts that were turned: backwards, or with other letters."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from sparkgate.policy.checking.wording import words
from sparkgate.policy.forms.joins import JOIN_NAMES
from sparkgate.policy.forms.view import Mirror, View
from sparkgate.policy.names.words import is_common

_HALF = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM"
)
_TOKEN = re.compile("(?<![A-Za-z0-9_-])(?=[a-z_-]*[A-Z0-9])(?=[A-Z0-9_-]*[a-z]|[A-Z0-9]{16})[A-Za-z0-9_-]{16}")
"""How a longer word of mixed letters begins, or one of capitals and digits."""
_TOKEN_REST = re.compile("[A-Za-z0-9_-]*")
_RUN = re.compile("[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SHORT = 2
"""Letters of a run that may be anything: sizes, versions, kinds of numbers."""
MOST_ODD = 15
"""Characters of a name that stand in no word; a key has more."""
NAME_WORDS = words(
    """aarch abliterated adapter air alpha amd amx apache apex arm assistant audio autoround awq base beta bge bit bnb
    build calme channel char chat claude code codellama coder codestral codex cohere command compressed config
    context cosmos cpp cpu cuda cudnn cutlass debian deepcoder deepseek devel devstral dflash diffusion distill
    distilled dolphin dpo draft dynamic eagle edge embed embedding ernie exaone exl exp experimental falcon fast
    finetuned flash flashinfer flux fused gemini gemma generic ggml gguf github glm gpt gptq gpu granite groq group
    guard heretic hermes hunyuan image imatrix inference instruct int intel internlm jamba janus jetson kimi kto
    large linux lite llama llamafile llava llm llms lmdeploy long lora mac magistral manylinux marlin matryoshka
    medium mega merged meta microsoft mini minicpm minilm minimax minitron mistral mistralai mixtral mlx mobile
    model moe moonlight multilingual musllinux mxfp nano nemo nemotron next nightly nomic nous nousresearch nvfp
    nvidia ollama omni onnx opt orin orpo oss parakeet patch phi pixtral plus preview pro prover python pytorch
    quant quantized quants qwen qwq ray reasoner reasoning redhat release replit rerank reranker research revision
    rocm router runtime scout seed sentence server sft sglang shared siglip slim small smol smollm smoothquant
    snapshot solar spark sparse speech stable starcoder static super synthetic tensor tensorrt text tgi thinker
    thinking tiny tinyllama tool torch torchao torchaudio torchvision transformer transformers triton tritonserver
    trt trtllm tts tulu turbo ubuntu ultra uncensored unsloth ver vicuna video vision vit vllm voice voxtral wasm
    wheel whisper whl wizard wizardlm xformers zephyr"""
)
"""Of names of models, packages and images, beside the ordinary words of languages."""
TURNED = ("reversed", "rot13")


def turned(view: View) -> Iterator[View]:
    """Both, where that may bring something to light; what was put together, where its parts may be turned as well."""
    if view.told(may_be_turned) or (view.name in JOIN_NAMES and view.of is not None and view.of.told(may_be_turned)):
        yield from both_turned(view)


def both_turned(view: View) -> tuple[View, View]:
    """Backwards, and with every letter moved by half the alphabet (ROT13)."""
    moved = View("rot13", view.text.translate(_HALF), view, (0,), ((0, len(view.text), True),))
    return Mirror("reversed", view.text[::-1], view), moved


def may_be_turned(view: View) -> bool:
    """Whether there is an address, or a token that is more than the name of a model: words, sizes and versions.

    Nothing else calls for it, so a secret that is no such token is seen backwards only beside one.
    """
    if "@" in view.text:
        return True
    return _TOKEN.search(view.runs) is not None and not all(map(is_named, _tokens(view)))


def _tokens(view: View) -> Iterator[str]:
    """Each token, with a sign wherever something was put together or taken off in it."""
    text, begins = view.text, view.begins
    for run in view.long_runs:
        for match in _TOKEN.finditer(text, *run):
            start, end = match.start(), _TOKEN_REST.match(text, match.end()).end()  # type: ignore[union-attr]
            cuts = [start, *begins[bisect_right(begins, start) : bisect_left(begins, end)], end]
            yield "-".join([text[one:other] for one, other in pairwise(cuts)])


def is_name_word(word: str) -> bool:
    """Whether a word in small letters is an ordinary one, or one of `NAME_WORDS`."""
    return word in NAME_WORDS or is_common(word)


def is_named(token: str) -> bool:
    """Whether a token of letters, digits and signs is made of known words, with little between them."""
    odd = 0
    for run in _RUN.findall(token):
        if len(run) <= _SHORT or run.isdigit():
            odd += len(run)
        elif not is_name_word(run.lower()):
            return False
    return odd <= MOST_ODD
