"""Short and disguised pieces are put together too, and after a stop what may be the rest is refused, and no more."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

import pytest

from sparkgate.policy.decision import Decision
from sparkgate.policy.finding import ANYWHERE, Finding, Label
from sparkgate.policy.judge import Policy
from sparkgate.policy.recent.joint import MAX_FORMS
from sparkgate.policy.recent.mails import halves
from sparkgate.policy.recent.pieces import bits
from sparkgate.policy.recent.plain import plain
from sparkgate.policy.recent.window import JOINED, Window
from sparkgate.policy.rules import shipped
from sparkgate.policy.samples import fill

PATIENCE_S = 30.0
FIND = Policy(shipped()).find_at(ANYWHERE)
MIXED = string.ascii_letters + string.digits
Wrap = Callable[[str], str]
KNOWN = Label("known-value", "secret", "block", "", "it is known")
KNOWN_CHARS = 16


def say(window: Window, text: str, at_s: float = 0.0) -> Decision | None:
    answer = window.admit(("s",), text, at_s, FIND, deadline_s=PATIENCE_S)
    assert answer is None or (answer.verdict, answer.reason, answer.released) == ("block", JOINED, "")
    return answer


def left(window: Window, *texts: str) -> list[bool]:
    return [say(window, text) is None for text in texts]


def cut_up(secret: str, size: int) -> list[str]:
    """Pieces of `size` characters; a rest of one or two stays with the last."""
    pieces = [secret[start : start + size] for start in range(0, len(secret), size)]
    return [*pieces[:-2], "".join(pieces[-2:])] if len(pieces[-1]) < 3 else pieces


def tokens(prefix: str, length: int, count: int = 20) -> list[str]:
    chance = random.Random(prefix)
    return [prefix + "".join(chance.choices(MIXED, k=length)) for _ in range(count)]


WRAPS: dict[str, Wrap] = {
    "bare": str,
    "backwards by piece": lambda piece: piece[::-1],
    "dotted": ".".join,
    "spaced": " ".join,
    "dashed": "-".join,
    "in a sentence, spaced": lambda piece: f"see {' '.join(piece)} now",
    "in a sentence, dotted": lambda piece: f"see {'.'.join(piece)} now",
}


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("size", [6, 7, 8, 10])
def test_hardly_a_token_leaves_in_short_pieces_however_they_are_written(size: int, wrap: str) -> None:
    whole = 0
    for token in tokens("hf_", 34) + tokens("ghp_", 36):
        whole += all(left(Window(), *map(WRAPS[wrap], cut_up(token, size))))
    assert whole <= (8 if "sentence" in wrap else 2)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("see a.B.3.d now", "see aB3d now"),
        ("see a B 3 d now", "see aB3d now"),
        ("h_/f9/Ab/cD", "h_f9AbcD"),
        ("x=a-B-3-d", "x=aB3d"),
        ("is it ok to go up", "is it ok to go up"),
        ("torch 2.9.1 and 2.10.0.rc1", "torch 2.9.1 and 2.10.0.rc1"),
        ("mac a4:5e:60:c2:11:0f", "mac a4:5e:60:c2:11:0f"),
        ("192.0.2.44 at 12:30:45", "192.0.2.44 at 12:30:45"),
        ("1 2 3 4 5", "1 2 3 4 5"),
        ("e.g. this, i.e. that", "e.g. this, i.e. that"),
    ],
)
def test_words_that_were_spread_out_are_read_together_and_others_as_they_stand(text: str, read: str) -> None:
    assert plain(text).text == read


def test_the_span_of_a_piece_that_was_spread_out_holds_its_signs() -> None:
    token, window = tokens("hf_", 34)[0], Window()
    spread = ".".join(token[18:])
    assert left(window, f"see {token[:18]}") == [True]
    answer = say(window, f"and {spread} then")
    assert answer is not None and (answer.findings[0].start, answer.findings[0].end) == (4, 4 + len(spread))


def test_spreading_a_text_out_saves_nothing_of_the_budget() -> None:
    word = fill("{mixed:30}a1")
    assert bits(f"see {'.'.join(word)} now") == bits(f"see {word} now") > 0


@pytest.mark.parametrize("sign", "-.:,;/|*+~· ")
def test_no_text_of_one_sign_takes_long_to_read(sign: str) -> None:
    for text in (sign * 16_000, f"a{sign}" * 8_000, f"ab{sign}" * 5_000, f"a{sign}{sign}" * 5_000, f"-{sign}a" * 5_000):
        assert len(plain(text).text) <= len(text)


def test_the_number_of_forms_is_bounded_for_a_full_window_of_short_pieces() -> None:
    asked: list[str] = []

    def find(text: str, deadline: float) -> list[Finding]:
        asked.append(text)
        return []

    window, chance = Window(), random.Random(3)
    for place in range(14):
        asked.clear()
        window.admit(("s",), "".join(chance.choices(MIXED, k=6)) + "1xY", float(place), find, deadline_s=PATIENCE_S)
    assert 0 < len(asked) <= MAX_FORMS


def knowing(secret: str) -> Callable[[str, float], list[Finding]]:
    """The rules, and a value of which any `KNOWN_CHARS` characters in a row are known."""

    def find(text: str, deadline: float) -> list[Finding]:
        starts = range(len(text) - KNOWN_CHARS + 1)
        known = [start for start in starts if text[start : start + KNOWN_CHARS] in secret]
        return [*FIND(text, deadline), *(Finding(KNOWN, start, start + KNOWN_CHARS) for start in known[:1])]

    return find


def test_after_a_stop_hardly_any_of_the_other_pieces_leaves() -> None:
    after = 0
    for token in tokens("hf_", 34):
        window, find = Window(), knowing(token)
        answers = [window.admit(("s",), part, 0.0, find, deadline_s=PATIENCE_S) is None for part in cut_up(token, 8)]
        first = answers.index(False)
        assert first <= 2
        after += sum(answers[first:])
    assert after <= 14


def stopped(token: str, minutes: float = 30) -> Window:
    """A window in which the second half of the token was stopped."""
    window = Window(minutes=minutes)
    assert left(window, f"see {token[:20]} now", f"see {token[20:]} now") == [True, False]
    return window


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("size", [5, 7])
def test_a_piece_that_was_held_back_does_not_leave_in_smaller_ones(size: int, wrap: str) -> None:
    for token in tokens("ghp_", 36):
        window = stopped(token)
        assert not any(left(window, *map(WRAPS[wrap], cut_up(token[20:], size))))


def test_what_is_held_back_is_so_for_every_session_of_the_person_and_for_no_other() -> None:
    token, window = tokens("ghp_", 36)[0], Window()
    for half in (token[:20], token[20:]):
        window.admit(("session a", "uid 7"), f"see {half}", 0.0, FIND, deadline_s=PATIENCE_S)
    end = token[30:37]
    assert window.admit(("session b", "uid 7"), end, 0.0, FIND, deadline_s=PATIENCE_S) is not None
    assert window.admit(("session c", "uid 8"), end, 0.0, FIND, deadline_s=PATIENCE_S) is None


def test_a_stop_is_forgotten_with_the_time_of_the_window_and_refusals_do_not_prolong_it() -> None:
    other = fill("{mixed:9}xY7a")
    window = stopped(tokens("ghp_", 36)[0])
    assert say(window, other, 1000.0) is not None
    assert say(window, other, 1799.0) is not None
    assert say(window, other, 1801.0) is None


AFTERWARDS = (
    "how does paged attention keep its blocks in memory",
    "Qwen3-Coder-480B-A35B-Instruct-FP8 weights size",
    "unsloth/gpt-oss-120b-GGUF Q4_K_M tokens per second",
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5-NVFP4",
    "torch 2.9.1 cu130 wheel aarch64",
    "vllm commit ac9b1a0c what changed",
    "git show " + fill("{hex:40}"),
    "https://github.com/ggml-org/llama.cpp/commit/" + fill("{hex:40}"),
    "sha256:" + fill("{hex:64}") + " which tag",
    "md5 " + fill("{hex:32}") + " iso checksum",
    "https://docs.vllm.ai/en/latest/features/quantization/fp8.html",
    "https://stackoverflow.com/questions/41012345",
    "https://arxiv.org/pdf/2205.14135v2",
    "https://searx.test/search?q=vllm%20speculative%20decoding&format=html",
    "AutoModelForCausalLM device_map",
    "Qwen3MoeForCausalLM not supported",
    "GridSearchCV n_jobs",
    "QLoRA vs LoRA rank",
    "W4A16 or w8a8 on GB10",
    "RTX5090 vs H100 vs GPT4o",
    "sm_121a cudaErrorIllegalAddress 0x7f3a2c",
    "_ZN3c104cuda9SetDeviceEi undefined symbol",
    "max_num_batched_tokens=8192 gpu_memory_utilization=0.85",
    "github issue 28471 vllm",
    "port 8000 in use",
    "exit code 137 docker",
    "Xid 31 PID=73164 name=python3 nvrm",
    "python list.sort key=lambda x: x[1]",
    "first half of 2024 gpu sales",
    "timestamp 1793161267663 milliseconds",
    "released 2025-11-02 changelog",
    "192.0.2.44 port 11434",
    "password policy PostgreSQL16 md5",
    "trace 7d4cb7d8-a3f7-433e-a78b-491cb194005c",
    "what does signal 9 mean in the log",
)


@pytest.mark.parametrize("token", tokens("ghp_", 36, 6))
def test_ordinary_questions_go_on_after_a_stop(token: str) -> None:
    window = stopped(token)
    assert [text for text in AFTERWARDS if say(window, text) is not None] == []
    assert say(window, token[20:]) is not None


HALVES = (
    ("write to jane.doe@", "what is corp-robotics.io"),
    ("jane.doe@", "corp-robotics.io"),
    ("jane.doe", "@corp-robotics.io mail"),
    ("is corp-robotics.io a company", "jane.doe@ bounced"),
)


@pytest.mark.parametrize("texts", HALVES)
def test_an_address_said_in_two_halves_is_stopped_at_the_second(texts: tuple[str, str]) -> None:
    window = Window()
    assert left(window, *texts) == [True, False]
    answer = say(window, texts[1])
    assert answer is not None and answer.findings[0].cls == "pii"
    shown = texts[1][answer.findings[0].start : answer.findings[0].end]
    assert shown.strip("@") in "jane.doe@corp-robotics.io"


@pytest.mark.parametrize(
    "texts",
    [
        ("git@", "github.com ssh"),
        ("numpy.random", "@torch.compile slow"),
        ("noreply@ smtp", "docs.vllm.ai"),
        ("read config.json", "jane.doe@", "requirements.txt"),
        ("@angular/core 17.3.1", "rxjs.dev"),
        ("Globex", "Robotics"),
        ("corp-robotics.io", "huggingface.co", "docs.vllm.ai"),
    ],
)
def test_names_of_hosts_files_and_code_are_no_halves_of_somebodys_address(texts: tuple[str, ...]) -> None:
    assert all(left(Window(), *texts))


def test_half_an_address_holds_no_more_than_the_texts_right_after_it() -> None:
    window = Window()
    assert all(left(window, "jane.doe@", *(f"see docs{number}.local.lan" for number in range(4)), "corp-robotics.io"))


def test_halves_of_a_text_are_few_and_lie_inside_it() -> None:
    text = " ".join(f"a{number}.test.io" for number in range(50))
    found = halves(text)
    assert 0 < len(found) <= 3 and all(text[one.start : one.end] == one.text for one in found)
