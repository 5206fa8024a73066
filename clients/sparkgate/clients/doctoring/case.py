"""One file of one host as the doctor finds it, and what belongs into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sparkgate.clients.hosts.entry import SERVER_NAMES, Launch, launches
from sparkgate.clients.hosts.host import Beside, Data, Host, Target
from sparkgate.clients.registering.jobs import Place
from sparkgate.clients.registering.reading import find
from sparkgate.clients.registering.record import Registration
from sparkgate.clients.registering.refusal import Refused
from sparkgate.clients.registering.values import MODULE, argv_of, at, is_ours
from sparkgate.clients.splice import CannotEdit, read


@dataclass(frozen=True, slots=True)
class Case:
    """Attributes:
    text: of the file.
    data: the same, parsed.
    known: what we remember to have written there.
    config: path of config.toml for an entry that names none.
    usual: names of the servers that `register` would put there now.
    trusts: the user trusts this file: what it names may be started, also behind a wrapper.
    """

    place: Place
    text: str
    data: Data
    known: Registration
    config: str
    usual: frozenset[str] = frozenset({"sparksearch"})
    trusts: bool = False

    @property
    def host(self) -> Host:
        return self.place.host

    @property
    def register(self) -> str:
        """The command that writes our entries."""
        profile = f" --profile {self.place.target.profile}" if self.place.target.profile else ""
        return f"sparkgate register --host {self.host.name}{profile}"

    def entry(self, server: str) -> Any:
        return at(self.data, (*self.place.target.key, server))

    def ours(self) -> dict[str, Mapping[str, Any]]:
        """Entries that start a server of ours, by the names of ours."""
        found = {name: self.entry(name) for name in SERVER_NAMES.values()}
        return {name: one for name, one in found.items() if self.counts(one)}

    def counts(self, entry: Any) -> bool:
        """Whether it is one of ours; where the user trusts the file, also one that hands our command to a wrapper."""
        if not isinstance(entry, Mapping):
            return False
        return is_ours(entry) or (self.trusts and MODULE in argv_of(entry))

    def launch(self, server: str) -> Launch:
        """How it would be started if it was registered now, with the config.toml that the entry names."""
        toolset = next(toolset for toolset, name in SERVER_NAMES.items() if name == server)
        return launches(self.host.name, config_in(self.entry(server)) or self.config, [toolset])[0]

    def beside(self) -> Iterator[tuple[Beside, str, Data | str]]:
        """The other files of the same profile that count: (what it is, path, as it parses or why it does not)."""
        for beside in self.host.beside:
            targets = list(beside.targets(self.place.where))
            of_profile = [one for one in targets if one.profile == self.place.target.profile]
            for target in (of_profile or targets)[:1]:
                yield beside, str(target.file), _parsed(target)


def _parsed(target: Target) -> Data | str:
    try:
        text = find(target.file, target.folder).text if target.folder.is_dir() else None
        found = {} if text is None else read(text, target.format)
    except Refused as error:
        return str(error)
    except CannotEdit as error:
        return f"{target.file}:{error}"
    return found if isinstance(found, Mapping) else {}


def config_in(entry: Any) -> str:
    """The config.toml that an entry names."""
    words = argv_of(entry)
    return next((value for name, value in pairwise(words) if name == "--config"), "")
