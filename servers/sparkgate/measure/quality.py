"""Whether an engine still answers right: small tasks with one right answer each (quality.json), graded without a model.

Nothing that a model writes is run. An answer that ended for its length is `truncated`, never wrong: it says something
of the token budget and nothing of the model.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal

from sparkgate.measure.plan import digest
from sparkgate.measure.prompts import filler

JSON = Any
Outcome = Literal["pass", "wrong", "truncated", "error"]
TABLE = Path(__file__).with_name("quality.json")
TRIALS = 3
Z_95 = 1.96


@dataclass(frozen=True, slots=True)
class Item:
    """One task.

    Attributes:
        grader: a key of `GRADERS`; `expect` is what it compares with.
        tools: the tools are sent with it.
        needle: sentence that is hidden `at` that share of a long text, before the prompt.
    """

    id: str
    family: str
    prompt: str
    grader: str
    expect: JSON
    tools: bool = False
    needle: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `arguments` is JSON text, as it is sent."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `finish` is the engine's word for why it ended, `error` why there is no answer."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = "stop"
    error: str = ""


@cache
def _table() -> dict[str, Any]:
    told: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return told


def tools() -> list[dict[str, Any]]:
    """The tools of the items, as the OpenAI protocol sends them."""
    return [dict(tool) for tool in _table()["tools"]]


@cache
def items() -> tuple[Item, ...]:
    """All tasks, in the order of the file."""
    names = {one.name for one in fields(Item)}
    return tuple(Item(**{name: value for name, value in told.items() if name in names}) for told in _table()["items"])


def messages(item: Item, *, needle_words: int = 2000) -> list[dict[str, str]]:
    """The messages of a task; a needle lies in `needle_words` filler words, always the same ones."""
    if not item.needle:
        return [{"role": "user", "content": item.prompt}]
    words = filler(0, 0, needle_words)
    place = round(item.at * needle_words)
    hay = (*words[:place], f"\n{item.needle}\n", *words[place:])
    return [{"role": "user", "content": f"{' '.join(hay)}\n\n{item.prompt}"}]


def grade(item: Item, answer: Answer) -> Outcome:
    """How one answer is judged; thinking that stands in the text is left out."""
    if answer.error:
        return "error"
    if answer.finish == "length" or ("<think>" in answer.text and "</think>" not in answer.text):
        return "truncated"
    text = re.sub(r"^.*</think>", "", answer.text, flags=re.DOTALL).strip()
    return "pass" if GRADERS[item.grader](item.expect, text, answer.calls) else "wrong"


def _calls(expect: JSON, text: str, calls: Sequence[Call]) -> bool:
    """The calls expected, in any order, and no other."""
    left = list(calls)
    for wanted in expect:
        match = next((call for call in left if _fits(wanted, call)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def _fits(wanted: Mapping[str, JSON], call: Call) -> bool:
    arguments = _parsed(call.arguments)
    if call.name != wanted["name"] or not isinstance(arguments, dict):
        return False
    named = wanted["arguments"]
    given = {name: value for name, value in arguments.items() if name in named or not _is_default(name, value)}
    return set(given) == set(named) and all(_equal(named[name], given[name]) for name in named)


def _is_default(name: str, value: JSON) -> bool:
    """Optional arguments that say what holds without them."""
    return (name, value) in (("unit", "celsius"), ("recursive", False)) or value in (None, [])


def _equal(wanted: JSON, given: JSON) -> bool:
    """Of equal kind and value; text may differ in case, blanks and a final dot, and a list of texts in its order.

    `{"any": […]}` names the spellings that are right.
    """
    if isinstance(wanted, dict):
        return any(_equal(one, given) for one in wanted["any"])
    if isinstance(wanted, list):
        return isinstance(given, list) and sorted(map(_plain, wanted)) == sorted(map(_plain, given))
    if isinstance(wanted, str):
        return isinstance(given, str) and _plain(wanted) == _plain(given)
    if isinstance(wanted, bool) or wanted is None or isinstance(given, bool):
        return wanted is given
    return isinstance(given, (int, float)) and math.isclose(wanted, given)


def _plain(value: JSON) -> str:
    return " ".join(str(value).lower().split()).removesuffix(".")


def _no_call(expect: JSON, text: str, calls: Sequence[Call]) -> bool:
    """No tool is called, and the answer is there as a word."""
    return not calls and re.search(rf"\b{re.escape(str(expect))}\b", text.lower()) is not None


_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
}


def _json(expect: JSON, text: str, calls: Sequence[Call]) -> bool:
    """One object with just these keys, of these types, with these values; a fence round it is forgiven."""
    told = _parsed(_unfenced(text))
    return (
        isinstance(told, dict)
        and set(told) == set(expect["required"])
        and all(_typed(told[name], type_) for name, type_ in expect["types"].items())
        and all(_equal(value, told[name]) for name, value in expect["values"].items())
    )


def _typed(value: JSON, type_: str) -> bool:
    return isinstance(value, _TYPES[type_]) and (type_ == "boolean" or not isinstance(value, bool))


def _parsed(text: str) -> JSON:
    """The JSON of a text; None when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _unfenced(text: str) -> str:
    fenced = re.fullmatch(r"```\w*\n(.*?)\n?```", text, re.DOTALL)
    return fenced[1] if fenced else text


_RULES: Mapping[str, Callable[[JSON, list[str]], bool]] = {
    "lines": lambda wanted, lines: len(lines) == wanted,
    "words": lambda wanted, lines: sum(len(line.split()) for line in lines) == wanted,
    "max_words_a_line": lambda wanted, lines: all(len(line.split()) <= wanted for line in lines),
    "each_starts": lambda wanted, lines: all(line.startswith(wanted) for line in lines),
    "upper": lambda wanted, lines: all(line == line.upper() and re.search("[A-Z]", line) for line in lines),
    "without": lambda wanted, lines: not any(part in line.lower() for part in wanted for line in lines),
    "equals": lambda wanted, lines: lines == wanted.split("\n"),
}


def _rules(expect: JSON, text: str, calls: Sequence[Call]) -> bool:
    """Every rule holds for the lines that are not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return bool(lines) and all(_RULES[name](wanted, lines) for name, wanted in expect.items())


def _number(expect: JSON, text: str, calls: Sequence[Call]) -> bool:
    """The last number of the text, whatever stands round it."""
    found = re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"(?<=\d)[, ](?=\d{3}\b)", "", text))
    return bool(found) and math.isclose(float(found[-1]), expect)


def _python(expect: JSON, text: str, calls: Sequence[Call]) -> bool:
    """Code that parses and defines the function with these arguments and a result; it is never run."""
    try:
        tree = ast.parse(_unfenced(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == expect["function"]]
    nodes = list(ast.walk(tree))
    imports = any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in nodes)
    returns = any(isinstance(node, ast.Return) and node.value for node in nodes)
    return bool(found) and [one.arg for one in found[0].args.args] == expect["arguments"] and returns and not imports


GRADERS: Mapping[str, Callable[[JSON, str, Sequence[Call]], bool]] = {
    "calls": _calls,
    "no_call": _no_call,
    "json": _json,
    "rules": _rules,
    "number": _number,
    "python": _python,
}
"""(what is expected, the text, the calls) → whether it is right."""


@dataclass(frozen=True, slots=True)
class Score:
    """How a group of items did.

    Attributes:
        judged: trials that passed or were wrong; truncated ones and errors are counted apart.
        pass_1: share of judged trials that passed, `low` and `high` its 95 % interval (Wilson).
        pass_3: chance that three trials of an item all pass, averaged over `items` with three judged trials.
        unmeasured: items with fewer.
    """

    judged: int
    passed: int
    truncated: int
    errors: int
    items: int
    unmeasured: int
    pass_1: float | None
    low: float | None
    high: float | None
    pass_3: float | None


def score(trials: Mapping[str, Sequence[Outcome]]) -> Score:
    """The score of items by id; everything is None that no trial tells."""
    every = [outcome for outcomes in trials.values() for outcome in outcomes]
    passed, judged = every.count("pass"), every.count("pass") + every.count("wrong")
    chances = [
        all_pass(outcomes.count("pass"), outcomes.count("pass") + outcomes.count("wrong"))
        for outcomes in map(list, trials.values())
    ]
    known = [chance for chance in chances if chance is not None]
    low, high = wilson(passed, judged) or (None, None)
    return Score(
        judged,
        passed,
        every.count("truncated"),
        every.count("error"),
        len(known),
        len(chances) - len(known),
        passed / judged if judged else None,
        low,
        high,
        sum(known) / len(known) if known else None,
    )


def by_family(trials: Mapping[str, Sequence[Outcome]]) -> dict[str, Score]:
    """The score of each family that was tried."""
    of_family = {family: [one.id for one in items() if one.family == family] for family in _families()}
    tried = {family: {id_: trials[id_] for id_ in ids if id_ in trials} for family, ids in of_family.items()}
    return {family: score(some) for family, some in tried.items() if some}


@cache
def digest_of_tasks() -> str:
    """Of all that is asked and expected: runs of quality whose digests differ were asked other tasks."""
    return digest(_table())


def _families() -> list[str]:
    return list(dict.fromkeys(one.family for one in items()))


def all_pass(passed: int, judged: int, k: int = TRIALS) -> float | None:
    """Chance that k trials drawn from the judged ones all passed; None when there are fewer than k."""
    return math.comb(passed, k) / math.comb(judged, k) if judged >= k else None


def wilson(passed: int, judged: int) -> tuple[float, float] | None:
    """95 % interval of a share; None without trials."""
    if not judged:
        return None
    share, weight = passed / judged, Z_95**2 / judged
    middle = share + weight / 2
    spread = math.sqrt(share * (1 - share) * weight + weight**2 / 4)
    return max(0.0, (middle - spread) / (1 + weight)), min(1.0, (middle + spread) / (1 + weight))
