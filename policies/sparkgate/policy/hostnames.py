"""Names of hosts that carry data: whoever answers for a domain reads every name that is looked up below it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from time import monotonic

from sparkgate.policy.checking.mail import ENDINGS
from sparkgate.policy.checking.wording import words
from sparkgate.policy.finding import Finding, Label, Overrun
from sparkgate.policy.forms.outline import in_a_row
from sparkgate.policy.forms.view import View

LABEL = Label(
    "data-in-hostname",
    "secret",
    "block",
    "[hostname]",
    "A random-looking part of a hostname hands data to whoever answers for the domain, before any connection.",
)
MIN_CHARS = 16
LONG_CHARS = 30
TURNS = 5
"""From letter to digit and back, in a shorter part: names of machines have fewer."""
FEW_VOWELS = 0.25
TOKEN, PART, LONG = in_a_row("tokens", MIN_CHARS), in_a_row("words", MIN_CHARS), in_a_row("words", LONG_CHARS)

_HOST = re.compile(
    r"(?:://(?:[^\s/@?#]{0,256}@)?|\b(?:dig|nslookup|ping|curl|wget|resolve)\s+(?:-\S{1,20}\s+){0,4})"
    r"((?:[A-Za-z0-9_-]{1,63}\.){2,12}[A-Za-z]{2,24})(?![A-Za-z0-9_-])"
)
_BARE = re.compile(r"(?<![A-Za-z0-9_./@-])((?:[A-Za-z0-9_-]{1,63}\.){2,12}([A-Za-z]{2,12}))(?![A-Za-z0-9_(=\[-]|\.\w)")
_COUNTRIES = words(
    """ac ad ae af ag ai al am ao aq ar as at au aw ax az ba bb bd be bf bg bh bi bj bm bn bo br bs bt bw by bz ca cd
    cf cg ch ci ck cl cm cn co cr cu cv cw cx cy cz de dj dk dm do dz ec ee eg er es et eu fi fj fk fm fo fr ga gd
    ge gf gg gh gi gl gm gn gp gq gr gs gt gu gw gy hk hm hn hr ht hu ie il im io iq ir it je jm jo jp ke kg kh ki
    km kn kr kw ky kz la lb lc li lk lr ls lt lu lv ly ma mc me mg mh mk mm mn mo mp mq mr ms mt mu mv mw mx my mz
    na nc ne nf ng ni nl no np nr nu nz om pa pe pf pg pk pm pn pr ps pw qa re ro ru rw sa sb sc sd se sg si sj sk
    sl sm sn sr ss su sv sx sy sz tc td tf tg th tj tk tl tm tn tr tt tv tw tz ua ug uk us uy uz va vc ve vg vi vn
    vu wf ws ye yt za zm zw"""
)
"""Without those that files and parts of programs end in, too."""
_OTHERS = ENDINGS - words("name one map page run stream test style plus parts select group store events media mov")
_RENTED = re.compile(
    r"(?:^|\.)(?:ngrok(?:-free)?\.(?:app|dev|io)|trycloudflare\.com|cloudfront\.net|(?:blob\.core\.)?windows\.net"
    r"|azure(?:websites|edge|fd|containerapps)\.(?:net|io)|amazonaws\.com(?:\.cn)?|vercel\.app|hf\.space|run\.app"
    r"|a\.run\.app|netlify\.app|pages\.dev|workers\.dev|fly\.dev|onrender\.com|herokuapp\.com|github\.dev"
    r"|githubusercontent\.com|googleusercontent\.com|gitpod\.io|loca\.lt|proxy\.runpod\.net|gradio\.live|web\.app"
    r"|firebaseapp\.com|modal\.run|akamai(?:hd|zed|edge)?\.net|fastly\.net|r2\.dev|b-cdn\.net|cdn\.digitaloceanspaces\.com"
    r"|supabase\.co|devtunnels\.ms|hf\.co|endpoints\.huggingface\.cloud)$",
    re.IGNORECASE,
)
"""Ends of names that a service makes up for whoever rents a host there; nobody but the service answers below them."""
_RUN = re.compile(rf"[A-Za-z0-9]{{{MIN_CHARS},63}}")


class Hostnames:
    """Finds parts of hostnames that are no words."""

    def find(self, view: View, deadline: float) -> list[Finding]:
        found: list[Finding] = []
        if "." not in view.text or TOKEN not in view.outlines["tokens"] or PART not in view.outlines["words"]:
            return found
        text = view.text
        for host in _HOST.finditer(text):
            found += _random_parts(text, host, deadline, is_random)
        if LONG not in view.outlines["words"]:
            return found
        for host in _BARE.finditer(text):
            if host[2].lower() in _COUNTRIES or host[2].lower() in _OTHERS:
                found += _random_parts(text, host, deadline, is_very_random)
        return list(dict.fromkeys(found))


def _random_parts(text: str, host: re.Match[str], deadline: float, test: Callable[[str], bool]) -> Iterator[Finding]:
    """Parts of one name before the registered domain. Raises Overrun."""
    if monotonic() > deadline:
        raise Overrun
    registered = host[1].rfind(".", 0, host[1].rfind("."))
    runs = [run for run in _RUN.finditer(text, host.start(1), host.start(1) + registered) if test(run[0])]
    if runs and not _RENTED.search(host[1]):
        yield from (Finding(LABEL, *run.span()) for run in runs)


def is_very_random(part: str) -> bool:
    """Long, and letter and digit take turns, or nothing but small letters with hardly a vowel: no name in a program."""
    turns = sum(one.isdigit() != other.isdigit() for one, other in pairwise(part))
    vowels = sum(one in "aeiou" for one in part)
    small = part.islower() and vowels < FEW_VOWELS * len(part)
    return len(part) >= LONG_CHARS and not part.isdigit() and (turns >= TURNS or small)


def is_random(part: str) -> bool:
    """Letters and digits without the shape of a name: they take turns, or go on for long with hardly a vowel."""
    turns = sum(one.isdigit() != other.isdigit() for one, other in pairwise(part))
    digits = sum(map(str.isdigit, part))
    vowels = sum(one in "aeiouAEIOU" for one in part)
    if turns >= TURNS and digits < len(part):
        return True
    return len(part) >= LONG_CHARS and (digits >= 2 or vowels < FEW_VOWELS * len(part))
