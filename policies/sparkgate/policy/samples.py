"""Examples in rule files are templates, so that no key-shaped string stands in the repository.

`hf_{mixed:34}` becomes `hf_` and 34 letters and digits; the same template always gives the same text.
"""

from __future__ import annotations

import random
import re
import string

ALPHABETS = {
    "hex": "0123456789abcdef",
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase,
    "digits": string.digits,
    "letters": string.ascii_letters,
    "mixed": string.ascii_letters + string.digits,
    "caps": string.ascii_uppercase + string.digits,
    "url": string.ascii_letters + string.digits + "_-",
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "bech32": "023456789acdefghjklmnpqrstuvwxyz",
    "base64": string.ascii_letters + string.digits + "+/",
}
_SLOT = re.compile(r"\{(" + "|".join(ALPHABETS) + r"):(\d{1,4})\}")


def fill(template: str) -> str:
    """Replace every `{alphabet:length}` by a repeatable random word; other braces stay as they are."""
    source = random.Random(template)

    def word(slot: re.Match[str]) -> str:
        return "".join(source.choices(ALPHABETS[slot[1]], k=int(slot[2])))

    return _SLOT.sub(word, template)
