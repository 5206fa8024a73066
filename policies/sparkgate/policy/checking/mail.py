"""Whether what looks like a mail address is one of somebody, written with its signs or spelled out."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkgate.policy.checking.ordinary import MAIL_LISTS, MAIL_PLACES, MAIL_ROLES
from sparkgate.policy.checking.wording import words

ENDINGS = words(
    """academy accountant accountants actor adult aero africa agency airforce alsace amsterdam apartments app archi army
    art arte asia associates attorney auction audio auto band bank bar barcelona bargains bayern beauty beer berlin
    best bet bible bid bike bio biz black blog blue boats boston boutique broker brussels build builders business buzz
    bzh cab cafe cam camera camp capetown capital car cards care career careers cars casa cash casino cat catering
    catholic center ceo charity chat cheap church city claims cleaning clinic clothing cloud club coach codes coffee
    college cologne com community company computer condos construction consulting contact contractors cooking cool
    coop corsica country coupons courses credit creditcard cruises cymru dance dating deals degree delivery democrat
    dental dentist desi design dev diamonds diet digital direct directory discount doctor dog domains download durban
    earth eco edu education email energy engineer engineering enterprises equipment estate eus events exchange expert
    exposed express fail faith family fan fans farm fashion finance financial fish fishing fit fitness flights florist
    flowers football forsale foundation fun fund furniture futbol fyi gal gallery games garden gay gent gifts gives
    giving glass global gmbh gold golf gov graphics gratis green gripe group guide guitars guru hamburg haus health
    healthcare help hiphop hiv hockey holdings holiday homes horse hospital host hosting house immo immobilien inc
    industries info ink institute insurance insure int international investments irish ist istanbul jetzt jewelry jobs
    joburg juegos kaufen kim kitchen kiwi koeln krd land lat law lawyer lease legal lgbt life lighting limited limo
    link live llc llp loan loans lol london love ltd ltda luxe luxury madrid maison makeup management market marketing
    mba media melbourne memorial men menu miami mil mobi mobile moda moe mom money monster mortgage moscow motorcycles
    mov museum music nagoya name navy net network news ngo ninja nrw nyc okinawa one ong online organic osaka page
    paris partners parts party pet pharmacy phd photo photography photos physio pics pictures pink pizza plumbing plus
    poker porn post press pro productions promo properties property pub quebec racing recipes red rehab reise reisen
    rent rentals repair report republican rest restaurant review reviews rip rocks rodeo ruhr run ryukyu saarland sale
    salon sarl school schule science scot security services sexy shoes shop shopping show singles site ski skin soccer
    social software solar solutions space sport spot srl stockholm storage store stream studio study style supplies
    supply support surf surgery swiss sydney systems tattoo tax taxi team tech technology tel tennis theater theatre
    tienda tips tires tirol today tokyo tools top tours town toys trade trading training travel tube university uno
    vacations vegas ventures vet versicherung viajes video villas vin vip vision vlaanderen vodka vote voting voto
    voyage wales wang watch webcam website wedding wien wiki win wine work works world wtf xyz yachts yoga yokohama
    zone org"""
)
"""Last parts of names of hosts, beside those of two letters."""
SAID: Mapping[str, frozenset[str]] = {
    "at": words("dot punkt"),
    "ät": words("punkt dot"),
    "arroba": words("punto ponto"),
    "arobase": words("point"),
    "собака": words("точка"),
    "chiocciola": words("punto"),
    "małpa": words("kropka"),
    "apenstaartje": words("punt"),
    "_at_": words("dot"),
    "@": words("dot punkt punto ponto point"),
}
"""How the two signs are said, by language."""
_AT = "at|ät|arroba|arobase|собака|chiocciola|małpa|apenstaartje|@"
_DOT = "dot|punkt|punto|ponto|point|точка|kropka|punt"
SAID_AT = re.compile(rf"\s?[\[({{<]\s?(?:{_AT})\s?[\])}}>]\s?|\s(?:{_AT})\s|\s@|_at_", re.IGNORECASE)
SAID_DOT = re.compile(rf"\s?[\[({{<]\s?({_DOT})\s?[\])}}>]\s?|\s({_DOT})\s|\s\.\s", re.IGNORECASE)
SPOKEN = words("arroba arobase собака chiocciola małpa apenstaartje")
NOT_NAMES = words(
    """look looking looked looks meet meeting meetup see seen hosted host stay staying work working works worked found
    find available visit visiting is was are be me us him her them it team people engineers engineer docs code repo
    project written read download start starting stop aimed point pointed arrive arrived live developer"""
)
"""Words before `at` that no mailbox is called by."""
NOT_PLACES = words(
    """a amazon an each every github gitlab google huggingface nvidia one openai reddit that the this youtube"""
)
MESSAGE_ID = re.compile(r"(?=.{24})[A-Za-z/-]{0,40}20[0-3]\d[01]\d[0-3]\d(?:\d{6}\.|-?)\w")
"""The long name of a message, which says when it was written."""
ARCHIVE = re.compile(r"\blore\.|\blkml|message-?id|msgid|in-reply-to", re.IGNORECASE)
"""What stands before it."""
CYRILLIC_ENDINGS = words("рус москва орг ком сайт онлайн укр бел срб")
SIGNED = re.compile(r"[\w-]{2,}[._+-]\w|\w\d")


def mail(value: str, text: str, start: int) -> bool:
    """An address of somebody, not an example, a robot or a file name."""
    name, _, place = value.rpartition("@")
    known = (
        name.lower() in MAIL_ROLES
        or MAIL_LISTS.fullmatch(place)
        or (MESSAGE_ID.match(name) and ARCHIVE.search(text[max(0, start - 60) : start]))
    )
    return not known and _is_place(place)


def _plain(word: str) -> str:
    """As it is written in the tables: patterns that ignore case take `ſ` for s and `ı` for i."""
    return word.casefold().replace("ı", "i")


def said_mail(value: str, text: str, start: int) -> bool:
    """An address whose signs are said or stand apart; `look at github dot com` is none."""
    sign = SAID_AT.search(value)
    if sign is None:
        return False
    name, at, place = value[: sign.start()], _plain(sign[0].strip(" \t[({<>)}]")), value[sign.end() :]
    dots = {_plain(one) for found in SAID_DOT.findall(value) for one in found if one}
    if dots - SAID[at] or not _is_place(SAID_DOT.sub(".", place)) or name.lower() in MAIL_ROLES:
        return False
    if sign[0].strip()[0] in "[({<" or at in SPOKEN:
        return True
    if at == "_at_":
        return "." in name
    if at == "@":
        call = text[start + len(value) :][:1] == "("
        own = SIGNED.search(SAID_DOT.sub(".", name)) and not MAIL_PLACES.fullmatch(name)
        return bool(own) and place.find(".") != 1 and not call
    if SAID_DOT.search(name):
        return True
    return bool(SAID_DOT.search(place)) and (bool(SIGNED.search(name)) or _is_mailbox(name, place))


def _is_mailbox(name: str, place: str) -> bool:
    return name.lower() not in NOT_NAMES and re.split(r"[ .]", place.lower())[0] not in NOT_PLACES


def _is_place(place: str) -> bool:
    ending = place.rpartition(".")[2].lower()
    known = len(ending) == 2 or ending in ENDINGS or ending in CYRILLIC_ENDINGS or ending.startswith("xn--")
    return known and not MAIL_PLACES.fullmatch(place)
