"""What a decision costs: clean queries, long texts, texts made to be slow, and memory. Not a test.

Run it on an idle machine, from the top of the checkout:

    python tests/benchmarks/policy.py
    python tests/benchmarks/policy.py --against patterns.json    # loops a list of patterns with `regex`

All views, all shipped rules, a term list of five names and 200 known values take part. Times are of this machine; the
ratio to the patterns of another scanner, looped over the same text in the same run, is what may be compared.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import regex

QUERIES = (
    "vllm 0.11 on DGX Spark GB10: max_num_seqs 16 with NVFP4 Qwen3.6-35B-A3B gives 99 tok/s, how to raise "
    "gpu-memory-utilization without OOM when MTP speculative decoding k=3 is on? see --kv-cache-dtype fp8",
    "how do I choose between tensor parallelism and pipeline parallelism for a mixture of experts model that does not "
    "fit on one node, and which of the two suffers more from a slow interconnect between nodes",
    "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-32B-FP8 exits with code 137, is it "
    "the out of memory killer and how much shared memory does it want",
    "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html?highlight=chat%20template what does the flag "
    "--chat-template-content-format do for tool calls in streaming mode",
    "RuntimeError: CUDA error: an illegal memory access was encountered at flash_attn_interface.py:148 torch "
    "2.9.0+cu130 driver 580.95.05, does FlashInfer 0.4 support sm_121a or must I build it from source",
)
ODD_QUERIES = (
    "vllm serve Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8 --tensor-parallel-size 2 --max-model-len 131072 throws CUDA out "
    "of memory on DGX Spark, which settings do people use",
    "Qwen3-Coder-480B-A35B-Instruct-FP8 memory requirement",
    "https://github.com/ggml-org/llama.cpp/commit/be004b4ba345b13e3857874be6aa79a7defb0505",
    "https://download.example.org/whl/cu130/torch-2.9.0-cp312-cp312-manylinux_2_28_aarch64.whl",
    "the first request is fast, then the next ones start to wait until the last stream ends; why does the rest queue",
)
"""What looks like keys, or tells of pieces, and is judged in many forms."""
NAMES = ("Globex Robotics", "Initech", "Project Nightjar", "Müller & Söhne", "Quokka Ledger")
SECONDS = 60.0


def quantiles_us(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median and 99th percentile."""
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    taken.sort()
    return 1e6 * taken[len(taken) // 2], 1e6 * taken[int(len(taken) * 0.99)]


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def texts() -> dict[str, str]:
    words = random.Random(1).choices(" ".join(QUERIES).split(), k=40_000)
    return {
        "16 KB of technical words": " ".join(words)[:16_384],
        "100 KB of technical words": " ".join(words)[:100_000],
        "16 KB of Python": Path(__file__).read_text()[:4096] * 4,
        "'A_' * 40000": "A_" * 40_000,
        "5,000 near-matches": "ghp_xxxx hf_yyy sk-zzz password " * 1250,
        "10 KB of U+FDFA": "\ufdfa" * 3413,
    }


def main(against: str) -> None:
    before_mb = peak_mb()
    from sparkgate.policy.judge import Policy
    from sparkgate.policy.known.sources import Places
    from sparkgate.policy.known.values import KnownValues

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "terms.toml").write_text("".join(f'[[term]]\nname = "{name}"\n' for name in NAMES))
        draw = random.Random(2)
        env = {f"ACME_TOKEN_{n}": "".join(draw.choices("abcdefghKLMNOP0123456789", k=40)) for n in range(200)}
        known = KnownValues(b"k" * 32, Places(home, env, env=("ACME_*",)))
        policy = Policy.from_folder(home, values=(known,), deadline_s=SECONDS, max_bytes=1_000_000)
        print(f"memory: {peak_mb() - before_mb:.1f} MB more with policy and {known.count} known values")
        for query in (*QUERIES, *ODD_QUERIES):
            assert policy.judge(query).verdict == "allow", query
            median_us, p99_us = quantiles_us(lambda query=query: policy.judge(query), 2000)  # type: ignore[misc]
            print(f"{median_us:8.0f} µs median {p99_us:8.0f} µs at p99   {len(query)} bytes: {query[:60]}…")
        for name, text in texts().items():
            median_us, _ = quantiles_us(lambda text=text: policy.judge(text), 3)  # type: ignore[misc]
            print(f"{median_us / 1e3:8.1f} ms                          {name}: {policy.judge(text).verdict}")
    if against:
        others = [regex.compile(pattern) for pattern in json.loads(Path(against).read_text())]
        for query in QUERIES:
            median_us, p99_us = quantiles_us(lambda query=query: [o.search(query) for o in others], 200)  # type: ignore[misc]
            print(f"{median_us:8.0f} µs median {p99_us:8.0f} µs at p99   {len(others)} patterns looped: {query[:40]}…")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="", help="JSON list of patterns to loop over the same texts")
    main(parser.parse_args().against)
