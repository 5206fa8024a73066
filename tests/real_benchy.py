"""A real llama-benchy, a benchmark of others, installed once into the cache folder of the tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from real_hosts import OFFLINE, cache_folder

VERSION = "0.4.0"
WORDS = "the of and a to in he was that his it I had with as for at is on be you which but not from have this my her"
MAKE_TOKENIZER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

words = {word: place for place, word in enumerate([*sys.argv[2].split(), "<unk>"])}
made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>").save_pretrained(sys.argv[1])
"""
"""One token a word, as the engine of the tests counts them; nothing is downloaded."""


def ensure_installed() -> Path:
    """The folder of programs of an environment of its own."""
    folder = cache_folder() / f"llama-benchy-{VERSION}-python{sys.version_info.major}.{sys.version_info.minor}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-I", "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet", "--no-input"]
        subprocess.run([*pip, f"llama-benchy=={VERSION}"], check=True)
        made = [str(folder / "bin" / "python"), "-I", "-c", MAKE_TOKENIZER, str(folder / "tokenizer"), WORDS]
        subprocess.run(made, check=True, env={"PATH": os.environ["PATH"], "HOME": str(folder), **OFFLINE})
        (folder / "complete").touch()
    return folder


def measured(url: str, tokens: int, concurrency: int) -> dict[str, Any]:
    """What it says of an engine: rates of one stream and of all, times to the first token, as its JSON has them."""
    folder = ensure_installed()
    with tempfile.TemporaryDirectory(prefix="sg-benchy-") as home:
        result = Path(home) / "result.json"
        argv = [str(folder / "bin" / "llama-benchy"), "--base-url", f"{url}/v1", "--model", "sim-1"]
        argv += ["--tokenizer", str(folder / "tokenizer"), "--book-url", f"{url}/book.txt", "--skip-coherence"]
        argv += ["--pp", "128", "--tg", str(tokens), "--exact-tg", "--no-cache", "--runs", "3"]
        argv += ["--concurrency", str(concurrency), "--format", "json", "--save-result", str(result)]
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", **OFFLINE}
        done = subprocess.run(
            argv, env={"PATH": os.environ["PATH"], "HOME": home, **offline}, capture_output=True, text=True, check=False
        )
        assert result.exists(), done.stdout[-800:] + done.stderr[-800:]
        told: dict[str, Any] = json.loads(result.read_text())["benchmarks"][0]
        return told
