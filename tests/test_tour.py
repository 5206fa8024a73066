"""The tour, which is the first thing a newcomer runs."""

from __future__ import annotations

import json

import pytest
from box import Box
from real_searxng import ensure_installed

from sparkgate.clients.sample_index import PAGES, find


@pytest.fixture
def box_with_searxng(box: Box) -> Box:
    """A box whose state folder has SearXNG installed already."""
    box.state.mkdir(parents=True)
    (box.state / "searxng").symlink_to(ensure_installed())
    return box


def test_the_tour_shows_the_whole_way_and_leaves_nothing_behind(box_with_searxng: Box) -> None:
    box = box_with_searxng
    box.environment["TMPDIR"] = str(box.root)
    run = box.command("tour", "--json")
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert [one["ok"] for one in report["answers"]] == [True, True, False]
    assert [row["verdict"] for row in report["log"]] == ["block", "redact", "allow"]
    assert report["index_received"] == [report["log"][2]["sent"], report["log"][1]["sent"]]
    assert "ada" not in str(report["index_received"]) and "hf_" not in json.dumps(report["log"])
    assert not list(box.root.glob("sg-tour-*"))
    assert not box.socket.exists() and not (box.state / "audit.db").exists()


def test_the_tour_for_people_says_what_happens_and_what_to_do_next(box_with_searxng: Box) -> None:
    text = box_with_searxng.command("tour").stdout
    for words in ("A private SearXNG on loopback", "blocked:", "The log, newest first", "sparkgate searxng up"):
        assert words in text
    assert "register --print hermes" in text


def test_the_sample_index_finds_by_words() -> None:
    assert find("speculative decoding")[0]["title"] == "Speculative decoding in vLLM"
    assert find("zzz") == []
    assert len({path for path, _, _ in PAGES}) == len(PAGES) == 12
