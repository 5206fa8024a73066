"""Traps of chat: templates, parsers of tool calls and of thinking."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkgate.doctor.evidence import Evidence
from sparkgate.doctor.rules.check import (
    Check,
    either,
    flag_given,
    flag_missing,
    knows_flags,
    log_says,
    option,
    when,
)

WITH_PARSERS = ("vllm", "sglang")
JINJA_BY_DEFAULT = 7300
"""Builds of llama.cpp from about this one on use the template of the model without being told."""
LOOP_TIMES = 6
REFUSED = (400, 422, 501)
_CALL_AS_TEXT = re.compile(r"<tool_call>|<function[=_]|\[TOOL_CALLS\]|<\|tool_call|\{\s*\"name\":\s*\"clock\"")
_LOOP = re.compile(rf"(\S.{{3,59}}?)\1{{{LOOP_TIMES - 1},}}\S{{0,8}}\s*$", re.DOTALL)
LOOP_CHARS = 400
"""The end of an answer in which words that repeat are looked for."""
_TEMPLATE_ERROR = re.compile(r"jinja|template|roles must alternate|tools? (?:param|are not|is not)", re.IGNORECASE)
_PARSER_ERROR = re.compile(r"enable-auto-tool-choice|tool-call-parser", re.IGNORECASE)
_QWEN3 = re.compile(r"qwen-?3", re.IGNORECASE)
_NEVER_THINKS = re.compile(r"instruct|coder|embed|rerank", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Family:
    """Models whose tool calls have one form; `parsers` are those that read it."""

    models: re.Pattern[str]
    parsers: tuple[str, ...]
    form: str


FAMILIES = (
    Family(re.compile(r"qwen-?3(?:[._-]?[5-9]\b|[\w.-]*coder)", re.IGNORECASE), ("qwen3_xml", "qwen3_coder"), "XML"),
    Family(re.compile(r"qwen-?(?:2\.5|3)(?![.\d])", re.IGNORECASE), ("hermes", "qwen25", "qwen"), "JSON"),
)
"""The first that matches counts."""


def names_of(evidence: Evidence) -> str:
    """All names that its model has."""
    model = evidence.model
    return " ".join(filter(None, (evidence.entry.model, model.id if model else "", model.root if model else "")))


def parser_of(evidence: Evidence, kind: str) -> str | None:
    """The parser for "tool-call" or "reasoning"; "" when there is none, None when that is not known."""
    told = re.search(rf'"{kind.replace("-", "_")}_parser":\s*(?:"([\w.-]{{1,40}})"|null)', server_info(evidence))
    if told:
        return told[1] or ""
    return (option(evidence, f"--{kind}-parser") or "") if knows_flags(evidence) else None


def server_info(evidence: Evidence) -> str:
    return evidence.pages.get("/server_info", "")


def call_parser(evidence: Evidence) -> str:
    family = next((one for one in FAMILIES if one.models.search(names_of(evidence))), None)
    parser = parser_of(evidence, "tool-call")
    if family is None or parser is None or parser in family.parsers:
        return ""
    wanted = " or ".join(family.parsers)
    return f"its model writes tool calls as {family.form} ({wanted}), and the parser is {parser or 'none'}"


def thought_parser(evidence: Evidence) -> str:
    thinks = _QWEN3.search(names_of(evidence)) and not _NEVER_THINKS.search(names_of(evidence))
    return "its model thinks, and has no reasoning parser" if thinks and parser_of(evidence, "reasoning") == "" else ""


def said_wrongly(evidence: Evidence) -> str:
    """What a parser should have taken out of the text of an answer."""
    chat = evidence.chat
    if chat is None:
        return ""
    if chat.error and _PARSER_ERROR.search(chat.error):
        return f"it refused a chat with a tool: {chat.error}"
    if "<think>" in chat.text or "</think>" in chat.text:
        return "its answer to a test holds <think>"
    return "it wrote the call of a tool as text" if not chat.called and _CALL_AS_TEXT.search(chat.text) else ""


def chat_fails(evidence: Evidence) -> str:
    chat = evidence.chat
    if chat is None or (chat.error and _PARSER_ERROR.search(chat.error)):
        return ""
    refused = chat.status == 500 or (chat.status in REFUSED and _TEMPLATE_ERROR.search(chat.error))
    return f"a chat with a tool was answered with {chat.status}: {chat.error}" if refused else ""


def repeats_itself(evidence: Evidence) -> str:
    looped = evidence.chat and _LOOP.search((evidence.chat.text or evidence.chat.reasoning)[-LOOP_CHARS:])
    return "its answer to a test repeats the same words to the end" if looped else ""


def old_without_jinja(evidence: Evidence) -> str:
    build = re.match(r"b(\d{1,6})\b", evidence.status.version or "")
    old = build is not None and 0 < int(build[1]) < JINJA_BY_DEFAULT
    return flag_missing("--jinja", "--chat-template-file")(evidence) if old else ""


def thinks_all_the_same(evidence: Evidence) -> str:
    chat = evidence.chat
    thought = chat is not None and chat.quiet and (chat.reasoning.strip() or re.search(r"<think>\s*\S", chat.text))
    return "it thought in a test although enable_thinking was false" if thought else ""


def thinks_unless_told(evidence: Evidence) -> str:
    name = names_of(evidence)
    thinks = _QWEN3.search(name) and not _NEVER_THINKS.search(name)
    told = "enable_thinking" in " ".join(evidence.argv) or option(evidence, "--reasoning-budget") == "0"
    return "nothing in its command sets enable_thinking" if thinks and knows_flags(evidence) and not told else ""


CHECKS: tuple[Check[Evidence], ...] = (
    Check(
        "template.wrong",
        "error",
        (),
        either(
            chat_fails,
            repeats_itself,
            when(lambda evidence: evidence.status.engine == "llamacpp", flag_given("--no-jinja")),
            when(lambda evidence: evidence.status.engine == "llamacpp", old_without_jinja),
            log_says(r"chat template parsing error|jinja.{0,60}(?:error|exception)|does not support .{0,40}tool"),
        ),
        "Its chat template is missing, wrong or broken: tools do not work, and answers go in circles.",
        "Use the template of the model (--jinja with llama.cpp), or give the right one with --chat-template-file.",
    ),
    Check(
        "parser.mismatch",
        "warning",
        (),
        either(
            said_wrongly,
            when(lambda evidence: evidence.status.engine in WITH_PARSERS, either(call_parser, thought_parser)),
        ),
        "Without the parser that fits its model, tool calls and thoughts reach the agent as plain text.",
        "Set --tool-call-parser (with --enable-auto-tool-choice) and --reasoning-parser as the model card says.",
    ),
    Check(
        "thinking.kwarg",
        "info",
        ("vllm", "sglang", "llamacpp"),
        either(thinks_all_the_same, thinks_unless_told),
        "Qwen3 thinks before each answer unless told not to: a short answer takes long, and a small limit cuts it off.",
        'Send {"enable_thinking": false} as chat_template_kwargs where thinking is not wanted, or set it at the start.',
    ),
)
