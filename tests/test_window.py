"""A secret cut into pieces is stopped at the piece that completes it, and ordinary research is not."""

from __future__ import annotations

import base64
import random
import threading
from itertools import pairwise

import pytest

from sparkgate.policy.audit import Caller
from sparkgate.policy.decision import Decision
from sparkgate.policy.finding import ANYWHERE, Finding, Overrun
from sparkgate.policy.forms.view import View
from sparkgate.policy.judge import Policy
from sparkgate.policy.recent.assemble import forms
from sparkgate.policy.recent.clauses import Clauses
from sparkgate.policy.recent.joint import MAX_FORMS
from sparkgate.policy.recent.pieces import bits, cut, decoded, kind_of
from sparkgate.policy.recent.window import JOINED, Window, lanes_of
from sparkgate.policy.rules import shipped
from sparkgate.policy.samples import fill

PATIENCE_S = 30.0
FIND = Policy(shipped()).find_at(ANYWHERE)
HF = fill("hf_{mixed:34}")
GITHUB = fill("ghp_{mixed:36}")
GITLAB = fill("glpat-{mixed:20}")
OPENROUTER = fill("sk-or-v1-{hex:64}")
ANTHROPIC = fill("sk-ant-api03-{url:93}AA")
SLACK = fill("xoxb-{digits:12}-{digits:12}-{mixed:24}")
TELEGRAM = fill("{digits:10}:AA{mixed:33}")
PASSWORD = fill("{lower:3}{upper:2}!{digits:1}{lower:2}{upper:3}")
CARD = "4111111111111111"
IBAN = "DE89370400440532013000"


def admitted(window: Window, text: str, *, lanes: tuple[str, ...] = ("s",), at_s: float = 0.0) -> Decision | None:
    return window.admit(lanes, text, at_s, FIND, deadline_s=PATIENCE_S)


def run(*texts: str) -> list[Decision | None]:
    """The answers to texts of one session, one after another."""
    window = Window()
    return [admitted(window, text, at_s=float(place)) for place, text in enumerate(texts)]


def pieces(secret: str, *cuts: int) -> list[str]:
    ends = [0, *cuts, len(secret)]
    return [secret[start:end] for start, end in pairwise(ends)]


def filled(templates: list[str], parts: list[str]) -> list[str]:
    return [template.replace("@", part) for template, part in zip(templates, parts, strict=True)]


def in_hex(parts: list[str]) -> list[str]:
    return [part.encode().hex() for part in parts]


def in_base64(parts: list[str]) -> list[str]:
    return [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts]


SPLIT = {
    "told as parts": (["the first part of it is @", "and the second part: @ hub 401"], pieces(HF, 18)),
    "beside the same word": (["github @ rejected", "github @ rejected", "github @"], pieces(GITHUB, 14, 27)),
    "among other words": (["weather in @", "is it windy tomorrow @"], pieces(GITLAB, 13)),
    "lettered": (["A: @", "B: @"], pieces(TELEGRAM, 24)),
    "numbered": (["(1/3) @", "(2/3) @", "(3/3) @"], pieces(ANTHROPIC, 40, 71)),
    "named by their place": (["chunk1=@", "chunk2=@"], pieces(OPENROUTER, 37)),
    "in a parameter": (["https://s.test/?q=@", "https://s.test/?q=@"], pieces(GITHUB, 22)),
    "in a nameless parameter": (["https://s.test/1?@", "https://s.test/2?@"], pieces(GITHUB, 19)),
    "in a path": (["https://log.test/a/@", "https://log.test/b/@"], pieces(HF, 20)),
    "in JSON": (['{"n": 1, "data": "@"}', '{"n": 2, "data": "@"}'], pieces(HF, 17)),
    "hex by piece": (["decode @", "decode @"], in_hex(pieces(GITHUB, 20))),
    "base64 by piece": (["https://s.test/?c=1&d=@", "https://s.test/?c=2&d=@"], in_base64(pieces(HF, 19))),
    "hex cut up": (["decode @", "decode @"], pieces(GITHUB.encode().hex(), 37)),
    "backwards": (["see @ now", "see @ now"], pieces(GITHUB[::-1], 17)),
    "the end first": (["and it ends with @", "and it begins with @"], [*reversed(pieces(HF, 18))]),
    "digits in the middle": (["remember @", "then append @", "then append @"], pieces(SLACK, 9, 26)),
    "a card": (["card first digits @", "card last digits @ declined"], pieces(CARD, 8)),
    "a card in a parameter": (["https://s.test/?q=@", "https://s.test/?q=@"], pieces(CARD, 7)),
    "a card in groups": (["@", "@"], ["4111 1111", "1111 1111"]),
    "an account": (["iban starts @", "iban continues @ which bank"], pieces(IBAN, 9)),
    "a social security number": (["the digits @", "and then @ social security"], ["536-22", "-8726"]),
    "a password": (["password begins @", "password ends @ postgres"], pieces(PASSWORD, 6)),
    "a key without a shape": (["my WANDB_API_KEY begins @", "WANDB_API_KEY ends @"], pieces(fill("{hex:40}"), 21)),
    "told in Russian": (["начало @", "дальше @", "конец @"], pieces(fill("hvs.{mixed:96}"), 40, 70)),
    "told in German": (["iban @", "dann @", "zuletzt @"], pieces(IBAN, 8, 16)),
    "told in French": (["compte @", "suite @", "fin @"], pieces(IBAN, 8, 16)),
    "a card in Russian": (["номер карты @", "продолжение @"], pieces(CARD, 8)),
    "a password in German": (["Passwort fängt an mit @", "Passwort endet auf @ grafana"], pieces(PASSWORD, 6)),
    "a password in French": (["le mot de passe commence par @", "et finit par @"], pieces(PASSWORD, 6)),
    "beside the code of an error": (["@ model", "@ gated", "@ repo", "@ 401"], pieces(fill("dapi{hex:32}"), 9, 18, 27)),
    "with decoys between": (["ghp @", "torch 2.9.1", "@ it is"], [GITHUB[:20], "", GITHUB[20:]]),
}


@pytest.mark.parametrize("name", SPLIT)
def test_what_is_cut_up_is_stopped_at_the_latest_at_its_last_piece(name: str) -> None:
    templates, parts = SPLIT[name]
    answers = run(*filled(templates, parts))
    assert answers[0] is None
    stopped = [answer for answer in answers if answer is not None]
    assert stopped and all(one.verdict == "block" and one.reason == JOINED and one.released == "" for one in stopped)


@pytest.mark.parametrize(
    ("template", "parts"),
    [
        ("first @ then @ is my key", pieces(HF, 18)),
        ('a="@"; b="@"; echo $a$b', pieces(fill("AKIA{upper:6}7{upper:5}2{upper:3}"), 10)),
        ("prefix @, Rest @ ohne Lücke", pieces(OPENROUTER, 36)),
        ("part1: @\npart2: @\npart3: @", pieces(GITHUB, 14, 27)),
        ("@ is the end, @ is the start", [*reversed(pieces(HF, 18))]),
        ("Please explain this to me.\n" * 20 + "first half @\nsecond half @", pieces(HF, 18)),
        ("first half @\nsecond half @\n" + "Please explain this to me.\n" * 20, pieces(HF, 18)),
        ('{"a": "@", "b": "@"}', pieces(HF, 18)),
        ("开头是 @，结尾是 @", pieces(HF, 18)),
    ],
)
def test_what_is_cut_up_within_one_text_is_stopped_by_itself(template: str, parts: list[str]) -> None:
    text = template
    for part in parts:
        text = text.replace("@", part, 1)
    decision = Policy(shipped(), deadline_s=PATIENCE_S).judge(text)
    assert decision.verdict == "block"
    assert {text[one.start : one.end] for one in decision.findings} == {*parts}


def test_ordinary_research_in_one_text_goes_on_undisturbed() -> None:
    policy = Policy(shipped(), deadline_s=PATIENCE_S)
    # The bare beginning of a key, said to be a part, with a digest said to be another, is one by all that can be told.
    for texts in (texts for texts in CLEAN if "sk-proj-" not in texts[0]):
        for joint in ("; then ", "\nnext: ", ", the rest "):
            text = f"first {joint.join(texts)}"
            assert [policy.judge(one).verdict for one in texts] == ["allow"] * len(texts), texts
            assert policy.judge(text).verdict == "allow", text


ORDINARY = (
    "first read https://stackoverflow.com/questions/22270889/python-typing, then "
    "https://stackoverflow.com/questions/43934578/python-typing",
    "first run\n"
    + "\n".join(f"{n * 7919 % 99999:5} {n * 104729 % 9999999:8} {n * 31337 % 99999999:8}" for n in range(20)),
    "why does self.assertEqual and fs.readFileSync and io.TextIOWrapper fail; then ast.NodeVisitor",
)


@pytest.mark.parametrize("text", ORDINARY, ids=lambda text: text[:24])
def test_numbers_and_names_in_one_text_are_not_put_together(text: str) -> None:
    assert Policy(shipped(), deadline_s=PATIENCE_S).judge(text).verdict == "allow"


def test_names_of_programs_are_no_random_words() -> None:
    assert bits("why does self.assertEqual and fs.readFileSync and io.TextIOWrapper and ast.NodeVisitor fail") == 0


def test_the_number_of_forms_of_one_text_is_bounded_however_many_clauses_it_has() -> None:
    chance, asked = random.Random(4), []
    policy = Policy(shipped(), deadline_s=PATIENCE_S)

    def look(text: str, deadline: float) -> list[Finding]:
        asked.append(text)
        return policy.find_at(ANYWHERE)(text, deadline)

    rows = ["".join(chance.choices("abcdefXYZ0123456789", k=24)) for _ in range(40)]
    Clauses(look).find(View("raw", "first crash, then:\n" + "\n".join(rows)), PATIENCE_S * 1e6)
    assert 0 < len(asked) < 12 * MAX_FORMS


def test_the_answer_names_the_rule_and_shows_the_piece_of_the_last_text() -> None:
    first, second = pieces(HF, 18)
    text = f"and the other part: {second}, why 401"
    answer = run(f"one part is {first}", text)[1]
    assert answer is not None
    assert answer.rules == ("huggingface-token", JOINED)
    assert [text[one.start : one.end] for one in answer.findings] == [second]
    assert [one.verdict for one in answer.findings] == ["block"]


def test_spans_are_told_in_the_text_that_was_given() -> None:
    first, second = pieces(HF, 18)
    window, given = Window(), f"mail jane.roe@alder.com about {second}"
    admitted(window, f"see {first}")
    answer = window.admit(("s",), f"mail [email] about {second}", 1.0, FIND, given=given, deadline_s=PATIENCE_S)
    assert answer is not None and [given[one.start : one.end] for one in answer.findings] == [second]


def test_letters_that_look_like_others_do_not_hide_a_piece() -> None:
    first, second = pieces(HF, 18)
    wide = "".join(chr(ord(character) + 0xFEE0) for character in second)
    text = f"then {wide} ok"
    answer = run(f"see {first}", text)[1]
    assert answer is not None and [text[one.start : one.end] for one in answer.findings] == [wide]


CLEAN = [
    ["vllm commit ac9b1a0c what changed", "vllm commit d81773c6 flashinfer bump", "vllm commit 01d8c112 revert"],
    [f"https://github.com/ggml-org/llama.cpp/commit/{fill('{hex:40}a' + n)}" for n in "123"],
    ["Qwen3-Coder-480B", "A35B-Instruct-FP8 weights size"],
    ["unsloth/gpt-oss-120b", "-GGUF Q4_K_M speed"],
    ["hf_ token", "where is it stored on linux"],
    ["ghp_ prefix meaning", f"git show {fill('{hex:40}')}"],
    ["sk- keys versus sk-proj- keys", f"go.sum h1:{fill('{base64:43}')}= mismatch"],
    ["hf_transfer speed", "hf_xet 1.1.10 release notes"],
    ["torch 2.9.0", "torch 2.9.1 cu130", "torch==2.10.0 aarch64 wheel"],
    ["CUDA error 700", "cudaErrorIllegalAddress 0x7f3a2c", "CUDA 13.0 driver 580.95.05"],
    ["github issue 28471 vllm", "github issue 30122 vllm", "github issue 412345"],
    ["https://stackoverflow.com/questions/41012345", "https://stackoverflow.com/questions/57001234"],
    ["https://crbug.com/41012345", "https://crbug.com/40012345", "https://crbug.com/42203857"],
    ["price of 128GB ddr5 2025", "price $3,999 dgx spark", "4070 eur rtx"],
    ["released 2025-10-14", "released 2025-11-02 changelog", "2026-01-01 holiday"],
    ["timestamp 1747731000 utc", "timestamp 1793161267663 milliseconds"],
    [fill("uuid 4f0b1c2d-77aa-4{hex:3}-8{hex:3}-{hex:12}{digits:0}"), fill("trace 7d4cb7d8-a3f7-433e-a78b-{hex:12}")],
    [f"docker pull vllm/vllm-openai@sha256:{fill('{hex:64}')}", f"sha256:{fill('{hex:64}b')} which tag"],
    [f"md5 {fill('{hex:32}')}", f"md5 {fill('{hex:32}c')} iso checksum"],
    ["192.0.2.44 port 8000", "198.51.100.7 port 11434", "127.0.0.1:8888 refused"],
    ["port 8000 in use", "port 8001 in use", "port 30000 sglang"],
    ["2001:db8::1 ping", "2001:db8::2 ping"],
    ["errno 110 pip", "errno 111 connection refused", "exit code 137 docker"],
    ["process 82226 killed", "process 93451 oom-killer", "signal 9"],
    ["password reset windows11", "password policy PostgreSQL16 md5"],
    ["first password change in elasticsearch8", "then reset kibana8"],
    ["API_KEY not found langchain", "OPENAI_API_KEY= empty docker compose"],
    ["max_num_batched_tokens=8192", "max_num_seqs=256 vllm", "gpu_memory_utilization=0.85"],
    ["RTX5090 vs H100", "H200 vs B200", "GB10 sm_121a"],
    ["step 1 install uv", "step 2 create venv", "step 3 install vllm 0.11.0"],
    ["part 1 of the series on attention", "part 2 of the series on attention", "part 3 MLA"],
    ["chapter 1 of SICP", "chapter 2 of SICP exercise 2.57"],
    ["first half of 2024 gpu sales", "second half of 2024 gpu sales"],
    ["RFC 7519", "RFC 9110 section 15.5", "RFC1918 10.0.0.0/8"],
    ["GridSearchCV n_jobs", "AutoModelForCausalLM device_map", "SetDeviceEi undefined symbol"],
    ["https://www.youtube.com/watch?v=dQw4w9WgXcQ", "https://www.youtube.com/watch?v=9bZkp7q19f0"],
    ["https://arxiv.org/abs/2401.15077", "https://arxiv.org/abs/2309.06180", "https://arxiv.org/pdf/2205.14135v2"],
    ["noreply@example.com smtp", "git@github.com:org/repo.git denied", "@angular/core 17.3.1"],
    ["AKIAIOSFODNN7EXAMPLE in documentation", "wJalrXUtnFEMI in documentation"],
    ["card game 52 cards", "sd card 128 GB speed v30", "graphics card 5090 price 2399"],
    ["phone with 5000 mAh", "phone number format E.164", "phone 15 pro 256"],
    ["#1e88e5 colour", "#fafafa contrast 4.5"],
    ["x^2 integral", "n^2 log n", "k^3 sum closed form"],
    ["ICD-10 J45.909", "ISBN 9783794543748", "EAN 4006381333931"],
]


@pytest.mark.parametrize("texts", CLEAN, ids=lambda texts: texts[0][:24])
def test_ordinary_research_goes_on_undisturbed(texts: list[str]) -> None:
    assert run(*texts) == [None] * len(texts)


def test_ordinary_research_goes_on_undisturbed_in_any_order() -> None:
    texts, chance = [text for group in CLEAN for text in group], random.Random(5)
    for _ in range(25):
        answers = run(*chance.sample(texts, 12))
        assert [one.rules for one in answers if one is not None] == []


def test_the_same_text_over_and_over_is_not_put_together_with_itself() -> None:
    text = "api key begins 4111 1111 tok_9fK2"
    assert run(*[text] * 6) == [None] * 6


def test_a_text_by_itself_is_not_the_windows_business() -> None:
    assert run(f"my token {HF} fails") == [None]


def test_after_a_restart_what_the_log_tells_is_looked_back_at() -> None:
    first, second = pieces(GITHUB, 20)
    window = Window()
    window.remember(("uid 1",), f"part one {first}", 5.0)
    assert admitted(window, f"part two {second}", lanes=("session n", "uid 1"), at_s=6.0) is not None


def test_who_connects_again_does_not_escape() -> None:
    first, second = pieces(GITHUB, 20)
    window = Window()
    before, after = Caller(session="a", uid=7), Caller(session="b", uid=7, host="other")
    assert admitted(window, f"see {first}", lanes=lanes_of(before)) is None
    assert admitted(window, f"see {second}", lanes=lanes_of(after)) is not None


def test_other_people_are_not_looked_at() -> None:
    first, second = pieces(GITHUB, 20)
    window = Window()
    admitted(window, f"see {first}", lanes=lanes_of(Caller(session="a", uid=7)))
    assert admitted(window, f"see {second}", lanes=lanes_of(Caller(session="b", uid=8))) is None


def test_many_sessions_do_not_push_a_session_s_own_texts_out() -> None:
    first, second = pieces(GITHUB, 20)
    window = Window(queries=3)
    admitted(window, f"see {first}", lanes=lanes_of(Caller(session="a")))
    for number in range(9):
        admitted(window, f"torch 2.{number}.1", lanes=lanes_of(Caller(session=f"n{number}")))
    assert admitted(window, f"see {second}", lanes=lanes_of(Caller(session="a"))) is not None


@pytest.mark.parametrize(
    ("window", "between", "after_s", "stopped"),
    [
        (Window(minutes=30), 0, 1799.0, True),
        (Window(minutes=30), 0, 1801.0, False),
        (Window(queries=3), 2, 3.0, True),
        (Window(queries=3), 3, 4.0, False),
        (Window(chars=60), 2, 3.0, True),
        (Window(chars=40), 9, 9.0, False),
    ],
)
def test_texts_are_looked_back_at_within_the_windows_limits(
    window: Window, between: int, after_s: float, stopped: bool
) -> None:
    first, second = pieces(GITHUB, 20)
    admitted(window, f"see {first}")
    for number in range(between):
        admitted(window, f"torch 2.{number}.1", at_s=1.0)
    assert (admitted(window, f"see {second}", at_s=after_s) is not None) is stopped


def test_sessions_that_came_and_went_are_forgotten_but_not_who_had_them() -> None:
    first, second = pieces(GITHUB, 20)
    window = Window(lanes=4, queries=60)
    admitted(window, f"see {first}", lanes=lanes_of(Caller(session="a", uid=7)))
    for number in range(40):
        admitted(window, "torch 2.9.1", lanes=lanes_of(Caller(session=f"n{number}", uid=7)))
    assert admitted(window, f"see {second}", lanes=("session a",)) is None
    assert admitted(window, f"see {second}", lanes=("session z", "uid 7")) is not None


def test_texts_of_ordinary_words_push_nothing_out() -> None:
    first, second = pieces(GITHUB, 20)
    window = Window(queries=3)
    admitted(window, f"see {first}")
    for _ in range(50):
        admitted(window, "how tall is the eiffel tower and who built it in paris so long ago")
    assert admitted(window, f"see {second}") is not None


def test_a_clock_that_goes_back_frees_nothing() -> None:
    first, second = pieces(GITHUB, 20)
    window = Window()
    admitted(window, "torch 2.9.1", at_s=10_000.0)
    admitted(window, f"see {first}", at_s=0.0)
    assert admitted(window, f"see {second}", at_s=11_000.0) is not None


def test_the_last_piece_without_its_end_is_stopped_as_well() -> None:
    first, second = pieces(GITHUB, 20)
    window = Window()
    admitted(window, f"see {first}")
    assert admitted(window, f"see {second}") is not None
    again = admitted(window, f"see {second[:-3]}")
    assert again is not None and again.rules == ("github-token", JOINED)
    assert admitted(window, "torch 2.9.1") is None


def test_of_two_pieces_at_the_same_moment_only_one_leaves() -> None:
    window, answers = Window(), list[Decision | None]()

    def send(part: str) -> None:
        answers.append(admitted(window, f"see part {part}"))

    threads = [threading.Thread(target=send, args=(part,)) for part in pieces(GITHUB, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer is None for answer in answers) == [False, True]


def test_a_rule_that_overruns_or_fails_blocks() -> None:
    def slow(text: str, deadline: float) -> list[Finding]:
        raise Overrun("x")

    def broken(text: str, deadline: float) -> list[Finding]:
        raise RuntimeError(text)

    for find, reason in ((slow, "policy-deadline"), (broken, "policy-fault")):
        window = Window()
        window.remember(("s",), f"see {GITHUB[:20]}", 0.0)
        answer = window.admit(("s",), f"see {GITHUB[20:]}", 1.0, find)
        assert answer is not None and (answer.verdict, answer.reason, answer.findings) == ("block", reason, ())


def test_the_number_of_joined_forms_is_bounded() -> None:
    asked: list[str] = []

    def find(text: str, deadline: float) -> list[Finding]:
        asked.append(text)
        return []

    window = Window()
    for place in range(14):
        asked.clear()
        text = " ".join(f"part {place}: {fill(f'{{mixed:{9 + n}}}{place}')}" for n in range(8))
        window.admit(("s",), text, float(place), find, deadline_s=PATIENCE_S)
    assert 0 < len(asked) <= MAX_FORMS


def test_nothing_that_is_kept_can_be_read_in_a_repr() -> None:
    first, second = pieces(GITHUB, 20)
    kept = [one for one in (cut(f"see {first}"), cut(f"see {second}")) if one]
    assert len(kept) == 2
    shown = repr(kept) + repr(list(forms(kept)))
    assert first not in shown and second not in shown


def test_whatever_is_said_the_window_does_not_fail_and_its_spans_lie_inside() -> None:
    chance = random.Random(11)
    words = [
        "ghp_",
        GITHUB[:20],
        GITHUB[20:],
        "﷽",
        "a\u200bb",
        "\ud800",
        "==",
        "://",
        "%",
        "[x]",
        "1/2",
        "part 2",
        "\n",
        "",
    ]
    window = Window()
    for place in range(300):
        text = chance.choice(["", " "]).join(chance.choices(words, k=chance.randrange(9)))
        answer = admitted(window, text, at_s=float(place))
        assert answer is None or answer.reason == JOINED
        for one in answer.findings if answer else ():
            assert 0 <= one.start < one.end <= len(text)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("attention", None),
        ("2.9.0", "ordinary"),
        ("2025-10-14", "ordinary"),
        ("ac9b1a0c", "ordinary"),
        ("Qwen3-Coder-480B", "ordinary"),
        ("AutoModelForCausalLM", "ordinary"),
        ("NPM_TOKEN", "ordinary"),
        ("vllm/vllm-openai:v0.11", "ordinary"),
        ("457-77", "digits"),
        ("hf_", "weak"),
        ("XKCDFOO", "weak"),
        ("0JrFmk8Lmhkv", "random"),
        ("sFZa!T", "random"),
    ],
)
def test_words_are_told_apart_by_what_they_may_be(word: str, kind: str | None) -> None:
    assert kind_of(word) == kind


def test_encodings_of_whole_words_are_taken_off() -> None:
    word = GITHUB[:15]
    assert decoded(word.encode().hex()) == decoded(base64.b32encode(word.encode()).decode()) == word
    assert decoded(base64.b64encode(word.encode()).decode()) == word
    assert decoded("ac9b1a0c") == decoded("Qwen3-Coder") == decoded("") == ""


def test_a_text_of_ordinary_words_is_put_together_with_nothing() -> None:
    window, asked = Window(), list[str]()
    for place in range(12):
        admitted(window, f"part {place} {fill(f'{{mixed:12}}{place}')}", at_s=float(place))

    def find(text: str, deadline: float) -> list[Finding]:
        asked.append(text)
        return []

    assert window.admit(("s",), "how does paged attention keep its blocks in memory", 20.0, find) is None
    assert asked == []
