"""What in a body would make an engine reach out for the agent: tables of keys and values, looked for at any depth.

Keys are compared without case, as some engines read them so (Go's encoding/json). What an engine only hands on as
data is not looked at: schemas and arguments of tools, and inputs of tool calls in a conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sparkgate.policy.model_door.refusal import Refused

MEDIA: Mapping[str, str] = (
    dict.fromkeys(("image_url", "image", "images", "image_data", "image_file", "input_image", "image_embeds"), "image")
    | dict.fromkeys(("audio_url", "audio", "audio_data", "input_audio"), "sound")
    | dict.fromkeys(("video_url", "video", "videos", "video_data", "input_video"), "video")
    | dict.fromkeys(("file_url", "file", "files", "file_data", "document_url", "input_file"), "file")
    | dict.fromkeys(("multimodal_data", "mm_data", "media", "media_url", "pdf_url"), "file")
)
"""Key → what it holds. vLLM, SGLang and llama.cpp fetch http(s) URLs and local files that stand there."""

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
    # mlx_lm.server downloads what these name
    " adapters draft_model"
)
_REMOTE_TOOLS = (
    # MCP servers and searches that the engine calls itself: LM Studio, OpenAI's and Anthropic's APIs
    "mcp_servers server_url connector_id integrations web_search_options search_parameters plugins mcp container"
)
KEYS: Mapping[str, str] = dict.fromkeys(_REMOTE_KEYS.split(), "remote_key") | dict.fromkeys(
    _REMOTE_TOOLS.split(), "remote_tool"
)
"""Key → the rule that refuses it, whatever it holds."""

TOOLS = frozenset({"function", "custom", "local_shell", "apply_patch", "computer_use_preview", "namespace"})
"""Types of tools that the client runs; others run in the engine, or where it sends them."""
CLIENT_TOOL = re.compile(r"(?:bash|text_editor|computer|memory)_\d{8}")
DATA = frozenset({"parameters", "input_schema", "arguments", "schema", "json_schema", "guided_json", "json"}) | {
    "metadata",
    "properties",
    "logit_bias",
}
"""Keys whose value an engine hands on, or reads as a schema."""


def check(body: Mapping[str, Any]) -> None:
    """Look through a whole body.

    Raises:
        Refused: an engine would reach out for it.
    """
    todo: list[Any] = [body]
    while todo:
        found = todo.pop()
        todo += found if isinstance(found, list) else _looked_at(found, is_top=found is body)
        todo = [one for one in todo if isinstance(one, (dict, list))]


def _looked_at(found: Mapping[str, Any], *, is_top: bool) -> Iterator[Any]:
    """The values of an object that are to be looked at as well."""
    kind = found.get("type")
    is_medium = isinstance(kind, str) and kind.casefold() in MEDIA_TYPES
    for key, value in found.items():
        name = key.casefold()
        if rule := KEYS.get(name):
            raise Refused(rule, name)
        if name in MEDIA or (is_medium and name in ADDRESSES):
            _check_medium(value, MEDIA.get(name, "medium"))
        elif name == "source" and isinstance(value, dict):
            _check_source(value)
        elif name == "tools":
            _check_tools(value)
        if not _is_data(name, value, kind, is_top=is_top):
            yield value


def _is_data(name: str, value: Any, kind: Any, *, is_top: bool) -> bool:
    """At the top, `input` is the conversation (Responses), whatever `type` stands beside it."""
    if name == "input":
        return kind == "tool_use" and not is_top
    return name in DATA or (name == "format" and isinstance(value, dict))


def _check_medium(value: Any, what: str) -> None:
    """Every text in it must be the data itself: a `data:` URL, or base64, which has neither colon nor dot."""
    if isinstance(value, str):
        if value[:5].lower() != "data:" and any(sign in value for sign in ":.\\"):
            raise Refused("remote_media", what)
    elif isinstance(value, list):
        for one in value:
            _check_medium(one, what)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key.casefold() not in BESIDE_MEDIA:
                _check_medium(one, what)


def _check_source(value: Mapping[str, Any]) -> None:
    kind = value.get("type")
    strange = {key.casefold() for key in value} - {"type", "media_type", "data", "content", "cache_control"}
    if kind not in SOURCES or strange:
        raise Refused("remote_media", "source")


def _check_tools(value: Any) -> None:
    for one in value if isinstance(value, list) else [value]:
        if one is not None and not (isinstance(one, dict) and _is_for_client(one)):
            raise Refused("remote_tool", "tools")


def _is_for_client(tool: Mapping[str, Any]) -> bool:
    """Without a type it is Anthropic's, with a name, or it is one that a provider runs ("google_search")."""
    if "type" not in tool:
        return "name" in tool or "function" in tool
    kind = tool["type"]
    return isinstance(kind, str) and (kind in TOOLS or CLIENT_TOOL.fullmatch(kind) is not None)
