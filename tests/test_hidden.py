"""What nobody sees is taken out of what leaves; what a script needs to be written stays."""

from __future__ import annotations

import pytest

from sparkgate.policy.judge import Policy
from sparkgate.policy.samples import fill

TOKEN = fill("ghp_{mixed:36}")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return Policy.from_folder(tmp_path_factory.mktemp("policy"), deadline_s=30.0)


HIDDEN = {
    "tags": "".join(chr(0xE0000 + ord(one)) for one in TOKEN),
    "selectors": "".join(chr(0xE0100 + ord(one) - 16) for one in TOKEN),
    "bits": "".join("\u200b\u200c"[int(bit)] for one in TOKEN for bit in f"{ord(one):08b}"),
    "emoji and selectors": "\U0001f600" + "".join(chr(0xE0100 + ord(one) - 16) for one in TOKEN),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_text_that_nobody_sees_does_not_leave(name: str, policy: Policy) -> None:
    decision = policy.judge(f"weather berlin{HIDDEN[name]} tomorrow")
    assert decision.verdict == "block" or decision.released.replace("\U0001f600", "") == "weather berlin tomorrow"


def test_bits_between_the_letters_are_taken_out(policy: Policy) -> None:
    visible = "what is the weather like in berlin tomorrow"
    text = "".join(one + "\u200b\u2060"[place % 2] for place, one in enumerate(visible))
    assert policy.judge(text).released == visible


SPELLED = [
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 family emoji in a terminal",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 persian with joiners",
    "the flag \U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f of scotland",
    "heart \u2764\ufe0f and a soft\u00adhyphen",
    "\u845b\U000e0100 is a name in Japan",
]


@pytest.mark.parametrize("text", SPELLED)
def test_what_a_script_needs_stays(text: str, policy: Policy) -> None:
    assert policy.judge(text).released == text


def test_names_are_found_backwards_and_put_together(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("named")
    (folder / "terms.toml").write_text('[[term]]\nname = "Globex Robotics"\n[[term]]\nname = "Initech"\n')
    judge = Policy.from_folder(folder, deadline_s=30.0).judge
    for text in (
        "about scitoboR xebolG today",
        "about hcetinI today",
        'say "Ini" + "tech" twice',
        "ask ln%69tech".replace("l", "I"),
    ):
        assert judge(text).verdict == "redact", text
