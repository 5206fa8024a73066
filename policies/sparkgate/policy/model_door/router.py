"""A router behind the door: what passes to it, which of its models stay here, and whether an answer came from here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from sparkgate.policy.model_door.fields import KEYS
from sparkgate.policy.model_door.refusal import Refused

ALL = "*"
"""Stands among closed names for all of them."""
NO_FALLBACKS = "disable_fallbacks"
API_BASE, FALLBACKS = "x-litellm-model-api-base", "x-litellm-attempted-fallbacks"
TELLTALE = b"\r\nx-litellm-"
"""How headers of LiteLLM begin, in lower case, so what tells that an engine is one."""
HERE = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})
PORTS = {"http": 80, "https": 443}

_FIELDS = (
    # OpenAI's chat, completions and embeddings
    " model messages prompt input stream stream_options max_tokens max_completion_tokens"
    " temperature top_p top_k min_p n stop seed user presence_penalty frequency_penalty"
    " repetition_penalty logit_bias logprobs top_logprobs tools tool_choice parallel_tool_calls"
    " functions function_call response_format reasoning_effort verbosity modalities prediction"
    " best_of echo suffix dimensions encoding_format store service_tier prompt_cache_key"
    " safety_identifier audio"
    # Responses and Messages
    " instructions max_output_tokens max_tool_calls reasoning text truncation include"
    " system stop_sequences thinking output_config context_management cache_control"
    # what engines take beside these
    " chat_template_kwargs ignore_eos min_tokens guided_json structured_outputs keep_alive options"
    " enable_thinking think num_ctx cache_prompt timings_per_token return_progress disable_fallbacks"
    " repeat_penalty typical_p stop_token_ids skip_special_tokens include_reasoning guided_regex guided_choice"
    " guided_grammar prompt_cache_retention client_metadata"
)
FIELDS = frozenset(_FIELDS.split())
"""Fields of a body that pass to a router. It has many more, and new ones with each version; some lead off the box."""
_NAMED = (
    " metadata previous_response_id conversation background tags timeout num_retries cache"
    " caching drop_params additional_drop_params allowed_openai_params ttl logger_fn verbose"
    " session_id litellm_session_id agent vector_store_ids"
)
NAMED = frozenset(_NAMED.split())
"""Fields that clients send and that do not pass, which a refusal calls by name."""


@dataclass(frozen=True, slots=True)
class Routing:
    """What is known of a router.

    Attributes:
        headers: its answers must prove that they come from here; LiteLLM's can.
        models: name → whether all its requests stay; None while the router does not tell.
        closed: names of which an answer came from elsewhere.
        home: `host:port` of origins that count as this box.
        away: those that do not, although they look local.
        stays: False where the operator lets it leave, which is written down then.
    """

    headers: bool = False
    models: Mapping[str, bool] | None = None
    closed: frozenset[str] = frozenset()
    home: frozenset[str] = frozenset()
    away: frozenset[str] = frozenset()
    stays: bool = True


def check_model(routing: Routing, model: str) -> None:
    """Whether requests for a model may go to the router.

    A pattern in its table is not trusted to take a name that has no entry of its own, as a deployment's id or a list
    of names would then reach another: such names pass only where everything stays.

    Raises:
        Refused: they may not.
    """
    if not routing.stays:
        return
    if routing.models is None:
        raise Refused("routes_unknown")
    if routing.closed & {model, ALL}:
        raise Refused("model_closed")
    everything = all(routing.models.values())
    if not routing.models.get(model, everything and "," not in model):
        raise Refused("model_leaves")


def check_fields(routing: Routing, body: Mapping[str, Any]) -> None:
    """Only known fields pass, as a router does more with a body than ask a model. Raises Refused.

    That goes for empty ones as well: `api_base` null would take the place of a deployment's own, and lead to a cloud.
    """
    for name in body:
        if name not in FIELDS:
            raise Refused("router_key", name if name in NAMED or name in KEYS else "one of these fields")
    if body.get(NO_FALLBACKS, True) is not True and routing.stays:
        raise Refused("router_key", NO_FALLBACKS)


def without_fallbacks(data: bytes | bytearray, body: Mapping[str, Any]) -> bytes | bytearray:
    """The body with `disable_fallbacks`, and every other byte as it was; `body` is what stands in `data`."""
    if NO_FALLBACKS in body:
        return data
    start = data.index(b"{") + 1
    comma = b"," if body else b""
    return data[:start] + b'"disable_fallbacks":true' + comma + data[start:]


def came_from(headers: Mapping[str, str]) -> str:
    """`host:port` that an answer says it came from; "" when that cannot be told."""
    return host_port(headers.get(API_BASE, ""))


def is_from_home(routing: Routing, model: str, status: int, headers: Mapping[str, str]) -> bool:
    """Whether an answer of a model proves that it comes from this box.

    The headers know nothing of fallbacks and copies of a single deployment (seen in LiteLLM 1.108.7), so they count
    only for models of which the table says that they stay. An error need not say where it comes from, unless its
    request may have been sent on.
    """
    stays = (routing.models or {}).get(model, all((routing.models or {"": False}).values()))
    if not stays or headers.get(FALLBACKS, "0").strip() not in ("0", ""):
        return False
    base = headers.get(API_BASE, "").strip()
    return is_home(base, routing.home, routing.away) if base else status >= 400 and routing.stays


def is_home(url: str, home: Iterable[str], away: Iterable[str]) -> bool:
    """Whether a URL, or `host:port`, is an origin of this box: a loopback address, or one of `home`, none of `away`."""
    origin = _alike(host_port(url))
    if not origin or origin in map(_alike, away):
        return False
    return origin.startswith("localhost:") or origin in map(_alike, home)


def _alike(origin: str) -> str:
    """One spelling for this machine."""
    host, _, port = origin.rpartition(":")
    return f"localhost:{port}" if _is_loopback(host.strip("[]")) else origin


def host_port(url: str) -> str:
    """`host:port` of a URL or of `host:port`, in one spelling; "" for what is none."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return ""
    host = (parts.hostname or "").rstrip(".")
    if not host or not port or not url.isascii() or any(sign in url for sign in " \t\r\n\\"):
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    if host in HERE or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified
