"""Routes of a router in front of engines: from recorded answers, and from a real LiteLLM that really falls back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from real_litellm import running
from recorded_engine import RecordedEngine

from sparkgate.policy.local import Answer, LocalDoor, LocalDoorError, free_port
from sparkgate.routes import ANSWER_BYTES_MAX, RoutedModel, Where, leaks, place_of, read_routes, words

ANSWERS: dict[str, dict[str, list[Any]]] = json.loads((Path(__file__).parent / "routes_answers.json").read_text())
"""What LiteLLM 1.108.7 answered, trimmed to what is read: engines on ports 8000 and 8001, a cloud elsewhere."""

ENGINE = "http://localhost:8000/v1"


def answering(answers: dict[str, list[Any]], asked: list[str] | None = None) -> Callable[[str], Answer]:
    def get(path: str) -> Answer:
        if asked is not None:
            asked.append(path)
        status, kind, body = answers.get(path, [404, "application/json", {"detail": "Not Found"}])
        return Answer(status, kind, body if isinstance(body, str) else json.dumps(body))

    return get


def recorded(name: str) -> dict[str, RoutedModel]:
    return {route.name: route for route in read_routes(answering(ANSWERS[name])) or ()}


# -- places

PLACES: list[tuple[str, Where]] = [
    ("http://127.0.0.1:8000/v1", "box"),
    ("http://127.8.9.1", "box"),
    ("http://localhost:8000", "box"),
    ("HTTP://LOCALHOST./v1", "box"),
    ("http://engine.localhost", "box"),
    ("http://[::1]:8000/v1", "box"),
    ("http://[::ffff:127.0.0.1]:8000", "box"),
    ("http://0.0.0.0:8000", "box"),
    ("http://host.docker.internal:8000/v1", "box"),
    ("127.0.0.1:8000", "box"),
    ("[::1]:8000", "box"),
    ("http://10.0.0.5:8000", "lan"),
    ("http://172.31.0.5", "lan"),
    ("http://192.168.1.7:8000", "lan"),
    ("http://169.254.3.4", "lan"),
    ("http://[fd00::5]:8000", "lan"),
    ("http://[fe80::1%25eth0]:8000", "lan"),
    ("http://vllm:8000/v1", "lan"),
    ("http://vllm.llm.svc.cluster.local:8000", "lan"),
    ("http://vllm.llm.svc:8000", "lan"),
    ("http://spark.local:8000", "lan"),
    ("https://user:secret@spark.lan/v1", "lan"),
    ("https://api.openai.com/v1", "off"),
    ("https://localhost.example.com", "off"),
    ("https://localhost@example.com", "off"),
    ("http://172.32.0.1", "off"),
    ("http://192.0.2.1", "off"),
    ("http://8.8.8.8", "off"),
    ("http://[::ffff:8.8.8.8]", "off"),
    ("http://100.101.102.103:8000", "off"),
    ("http://134744072", "off"),
    ("http://0x08080808", "off"),
    ("http://127.1:8000", "off"),
    ("http://ai./", "off"),
    ("http://evil。com/", "off"),
    ("http://example.com\\@localhost/", "off"),
    ("http://local host/", "off"),
    ("http://localhost:99999", "off"),
    ("ftp://localhost", "off"),
    ("os.environ/BASE", "off"),
    ("http://", "off"),
    ("", "off"),
]


@pytest.mark.parametrize(("api_base", "place"), PLACES)
def test_the_place_of_an_address_is_told_without_looking_a_name_up(api_base: str, place: Where) -> None:
    assert place_of(api_base) == place


# -- leaks


def routed(name: str, via: str, off: bool | None, fallbacks: tuple[str, ...] | None = ()) -> RoutedModel:
    return RoutedModel(name, (via,) if via else (), off, fallbacks, False if fallbacks == () else None)


ADDRESSES: list[tuple[str, str, bool]] = [
    ("127.0.0.1:8000", "http://127.0.0.1:8000/v1", True),
    ("localhost:8000", "http://127.0.0.1:8000", True),
    ("host.docker.internal:8000", "127.0.0.1:8000", True),
    ("192.168.1.7:8000", "http://127.0.0.1:8000", True),
    ("vllm.llm.svc.cluster.local:8000", "http://127.0.0.1:30800", True),
    ("vllm:8000", "http://vllm.llm.svc:8000", True),
    ("[::1]:8000", "http://localhost:8000", True),
    ("spark.example.com:443", "https://spark.example.com/v1", True),
    ("ollama", "http://127.0.0.1:11434", True),
    ("hosted_vllm", "http://127.0.0.1:8000", True),
    ("", "http://127.0.0.1:8000", True),
    ("127.0.0.1:8001", "http://127.0.0.1:8000", False),
    ("192.168.1.7:8000", "http://192.168.1.8:8000", False),
    ("sglang:8000", "http://vllm:8000", False),
    ("vllm:8001", "http://vllm:8000", False),
    ("ollama", "http://127.0.0.1:8000", False),
    ("openai", "http://127.0.0.1:8000", False),
    ("spark.example.com:8000", "http://127.0.0.1:8000", False),
]


@pytest.mark.parametrize(("via", "origin", "same"), ADDRESSES)
def test_an_engine_is_met_under_every_address_that_may_be_its_own(via: str, origin: str, same: bool) -> None:
    routes = [routed("main", via, False, None)]
    assert leaks(routes, origin) == (("main",) if same else ())


def test_what_nobody_tells_counts_as_a_way_out() -> None:
    known = [routed("first", "127.0.0.1:8000", False), routed("second", "127.0.0.1:8000", None)]
    assert leaks([*known, routed("third", "127.0.0.1:8000", False, None)], ENGINE) == ("second", "third")


# -- recorded answers

LEAKS = {
    "litellm": ("main", "chain", "mirrored", "inner", "mixed", "long"),
    "litellm-default-fallbacks": ("spark-only",),
}


@pytest.mark.parametrize("name", LEAKS)
def test_the_names_that_leave_the_box_without_their_engine_are_told(name: str) -> None:
    assert leaks(recorded(name).values(), ENGINE) == LEAKS[name]


def test_names_that_never_use_an_engine_do_not_leave_the_box_because_of_it() -> None:
    assert leaks(recorded("litellm").values(), "http://127.0.0.1:8001") == ()
    assert leaks(recorded("litellm").values(), "http://127.0.0.1:11434") == ("daemon",)


ROUTES: list[tuple[str, tuple[str, ...], bool | None, tuple[str, ...], bool | None]] = [
    ("main", ("127.0.0.1:8000",), False, ("cloud",), True),
    ("chain", ("127.0.0.1:8000",), False, ("main",), True),
    ("spark-only", ("127.0.0.1:8000",), False, (), False),
    ("mirrored", ("127.0.0.1:8000",), False, ("cloud",), True),
    ("inner", ("127.0.0.1:8000",), False, ("(an address of its own)",), None),
    ("mixed", ("127.0.0.1:8000", "api.cloud.example:443"), True, (), False),
    ("long", ("127.0.0.1:8000",), False, ("cloud",), True),
    ("paid", ("anthropic",), True, (), False),
    ("daemon", ("ollama",), None, (), False),
    ("*", ("127.0.0.1:8000",), False, (), False),
    ("gpt-4o", ("127.0.0.1:8000",), False, (), False),
    ("old", ("127.0.0.1:8000",), False, (), False),
]


@pytest.mark.parametrize(("name", "via", "off", "fallbacks", "fallbacks_off"), ROUTES)
def test_a_route_tells_where_it_goes_at_first_and_where_it_falls_back_to(
    name: str, via: tuple[str, ...], off: bool | None, fallbacks: tuple[str, ...], fallbacks_off: bool | None
) -> None:
    found = recorded("litellm")[name]
    besides = fallbacks if name in ("mirrored", "inner") else ()  # its own, or a silent copy
    assert found == RoutedModel(name, via, off, fallbacks, fallbacks_off, catch_all=name == "*", besides=besides)


def test_a_catch_all_is_one_route_and_not_one_for_every_model_it_might_mean() -> None:
    assert not [name for name in recorded("litellm") if "/" in name]


def test_default_fallbacks_count_for_names_without_fallbacks_of_their_own() -> None:
    found = recorded("litellm-default-fallbacks")
    own = {"named": ("small",), "small": ("small",)}
    assert {name: route.fallbacks for name, route in found.items()} == {
        "spark-only": ("cloud",),
        **own,
        "cloud": ("cloud",),
    }
    hidden = ANSWERS["litellm-default-fallbacks"]["/router/settings"][2]["current_values"]
    assert "cloud" not in str(hidden["fallbacks"])


def test_a_router_that_wants_a_key_does_not_tell_and_is_asked_once() -> None:
    asked: list[str] = []
    assert read_routes(answering(ANSWERS["litellm-key"], asked)) is None
    assert asked == ["/model/info"]


def test_an_old_router_that_tells_no_fallbacks_may_have_them() -> None:
    answers = {path: answer for path, answer in ANSWERS["litellm"].items() if path == "/model/info"}
    found = {route.name: route for route in read_routes(answering(answers)) or ()}
    assert (found["spark-only"].fallbacks, found["spark-only"].fallbacks_off_box) == (None, None)
    assert "default_fallbacks cannot be read" in words(found["spark-only"])
    assert "spark-only" in leaks(found.values(), ENGINE)


def test_a_kind_of_fallbacks_that_is_not_told_leaves_them_unknown() -> None:
    one = next(path for path in ANSWERS["litellm"] if path.endswith("content_policy"))
    found = read_routes(answering(ANSWERS["litellm"] | {one: [400, "application/json", {}]})) or ()
    assert {route.fallbacks for route in found if route.name not in ("old", "older")} == {None}


def test_an_operator_says_of_an_address_what_nobody_can_see() -> None:
    places: dict[str, Where | None] = {"127.0.0.1:8000": None, "api.cloud.example": "lan", "ollama": "box"}
    found = {route.name: route for route in read_routes(answering(ANSWERS["litellm"]), places=places) or ()}
    assert [found[name].off_box for name in ("spark-only", "cloud", "daemon", "paid")] == [None, False, False, True]


def test_text_of_a_router_is_short_and_clean_and_holds_no_password() -> None:
    rows = [
        {"model_name": "a\nIgnore\x1b[31m" + "x" * 900, "litellm_params": {"api_base": "http://u:secret@spark.lan/v1"}},
        {"model_name": 5, "litellm_params": [], "model_info": "x"},
        {"model_name": "odd", "litellm_params": {"api_base": ["x"], "fallbacks": {"a": 1}, "silent_model": 3}},
    ]
    answers = {"/model/info": [200, "application/json", {"data": [*rows, "x"]}]}
    found = read_routes(answering(answers)) or ()
    told = [words(route) for route in found]
    assert all(line.isprintable() and len(line) < 400 and "secret" not in line for line in told)
    assert found[0].via == ("spark.lan:80",) and len(leaks(found, ENGINE)) == len(found) == 2


@pytest.mark.parametrize("body", [[], {}, {"data": {}}, "x", None])
def test_an_answer_that_is_no_list_of_models_tells_nothing(body: Any) -> None:
    assert read_routes(answering({"/model/info": [200, "application/json", body]})) is None


def test_a_router_that_is_down_is_an_error_and_not_silence() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with LocalDoor([url]) as door, pytest.raises(LocalDoorError):
        read_routes(lambda path: door.get(url + path))


def test_peers_of_a_llama_swap_may_be_anywhere() -> None:
    peer = {"id": "big", "meta": {"llamaswap": {"peerID": "elsewhere"}}}
    answers = {"/v1/models": [200, "application/json", {"data": [{"id": "qwen", "owned_by": "llama-swap"}, peer]}]}
    found = read_routes(answering(answers), "llama-swap") or ()
    told = [(route.name, route.via, route.off_box) for route in found]
    assert told == [("qwen", ("llama-swap",), None), ("big", ("peer elsewhere",), None)]
    known = read_routes(answering(answers), "llama-swap", {"peer elsewhere": "off", "llama-swap": "box"}) or ()
    assert [route.off_box for route in known] == [False, True]


def test_other_engines_have_no_routes() -> None:
    assert read_routes(answering({}), "vllm") is None


# -- a real LiteLLM

COMPLETION = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "from the cloud"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}
UPSTREAM = {"/v1/chat/completions": [200, "application/json", COMPLETION]}


def deployment(name: str, port: int, model: str = "openai/served", **more: Any) -> dict[str, Any]:
    base = f"http://127.0.0.1:{port}/v1"
    params = {"model": model, "api_base": base, "api_key": "none", "max_retries": 0, **more}
    return {"model_name": name, "litellm_params": params}


def models(dead: int, alive: int, cloud: int) -> list[dict[str, Any]]:
    own = [{"model": "openai/other", "api_base": f"http://127.0.0.1:{cloud}/v1", "api_key": "none"}]
    return [
        *(deployment(name, dead) for name in ("main", "chain", "spark-only")),
        deployment("inner", dead, fallbacks=own),
        deployment("small", alive),
        deployment("cloud", cloud),
        deployment("*", dead, "openai/*"),
    ]


NAMED = {
    "fallbacks": [{"main": ["cloud"]}, {"chain": ["main"]}],
    "model_group_alias": {"nick": "main", "old": {"model": "main", "hidden": True}},
}
HIDDEN = {"hidden": {"model": "spark-only", "hidden": True}}
DEFAULTS = {"fallbacks": [{"main": ["small"]}, {"small": ["small"]}], "model_group_alias": HIDDEN}


@dataclass(frozen=True, slots=True)
class Front:
    """A LiteLLM before an engine that is down, one that runs, and a "cloud" that only counts as off the box."""

    url: str
    down: str
    small: RecordedEngine
    cloud: RecordedEngine
    asked: list[str]

    def routes(self) -> tuple[RoutedModel, ...] | None:
        def get(path: str) -> Answer:
            self.asked.append(path)
            return door.get(self.url + path)

        with LocalDoor([self.url], timeout_s=30, cap_bytes=ANSWER_BYTES_MAX) as door:
            return read_routes(get, places={self.cloud.url.removeprefix("http://"): "off"})

    def chat(self, model: str) -> Answer:
        """A chat request through the router; what the upstreams were asked before is forgotten."""
        self.cloud.asked.clear()
        self.small.asked.clear()
        with LocalDoor([self.url], timeout_s=60) as door:
            message = {"role": "user", "content": "x"}
            return door.post_json(f"{self.url}/v1/chat/completions", {"model": model, "messages": [message]})


@contextmanager
def front(router: dict[str, Any], litellm: dict[str, Any], **general: str) -> Iterator[Front]:
    down = free_port()
    with RecordedEngine(UPSTREAM) as small, RecordedEngine(UPSTREAM) as cloud:
        ports = (down, *(int(one.url.rpartition(":")[2]) for one in (small, cloud)))
        config = {
            "model_list": models(*ports),
            "router_settings": router | {"num_retries": 0},
            "litellm_settings": litellm | {"num_retries": 0},
            "general_settings": general,
        }
        with running(config) as live:
            yield Front(live.url, f"http://localhost:{down}", small, cloud, [])


def completions(*engines: RecordedEngine) -> list[str]:
    return [path for engine in engines for path in engine.asked if path.startswith("POST")]


@pytest.fixture(scope="module")
def named() -> Iterator[Front]:
    with front(NAMED, {}) as live:
        yield live


@pytest.fixture(scope="module")
def defaults() -> Iterator[Front]:
    with front(DEFAULTS, {"default_fallbacks": ["cloud"]}) as live:
        yield live


@pytest.mark.engines
def test_reading_the_routes_sends_nothing_to_generate(named: Front) -> None:
    routes = named.routes()
    assert routes and completions(named.small, named.cloud) == []
    assert named.asked and not [path for path in named.asked if path.startswith("/health")]


@pytest.mark.engines
@pytest.mark.parametrize("name", ["main", "chain", "inner"])
def test_a_name_told_as_leaking_is_really_answered_by_the_cloud(named: Front, name: str) -> None:
    assert name in leaks(named.routes() or (), named.down)
    answer = named.chat(name)
    assert answer.status == 200 and "from the cloud" in answer.text
    assert completions(named.cloud) == ["POST /v1/chat/completions"]


STAYING = {"spark-only": "spark-only", "nick": "nick", "old": "old", "a-name-nobody-set": "*"}
"""Name in a request → route that takes it. An alias does not have the fallbacks of what it stands for."""


@pytest.mark.engines
@pytest.mark.parametrize("name", STAYING)
def test_a_name_told_as_staying_really_fails_and_nothing_arrives_at_the_cloud(named: Front, name: str) -> None:
    found = {route.name: route for route in named.routes() or ()}
    assert found[STAYING[name]].fallbacks == () and STAYING[name] not in leaks(found.values(), named.down)
    answer = named.chat(name)
    assert answer.status >= 400 and completions(named.small, named.cloud) == []


@pytest.mark.engines
def test_default_fallbacks_are_seen_where_the_settings_of_the_router_hide_them(defaults: Front) -> None:
    with LocalDoor([defaults.url], timeout_s=30) as door:
        settings = json.loads(door.get(f"{defaults.url}/router/settings").text)["current_values"]
    assert "cloud" not in str(settings)
    found = {route.name: route for route in defaults.routes() or ()}
    assert (found["spark-only"].fallbacks, found["spark-only"].fallbacks_off_box) == (("cloud",), True)
    assert {"spark-only", "*"} <= set(leaks(found.values(), defaults.down))
    assert "from the cloud" in defaults.chat("spark-only").text and completions(defaults.cloud)


@pytest.mark.engines
def test_a_hidden_alias_has_default_fallbacks_too(defaults: Front) -> None:
    assert "hidden" in leaks(defaults.routes() or (), defaults.down)
    assert "from the cloud" in defaults.chat("hidden").text and completions(defaults.cloud)


@pytest.mark.engines
def test_a_name_that_falls_back_within_the_box_stays_there(defaults: Front) -> None:
    assert "main" not in leaks(defaults.routes() or (), defaults.down)
    assert defaults.chat("main").status == 200
    assert completions(defaults.small) and not completions(defaults.cloud)


@pytest.mark.engines
def test_a_litellm_with_a_key_tells_nothing_without_it() -> None:
    with front(NAMED, {}, master_key="sk-made-up-for-this-test-0123456789") as live:
        assert live.routes() is None and live.asked == ["/model/info"]
        assert completions(live.small, live.cloud) == []
