"""Checks tell a secret from a word, a person's number from any other, and an address from a version."""

from __future__ import annotations

import random
import string
from time import monotonic

import pytest

from sparkgate.policy.checking import wording
from sparkgate.policy.checks import CHECKS
from sparkgate.policy.forms.view import View
from sparkgate.policy.judge import Policy
from sparkgate.policy.rules import Rulebook, shipped
from sparkgate.policy.samples import fill

BOOK = Rulebook(shipped())
POLICY = Policy(shipped(), deadline_s=30.0)
WRITTEN = (
    "{name}={value}",
    "{name}: {value}",
    '{name} := "{value}"',
    '"{name}" => "{value}"',
    "<{name}>\n  {value}\n</{name}>",
)
SECRET_NAMES = (
    "ZORP_TOKEN",
    "zorpToken",
    "zorp.api.key",
    "x-zorp-secret",
    "PAGERDUTY_TOKEN",
    "clientSecret",
    "DB_PASSWORD",
)
PUBLIC_NAMES = (
    "next_page_token",
    "cacheKey",
    "primary_key",
    "csrf-token",
    "TOKEN_BUCKET",
    "keyboard",
    "author",
    "secretName",
)


def found(text: str) -> set[str]:
    return {hit.rule.id for hit in BOOK.find(View("raw", text), monotonic() + 30) if hit.rule.verdict != "allow"}


@pytest.mark.parametrize("name", SECRET_NAMES)
@pytest.mark.parametrize("form", WRITTEN)
def test_a_value_behind_the_name_of_a_secret_is_one_however_it_is_written(form: str, name: str) -> None:
    assert "named-credential" in found(form.format(name=name, value=fill("{mixed:22}")))


@pytest.mark.parametrize("name", PUBLIC_NAMES)
@pytest.mark.parametrize("form", WRITTEN)
def test_a_value_behind_another_name_is_none(form: str, name: str) -> None:
    assert "named-credential" not in found(form.format(name=name, value=fill("{mixed:22}")))


@pytest.mark.parametrize(
    "value",
    [
        "$ZORP",
        "${ZORP}",
        "{{ zorp }}",
        "<zorp>",
        "changeme",
        "your-zorp-here",
        "xxxxxxxxxxxxxxxx",
        "sk-...",
        "hashedValue",
        "string",
        "os.environ['Z']",
        "zorp_token",
        "PKCS7PrivateKeyTypes",
        "settings[2]",
    ],
)
@pytest.mark.parametrize("name", ["password", "api_key", "token"])
def test_what_stands_for_a_secret_is_none(name: str, value: str) -> None:
    assert found(f"{name} = {value}") == set()


@pytest.mark.parametrize("value", ["correcthorse", "hunterxabcd", "Ab3{x9!kq", "84120933", "tiger-lily-monsoon-77"])
def test_a_password_needs_no_digits_where_its_name_is_plain(value: str) -> None:
    assert "named-credential" in found(f"password={value}")


def test_random_words_are_told_from_names_digests_and_texts() -> None:
    source = random.Random(7)
    words = ["".join(source.choices(string.ascii_letters + string.digits, k=40)) for _ in range(400)]
    assert sum(map(wording.random, words)) >= 380
    for name in ("Qwen3-Coder-480B-A35B-Instruct-FP8-dynamic", "Qwen3Coder480BA35BInstructFP8", fill("{hex:40}")):
        assert not wording.random(name)
    assert not wording.random("VGhlIG5hbWUgb2YgdGhlIHNvbmcgaXMgY2FsbGVk")


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("card-named", "501800000009", "501800000008"),
        ("verhoeff", "2345 6789 0124", "2345 6789 0120"),
        ("iso7064", "86 095 742 719", "86 095 742 718"),
        ("french-nir", "2 55 08 14 168 025 38", "2 55 08 14 168 025 39"),
        ("spanish-dni", "12345678Z", "12345678A"),
        ("spanish-dni", "Z8078221M", "Z8078221N"),
        ("finnish-hetu", "131052-308T", "131052-308U"),
        ("singapore-nric", "S2740116C", "S2740116D"),
        ("personnummer", "811228-9874", "811228-9875"),
        ("born", "960121-1234567", "991399-1234567"),
        ("turkish-id", "10000000146", "10000000147"),
        ("identity-number", "RSSMRA85T10A562S", "ABCDEF12Z34G567H"),
        ("identity-number", "MORGA657054SM9IJ", "MORGA600054SM9IJ"),
        ("public-ipv6", "2400:c401::5054:ff:fe1b:b031", "2001:db8::1"),
        ("ticket", "ALDER-1423", "CVE-2025"),
        ("filled", "sk-ant-aaaaaaaaaaaaaaaaaaaaaaaa", "sk-ant-xxxxxxxxxxxxxxxxxxxxxxxx"),
        ("filled", "sk-ant-k7Wq9zLw2RtYpX4vB8nM3cD6fG1hJ5sxxxx", "ghp_xxxxxxxxxxxxxxxxxxxx"),
        ("scrambled", "kWqzLwRtYpXvBnMcDfGhJs", "hf_requiredCharacteristicTypes"),
        ("charged", "4539148803436467", "4242424242424242"),
        ("owned-phone", "415-555-0132", "800-555-0132"),
        ("owned-phone", "8887654321", "0800 123 4567"),
        ("street", "48 Larkspur Avenue", "1600 Amphitheatre Parkway"),
        ("ticket", "ALDER-1423", "LUCENE-10016"),
        ("private-ipv4", "192.168.177.57", "192.168.177.11"),
        ("private-ipv4", "192.168.1.77", "192.168.1.1"),
        ("own-login-at", "jdoe@192.168.1.77", "root@192.168.1.77"),
        ("own-address-path", "192.168.1.77/clients/x", "192.168.1.77:8000/v1/models"),
        ("own-path", "/mnt/nas-finance/x", "/mnt/nvme0/hf-cache"),
        ("inner-host", "build.lan", "gpu-name.lan"),
        ("mac", "48:b0:2d:3a:26:66", "48:b0:2d:00:00:00"),
        ("mail", "hana@abc.photography", "hana@abc.transpose"),
        ("said-mail", "jane.doe (at) abc.io", "meet at abc.io"),
        ("said-mail", "jane at abc dot io", "look at abc dot io"),
        ("said-mail", "jane at abc dot io", "jane at github dot com"),
        ("said-mail", "jane.doe @ abc.io", "lunch @ abc.io"),
        ("said-mail", "jane arroba abc punto es", "jane arroba abc point es"),
        ("mixed", "k7Wq9zLw2", "vllm-7d9f8b6c5d-x2kqz"),
        ("brazilian-cpf", "529.982.247-25", "529.982.247-26"),
        ("brazilian-cpf", "529.982.247-25", "111.111.111-11"),
        ("ean", "756.9217.0769.85", "756.9217.0769.86"),
        ("russian-snils", "112-233-445 95", "112-233-445 96"),
        ("russian-inn", "500100732259", "500100732258"),
        ("japanese-number", "1234 5678 9018", "1234 5678 9019"),
        ("mexican-curp", "HEGG560427MVZRRL04", "HEGG560427MVZRRL05"),
        ("lone-host", "kestrel", "vllm-openai"),
        ("lone-host", "alder-gpu2", "gpu-node1"),
        ("own-tilde", "~jdoe/x", "~user/x"),
        ("position", "48.1371, 11.5761", "0.0000, 0.0000"),
        ("postal", "Am Kolk 12b, 26123 Oldenburg", "Ubuntu 24, 2026 Release"),
        ("postal", "Lindenweg 3, 8004 Basel", "Qwen 3, 2507 Thinking"),
        ("postal", "Kerkgracht 482, 1017 KH Amsterdam", "Table 4, 12345 Rows"),
        ("one-time", "4718", "0000"),
        ("one-time", "471829", "123456"),
        ("said-phrase", "grey heron 9 walks", "must have 8 letters"),
        ("app-password", "kfrt xxkp lmzx cvbn", "does this work here"),
        ("phone-here", "8 (916) 419-08-23", "2024/11/12"),
        ("owned-phone", "619-555-0199", "555-0199"),
        ("mail", "jane@abc.dev", "security@abc.dev"),
        ("mail", "jane@abc.dev", "jane@lists.abc.dev"),
        ("said-mail", "jane.doe собака abc точка ru", "jane.doe собака abc dot ru"),
        ("said-mail", "jane.doe @abc.io", "main.py @abc.io"),
        ("said-mail", "jane.doe_at_abc.io", "jane_at_abc.io"),
        ("public-ipv4", "84.23.117.9", "140.82.121.4"),
    ],
)
def test_a_number_is_told_from_the_near_miss(name: str, good: str, bad: str) -> None:
    assert CHECKS[name](good, good, 0) and not CHECKS[name](bad, bad, 0)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ssh to 84.23.117.9 fails", True),
        ("getting 179.177.214.91 blocked", True),
        ("connect 5.9.1.2:8443", True),
        ("update V8 to 9.7.106.18", False),
        ("version 84.23.117.9", False),
        ("17.5.1.2 office build number", False),
        ("88.88.88.88 in an example", False),
    ],
)
def test_a_public_address_is_told_from_a_version(text: str, address: bool) -> None:
    assert ("public-ipv4" in found(text)) == address


def test_every_check_answers_for_any_value() -> None:
    source = random.Random(3)
    signs = string.ascii_letters + string.digits + " -_./:@+=$<>{}[]()é中\n"
    for _ in range(300):
        text = "".join(source.choices(signs, k=40))
        for name in ("real", "filled", "mixed", "strong", "credential", "said-key", "said-password", "unknown-key"):
            assert CHECKS[name](text[5:30], text, 5) in (True, False)


@pytest.mark.parametrize("name", ["x-amz-id-2: ", "cf-ray ", 'etag: "', "request id ", "X-Request-Id="])
def test_a_long_word_behind_the_name_of_a_request_is_none(name: str) -> None:
    word = fill("{mixed:40}")
    assert CHECKS["unknown-key"](word, f"key {word}", 4)
    assert not CHECKS["unknown-key"](word, f"{name}{word}", len(name))


def test_what_a_manual_gives_as_an_example_is_nobodys() -> None:
    iban = "DE89370400440532013000"
    assert CHECKS["own-iban"](iban, f"pay to {iban}", 7) and not CHECKS["own-iban"](iban, f"example {iban}", 8)
    address = "00:1A:2B:3C:4D:5E"
    assert CHECKS["mac"](address, f"mac {address}", 4) and not CHECKS["mac"](address, f"example {address}", 8)


@pytest.mark.parametrize(
    ("text", "withheld"),
    [
        ("PGPASSWORD=Sander_7 psql", True),
        ("MINIO_ROOT_PASSWORD=Kranich-321", True),
        ("password: LavandeVerte88", True),
        ("url?user=bob&pass=Moor-gras_9", True),
        ("password: decodeUnicodeString16", False),
        ("DB_PASSWORD=my-secret", False),
        ('value Password="CleartextPassword1"', False),
    ],
)
def test_a_password_made_of_words_needs_a_digit_or_length(text: str, withheld: bool) -> None:
    assert ("named-credential" in found(text)) == withheld


def test_a_card_for_tests_is_a_card_where_no_test_is_spoken_of() -> None:
    assert CHECKS["charged"]("4111111111111111", "my card 4111111111111111", 8)
    assert not CHECKS["charged"]("4111111111111111", "sandbox 4111111111111111", 8)


def test_a_placeholder_is_looked_for_in_time_that_grows_with_the_text() -> None:
    assert len(wording.FILLER.sub("", "your-0" + "0" * 200_000)) < 200_000


def test_what_only_begins_or_ends_like_something_public_is_withheld() -> None:
    kept = [
        fill("API_SECRET=arn:aws:s:{mixed:24}"),
        fill("DB_PASSWORD=arn:aws:x:{mixed:7}.kestrel"),
        fill("my password is {mixed:9}?.tallow#Q7"),
        fill('PASSWORD="!env-{mixed:9}#Q7"'),
        fill("API_KEY=JBSWY3DPEHPK3PXP{mixed:24}"),
        fill("api key is {mixed:24}=1"),
        fill("PGP SIGNATURE why does {mixed:32} fail"),
        fill("API_KEY={mixed:32}********"),
        fill("API_KEY=${{a}}{mixed:32}"),
        fill("ZORP_TOKEN={mixed:32}xxxxxxxx"),
        fill("why is hf_{mixed:34}xxxxxxxx refused"),
        "ivan.petrov.1984@list.ru cannot log in",
        "hana-doe-patient-20260112-oncology@gmail.com mail",
        "my OTP is 482913 and it says error",
        "otpauth://totp/x?secret=R7QK2MZ5XW3LDTV6PYHN4CGJBSEA&issuer=E",
        fill("API_KEY=//{mixed:32}"),
        "my sms code 48213 gives an error",
        "login failed with sms code 48213",
        "discord security code is 48291 and it does not work",
        "my SIM PIN is 4095 and the header of the mail is gone",
    ]
    assert [text for text in kept if POLICY.judge(text).verdict == "allow"] == []


def test_names_of_services_counted_numbers_and_versions_are_not_withheld() -> None:
    clean = [
        "verification code: 50013 discord api error",
        "otpauth://totp/x?secret=JBSWY3DPEHPK3PXP&issuer=E",
        "API_KEY=${API_KEY}",
        "PASSWORD=prefix-${{ secrets.DB_PASSWORD }}",
        "api_key=sk-ab12********",
        "token=secrets.GITHUB_TOKEN",
        "http://orchestrator:8000/health connection refused docker compose",
        "http://localstack:4566/bucket",
        "CUDA Toolkit 13, 1300 Kernels",
        "Mistral Large 2, 12345 Vocabulary",
        "10 cours Python",
        "2 place Holder text",
    ]
    assert [text for text in clean if POLICY.judge(text).verdict != "allow"] == []


@pytest.mark.parametrize("sign", ["apen\u017ftaartje", "aroba\u017fe", "ch\u0131occ\u0131ola", "chiocciola"])
@pytest.mark.parametrize("dot", ["dot", "punt", "point", "punto"])
def test_a_letter_that_patterns_take_for_another_breaks_no_check(sign: str, dot: str) -> None:
    assert POLICY.judge(f"write hana {sign} abc {dot} nl").reason != "policy-fault"
