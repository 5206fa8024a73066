"""Check digits of numbers that name a person, an account or a thing. Each takes the number as it was written."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from datetime import date

ISSUERS = re.compile(
    r"4\d{15}(?:\d{3})?|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}|220[0-4]\d{12}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|62\d{14,17}"
)
VERHOEFF_TURN = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)
DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
HETU_LETTERS = "0123456789ABCDEFHJKLMNPRSTUVWXY"
NRIC_LETTERS = {"ST": "JZIHGFEDCBA", "FG": "XWUTRQPNMLK", "M": "XWUTRQPNJLK"}


def digits_of(value: str) -> list[int]:
    """The decimal digits in `value`, everything else left out."""
    return [int(c) for c in value if c.isdecimal()]


def plain_of(value: str) -> str:
    """Letters (upper case) and digits of `value`, separators left out."""
    return re.sub(r"[^A-Z0-9]", "", value.upper())


def weighted(weights: str, modulus: int) -> Callable[[str], bool]:
    """A test: the digits times `weights` add up to a multiple of `modulus`."""
    factors = [int(factor) for factor in weights.split()]
    return lambda value: sum(map(operator.mul, digits_of(value), factors)) % modulus == 0


def luhn(value: str) -> bool:
    """The Luhn sum is a multiple of ten (ISO/IEC 7812)."""
    odd, even = digits_of(value)[-1::-2], digits_of(value)[-2::-2]
    return (sum(odd) + sum(sum(divmod(2 * d, 10)) for d in even)) % 10 == 0


def card(value: str) -> bool:
    """A payment card: an issuer's prefix and length, and Luhn."""
    return bool(ISSUERS.fullmatch(plain_of(value))) and card_named(value)


def card_named(value: str) -> bool:
    """Luhn over more than one digit: enough where the word `card` stands beside it."""
    return len(set(digits_of(value))) > 1 and luhn(value)


def iban(value: str) -> bool:
    """The remainder modulo 97 is one (ISO 13616)."""
    plain = plain_of(value)
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


def verhoeff(value: str) -> bool:
    """The Verhoeff check digit is right; products in the dihedral group of ten."""
    total = 0
    for place, digit in enumerate(reversed(digits_of(value))):
        for _ in range(place % 8):
            digit = VERHOEFF_TURN[digit]
        total = _dihedral(total, digit)
    return total == 0


def _dihedral(a: int, b: int) -> int:
    turned = (a + b) % 5 if a < 5 else (a - b) % 5
    return turned + (5 if (a < 5) != (b < 5) else 0)


def iso7064(value: str) -> bool:
    """The check digit of ISO 7064 MOD 11,10 is right, as in a German tax id."""
    *body, check = digits_of(value)
    product = 10
    for digit in body:
        product = (((digit + product) % 10 or 10) * 2) % 11
    return (11 - product) % 10 == check


def french_nir(value: str) -> bool:
    """The two-digit key is 97 minus the number modulo 97; 2A and 2B stand for 19 and 18."""
    plain = plain_of(value).replace("2A", "19").replace("2B", "18")
    return plain.isdecimal() and 97 - int(plain[:13]) % 97 == int(plain[13:15])


def spanish_dni(value: str) -> bool:
    """The letter is the one of the number modulo 23; X, Y and Z of a NIE stand for 0, 1 and 2."""
    plain = plain_of(value)
    number = plain[:-1].translate(str.maketrans("XYZ", "012"))
    return number.isdecimal() and DNI_LETTERS[int(number) % 23] == plain[-1]


def finnish_hetu(value: str) -> bool:
    """The last sign is the one of the other nine digits modulo 31."""
    return HETU_LETTERS[int("".join(map(str, digits_of(value[:-1])))) % 31] == value[-1].upper()


def singapore_nric(value: str) -> bool:
    """The letter is the one of the weighted sum modulo 11; T and G count four more, M three."""
    plain = plain_of(value)
    total = sum(map(operator.mul, digits_of(plain), (2, 7, 6, 5, 4, 3, 2))) + {
        "T": 4,
        "G": 4,
        "M": 3,
    }.get(plain[0], 0)
    letters = next((row for kinds, row in NRIC_LETTERS.items() if plain[0] in kinds), "")
    return letters[total % 11 : total % 11 + 1] == plain[-1]


def born(value: str) -> bool:
    """The first six digits are a date (year, month, day), as in a Korean or Swedish personal number."""
    year, month, day = (int(value[start : start + 2]) for start in (0, 2, 4))
    try:
        return date(2000 + year, month, day) is not None
    except ValueError:
        return False


def personnummer(value: str) -> bool:
    """A date and a Luhn sum over the last ten digits; a co-ordination number counts its day from 61."""
    ten = "".join(map(str, digits_of(value)))[-10:]
    day = int(ten[4:6])
    return born(f"{ten[:4]}{day - 60 if day > 60 else day:02}") and luhn(ten)


MEDICARE = r"[1-9][A-HJKMNP-RT-Y][0-9A-HJKMNP-RT-Y]\d-[A-HJKMNP-RT-Y][0-9A-HJKMNP-RT-Y]\d-[A-HJKMNP-RT-Y]{2}\d{2}"
BRITISH_DRIVER = r"(?=[A-Z9]{5})[A-Z]{1,5}9{0,4}\d(?:[05][1-9]|[16][0-2])(?:0[1-9]|[12]\d|3[01])\d[A-Z9]{2}\d[A-Z]{2}"
IDENTITY_NUMBERS: Mapping[re.Pattern[str], Callable[[str], bool]] = {
    re.compile(r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]"): bool,
    re.compile(r"[XYZ]\d{7}[A-HJ-NP-TV-Z]|\d{8}[A-HJ-NP-TV-Z]"): spanish_dni,
    re.compile(r"[0-3]\d[01]\d{3}[A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y]"): finnish_hetu,
    re.compile(r"[STFGM]\d{7}[A-Z]"): singapore_nric,
    re.compile(BRITISH_DRIVER): bool,
    re.compile(r"(?:0[1-9]|[1-3]\d)[A-Z]{5}\d{4}[A-Z][1-9A-Z]Z[0-9A-Z]"): bool,
    re.compile(r"\d{6}-[1-8]\d{6}"): born,
    re.compile(r"(?:19|20)?\d{6}-\d{4}"): personnummer,
    re.compile(r"9\d{2}-(?:[57]\d|6[0-5]|8[0-8]|9[0-24-9])-\d{4}"): bool,
    re.compile(MEDICARE): bool,
}
"""Forms of Italy, Spain, Finland, Singapore, Britain, India, Korea, Sweden and the USA, in this order."""


def identity_number(value: str) -> bool:
    """A number of a form that only tax and identity numbers have."""
    if not any(digits_of(value)):
        return False
    return any(form.fullmatch(value) is not None and right(value) for form, right in IDENTITY_NUMBERS.items())
