"""What in a body would make an engine reach out for the agent: tables of keys and values, looked for at any depth.

Keys are compared without case, as some engines read them so (Go's encoding/json). What an engine only hands on as
data is not looked at: schemas and arguments of tools, and inputs of tool calls in a conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sparkgate.policy.model_door.refusal import Refused

MEDIA = frozenset(
    {"image_url", "image", "images", "image_data", "image_file", "input_image"}
    | {"audio_url", "audio", "audio_data", "input_audio", "video_url", "video", "videos", "video_data", "input_video"}
    | {"file_url", "file", "files", "file_data", "document_url", "input_file", "pdf_url"}
    | {"multimodal_data", "mm_data", "media", "media_url"}
)
"""Keys that hold a medium. vLLM, SGLang and llama.cpp fetch http(s) URLs and local files that stand there."""
PLAIN_NAMES = frozenset({"file", "files"})
"""Keys of `MEDIA` that hold a mere name where they stand beside no type of a medium."""

MEDIA_TYPES = frozenset(
    {"image", "audio", "video", "file", "document", "media", *MEDIA, "image_pil", "input_text_file", "pdf"}
)
ADDRESSES = frozenset({"url", "uri", "path", "href", "file_id", "file_uri"})
"""Keys that hold an address in an object whose `type` is one of `MEDIA_TYPES`."""
BESIDE_MEDIA = frozenset(
    {"detail", "format", "type", "media_type", "mime_type", "mime", "uuid", "id", "name", "filename", "title", "alt"}
    | {"voice", "text", "transcript", "context", "cache_control", "citations"}
)
"""Keys beside the data of a medium, which are never fetched."""
DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w.=+-]+)*;base64,[A-Za-z0-9+/=_\r\n-]*", re.ASCII)
BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
MIN_BASE64_CHARS = 88
"""Of data without `data:`, 64 bytes and more: SGLang first takes such a text for the name of a file."""
JPEG = "/9j/"
"""How the base64 of each JPEG begins, and no path: nobody but root can make a folder of that name."""
SOURCES = frozenset({"base64", "text", "content"})
"""Types of Anthropic's `source` that hold the data; `url` is fetched, `file` lies with a provider."""

_REMOTE_KEYS = (
    # LiteLLM sends where the body says
    "api_base base_url api_key api_version custom_llm_provider litellm_params litellm_metadata model_list user_config"
    " fallbacks default_fallbacks context_window_fallbacks content_policy_fallbacks extra_headers extra_body"
    " extra_query proxy_server_request callbacks success_callback failure_callback langfuse_host langsmith_base_url"
    " callback_url webhook webhook_url posthog_api_url prompt_id guardrails mock_response"
    # vLLM and SGLang fetch caches from other machines (disaggregated prefill)
    " kv_transfer_params bootstrap_host bootstrap_port bootstrap_room remote_host remote_port"
    " ec_transfer_params disaggregated_params encoded_opaque_state remote_engine_id remote_block_ids"
    # these load or run what they name, or unpack what they hold (vLLM, SGLang, TensorRT-LLM)
    " custom_logit_processor logits_processors logits_processor prompt_embeds image_embeds audio_embeds video_embeds"
    " mm_embedding_handle multimodal_embedding_handles lora_path lora_request mm_processor_kwargs chat_template"
    " out_data_format"
    # mlx_lm.server, mlx-vlm and TGI download what these name
    " adapters draft_model adapter_path adapter_id adapter_source"
)
_REMOTE_TOOLS = (
    # MCP servers and searches that the engine calls itself: LM Studio, OpenAI's and Anthropic's APIs
    "mcp_servers server_url connector_id integrations web_search_options search_parameters plugins mcp container"
)
KEYS: Mapping[str, str] = (
    dict.fromkeys(_REMOTE_KEYS.split(), "remote_key")
    | dict.fromkeys(_REMOTE_TOOLS.split(), "remote_tool")
    | {"data_format": "remote_media"}  # of vLLM's /pooling, where `url` and `path` are read
)
"""Key → the rule that refuses it, whatever it holds but nothing (`is_nothing`)."""

TOOLS = frozenset({"function", "custom", "local_shell", "apply_patch", "computer_use_preview", "namespace"})
"""Types of tools that the client runs; others run in the engine, or where it sends them."""
REMOTE_TOOL = re.compile(
    r"(mcp|mcp_toolset|web_search|web_fetch|google_search|x_search|file_search|code_interpreter|code_execution"
    r"|image_generation|tool_search|shell|browser_search)(?:_preview)?(?:_[\d_]+)?"
)
"""Known types of tools that an engine would run; the refusal calls them by their names here, others by none."""
CLIENT_TOOL = re.compile(r"(?:bash|text_editor|computer|memory)_\d{8}")
SCHEMAS = frozenset({"parameters", "input_schema", "schema", "json_schema", "guided_json", "json", "properties"})
"""Keys whose value an engine reads as a schema, an object or the text of one."""
DATA = SCHEMAS | {"arguments", "metadata", "logit_bias"}
"""Keys whose value an engine hands on, or reads as a schema."""
REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
"""Keys of a schema that name another; llama.cpp's reader of schemas and others fetch it where that is an address."""


PLAIN = frozenset(
    {"model", "messages", "role", "content", "text", "type", "id", "name", "index", "strict"}
    | {"description", "function", "tool_calls", "tool_call_id"}
)
"""Keys that no rule is about: objects with no other are most of a conversation, and need no second look."""


def check(body: Mapping[str, Any]) -> None:
    """Look through a whole body.

    Raises:
        Refused: an engine would reach out for it.
    """
    todo: list[Any] = [body]
    while todo:
        found = todo.pop()
        inside = found if isinstance(found, list) else _looked_at(found, is_top=found is body)
        todo += [one for one in inside if isinstance(one, (dict, list))]


def is_nothing(value: Any) -> bool:
    """Whether a field says no more than if it were left out; many clients write all that they know."""
    return value is None or value is False or value in ("", [], {})


def _looked_at(found: Mapping[str, Any], *, is_top: bool) -> list[Any]:
    """The values of an object that are to be looked at as well."""
    if found.keys() <= PLAIN:
        return list(found.values())
    folded = _folded(found)
    kind = folded.get("type")
    kind = kind.casefold() if isinstance(kind, str) else ""
    for name, value in folded.items():
        _check_field(name, value, kind)
    return [value for name, value in folded.items() if not _is_data(name, value, kind, is_top=is_top)]


def _check_field(name: str, value: Any, kind: str) -> None:
    """One field of an object whose `type` is `kind`."""
    if name in KEYS and not is_nothing(value):
        raise Refused(KEYS[name], name)
    if _is_medium(name, value, kind):
        _check_medium(value, name)
    elif name == "source" and isinstance(value, dict):
        _check_source(_folded(value))
    elif name == "tools":
        _check_tools(value)
    if name in SCHEMAS or name == "format":
        _check_schema(value)


def _folded(found: Mapping[str, Any]) -> dict[str, Any]:
    """The object with keys that differ from no other by their case alone. Raises Refused."""
    folded = {key.casefold(): value for key, value in found.items()}
    if len(folded) != len(found):
        raise Refused("duplicate_key")
    return folded


def _is_data(name: str, value: Any, kind: str, *, is_top: bool) -> bool:
    """At the top, `input` is the conversation (Responses), whatever `type` stands beside it.

    `env` is the environment of a command that an agent ran (the action of a local_shell_call).
    """
    if name == "input":
        return kind == "tool_use" and not is_top
    return name in DATA or (name == "format" and isinstance(value, dict)) or (name == "env" and kind == "exec")


def _is_medium(name: str, value: Any, kind: str) -> bool:
    if name in PLAIN_NAMES and isinstance(value, str):
        return kind in MEDIA_TYPES
    return name in MEDIA or (kind in MEDIA_TYPES and name in ADDRESSES)


def _check_medium(value: Any, what: str) -> None:
    """Every text in it must be the data itself."""
    if isinstance(value, str):
        if value and not _is_inline(value):
            raise Refused("remote_media", what)
    elif isinstance(value, list):
        for one in value:
            _check_medium(one, what)
    elif isinstance(value, dict):
        for key, one in _folded(value).items():
            if key not in BESIDE_MEDIA:
                _check_medium(one, what)


def _is_inline(value: str) -> bool:
    """Whether a text is data: a `data:` URL, or base64 that cannot be the path of a file."""
    if value.startswith("data:"):
        return DATA_URL.fullmatch(value) is not None
    if len(value) < MIN_BASE64_CHARS or len(value) % 4 or (value.startswith("/") and not value.startswith(JPEG)):
        return False
    return BASE64.fullmatch(value) is not None


def _check_source(value: Mapping[str, Any]) -> None:
    strange = value.keys() - {"type", "media_type", "data", "content", "cache_control"}
    if value.get("type") not in SOURCES or strange:
        raise Refused("remote_media", "source")


def _check_schema(value: Any) -> None:
    """A schema refers to parts of itself alone."""
    todo = [_parsed(value)]
    while todo:
        found = todo.pop()
        if isinstance(found, dict):
            _check_references(found)
            todo += found.values()
        elif isinstance(found, list):
            todo += found


def _check_references(found: Mapping[str, Any]) -> None:
    """A property may be called as a reference is; then it holds no text."""
    for name in REFERENCES & found.keys():
        if isinstance(found[name], str) and not found[name].startswith("#"):
            raise Refused("remote_key", name)


def _parsed(value: Any) -> Any:
    """A schema that stands as text; text that is none is data."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except RecursionError as error:
        raise Refused("too_nested") from error
    except ValueError:
        return None


def _check_tools(value: Any) -> None:
    for one in value if isinstance(value, list) else [value]:
        if one is None:
            continue
        tool = _folded(one) if isinstance(one, dict) else {"type": None}
        if not _is_for_client(tool):
            known = REMOTE_TOOL.fullmatch(kind) if isinstance(kind := tool.get("type"), str) else None
            raise Refused("remote_tool", known[1] if known else "a tool of this type")


def _is_for_client(tool: Mapping[str, Any]) -> bool:
    """Without a type it is Anthropic's, with a name, or it is one that a provider runs ("google_search")."""
    if "type" not in tool:
        return "name" in tool or "function" in tool
    kind = tool["type"]
    return isinstance(kind, str) and (kind in TOOLS or CLIENT_TOOL.fullmatch(kind) is not None)
