"""Programs that are none: small scripts on a PATH of their own, that answer by their words and write down each call."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparkgate.machine.commands import Completed, runner

HANGS = 254
"""Exit status by which a stub stands for a command that does not end in time."""

_SCRIPT = """\
#!{python} -IS
import json, sys
from pathlib import Path
folder = Path({folder!r})
argv = [Path(sys.argv[0]).name, *sys.argv[1:]]
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps(argv) + chr(10))
rules = json.loads((folder / "rules.json").read_text())
def fits(rule, words):
    return len(rule) <= len(words) and all(one in ("*", word) for one, word in zip(rule, words))
rule = max((one for one in rules if fits(one["words"], argv)), key=lambda one: len(one["words"]), default=None)
if rule is None:
    sys.exit("no answer for " + json.dumps(argv))
before = [json.loads(line) for line in (folder / "calls").read_text().splitlines()][:-1]
count = sum(1 for words in before if fits(rule["words"], words))
answer = rule["answers"][min(count, len(rule["answers"]) - 1)]
sys.stdout.write(answer["stdout"])
sys.stderr.write(answer["stderr"])
sys.exit(answer["code"])
"""


def says(stdout: Any = "", stderr: str = "", code: int = 0) -> dict[str, Any]:
    """One answer; what is no text is printed as JSON."""
    return {"stdout": stdout if isinstance(stdout, str) else json.dumps(stdout), "stderr": stderr, "code": code}


class StubCommands:
    """A `Run` that finds only the programs that were given answers.

    `calls` are the commands that were run, word by word; `limits_s` the seconds each was given.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "stubs"
        self._folder.mkdir()
        self._rules: list[dict[str, Any]] = []
        self._run = runner(environment={"PATH": str(self._folder)})
        self.limits_s: list[float] = []

    def answer(self, command: str, *answers: dict[str, Any]) -> None:
        """What a command that begins with these words answers, call by call; the last one goes on. `*` is any word."""
        words = command.split()
        program = self._folder / words[0]
        program.write_text(_SCRIPT.format(python=sys.executable, folder=str(self._folder)))
        program.chmod(0o755)
        self._rules = [rule for rule in self._rules if rule["words"] != words]
        self._rules.append({"words": words, "answers": answers or (says(),)})
        (self._folder / "rules.json").write_text(json.dumps(self._rules))

    def __call__(self, argv: Sequence[str], timeout_s: float) -> Completed:
        self.limits_s.append(timeout_s)
        ended = self._run(argv, 120)
        if ended.code == HANGS:
            return Completed(None, stderr=f"{argv[0]} did not end within {timeout_s:g} s")
        return ended

    @property
    def calls(self) -> list[list[str]]:
        calls = self._folder / "calls"
        return [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []

    @property
    def commands(self) -> list[str]:
        """The calls as text, where no word has a blank."""
        return [" ".join(words) for words in self.calls]
