"""Prompts: no two begin alike, and their length is found without a tokenizer."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from sparkgate.engines import ENGINES
from sparkgate.measure.lengths import (
    LENGTH_FIELDS,
    dialect,
    length_class,
    length_forms,
    request_fields,
    shortest_allowed,
)
from sparkgate.measure.prompts import (
    FAMILIES,
    INSTRUCTIONS,
    NONCE_WORDS,
    TAIL_WORDS,
    VOCABULARY,
    Calibration,
    Fit,
    Prompt,
    PromptError,
    filler,
    least_squares,
    messages,
    nonce,
    template_tokens,
    text,
)

SEED = 0x0123456789ABCDEF0123456789ABCDEF
GENERATE_NOTHING = {"lmcache"}
TEMPLATE_TOKENS = 3


def shared_words(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """How many words two prompts have in common before the first that differs."""
    return next((index for index, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1]), len(first))


def calibrated(a: float, b: float, target_tokens: int, known: Fit | None = None) -> Calibration:
    """The search against an engine that counts round(a · words + b) tokens."""
    search = Calibration(target_tokens, known=known)
    while (words := search.next_words()) is not None:
        search = search.observed(words, round(a * words + b))
    return search


def test_the_vocabulary_is_64_different_lower_case_words() -> None:
    assert len(set(VOCABULARY)) == 64 and all(word.isalpha() and word.islower() for word in VOCABULARY)


def test_ten_thousand_pairs_of_requests_differ_from_the_nonce_on() -> None:
    runs = [nonce(SEED, number) for number in range(142)]
    pairs = [shared_words(one, other) for i, one in enumerate(runs) for other in runs[:i]]
    assert len(pairs) > 10_000 and max(pairs) <= TEMPLATE_TOKENS
    assert {shared_words(runs[number], runs[number + 63]) for number in range(64)} == {0}


def test_the_first_two_words_never_repeat_within_4096_requests() -> None:
    assert len({nonce(SEED, number)[:2] for number in range(4096)}) == 4096


def test_another_run_has_other_nonces() -> None:
    here, there = ({nonce(seed, number) for number in range(500)} for seed in (SEED, SEED + 1))
    assert len(here) == len(there) == 500 and not here & there


def test_a_nonce_is_the_same_on_every_machine() -> None:
    told = " ".join(nonce(SEED, 7))
    assert len(told.split()) == NONCE_WORDS
    assert hashlib.sha256(told.encode()).hexdigest()[:12] == "005db0d6d70b"


@pytest.mark.parametrize(("seed", "number"), [(-1, 0), (1 << 128, 0), (0, -1)])
def test_a_nonce_out_of_range_is_refused(seed: int, number: int) -> None:
    with pytest.raises(PromptError):
        nonce(seed, number)


@pytest.mark.parametrize("words", [0, 1, 63, 64, 65, 200])
def test_filler_has_the_words_asked_for_and_each_word_once_in_64(words: int) -> None:
    made = filler(SEED, 3, words)
    assert len(made) == words
    assert max(Counter(made).values(), default=0) <= -(-words // 64)


def test_filler_does_not_repeat_itself_or_that_of_another_request() -> None:
    made = filler(SEED, 3, 640)
    assert len({made[start : start + 64] for start in range(0, 640, 64)}) == 10
    assert filler(SEED, 4, 64) != made[:64]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_is_one_message_that_begins_with_its_nonce_and_ends_with_its_instruction(family: str) -> None:
    prompt = Prompt(5, 40, next(one for one in FAMILIES if one == family))
    [message] = messages(SEED, prompt)
    words, instruction = message["content"].split("\n\n")
    assert message["role"] == "user" and instruction == INSTRUCTIONS[prompt.family]
    assert tuple(words.split()[:NONCE_WORDS]) == nonce(SEED, 5)
    assert len(words.split()) == NONCE_WORDS + 40 + TAIL_WORDS


def test_a_warm_prompt_shares_all_but_its_tail() -> None:
    first, second = (text(SEED, Prompt(number, 100, prefix_of=2)).split() for number in (8, 9))
    cold = text(SEED, Prompt(2, 100)).split()
    shared = NONCE_WORDS + 100
    assert first[:shared] == second[:shared] == cold[:shared]
    assert len(first) == len(second) == len(cold) and first[shared] != second[shared]


def test_a_prompt_of_fewer_than_no_words_is_refused() -> None:
    with pytest.raises(PromptError, match="0"):
        text(SEED, Prompt(1, -1))


@pytest.mark.parametrize("target_tokens", [512, 4096, 32_768, 131_072])
@pytest.mark.parametrize("a", [0.8, 0.93, 1.0, 1.07, 1.31, 1.5, 1.77, 2.0])
@pytest.mark.parametrize("b", [0, 1, 23.4, 150, 400])
def test_a_length_is_found_in_five_requests(a: float, b: float, target_tokens: int) -> None:
    search = calibrated(a, b, target_tokens)
    assert search.exact and len(search.seen) <= 5
    assert max(words for words, _ in search.seen) * a + b <= target_tokens * 1.01


@pytest.mark.parametrize("a", [0.8, 1.0, 1.3, 2.0])
def test_a_fit_of_another_length_saves_requests(a: float) -> None:
    known = calibrated(a, 31, 4096).fit
    again = calibrated(a, 31, 8192, known)
    assert known is not None and again.exact and len(again.seen) <= 2


def test_a_wrong_fit_is_given_up_for_what_is_seen() -> None:
    search = calibrated(1.6, 90, 2048, Fit(1.0, 0.0))
    assert search.exact and len(search.seen) <= 5


def test_a_search_that_never_fits_ends_after_five_requests_with_its_best() -> None:
    search = Calibration(1000)
    counts = iter([30, 700, 1200, 900, 1100, 1000])
    while (words := search.next_words()) is not None:
        search = search.observed(words, next(counts))
    assert len(search.seen) == 5 and search.error_tokens == -100 and not search.exact


def test_a_target_below_the_template_says_so() -> None:
    search = calibrated(1.0, 300, 64)
    assert search.next_words() is None and "300 tokens" in search.fault


def test_an_engine_that_leaves_out_cached_tokens_is_found_out() -> None:
    search = Calibration(1000).observed(16, 40).observed(400, 12)
    assert search.fit is None and search.next_words() is None and "do not grow" in search.fault


def test_nothing_is_known_before_the_first_answer() -> None:
    search = Calibration(512)
    assert (search.best, search.error_tokens, search.fit, search.fault) == (None, None, None, "")
    assert search.next_words() == 16 and not search.exact


def test_the_line_through_what_was_seen() -> None:
    assert least_squares(((10, 25), (20, 45), (30, 65))) == Fit(2.0, 5.0)
    assert least_squares(((10, 25),)) is None and least_squares(((10, 25), (10, 26))) is None
    assert Fit(2.0, 5.0).words(25) == 10 and Fit(2.0, 5.0).words(1) == 0 and Fit(2.0, 5.0).tokens(10) == 25


def test_template_tokens_are_what_is_left_of_the_constant() -> None:
    own = NONCE_WORDS + TAIL_WORDS + len(INSTRUCTIONS["prose"].split())
    assert template_tokens(Fit(1.0, own + 19.2), "prose") == 19
    assert template_tokens(Fit(1.0, 5.0), "prose") == 0


def test_every_engine_that_generates_has_its_fields() -> None:
    assert set(LENGTH_FIELDS) == set(ENGINES) - GENERATE_NOTHING | {"ollama-native"}


@pytest.mark.parametrize("engine", LENGTH_FIELDS)
@pytest.mark.parametrize("thinking", [None, False, True])
@pytest.mark.parametrize("warm", [False, True])
def test_no_engine_is_sent_what_it_must_not_get(engine: str, thinking: bool | None, warm: bool) -> None:
    for form in length_forms(engine):
        body = request_fields(engine, form, 100, thinking=thinking, warm=warm)
        assert not set(body) & dialect(engine).never
        assert body.get("max_tokens") == 100 or body.get("options") == {"num_predict": 100}


@pytest.mark.parametrize("engine", LENGTH_FIELDS)
def test_every_engine_has_a_way_that_forces_nothing(engine: str) -> None:
    ways = length_forms(engine)
    assert ways[-1].exactness == "upper bound" and dialect(engine).why
    assert all(way.exactness == "upper bound" for way in length_forms(engine, free=True))
    assert length_forms(engine, "openai/gpt-oss-120b") == length_forms(engine, free=True)


EXACT_BODIES = {
    "vllm": {
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_token_ids": True,
        "max_tokens": 400,
        "min_tokens": 400,
        "ignore_eos": True,
        "chat_template_kwargs": {"enable_thinking": False},
    },
    "sglang": {
        "stream_options": {"include_usage": True},
        "max_tokens": 400,
        "min_tokens": 400,
        "ignore_eos": True,
        "chat_template_kwargs": {"enable_thinking": False},
    },
    "llamacpp": {
        "stream_options": {"include_usage": True},
        "max_tokens": 400,
        "ignore_eos": True,
        "chat_template_kwargs": {"enable_thinking": False},
        "cache_prompt": False,
    },
    "ollama": {"stream_options": {"include_usage": True}, "max_tokens": 400, "reasoning_effort": "none"},
    "ollama-native": {"options": {"num_predict": 400}, "think": False},
}


@pytest.mark.parametrize("engine", EXACT_BODIES)
def test_the_fields_of_an_engine_are_these(engine: str) -> None:
    strictest = length_forms(engine)[0]
    assert request_fields(engine, strictest, 400, thinking=False, warm=False) == EXACT_BODIES[engine]


def test_a_warm_prefix_is_allowed_to_use_the_cache() -> None:
    assert request_fields("llamacpp", length_forms("llamacpp")[0], 8, thinking=None, warm=True)["cache_prompt"] is True


def test_an_engine_nobody_knows_is_asked_like_any_other() -> None:
    assert dialect("something-new") == dialect("openai")


@pytest.mark.parametrize(
    ("output_tokens", "finish", "shown"),
    [
        (48, "length", "exact"),
        (48, None, "exact"),
        (48, "", "exact"),
        (48, "stop", "short"),
        (20, "stop", "short"),
        (47, "length", "short"),
        (49, "length", "long"),
        (None, "length", "unknown"),
    ],
)
def test_a_probe_tells_what_a_server_makes_of_a_length(
    output_tokens: int | None, finish: str | None, shown: str
) -> None:
    assert length_class(48, output_tokens, finish) == shown


def test_where_a_length_cannot_be_forced_five_percent_may_be_missing() -> None:
    assert (shortest_allowed(400, "exact"), shortest_allowed(400, "short"), shortest_allowed(33, "unknown")) == (
        400,
        380,
        32,
    )
