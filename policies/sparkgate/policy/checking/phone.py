"""Whether digits are the number of a phone."""

from __future__ import annotations

import re

from sparkgate.policy.checking.checksums import digits_of
from sparkgate.policy.checking.ordinary import TOLL_FREE
from sparkgate.policy.checking.wording import words

CALLING = re.compile(
    r"1[2-9]\d{2}[2-9]\d{6}|7[3489]\d{9}|(?:2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58])\d{7,11}"
    r"|(?:2[1-689]|3[578]|42|50|59|6[789]|8[058]|9[679])\d{7,11}"
)
PHONE_WORD = re.compile(
    r"(?:phone|tele?fon|téléphone|teléfono|telefone|telefoon|telepono|\btel|mobile?|\bcell|\bcall(?:ed|s|er|ing)?"
    r"|voicemail|whatsapp|\bfax|\bsms|\btext(?:ed)?|\bdial|handy|nummer|\banruf|portable|móvil|celular|\bcep|\bgsm|手机"
    r"|电话|電話|携帯|телефон|\bтел|answering|\breach|messages?|registered|contact|\bmy number|number(?= is)|\bring"
    r"|kontakt|numéro|número|\bruft?(?: mich| uns)?|\bappell?[eé]\w*|\bllám\w+|звон\w+|전화|휴대폰)"
    r"[.:#]?(?:[ \t]*(?:number|no\.?|nr\.?|nummer|numarası|is|ist|:|=|me|us|you|at|on|to|from|von|unter|can|du|de|al"
    r"|с|по|号码?|番号|号|は|번호|número|numéro|номеру?|номера)){0,4}[ \t:=#(]{0,3}$",
    re.IGNORECASE,
)
"""What announces a number, in the languages people search in."""
PHONE_STEMS = words(
    """phon fon tel mobil cell call voicemail whatsapp fax sms text dial handy nummer anruf portable móvil celular cep
    gsm 手机 电话 電話 携帯 тел answering reach message registered contact number ring kontakt numéro número ruf appel
    llám звон 전화 휴대폰"""
)
"""One of these stands in whatever `PHONE_WORD` finds."""
LEAST = 7
"""Digits of a number."""
FICTION = re.compile(r"555[ .-]?01\d\d")


def phone_abroad(value: str, _text: str, _start: int) -> bool:
    """A known calling code and as many digits as a number has there."""
    plain = "".join(map(str, digits_of(value)))
    return bool(CALLING.fullmatch(plain.removeprefix("00"))) and "123456789" not in plain


def phone_here(value: str, _text: str, _start: int) -> bool:
    """A number without calling code: grouped, or of the length and first digits such numbers have."""
    if len(value) < LEAST:
        return False
    groups = re.findall(r"\d+", re.sub(r"^8[ -]?(?=\()", "", value))
    if len(groups) == 1:
        return bool(re.fullmatch(r"0\d{8,11}|[2-9]\d{9}|1[3-9]\d{9}", groups[0]))
    date = re.match(r"\d{4}[-./]\d\d[-./]\d\d", value)
    return LEAST <= sum(map(len, groups)) <= 13 and min(map(len, groups)) >= 2 and not date


def phone_word(_value: str, text: str, start: int) -> bool:
    """A word that announces a phone number stands before it."""
    before = text[max(0, start - 60) : start]
    return any(map(before.lower().__contains__, PHONE_STEMS)) and PHONE_WORD.search(before) is not None


def owned_phone(value: str, _text: str, _start: int) -> bool:
    """No toll-free number, which firms print everywhere, and none of those that films use."""
    return not TOLL_FREE.fullmatch(value) and not FICTION.fullmatch(value)
