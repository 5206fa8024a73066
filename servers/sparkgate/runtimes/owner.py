"""What the owners of processes have in common: reading their refusals, hiding values, keeping a note between calls."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from sparkgate.engines.spec import line
from sparkgate.machine.commands import Completed
from sparkgate.machine.files import private_folder, text_of, write_private
from sparkgate.runtimes.spec import Place, RuntimeFault

CGROUPS = Path("/sys/fs/cgroup")
HIDDEN = "***"
KILLED = 137
FOR_MEMORY = "killed for its memory"
WORDS_OF_EXIT: Mapping[int, str] = {
    125: "exit 125: its owner refused to run it",
    126: "exit 126: its command cannot be executed",
    127: "exit 127: its command was not found",
    KILLED: "exit 137: killed, cause unknown (a stop that took too long, or the kernel for memory)",
    139: "exit 139: segmentation fault",
    143: "exit 143: it was asked to end",
    255: "exit 255: the host went down under it, or its command failed",
}

_SECRET_FLAG = re.compile(r"-{1,2}[\w-]*(?:keys?|token|secret|password)", re.IGNORECASE)
_ENVIRONMENT_FLAGS = ("-e", "--env")
_ERROR = re.compile(r"\W*(?:[\w.-]+: )?(?:error|failed)\b", re.IGNORECASE)
_ADVICE = re.compile(r"Run '|See |Usage:|Try '")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SHORTEST_SECRET_CHARS = 4


@dataclass(frozen=True, slots=True)
class Trouble:
    """A refusal of an owner: pattern of its line, our stable code, the way out ({name} and {unit} stand for ours)."""

    says: str
    code: str
    way_out: str


EVERYWHERE = (
    Trouble("is not installed$", "not_installed", "install it where the gate finds it, or name another runtime"),
    Trouble("did not end within", "timeout", "it hangs: ask it by hand"),
)
"""What `Run` itself says."""


def trouble(ended: Completed, known: Sequence[Trouble]) -> tuple[Trouble | None, str]:
    """What is known of a command that failed, and the line that tells it."""
    said = [text for text in (ended.stderr + "\n" + ended.stdout).splitlines() if text.strip()]
    for one in (*known, *EVERYWHERE):
        for text in said:
            if re.search(one.says, text, re.IGNORECASE):
                return one, line(text)
    errors = [text for text in said if _ERROR.match(text)] or [text for text in said if not _ADVICE.match(text)]
    return None, line(errors[-1]) if errors else f"status {ended.code} and no word"


def is_trouble(ended: Completed, known: Sequence[Trouble], code: str) -> bool:
    """Whether a command failed, and for this known reason."""
    found = None if ended.ok else trouble(ended, known)[0]
    return found is not None and found.code == code


def told(place: Place, ended: Completed, known: Sequence[Trouble]) -> str:
    """The line of an owner that tells why a command failed, without values."""
    return trouble(_hidden(ended, place), known)[1]


def fault(place: Place, doing: str, ended: Completed, known: Sequence[Trouble]) -> RuntimeFault:
    """The error of a command that failed: what was done, the owner's line without values, the way out."""
    found, says = trouble(_hidden(ended, place), known)
    text = f"{place.name}: {doing}: {says}"
    if found is None:
        return RuntimeFault("refused", text)
    return RuntimeFault(found.code, f"{text}; {found.way_out.format(name=place.name, unit=place.entry.unit)}")


def _hidden(ended: Completed, place: Place) -> Completed:
    return Completed(ended.code, hide(ended.stdout, place), hide(ended.stderr, place))


def words_of_exit(code: int | None) -> str:
    """An exit code in words; "" for none and for 0."""
    if not code:
        return ""
    if code in WORDS_OF_EXIT:
        return WORDS_OF_EXIT[code]
    return f"exit {code}: ended by signal {code - 128}" if 128 < code < 160 else f"exit {code}"


def for_memory(code: int | None, says_so: bool) -> bool | None:
    """Whether memory was the reason: its owner says so; None while it runs and after a kill without a reason."""
    return True if says_so else None if code in (None, KILLED) else False


def hide(text: str, place: Place) -> str:
    """The text without values that the catalogue hands to the process."""
    for value in sorted(_values(place), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


def _values(place: Place) -> set[str]:
    """Values of environment words, and of flags that name a key or a token."""
    command = place.entry.command
    settings = [*place.entry.environment, *(word[2:] for word in command if re.match(r"-e\w+=", word))]
    settings += [word for before, word in pairwise(command) if before in _ENVIRONMENT_FLAGS]
    settings += [word.removeprefix("--env=") for word in command if word.startswith("--env=")]
    settings += [word for word in command if _SECRET_FLAG.fullmatch(word.partition("=")[0])]
    found = {word.partition("=")[2] for word in settings}
    found |= {word for word, shown in zip(command, without_flag_values(command), strict=True) if shown == HIDDEN}
    return {value for value in found if len(value) >= _SHORTEST_SECRET_CHARS}


def without_flag_values(words: Iterable[str]) -> tuple[str, ...]:
    """Words of a command without the values of flags that name a key, a token or a password."""
    shown: list[str] = []
    expected = False
    for word in words:
        name, equals, _ = word.partition("=")
        flag = _SECRET_FLAG.fullmatch(name) is not None
        shown.append(f"{name}={HIDDEN}" if flag and equals else HIDDEN if expected and not flag else word)
        expected = flag and not equals
    return tuple(shown)


def step(words: Sequence[str], place: Place) -> str:
    """A command as a person reads it in a plan."""
    return shlex.join(hide(word, place) for word in words)


def printed(text: str) -> list[str]:
    """Lines of a log without colours; of a progress bar that overwrites itself only its last state."""
    return [_COLOUR.sub("", one.rstrip("\r").rpartition("\r")[2]) for one in text.split("\n") if one.strip()]


def joined(*parts: str) -> str:
    """The parts that say something, as one line."""
    return line("; ".join(part for part in parts if part))


def parsed(text: str) -> Any:
    """JSON of an owner; None when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def at(answer: Any, *path: str | int) -> Any:
    """What lies at a path of keys and indices in JSON; None when there is nothing."""
    for key in path:
        try:
            answer = answer[key]
        except (KeyError, IndexError, TypeError):
            return None
    return answer


def listed(answer: Any, *path: str | int) -> list[Any]:
    """The JSON list at a path; [] when there is none."""
    found = at(answer, *path)
    return found if isinstance(found, list) else []


def texts(answer: Any, *path: str | int) -> tuple[str, ...]:
    """The strings of the JSON list at a path."""
    return tuple(one for one in listed(answer, *path) if isinstance(one, str))


def pairs(answer: Any, *path: str | int) -> dict[str, str]:
    """The strings of the JSON object at a path, by key."""
    found = at(answer, *path)
    return {key: one for key, one in found.items() if isinstance(one, str)} if isinstance(found, dict) else {}


def number(answer: Any, *path: str | int) -> int:
    """The whole number at a path; 0 when there is none, as these owners leave zeros out."""
    found = at(answer, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def epoch_s(stamp: Any) -> float | None:
    """An RFC 3339 time in seconds since the epoch; None for none and for the year 1, which docker writes for never."""
    try:
        at_ = datetime.fromisoformat(stamp)
        return at_.timestamp() if at_.year > 1 else None
    except (TypeError, ValueError):
        return None


def traits(found: Mapping[str, object]) -> dict[str, str]:
    """Those that have a value, each as text of one line; yes is "true", no is left out."""
    said = {name: "true" if value is True else line(str(value)) for name, value in found.items() if value}
    return {name: text for name, text in said.items() if text}


def pids_in(folder: Path) -> tuple[int, ...]:
    """Processes of a control group and the groups below it; () when it cannot be read."""
    found = (pid for file in folder.rglob("cgroup.procs") for pid in text_of(file).split())
    return tuple(sorted({int(pid) for pid in found if pid.isdecimal()}))


def main_first(main: int, pids: Iterable[int]) -> tuple[int, ...]:
    """Each pid once, the main one first; 0 is none."""
    return tuple(dict.fromkeys(pid for pid in (main, *pids) if pid > 0))


def note_of(place: Place, owner: str) -> dict[str, str]:
    """What was kept of this engine for this owner; {} when there is nothing."""
    note = pairs(parsed(text_of(_note(place))))
    return note if note.get("owner") == owner else {}


def keep(place: Place, owner: str, **note: str) -> None:
    """Keep a note of this engine for a later call, mode 0600, written whole or not at all.

    Raises:
        RuntimeFault: `no_note`; it cannot be written.
    """
    try:
        private_folder(_note(place).parent)
        write_private(_note(place), json.dumps({"owner": owner} | note))
    except OSError as error:
        raise RuntimeFault("no_note", f"{_note(place)} cannot be written: {error.strerror}") from error


def _note(place: Place) -> Path:
    return place.state / "runtimes" / f"{place.name}.json"
