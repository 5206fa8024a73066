"""Names that a program gives: what it defines, and the fields it reads of its own data."""

from __future__ import annotations

import re

MIN_LETTERS = 3

_DEFINED = re.compile(
    r"\b(?:def|class|fn|fun|func|function|struct|enum|union|trait|interface|impl|type|mod|module|namespace|macro_rules!"
    r"|define|let|const|var|val|mut|static|object|record|protocol|table|view|procedure|trigger|package)\s+"
    r"(?:(?:mut|if not exists|async|class)\s+)?(?:\([^()\n]{0,80}\)\s*)?[\"`\[]?(?:\w+\.)?(\w+)",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    r"(?m)^[ \t+]*(?:[\w.<>:*&\[\]]{1,60}[ \t*&]+){0,3}(?:\w{1,60}(?:\.|->)){0,4}(\w+)(?:\[[^\]\n]{0,60}\])?"
    r"(?:[ \t]+(?::=|[-+*/|&^%]?=(?!=))|[ \t]*;|(?:: ?[\w\[\], .|]{1,60})?[ \t]+=(?!=))"
)
_SHELL = re.compile(r"(?m)^[ \t]*(?:export |local |readonly )?([A-Za-z_]\w*)=")
_PARAMETERS = re.compile(
    r"\b(?:def|fn|fun|func|function)\b[^()\n]{0,80}(?:\([^()\n]{0,80}\) ?\w{0,60})?\(([^()]{0,600})\)"
)
_LOOP = re.compile(r"\bfor\s*\(?((?:\w+,? ?){1,3})\b(?:in|of)\b")
_BODY = re.compile(r"\b(\w+)\s?\([^;{}()]{0,300}\)\s*(?:const\s*)?(?:->[^{\n]{0,60})?\{")
_TYPED = re.compile(
    r"(?m)^[ \t]+[\"`]?(\w+)[\"`]?"
    r"(?:\??: ?\w|[ \t]+(?:bigint|int|integer|numeric|text|varchar|uuid|jsonb?|date|bool)\b)"
)
_IMPORT = re.compile(r"(?m)^[ \t]*(?:import|from|use|using|require|#include)\b(.*)$")
_CHAIN = re.compile(r"(?<![\w.>)\]\"'/])([A-Za-z_]\w*)((?:(?:\.|->)[A-Za-z_]\w*)+)(\s*\()?")
_AFTER_BRACKET = re.compile(r"[\])](?:\.|->)([A-Za-z_]\w*+)(?!\s*\()")
_WORD = re.compile(r"[^\W\d]\w*")
_NAMES = (_DEFINED, _ASSIGNED, _SHELL, _BODY, _TYPED, _AFTER_BRACKET)


def own_words(text: str, common: frozenset[str]) -> set[str]:
    """Names of one file in lower case, without the `common` ones and those of three letters or less than that.

    A field counts as own unless it hangs on an imported name (`torch.bfloat16`) or is called (`x.reshape(`).
    """
    found = {match[1] for pattern in _NAMES for match in pattern.finditer(text)}
    for pattern in (_PARAMETERS, _LOOP):
        for match in pattern.finditer(text):
            found.update(_WORD.findall(match[1]))
    imported = {word for match in _IMPORT.finditer(text) for word in _WORD.findall(match[1])}
    for match in _CHAIN.finditer(text):
        if match[1] not in imported:
            fields = _WORD.findall(match[2])
            found.update(fields[:-1] if match[3] else fields)
    lowered = {word.lower() for word in found - imported}
    return {word for word in lowered if len(word) >= MIN_LETTERS and not word.isdigit()} - common
