"""A few consecutive tokens of an unreleased folder are recognised, and ordinary lines are not."""

from __future__ import annotations

import os
import random
from pathlib import Path
from time import monotonic

import pytest

from sparkgate.policy.code import fingerprints
from sparkgate.policy.code.fingerprints import LONG_RUN, RUN, SHINGLE, WINDOW, Fingerprints, FolderError, tokens, winnow
from sparkgate.policy.code.own_words import own_words
from sparkgate.policy.code.signs import signs
from sparkgate.policy.finding import Overrun
from sparkgate.policy.forms.view import View

PATIENCE_S = 30.0
KEY = bytes(range(32))
ENGINE = """\
import numpy as np
from quay.ledger import TollLedger

# Settles the tolls of one pier before the haircut is known.
class PierEngine:
    def __init__(self, tolls, tilt=0.83):
        self.tolls = tolls
        self.tilt = tilt

    def settle(self, crates):
        for i in range(len(crates)):
            toll = self.tolls.rate_of(crates[i].kind) * self.tilt
            crates[i].owed += toll - crates[i].haircut
        return np.array([crate.owed for crate in crates])

if __name__ == "__main__":
    print(PierEngine({}).settle([]))
"""
JAVASCRIPT = (
    "const warmPiers = piers.filter((p) => p.heat > bias.floor);\nexport const skewOf = (pier) => pier.heat * 0.7;\n"
)
ORDINARY = [
    "import numpy as np",
    "for i in range(len(x)): print(i)",
    'if __name__ == "__main__": main()',
    "def __init__(self, *args, **kwargs): super().__init__()",
    "np.array([1, 2, 3]) vs np.asarray",
    "torch.cuda.is_available() returns False",
    "how do I settle a toll dispute at the pier",
    "const x = y.filter((p) => p.a > b)",
    "",
    "a b c d e",
]


def folder(tmp_path: Path, **files: str) -> Path:
    """A folder of source files; `__` in a name stands for the dot."""
    made = tmp_path / "secret"
    made.mkdir(exist_ok=True)
    for name, text in files.items():
        (made / name.replace("__", ".")).write_text(text)
    return made


def spans(prints: Fingerprints, text: str) -> list[str]:
    return [text[hit.start : hit.end] for hit in prints.find(View("raw", text), monotonic() + PATIENCE_S)]


@pytest.fixture
def prints(tmp_path: Path) -> Fingerprints:
    return Fingerprints.of_folder(folder(tmp_path, engine__py=ENGINE, piers__js=JAVASCRIPT), KEY)


# -- what is recognised


def test_a_line_of_the_folder_inside_a_question_is_blocked_and_its_span_holds_the_line(prints: Fingerprints) -> None:
    line = "toll = self.tolls.rate_of(crates[i].kind) * self.tilt"
    hits = prints.find(View("raw", f"why is {line} nan"), monotonic() + PATIENCE_S)
    assert [(hit.rule.id, hit.rule.cls, hit.rule.verdict) for hit in hits] == [("unreleased-code", "code", "block")]
    (span,) = spans(prints, f"why is {line} nan")
    assert line in span and len(span) <= len(line) + len("is  nan")


def test_spacing_line_breaks_and_letter_case_do_not_hide_it(prints: Fingerprints) -> None:
    for text in (
        "toll=self.tolls.rate_of(crates[i].kind)*self.tilt",
        "TOLL = SELF.TOLLS.RATE_OF( CRATES[ I ].KIND )",
        "crates[i].owed\n   +=\n toll - crates[i]\n.haircut",
        "const warmPiers = piers.filter((p)=>p.heat>bias.floor)",
    ):
        assert spans(prints, f"error in {text} please")


def test_any_eight_tokens_of_a_file_that_name_two_own_words_are_found(prints: Fingerprints) -> None:
    own = own_words(ENGINE, signs().common) - signs().frequent
    names = tokens(ENGINE)
    runs = [names[at : at + RUN] for at in range(len(names) - RUN + 1)]
    telling = [run for run in runs if len(own.intersection(run)) >= 2]
    assert len(telling) > 40
    for run in telling:
        assert spans(prints, f"zzz {' '.join(run)} qqq"), run


def test_a_long_run_is_found_whatever_words_it_holds(tmp_path: Path) -> None:
    prose = (
        "Before the harbour opens nobody may move any crate because the tide has to turn and the crane must rest first."
    )
    prints = Fingerprints.of_folder(folder(tmp_path, plan__md=prose), KEY)
    names = tokens(prose)
    for at in range(len(names) - LONG_RUN + 1):
        assert spans(prints, "he wrote " + " ".join(names[at : at + LONG_RUN]) + " yesterday")
    assert spans(prints, " ".join(names[:7])) == []


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_lines_and_talk_about_the_subject_stay(prints: Fingerprints, text: str) -> None:
    assert spans(prints, text) == []


def test_every_window_of_shingles_keeps_one() -> None:
    source = random.Random(3)
    for _ in range(200):
        names = [source.choice("abcdef") for _ in range(source.randrange(0, 30))]
        kept = winnow(names)
        shingles = [" ".join(names[at : at + SHINGLE]) for at in range(len(names) - SHINGLE + 1)]
        for at in range(len(shingles) - WINDOW + 1):
            assert kept.intersection(shingles[at : at + WINDOW])
        assert kept <= set(shingles) and (bool(kept) == bool(shingles))


def test_own_words_are_what_is_defined_and_fields_that_hang_on_no_import() -> None:
    words = own_words(ENGINE, signs().common)
    assert {"pierengine", "tolls", "tilt", "settle", "crates", "toll", "owed", "haircut"} <= words
    assert words.isdisjoint({"numpy", "array", "tollledger", "self", "print", "len"})
    sql = own_words("CREATE TABLE pier_toll (\n  desk_cut numeric(6,4),\n  crate_id bigint\n);", frozenset())
    assert {"pier_toll", "desk_cut", "crate_id"} <= sql


# -- what is read


def test_generated_locked_binary_long_and_linked_files_and_tool_folders_are_not_read(tmp_path: Path) -> None:
    made = folder(tmp_path, kept__py=ENGINE, uv__lock=ENGINE, LICENSE=ENGINE, gen__py=f"# @generated\n{ENGINE}")
    (made / ".git").mkdir()
    (made / ".git" / "x.py").write_text(JAVASCRIPT)
    (made / "blob.py").write_bytes(b"\0" + JAVASCRIPT.encode())
    (made / "long.py").write_text(JAVASCRIPT + " " * fingerprints.FILE_MAX_BYTES)
    (made / "link.js").symlink_to(made / "blob.py")
    names = sorted(path.name for path in fingerprints.text_files(made))
    assert names == ["blob.py", "gen.py", "kept.py", "long.py"]
    assert spans(Fingerprints.of_folder(made, KEY), JAVASCRIPT) == []


def test_a_missing_folder_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"no folder; correct it in \[policy\] unreleased"):
        Fingerprints.of_folder(tmp_path / "gone", KEY)


def test_a_file_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    prints = Fingerprints.of_folder(folder(tmp_path, engine__py=ENGINE), KEY)
    assert prints.unread == 0
    assert not prints._read(prints.folder / "gone.py", {})
    assert prints.unread == 1


# -- what is kept


def test_fingerprints_outlive_a_restart_without_reading_the_files_again(tmp_path: Path) -> None:
    made, store = folder(tmp_path, engine__py=ENGINE), tmp_path / "prints"
    first = Fingerprints.of_folder(made, KEY, store)
    seen = (made / "engine.py").stat()
    (made / "engine.py").write_text("x" * len(ENGINE))
    os.utime(made / "engine.py", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    again = Fingerprints.of_folder(made, KEY, store)
    assert len(again) == len(first) > 50
    assert spans(again, "toll = self.tolls.rate_of(crates[i].kind)")
    assert again.refresh() == 0


def test_the_store_is_private_small_and_holds_no_word(tmp_path: Path) -> None:
    store = tmp_path / "prints"
    made = Fingerprints.of_folder(folder(tmp_path, engine__py=ENGINE), KEY, store)
    data = store.read_bytes()
    assert store.stat().st_mode & 0o777 == 0o600
    assert len(data) <= fingerprints.SIEVE_BYTES + 8 * (len(made) + 100)
    for word in (b"pier", b"toll", b"haircut", b"engine"):
        assert word not in data.lower()
    assert "toll" not in repr(made)


@pytest.mark.parametrize("damage", [b"", b"x", b"12345678" * 40, None])
def test_a_damaged_store_is_made_anew(tmp_path: Path, damage: bytes | None) -> None:
    made, store = folder(tmp_path, engine__py=ENGINE), tmp_path / "prints"
    Fingerprints.of_folder(made, KEY, store)
    store.write_bytes(store.read_bytes()[:-8] + b"damaged!" if damage is None else damage)
    assert spans(Fingerprints.of_folder(made, KEY, store), "toll = self.tolls.rate_of(crates[i].kind)")


def test_another_key_does_not_take_over_the_store(tmp_path: Path) -> None:
    made, store = folder(tmp_path, engine__py=ENGINE), tmp_path / "prints"
    Fingerprints.of_folder(made, KEY, store)
    first = store.read_bytes()
    assert spans(Fingerprints.of_folder(made, bytes(32), store), "toll = self.tolls.rate_of(crates[i].kind)")
    assert store.read_bytes() != first


def test_a_changed_file_is_read_again_and_what_it_held_stays_recognised(tmp_path: Path) -> None:
    made = folder(tmp_path, engine__py=ENGINE)
    prints = Fingerprints.of_folder(made, KEY, tmp_path / "prints")
    folder(tmp_path, engine__py=JAVASCRIPT, more__py="x = 1\n")
    assert prints.refresh() == 2 and prints.refresh() == 0
    assert spans(prints, JAVASCRIPT) and spans(prints, "toll = self.tolls.rate_of(crates[i].kind)")


def test_many_digests_are_folded_into_one_sorted_array() -> None:
    source = random.Random(5)
    numbers = [source.randrange(2**64) for _ in range(5000)]
    kept = fingerprints._Digests()
    kept.add(numbers[:3000])
    kept.fold()
    kept.add(numbers)
    assert len(kept) == len(set(numbers)) and all(number in kept for number in numbers)
    kept.fold()
    assert list(kept.base) == sorted(set(numbers)) and not kept.recent
    assert source.randrange(2**64) not in kept


# -- limits


def test_a_passed_deadline_is_an_overrun(prints: Fingerprints) -> None:
    with pytest.raises(Overrun):
        prints.find(View("raw", ENGINE), monotonic() - 1)


def test_no_text_makes_it_raise_and_every_span_lies_inside(prints: Fingerprints) -> None:
    source = random.Random(11)
    parts = [*tokens(ENGINE), "\ud800", "İ", "é", "\n", " ", "\u200b", "ẞ"]
    for _ in range(200):
        text = " ".join(source.choices(parts, k=source.randrange(0, 60)))
        for hit in prints.find(View("raw", text), monotonic() + PATIENCE_S):
            assert 0 <= hit.start < hit.end <= len(text)
