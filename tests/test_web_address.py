"""Only the web is asked for: every spelling of this machine and network is refused before a name is looked up."""

from __future__ import annotations

import ipaddress
import random
import socket

import pytest

from sparkgate.policy.web_address import SPECIAL, BadAddress, WebAddress, special, web_address

REFUSED = {
    "special_address": [
        "http://127.0.0.1/", "http://127.1/", "http://127.0.1/", "http://2130706433/", "http://0x7f000001/",
        "http://0x7f.1/", "http://0177.0.0.1/", "http://0x7F.0x0.0x0.0x1/", "http://017700000001/", "http://127.0.0.1./",
        "http://0/", "http://0.0.0.0/", "http://00000177.1/", "http://0x/",
        "http://169.254.169.254/latest/meta-data/", "http://2852039166/", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/",
        "http://169.254.43518/", "http://10.0.0.5/", "http://172.16.3.4/", "http://172.31.255.255/", "http://192.168.1.1/",
        "http://100.64.0.1/", "http://198.18.0.1/", "http://192.0.2.1/", "http://203.0.113.9/", "http://224.0.0.1/",
        "http://255.255.255.255/", "http://192.0.0.192/",
        "http://①②⑦.⓪.⓪.①/", "http://１２７.０.０.１/", "http://127。0。0。1/",
        "http://[::1]/", "http://[::]/", "http://[0:0:0:0:0:0:0:1]/", "http://[::127.0.0.1]/", "http://[::7f00:1]/",
        "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[::ffff:0:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/", "http://[64:ff9b::8.8.8.8]/", "http://[64:ff9b:1::1]/", "http://[2002:7f00:1::]/",
        "http://[2001:0:53aa::1]/", "http://[2001:db8::1]/", "http://[3fff::1]/", "http://[fc00::1]/", "http://[fd12::1]/",
        "http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[fec0::1]/", "http://[ff02::1]/", "http://[100::1]/",
        "http://[5f00::1]/", "http://[4000::1]/", "http://[::ffff:169.254.169.254]/", "http://[0::ffff:10.0.0.1]:443/",
    ],
    "inner_name": [
        "http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://a.localhost/", "http://metadata/",
        "http://metadata.google.internal/", "http://metadata.google.internal./", "http://printer.local/", "http://nas.lan/",
        "http://router.home.arpa/", "http://wiki.corp/", "http://ｌｏｃａｌｈｏｓｔ/", "https://spark/",
    ],
    "user_info": [
        "http://a.test\\@b.test/", "http://u:p@h.test/", "https://example.org@10.0.0.1/", "http://127.0.0.1@example.org/",
        "http://@a.test/",
    ],
    "scheme": [
        "file:///etc/hostname", "ftp://a.test/", "data:text/plain,x", "gopher://a.test/", "javascript:alert(1)",
        "//a.test/", "a.test/x", "", "unix:///run/x.sock", "HTTPS+x://a.test/", "view-source:http://a.test/",
    ],
    "port": ["http://a.test:22/", "https://a.test:8443/", "http://a.test:0/", "http://8.8.8.8:6379/"],
    "no_address": [
        "http://", "http:///x", "http://a.test:99999/", "http://a.test:x/", "http://[::1/", "http://[::g]/", "http://[]/",
        "http://a b.test/", "http://a.test/x y", "http://a..test/", "http://-a.test/",
        "http://a%2etest/", "http://127.0.0.1.5/", "http://256.1.1.1/", "http://1.2.3.4.5/", "http://0xffffffffff/",
        "http://1.2.3.0x100/", "http://a.test/\r\nHost: b.test", "http://a.1/", "http://08.1/", "http://.a.test/",
        "http://" + "a" * 64 + ".test/", "http://xn--\ud800.test/",
    ],
    "too_long": ["http://a.test/" + "x" * 2000],
}  # fmt: skip


@pytest.mark.parametrize(("code", "text"), [(code, text) for code, texts in REFUSED.items() for text in texts])
def test_what_is_not_the_public_web_is_refused_with_a_word_for_why(code: str, text: str) -> None:
    with pytest.raises(BadAddress) as refusal:
        web_address(text)
    assert refusal.value.code == code
    assert "meta-data" not in str(refusal.value) and "@" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://docs.vllm.ai/en/latest/?q=1#part", "https://docs.vllm.ai/en/latest/?q=1"),
        ("HTTP://Docs.VLLM.ai", "http://docs.vllm.ai/"),
        ("https://a.test:443/x", "https://a.test/x"),
        ("http://a.test:443/x", "http://a.test:443/x"),
        ("https://a.test./x", "https://a.test/x"),
        ("https://müller.example/ü?ä=ö", "https://xn--mller-kva.example/%C3%BC?%C3%A4=%C3%B6"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("http://134744072/", "http://8.8.8.8/"),
        ("http://[2606:4700::1111]/", "http://[2606:4700::1111]/"),
        ("https://my_host.a.test/", "https://my_host.a.test/"),
        ("https://a.test/100%25?x=%2F", "https://a.test/100%25?x=%2F"),
        ("https://7zip.example/", "https://7zip.example/"),
    ],
)
def test_an_address_of_the_web_has_one_spelling(text: str, url: str) -> None:
    assert web_address(text).url == url


def test_other_ports_are_for_whoever_allows_them() -> None:
    assert web_address("http://a.test:8080/", {80, 8080}) == WebAddress("http", "a.test", 8080, "/")


@pytest.mark.parametrize("network", [network for network, _ in SPECIAL])
def test_both_ends_of_every_special_range_are_special(network: str) -> None:
    whole = ipaddress.ip_network(network)
    assert special(str(whole[0])) and special(str(whole[-1]))


def test_whatever_python_knows_not_to_be_global_is_special() -> None:
    draw = random.Random(7)
    for _ in range(20_000):
        bits, kind = (32, ipaddress.IPv4Address) if draw.random() < 0.5 else (128, ipaddress.IPv6Address)
        at = kind(draw.getrandbits(bits))
        assert at.is_global or special(str(at)), at


def test_numbers_for_hosts_are_read_as_the_library_below_reads_them() -> None:
    draw = random.Random(8)
    forms = (str, hex, lambda value: f"0{value:o}")
    for _ in range(3000):
        first, rest = draw.randrange(1, 224), draw.randrange(1 << 24)
        text = f"{draw.choice(forms)(first)}.{draw.choice(forms)(rest)}"
        read = socket.inet_ntoa(socket.inet_aton(text))
        if special(read):
            with pytest.raises(BadAddress):
                web_address(f"http://{text}/")
        else:
            assert web_address(f"http://{text}/").host == read


def test_nothing_makes_reading_an_address_fail_in_another_way() -> None:
    draw = random.Random(9)
    signs = "htps:/[]@.%0x179af\\ #?\u3002１①é\u202e-_\x00\ud800"
    for _ in range(20_000):
        text = draw.choice(("http://", "https://", "")) + "".join(draw.choices(signs, k=draw.randrange(14)))
        try:
            found = web_address(text)
        except BadAddress:
            continue
        assert web_address(found.url) == found
