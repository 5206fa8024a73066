"""Check digits of the numbers that registries of residents, of taxes and of pensions give to a person."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from sparkgate.policy.checking.checksums import digits_of

CURP_SIGNS = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
INN_FACTORS = (3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)


def _sum(digits: Sequence[int], factors: Sequence[int]) -> int:
    return sum(map(operator.mul, digits, factors))


def brazilian_cpf(value: str) -> bool:
    """Two check digits modulo 11 over nine and ten digits, not all of them equal."""
    digits = digits_of(value)
    right = [_sum(digits, range(count, 1, -1)) * 10 % 11 % 10 for count in (10, 11)]
    return len(digits) == 11 and len(set(digits)) > 1 and right == digits[9:]


def ean(value: str) -> bool:
    """The check digit of EAN-13, as in a Swiss AHV number."""
    digits = digits_of(value)
    return len(digits) == 13 and _sum(digits, (1, 3) * 6 + (1,)) % 10 == 0


def russian_snils(value: str) -> bool:
    """The last two digits are the weighted sum of the other nine modulo 101."""
    digits = digits_of(value)
    return len(digits) == 11 and _sum(digits, range(9, 0, -1)) % 101 % 100 == digits[9] * 10 + digits[10]


def russian_inn(value: str) -> bool:
    """Two check digits modulo 11, as in the twelve digits of a person."""
    digits = digits_of(value)
    right = [_sum(digits, INN_FACTORS[skip:]) % 11 % 10 for skip in (1, 0)]
    return len(digits) == 12 and right == digits[10:]


def japanese_number(value: str) -> bool:
    """The check digit of an individual number (My Number), modulo 11."""
    digits = digits_of(value)
    rest = _sum(digits[10::-1], (2, 3, 4, 5, 6, 7, 2, 3, 4, 5, 6)) % 11
    return len(digits) == 12 and digits[11] == (0 if rest <= 1 else 11 - rest)


def mexican_curp(value: str) -> bool:
    """The last digit is ten minus the weighted sum of the signs before it, modulo ten."""
    signs = [CURP_SIGNS.find(sign) for sign in value.upper()]
    return len(signs) == 18 and -1 not in signs and -_sum(signs, range(18, 1, -1)) % 10 == signs[17]
