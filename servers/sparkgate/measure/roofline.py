"""How fast a model can generate at most: every token reads the active weights once from memory."""

from __future__ import annotations

import re
from collections.abc import Mapping

BANDWIDTH_GB_S: Mapping[str, float] = {
    "GB10": 273.0,
    "RTX 3090": 936.0,
    "RTX 4080 SUPER": 736.0,
    "RTX 4090": 1008.0,
    "RTX 5090": 1792.0,
    "RTX PRO 6000": 1792.0,
    "L40S": 864.0,
    "H100 SXM": 3350.0,
    "H100 80GB HBM3": 3350.0,
    "H100 PCIE": 2000.0,
    "H200": 4800.0,
    "B200": 8000.0,
    "ORIN": 204.8,
    "THOR": 273.0,
}
"""Memory bandwidth by a part of the GPU's name in capitals, in GB/s, as its maker tells it."""

BITS_PER_WEIGHT: Mapping[str, float] = {
    "NVFP4": 4.0,
    "MXFP4": 4.0,
    "FP4": 4.0,
    "AWQ": 4.0,
    "GPTQ-INT4": 4.0,
    "Q4_0": 4.5,
    "Q4_K_S": 4.5,
    "Q4_K_M": 4.8,
    "Q5_K_M": 5.6,
    "Q6_K": 6.5,
    "Q8_0": 8.5,
    "FP8": 8.0,
    "INT8": 8.0,
    "BF16": 16.0,
    "FP16": 16.0,
    "F16": 16.0,
}
"""Without scales and without the parts that stay wider, so that a ceiling from it is never too low."""

ACTIVE_BILLIONS: Mapping[str, float] = {
    "qwen2.5-3b": 3.09,
    "qwen3.6-27b": 27.0,
    "qwen3.6-35b-a3b": 3.0,
    "qwen3.5-35b-a3b": 3.0,
    "qwen3.5-122b-a10b": 10.0,
    "llama-3.1-8b": 8.0,
}
"""Weights read for one token, in billions, of models whose names need not tell whether they are sparse."""

DENSE: tuple[str, ...] = (
    r"llama-?[23]",
    r"qwen-?2(?:\.5)?",
    r"qwen-?3-(?:0\.6|1\.7|4|8|14|32)b",
    r"qwen-?3\.[56]-27b",
    r"qwq",
    r"deepseek-r1-distill",
    r"mistral-(?:7b|nemo)",
    r"mistral-small-(?:3\.[12]-)?2[24]b",
    r"gemma-?[23]-\d",
    r"phi-?(?:3|3\.5)-(?:mini|medium)",
    r"phi-?4",
    r"granite-?3\.\d-[28]b",
    r"smollm",
    r"tinyllama",
)
"""Beginnings of the names of models of which one token reads all weights, where a name has "-" for any separator."""
_DENSE = re.compile(rf"(?<![a-z])(?:{'|'.join(DENSE)})")
_NOT_DENSE = re.compile(r"moe|\dx\d|-a\d|vision|-vl|omni|multimodal|audio")
"""Experts, and parts that no token of text reads."""
_BILLIONS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([bm])\b")
DENSE_FITS = (0.9, 1.25)
"""A size on disk over that of the parameters; others are of something else, such as a folder of several widths."""
WIDE = "BF16"
"""Width of weights whose name tells none."""
GB = 1.073741824
"""Of a GiB."""

_SPARSE = re.compile(r"-a(\d+(?:\.\d+)?)b\b")
MARGIN = 1.05
"""A rate may lie that much above its ceiling before it is disbelieved: clocks and rounding."""


def bandwidth_gb_s(gpu: str, devices: int = 1) -> float | None:
    """Of all devices together, in GB/s; None for a GPU that is not in the table."""
    name = gpu.upper()
    found = [part for part in BANDWIDTH_GB_S if part in name]
    return devices * BANDWIDTH_GB_S[max(found, key=len)] if found else None


def active_billions(base_model: str) -> float | None:
    """Billions of weights that one token reads, from the table or from a name such as "x-35b-a3b"; None: not known."""
    name = base_model.lower()
    known = [size for model, size in ACTIVE_BILLIONS.items() if re.search(rf"{re.escape(model)}(?![\w.])", name)]
    sparse = _SPARSE.search(name)
    return known[0] if known else float(sparse[1]) if sparse else None


def gb_per_token(base_model: str, quantization: str, weights_gib: float | None = None) -> float | None:
    """GB of weights that one token reads: from its active weights and their width, else a dense model's size on disk.

    None when neither is known; the size of a model that may have experts says nothing of what a token reads.
    """
    billions, bits = active_billions(base_model), BITS_PER_WEIGHT.get(quantization.upper())
    return billions * bits / 8 if billions and bits else _dense_gb(base_model, bits, weights_gib)


def _dense_gb(base_model: str, bits: float | None, weights_gib: float | None) -> float | None:
    """The size on disk, where name, parameters and width agree that it is this one dense model's."""
    name = re.sub(r"[^a-z0-9.]", "-", base_model.lower())
    size = _BILLIONS.search(name)
    if not weights_gib or not size or not _DENSE.search(name) or _NOT_DENSE.search(name):
        return None
    parameters_gb = float(size[1]) / (1 if size[2] == "b" else 1000) * (bits or BITS_PER_WEIGHT[WIDE]) / 8
    low, high = DENSE_FITS
    return weights_gib * GB if low <= weights_gib * GB / parameters_gb <= high else None


def ceiling_tok_s(bandwidth_gb_s: float, gb_per_token: float, accepted_per_step: float = 0.0) -> float:
    """Tokens per second of one stream that memory allows; `accepted_per_step` are drafted tokens kept on average."""
    return bandwidth_gb_s / gb_per_token * (1 + accepted_per_step)
