"""A real LiteLLM before engines: what a swap would let out is seen and refused, and what stays stays."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import real_litellm
from door_box import DoorBox, Engine, answer, doors, post, says, until
from engine_box import EngineBox, an_engine_box
from recorded_engine import RecordedEngine, recording

from sparkgate.policy.local import free_port

pytestmark = pytest.mark.engines
KEY = "sk-of-this-test"


def deployment(name: str, url: str) -> dict[str, Any]:
    """A routed name that LiteLLM sends to an OpenAI-compatible server."""
    return {"model_name": name, "litellm_params": {"model": "openai/any", "api_base": f"{url}/v1", "api_key": "none"}}


@contextmanager
def behind_litellm(router: dict[str, Any], **control: Any) -> Iterator[tuple[EngineBox, RecordedEngine]]:
    """(engines behind a LiteLLM that wants a key, the loopback server that stands for a cloud)."""
    chat = [200, "application/json", {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}}]}]
    answers = recording("openai")["answers"] | {"/v1/chat/completions": chat}
    with RecordedEngine(answers) as cloud, an_engine_box() as engines:
        off_box = [cloud.url.removeprefix("http://")]
        local = f"http://127.0.0.1:{engines.ports['old']}"
        config = {
            "model_list": [
                *(deployment(name, local) for name in ("default", "spark-only")),
                deployment("cloud", cloud.url),
            ],
            "router_settings": router,
            "general_settings": {"master_key": KEY},
        }
        port = free_port()
        with real_litellm.running(config, port):
            key_file = engines.box.root / "litellm.key"
            key_file.write_text(KEY + "\n")
            engines.control |= {"off_box": off_box} | control
            engines.more = f'[engines.router]\nurl = "http://127.0.0.1:{port}"\nkey_file = "{key_file}"\n'
            engines.configure()
            yield engines, cloud


FALLS_BACK = {"fallbacks": [{"default": ["cloud"]}]}


def test_the_status_of_a_router_tells_which_names_can_leave_the_box_and_which_cannot() -> None:
    with behind_litellm(FALLS_BACK) as (engines, cloud):
        host = engines.host()
        engines.load("old", host)
        routes = {one["name"]: one for one in host.call("engine_status", {"name": "router"})["engines"][0]["routes"]}
        assert (routes["default"]["fallbacks"], routes["default"]["fallbacks_off_box"]) == (["cloud"], True)
        assert (routes["spark-only"]["fallbacks"], routes["spark-only"]["fallbacks_off_box"]) == ([], False)
        assert (routes["cloud"]["off_box"], routes["default"]["off_box"]) == (True, False)
        assert not any(path.startswith("POST") for path in cloud.asked)


def test_a_swap_that_would_send_prompts_to_the_cloud_is_refused_unless_that_is_allowed() -> None:
    with behind_litellm(FALLS_BACK) as (engines, cloud):
        host = engines.host()
        engines.load("old", host)
        refused = host.call("engine_swap", {"name": "new"})
        assert refused["code"] == "would_leak" and "default" in refused["message"]
        assert "spark-only" not in refused["message"]
        assert engines.up() == ["old"] and engines.actions()[-1] == ("swap", "new", "withheld")
        engines.control["allow_cloud_fallback"] = True
        engines.configure()
        done = engines.finished(host, host.call("engine_swap", {"name": "new"}))
        assert done["state"] == "done" and engines.up() == ["new"]
        assert not any(path.startswith("POST") for path in cloud.asked)


def test_behind_a_router_without_a_way_out_a_swap_is_done() -> None:
    with behind_litellm({}) as (engines, _):
        host = engines.host()
        engines.load("old", host)
        assert engines.finished(host, host.call("engine_swap", {"name": "new"}))["state"] == "done"


def test_a_router_that_does_not_tell_its_routes_counts_as_a_way_out() -> None:
    with behind_litellm(FALLS_BACK) as (engines, _):
        host = engines.host()
        engines.load("old", host)
        (engines.box.root / "litellm.key").unlink()
        assert host.call("engine_swap", {"name": "new"})["code"] == "routes_unknown"
        status = host.call("engine_status", {"name": "router"})["engines"][0]
        assert any("key_file" in warning for warning in status["warnings"])


def test_an_agent_that_asks_through_the_router_protects_the_engine_behind_it() -> None:
    with behind_litellm({}) as (engines, _):
        host = engines.host()
        engines.load("old", host)
        config = engines.box.root / ".hermes" / "config.yaml"
        config.parent.mkdir()
        config.write_text(engines.more.replace("[engines.router]\nurl = ", "base_url: "))
        refused = host.call("engine_swap", {"name": "new"})
        assert refused["code"] == "needs_confirmation" and "Hermes" in refused["message"]


# -- the model door

HI = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "any",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/completions": {"prompt": "hello"},
}


@contextmanager
def door_to_litellm(table: str = "") -> Iterator[tuple[DoorBox, Engine, Engine]]:
    """(a door to a LiteLLM whose default_fallbacks lead to a cloud, the engine at home, what stands for the cloud)."""
    with Engine(says(answer(HI))) as near, Engine(says(answer(HI))) as cloud, tempfile.TemporaryDirectory() as folder:
        own = [{"model": "openai/any", "api_base": f"{cloud.url}/v1", "api_key": "none"}]
        nobody = f"http://127.0.0.1:{free_port()}"
        rows = [deployment(*row) for row in (("spark-only", near.url), ("cloud", cloud.url), ("down", nobody))]
        rows += [deployment("falls-back-itself", nobody), deployment("copied", near.url)]
        rows[3]["litellm_params"]["fallbacks"] = own
        rows[4]["litellm_params"]["silent_model"] = "cloud"
        config = {
            "model_list": rows,
            "litellm_settings": {"default_fallbacks": ["cloud"]},
            "router_settings": {"num_retries": 0},
            "general_settings": {"master_key": KEY},
        }
        port, key_file = free_port(), Path(folder) / "key"
        key_file.write_text(KEY)
        with real_litellm.running(config, port):
            entry = f'url = "http://127.0.0.1:{port}"\nkey_file = "{key_file}"\n{table}'
            with doors({"main": entry}, f'[control]\noff_box = ["127.0.0.1:{cloud.port}"]') as box:
                yield box, near, cloud


def test_through_the_door_spark_only_is_a_guarantee() -> None:
    with door_to_litellm() as (box, near, cloud):
        for path, body in ASKED.items():
            assert box.ask(post({"model": "spark-only", **body}, path)).status == 200
            assert box.ask(post({"model": "down", **body}, path)).status == 500
            for model in ("cloud", "falls-back-itself", "copied", "no-such-model"):
                assert box.ask(post({"model": model, **body}, path)).code == "model_leaves", model
            refused = box.ask(post({"model": "spark-only", "fallbacks": ["cloud"], **body}, path))
            assert refused.code == "remote_key"
        near.close()
        for path, body in ASKED.items():
            assert box.ask(post({"model": "spark-only", **body}, path)).status >= 429
        assert len(near.posted) == 2 and cloud.posted == []


def test_what_the_operator_lets_leave_is_written_down_though_litellm_does_not_tell_it() -> None:
    with door_to_litellm("stays_home = false\n") as (box, near, cloud):
        chat = ASKED["/v1/chat/completions"]
        assert box.ask(post({"model": "spark-only", **chat})).status == 200
        assert cloud.posted == [] and box.rows() == []
        told = box.ask(post({"model": "falls-back-itself", **chat}))
        assert told.status == 200 and len(cloud.posted) == 1
        assert "x-litellm-attempted-fallbacks: 0" in told.head and f":{cloud.port}" not in told.head
        assert box.ask(post({"model": "down", **chat})).status == 200 and len(cloud.posted) == 2
        rows = until(lambda: len(found := box.rows()) == 2 and found, "a row for each")
        assert [row["fields"]["model"] for row in rows] == ["falls-back-itself", "down"]
        assert {row["outcome"] for row in rows} == {"left_the_box"}
        assert len(near.posted) == 1
