"""Tokens that chat templates write between messages, broken so that no tokenizer takes them for what they look like.

llama.cpp, vLLM and others tokenize the whole prompt at once and with special tokens, so one in a page would begin a new
message for a local model, whatever stands around it.
"""

from __future__ import annotations

import re

_NAMES = (
    "s|bos|eos|pad|unk|mask|sop|eop|start_of_turn|end_of_turn|tool_call|tool_response|tools|think|tool_result"
    "|function_calls?|function_results?"
)
_TOKEN = re.compile(
    rf"<(?=[|｜][^\s<>]{{1,40}}[|｜]>|/?(?:{_NAMES})>|</?SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS|TOOL_CONTENT|THINK|gMASK|sMASK)\])"
)
"""Of ChatML, Llama, Gemma, Mistral, DeepSeek, Qwen, GLM, Phi and gpt-oss."""


def quoted(address: str) -> tuple[str, int]:
    """The same for an address, in which a percent sign and two digits mean the sign."""
    return _TOKEN.subn(lambda sign: "%3C" if sign[0] == "<" else "%5B", address)


def broken(text: str) -> tuple[str, int]:
    """The text with a blank in each such token, and how many there were."""
    return _TOKEN.subn(lambda sign: f"{sign[0]} ", text) if "<" in text or "[" in text else (text, 0)
