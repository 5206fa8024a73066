"""Names of the operator: however people write them they are found, and words that only look like them are not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import pytest

from sparkgate.policy.finding import Label, Overrun
from sparkgate.policy.forms.view import View
from sparkgate.policy.names.fold import BASE, DIGRAPH, Words, fold
from sparkgate.policy.names.index import deletions, one_edit
from sparkgate.policy.names.parse import keys, parse_name, variants
from sparkgate.policy.names.words import COMMON, ENDINGS, FAMILIES, is_common
from sparkgate.policy.rules import RuleError
from sparkgate.policy.terms import NEAR_CHARS, Term, Terms, load_terms

LATER = 1e9


def form(text: str) -> View:
    return View("raw", text)


def terms(*names: str) -> Terms:
    labels = (Label(f"term-{number}", "client", "redact", "[name]", "w") for number in range(1, len(names) + 1))
    return Terms(Term(label, (name,)) for label, name in zip(labels, names, strict=True))


def spans(found_by: Terms, text: str) -> list[tuple[int, int]]:
    """Joined spans of everything found."""
    merged: list[tuple[int, int]] = []
    for hit in found_by.find(form(text), LATER):
        if merged and hit.start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], hit.end)
        else:
            merged.append((hit.start, hit.end))
    return merged


def released(found_by: Terms, text: str) -> str:
    for start, end in reversed(spans(found_by, text)):
        text = text[:start] + "[name]" + text[end:]
    return text


HOUSE = terms("Brellix Dynamics", "Vornado", "Project Woodlark", "Kröger & Hähnle", "Wombat Register", "Zintrex")

LEAKS = [
    # any case
    ("VORNADO invoice overdue", "[name] invoice overdue"),
    ("project woodlark embedding model", "[name] embedding model"),
    # accents and what stands for them
    ("Kröger & Hähnle Handelsregister", "[name] Handelsregister"),
    ("Kroger & Hahnle gmbh", "[name] gmbh"),
    ("Kroeger & Haehnle website", "[name] website"),
    ("KRÖGER & HÄHNLE", "[name]"),
    ("Kro\u0308ger & Ha\u0308hnle", "[name]"),
    ("Vörnado and Zíntrex", "[name] and [name]"),
    # what joins the parts
    ("an Kröger und Hähnle schreiben", "an [name] schreiben"),
    ("Kröger and Hähnle", "[name]"),
    ("Kröger et Hähnle", "[name]"),
    ("Kröger y Hähnle", "[name]"),
    ("Kröger + Hähnle", "[name]"),
    ("Kröger&Hähnle", "[name]"),
    ("kroeger-haehnle.de", "[name].de"),
    ("Kröger Hähnle", "[name]"),
    # possessive, plural, inflected
    ("what does Vornado's new chief want", "what does [name]'s new chief want"),
    ("what does Vornado’s new chief want", "what does [name]’s new chief want"),
    ("Brellix Dynamics' annual revenue", "[name]' annual revenue"),
    ("Angebot für Vornados Rechenzentrum", "Angebot für [name] Rechenzentrum"),
    ("smlouva se Zintrexem a Zintrexu", "smlouva se [name] a [name]"),
    ("the Wombat Registers", "the [name]"),
    ("die Zintrexsche Anlage", "die [name] Anlage"),
    # compounds
    ("integrate BrellixDynamics telemetry", "integrate [name] telemetry"),
    ("VornadoGateway timeout", "[name]Gateway timeout"),
    ("prodVornado timeout", "prod[name] timeout"),
    ("helm upgrade vornado-prod failed", "helm upgrade [name]-prod failed"),
    ("brellix_dynamics.prod_orders vacuum", "[name].prod_orders vacuum"),
    ("my_zintrex_table", "my_[name]_table"),
    ("brellixdynamics", "[name]"),
    ("ZINTREXServer and XMLZintrex", "[name]Server and XML[name]"),
    ("zintrex2 and 2zintrex", "[name]2 and 2[name]"),
    ("vornadogateway and prodvornado", "[name]gateway and prod[name]"),
    ("https://a.test/?q=brellix+dynamics+firmware", "https://a.test/?q=[name]+firmware"),
    ("github.com/brellix/dynamics-sdk", "github.com/[name]-sdk"),
    ("Wombat\nRegister", "[name]"),
    # letter by letter, and broken
    ("z i n t r e x", "[name]"),
    ("about z.i.n.t.r.e.x pricing", "about [name] pricing"),
    ("z-i-n-t-r-e-x Z_I_N_T_R_E_X", "[name] [name]"),
    ("w o m b a t  r e g i s t e r", "[name]"),
    ("Vor-\n  nado", "[name]"),
    ("vor-nado", "[name]"),
    # other scripts beside it
    ("为Vornado部署vLLM的报价", "为[name]部署vLLM的报价"),
    ("Vornado의 계약", "[name]의 계약"),
    ("договорVornado", "договор[name]"),
    # one letter wrong
    ("Vornaddo", "[name]"),
    ("Vornad roadmap", "[name] roadmap"),
    ("Vormado", "[name]"),
    ("Vonrado", "[name]"),
    ("v0rnado", "[name]"),
    ("Wommbat Register export", "[name] export"),
    ("Wombat Regsiter export", "[name] export"),
    ("Projcet Woodlark meeting notes", "[name] meeting notes"),
    ("Brelix-Dynamics", "[name]"),
    ("brellix_dynamcs", "[name]"),
    ("brelixdynamics", "[name]"),
    ("BrellixDynamcs", "[name]"),
    ("VonradoGateway", "[name]Gateway"),
    ("Krögers & Hähnle", "[name]"),
    ("Kröger und Hänle", "[name]"),
    ("为Wombat Regsiter部署", "为[name]部署"),
    # joined by a word of another language
    ("Kröger i Hähnle", "[name]"),
    ("Kröger и Hähnle", "[name]"),
    ("Kröger e Hähnle og", "[name] og"),
    ("Kröger en Hähnle", "[name]"),
    ("Kröger och Hähnle", "[name]"),
    ("Kröger ja Hähnle", "[name]"),
    ("Kröger和Hähnle 合同", "[name] 合同"),
    ("Kröger と Hähnle", "[name]"),
    ("Kröger en Hänle", "[name]"),
    # the part that says what it is, in any language and at either end
    ("the Woodlark project board", "the [name] board"),
    ("Woodlark-Projekt", "[name]"),
    ("des Woodlark-Projekts Kosten", "des [name] Kosten"),
    ("Woodlarkprojekt", "[name]"),
    ("Projekt Woodlark, projet Woodlark", "[name], [name]"),
    ("Proyecto Woodlark", "[name]"),
    ("progetto_woodlark", "[name]"),
    ("feature/проект Woodlark", "feature/[name]"),
    ("项目 Woodlark", "[name]"),
    ("Woodlark项目预算", "[name]预算"),
    ("Woodlarkプロジェクト", "[name]"),
    ("Woodlark projcet", "[name]"),
    ("w o o d l a r k project", "[name]"),
    ('project "Woodlark" budget', '[name]" budget'),
    # derived from the last part
    ("Brellix Dynamik", "[name]"),
    ("brellix dynamic pricing", "[name] pricing"),
    ("Brellix-Dynamiques", "[name]"),
    ("brellixdynamik.de", "[name].de"),
    ("BrellixDynamikServer", "[name]Server"),
    ("Kröger & Hähnlein", "[name]"),
    # digits and signs for letters
    ("Br3ll1x Dynam1cs lawsuit", "[name] lawsuit"),
    ("brellix-dynam1ks offer", "[name] offer"),
    ("W00dl4rk Pr0ject", "[name]"),
    ("Pr0ject W00dlaik", "[name]"),
    ("Pr0ject Woo-dl4rk", "[name]"),
    ("w0mbat_r3g1573r", "[name]"),
    ("V0rn4d0", "[name]"),
    ("Z1ntr3x", "[name]"),
    ("my Bre11ix Dyn4mic5", "my [name]"),
    ("Br3llixDyn4mics", "[name]"),
    ("Brellix D*namics", "[name]"),
    ("Kr0ger & H4hnle", "[name]"),
    ("V0rn@d0", "[name]"),
    ("Z!ntr3x!", "[name]!"),
    # broken more than once, but not by spaces
    ("Wom_bat R_egis_ter", "[name]"),
    ("Wom**bat Re**gister", "[name]"),
    ("Wom\nbat Reg\nister", "[name]"),
    ("brel-lix dy-nam-ics", "[name]"),
]

CLEAN = [
    "tornado warning in texas",
    "vernacular of the region",
    "project management kanban vs scrum",
    "woodlark bird habitat",
    "wombat selfie and the register of deeds",
    "dynamics simulation on arm64",
    "Kröger Milch Sorten",
    "Hähnle Lieder",
    "brellix",
    "zinc trex decking",
    "Kröger Werkzeug und Hähnle",
    "wombat, register",
    "Wombat. And then Register",
    "projects and registers",
    "i x z t r e n",
    "zantrax zintr",
    "the vor nad o",
    # in another order, or derived from another word
    "Register Wombat",
    "hähnle kröger",
    "woodlark projection",
    "woodlark and the project",
    "projekt management",
    "woodlark проекция",
    "wombat registration",
    "brellix dynasty",
    "aerodynamics of brellix",
    "kröger o hähnle",
    # digits and signs that are no letters
    "v0rn4d zintr3 b1t",
    "0x1f r0 p3 sha256 gb10 nvfp4 h264 4 5 7",
    "w0mbat r4dio register",
    "**wombat** is **registered**",
    "vor\nna do",
]


@pytest.mark.parametrize(("text", "left"), LEAKS, ids=[text for text, _ in LEAKS])
def test_a_name_is_found_however_it_is_written(text: str, left: str) -> None:
    assert released(HOUSE, text) == left


@pytest.mark.parametrize("text", CLEAN)
def test_words_that_only_look_like_a_name_stay(text: str) -> None:
    assert HOUSE.find(form(text), LATER) == []


@pytest.mark.parametrize(
    ("name", "leaks", "clean"),
    [
        ("Globex", ["Globex", "Globexu", "glöbex"], ["globe", "global exchange", "globe x axis", "globez"]),
        ("Haas", ["Haas", "Hås", "HAAS", "haasProd"], ["has", "hash", "haste", "ha as"]),
        ("Ødegaard", ["Odegaard", "Oedegaard", "Ødegård", "ØDEGAARD"], ["degas", "garden"]),
        ("Straßberg", ["Strassberg", "STRASSBERG", "Straßbergs"], ["strasse", "berg"]),
        ("Mueller", ["Müller", "Muller", "Mueller", "MÜLLER", "Muellers"], ["mule", "miller"]),
        ("HP", ["HP printer", "my-hp", "hp2", "HPServer", "HP's"], ["php", "graph paper", "hpc", "h p"]),
        (
            "AT&T",
            ["AT&T", "at & t", "ATT bill", "at and t"],
            ["at the end", "attention", "that trip", "at a t-shirt", "at i t", "atet"],
        ),
        ("H&M", ["H&M", "h & m shop", "H und M", "H和M"], ["him", "ham", "hum", "hem", "H i M"]),
        ("M & S", ["M&S", "m and s", "M+S"], ["mess", "mas", "mus", "m a s", "mands"]),
        ("3M", ["3M tape", "3m"], ["13m", "3 apples", "3mm"]),
        ("O'Hara", ["O'Hara", "ohara", "O’Hara's"], ["o tiara", "hara"]),
        ("華為", ["購買華為的手機"], ["華麗", "為"]),
        ("Ромашка", ["ромашкой", "Ромашки", "РОМАШКА"], ["рома", "роман"]),
        ("Praha Servis", ["Praha Servis", "praha-servisu"], ["praha", "servis"]),
        ("Bramborova", ["Bramborovy", "Bramborovou"], ["brambor"]),
        ("AlderBank", ["Alder Bank", "alder-bank", "AlderBank", "alderbank"], ["alder", "bank", "older bank"]),
        ("Nordlicht", ["nordlichtportal"], ["nordic", "nor dlic ht"]),
        ("Crossbridge", ["cross-bridge"], ["to cross bridge after bridge", "crossbow"]),
        ("Digital", ["digital", "Digital-Prod"], ["digitalization", "digitize"]),
        ("Vertica", ["vertica", "verticas"], ["vertical", "vertically"]),
        ("Globex Corp", ["Globex Corp", "globexcorp"], ["globe corp", "globex", "corp"]),
        ("Orrin Group", ["Groupe Orrin", "Orrin-Gruppe", "Grupo Orrin", "group Orrin"], ["orrin", "group by origin"]),
        ("Group Sigma Orrin", ["Sigma Orrin Group"], ["orrin group", "sigma group"]),
        ("Stratux Labs", ["Stratux Lab", "stratux-labs"], ["labs stratux", "stratux"]),
        ("Alder Bank", ["Alder Bank", "Alder-Banks"], ["Bank Alder", "banque alder"]),
        ("Project Orchid", ["Projekt Orchid", "проект Orchid"], ["orchid project", "Orchideenprojekt"]),
        ("Project Management", ["Project Management"], ["management project", "project manager"]),
        ("Orchid Robotics", ["Orchid Robotics"], ["orchid robotik", "orchid robot"]),
        ("Hallvard Communications", ["hallvard communication", "Hallvard Communicatie"], ["Hallvard community"]),
        ("Globex", ["Gl0bex", "G1obex", "gl0b3x"], ["gl0be", "g10b"]),
        ("Haas", ["haas"], ["h445", "ha4s", "h@as"]),
        ("Alfa i Beta", ["Alfa i Beta"], ["alfa beta"]),
        ("Ernst and Jung", ["Ernst & Jung", "ernst und jung", "Ernst+Jung"], ["ernst", "ernst oder jung"]),
    ],
)
def test_each_kind_of_name_is_found_and_its_neighbours_stay(name: str, leaks: list[str], clean: list[str]) -> None:
    found_by = terms(name)
    assert [text for text in leaks if not found_by.find(form(text), LATER)] == []
    assert [text for text in clean if found_by.find(form(text), LATER)] == []


def test_initials_count_only_when_the_operator_lists_them() -> None:
    label = Label("term-1", "client", "block", "[name]", "w")
    assert terms("Brellix Dynamics").find(form("BD roadmap"), LATER) == []
    (hit,) = Terms([Term(label, ("Brellix Dynamics", "BD"))]).find(form("the BD roadmap"), LATER)
    assert (hit.rule, hit.start, hit.end) == (label, 4, 6)


def test_a_misspelt_word_that_is_an_ordinary_word_is_no_name() -> None:
    assert terms("Stratum Labs", "Electra", "Securita").find(form("stratus labs electro security"), LATER) == []
    assert is_common("robotics") and is_common("projects") and is_common("initial") and not is_common("vornado")


def test_every_single_edit_of_a_long_name_is_found() -> None:
    found_by = terms("Vornado", "Brellixon", "Quandrel Wixby")
    letters = "aeqz"
    for name in ("vornado", "brellixon", "quandrel wixby"):
        at = [index for index in range(len(name)) if name[index] != " "]
        edits = {name[:i] + name[i + 1 :] for i in at} | {name[:i] + x + name[i + 1 :] for i in at for x in letters}
        edits |= {name[:i] + x + name[i:] for i in at for x in letters}
        edits |= {name[:i] + name[i + 1] + name[i] + name[i + 2 :] for i in at if i + 1 in at}
        missed = [text for text in edits if not found_by.find(form(text), LATER)]
        assert missed == []


def test_two_edits_are_no_name_and_short_names_have_none() -> None:
    assert terms("Vornado", "Zintrex", "Globex").find(form("vrnadao zntrx globez"), LATER) == []


@pytest.mark.parametrize(
    ("a", "b", "close"),
    [
        ("abc", "abc", False),
        ("abc", "ab", True),
        ("aab", "ab", True),
        ("abc", "axc", True),
        ("abcd", "acbd", True),
        ("abcd", "dbca", False),
        ("abc", "a", False),
        ("", "a", True),
    ],
)
def test_one_edit_is_one_letter_or_one_swap(a: str, b: str, close: bool) -> None:
    assert (one_edit(a, b), one_edit(b, a)) == (close, close)
    assert not close or deletions(a) & deletions(b)


# -- the file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("scimanyD xillerB lawsuit", "[name] lawsuit"),
        ("scimanyd-xillerb-2025", "[name]-2025"),
        ("Oeryyvk Qlanzvpf lawsuit", "[name] lawsuit"),
        ("oeryyvk-qlanzvpf-2025", "[name]-2025"),
        ("Cebwrpg Jbbqynex", "[name]"),
        ("green terrace", "green terrace"),
    ],
)
def test_a_longer_name_is_found_backwards_and_in_other_letters(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "terms.toml"
    names = ("Brellix Dynamics", "Project Woodlark", "Terra", "Alder")
    path.write_text("".join(f'[[term]]\nname = "{name}"\n' for name in names), encoding="utf-8")
    assert released(load_terms(path), text) == expected


def test_the_file_gives_ids_verdicts_forms_and_near_words(tmp_path: Path) -> None:
    path = tmp_path / "terms.toml"
    path.write_text(
        '[[term]]\nname = "Alder"\nnear = ["Bank"]\n[[term]]\nname = "Vornado"\nverdict = "block"\nforms = ["Vrnd"]\n',
        encoding="utf-8",
    )
    found_by = load_terms(path)
    assert [(label.id, label.cls, label.verdict, label.replacement) for label in found_by.labels] == [
        ("term-1", "client", "redact", "[name]"),
        ("term-2", "client", "block", "[name]"),
    ]
    assert [hit.rule.id for hit in found_by.find(form("alder for the BANK of vrnd"), LATER)] == [
        "term-1",
        "term-2",
    ]
    assert found_by.find(form("an alder by the river"), LATER) == []
    assert found_by.find(form("alder " + "x" * NEAR_CHARS + " bank"), LATER) == []


@pytest.mark.parametrize("verdict", ["redact", "ask", "block"])
def test_a_term_may_be_redacted_asked_about_or_blocked(tmp_path: Path, verdict: str) -> None:
    path = tmp_path / "terms.toml"
    path.write_text(f'[[term]]\nname = "Vornado"\nverdict = "{verdict}"\n', encoding="utf-8")
    assert [label.verdict for label in load_terms(path).labels] == [verdict]


def test_another_verdict_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "terms.toml"
    path.write_text('[[term]]\nname = "Vornado"\nverdict = "allow"\n', encoding="utf-8")
    with pytest.raises(RuleError, match="term 1: verdict is redact, ask or block"):
        load_terms(path)


def test_without_a_file_nothing_is_found(tmp_path: Path) -> None:
    assert load_terms(tmp_path / "terms.toml").find(form("Vornado"), LATER) == []


def test_a_mistake_in_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "terms.toml").write_text("[[term]]\nname = 'A'\n", encoding="utf-8")
    with pytest.raises(RuleError, match="term 1: needs a name of at least two characters"):
        load_terms(tmp_path / "terms.toml")


def test_a_name_without_letters_finds_nothing() -> None:
    assert terms("&&", "--", "…").find(form("a && b -- c …"), LATER) == []


@pytest.mark.parametrize("change", [("Vornada", "redact", ()), ("Vornado", "block", ()), ("Vornado", "redact", ("x",))])
def test_what_a_digest_is_made_of_changes_with_a_term(change: tuple[str, str, tuple[str, ...]]) -> None:
    name, verdict, near = change
    one = Terms(
        [Term(Label("term-1", "client", "block" if verdict == "block" else "redact", "[name]", "w"), (name,), near)]
    )
    assert one.told() != terms("Vornado").told() == terms("Vornado").told()


def test_no_name_is_in_what_may_be_shown() -> None:
    assert "vornado" not in repr(HOUSE).lower() and "vornado" not in repr(HOUSE.labels).lower()


# -- limits and properties


def test_a_deadline_that_passed_ends_the_search() -> None:
    for text in ("Vornado " * 50, "nothing at all"):
        with pytest.raises(Overrun):
            HOUSE.find(form(text), monotonic() - 1)


def test_no_text_makes_it_raise_and_every_span_lies_in_the_text() -> None:
    chance = random.Random(5)
    found = 0
    for text in texts(chance, 3_000):
        for hit in HOUSE.find(form(text), LATER):
            assert 0 <= hit.start < hit.end <= len(text)
            found += 1
    assert found > 1_000


def test_a_redacted_text_holds_nothing_that_is_still_found() -> None:
    for text in texts(random.Random(6), 3_000):
        left = released(HOUSE, text)
        assert HOUSE.find(form(left), LATER) == [], (text, left)


def test_judging_twice_gives_the_same() -> None:
    for text in texts(random.Random(7), 300):
        assert HOUSE.find(form(text), LATER) == HOUSE.find(form(text), LATER)


def test_what_stands_around_a_name_does_not_hide_it() -> None:
    chance = random.Random(8)
    for _ in range(500):
        name = chance.choice(["Vornado", "Zintrex", "wombat register", "Kroeger & Haehnle", "Projcet Woodlark"])
        before, after = ("".join(chance.choices("ab 1ß为é\u0301.", k=9)) for _ in range(2))
        text = f"{before} {name} {after}"
        assert any(start <= len(before) + 1 and len(before) + 1 + len(name) <= end for start, end in spans(HOUSE, text))


def test_a_long_text_of_names_and_of_near_names_is_searched_to_its_end() -> None:
    for part in (
        "vornado ",
        "Vonrado ",
        "project ",
        "projcet woodlarks ",
        "vornado",
        "A_",
        "z i n t r e x ",
        "Krö",
        "v0rn4d0 ",
        "brellixdynami",
        "0",
        "a1",
    ):
        text = part * (16_000 // len(part)) + " zintrex"
        assert spans(HOUSE, text)[-1][1] == len(text)


PIECES: Sequence[str] = (
    *(
        "Vornado",
        "vornado",
        "VORNADO",
        "Vonrado",
        "Zintrex",
        "zintrex",
        "z i n t r e x",
        "Brellix",
        "Dynamics",
        "dynamcs",
    ),
    *(
        "Project",
        "Projcet",
        "Woodlark",
        "Kröger",
        "Kroeger",
        "Hähnle",
        "Ha\u0308hnle",
        "Wombat",
        "Register",
        "vor",
        "nado",
    ),
    *(
        " ",
        " ",
        " ",
        "-",
        "_",
        ".",
        "&",
        " und ",
        " + ",
        "'s",
        "s",
        "em",
        "\n",
        "为",
        "部署",
        "ß",
        "é",
        "\u0301",
        "🚀",
        "\u200b",
    ),
    *("W00dl4rk", "Pr0ject", "projekt", "проект", "项目", "Dynamik", "dynami", "0", "1", "*", "**", "@", " i ", "и"),
    *("prod", "Gateway", "2", "x", "A", "", "\x00", "\ud800", "İ", "ﷺ", "ﬃ", "the ", "project ", " register"),
)


def texts(chance: random.Random, count: int) -> list[str]:
    """Names, parts of names and everything between, in random order."""
    return ["".join(chance.choices(PIECES, k=chance.randint(1, 12))) for _ in range(count)]


# -- folding


@pytest.mark.parametrize(
    ("text", "base", "digraph"),
    [
        ("Müller", "muller", "mueller"),
        ("Ødegård", "odegard", "oedegaard"),
        ("Straße", "strasse", "strasse"),
        ("Łódź, Đorđe", "lodz  dorde", "lodz  dorde"),
        ("Æsir œuvre", "aesir oeuvre", "aesir oeuvre"),
        ("e\u0301te\u0301", "ete", "ete"),
        ("ЁЖ Й", "еж и", "еж и"),
        ("a—b“c”、d", "a b c  d", "a b c  d"),
        ("为Ab", "为ab", "为ab"),
    ],
)
def test_folding_takes_accents_off(text: str, base: str, digraph: str) -> None:
    assert (fold(text, BASE), fold(text, DIGRAPH)) == (base, digraph)


@pytest.mark.parametrize("folding", [BASE, DIGRAPH])
def test_every_folded_character_knows_where_it_came_from(folding: object) -> None:
    assert folding in (BASE, DIGRAPH)
    for text in texts(random.Random(9), 500):
        words = Words.of(text, BASE if folding is BASE else DIGRAPH)
        assert len(words.at) == len(words.folded) + 1 and words.at[len(words.folded)] == len(text)
        assert list(words.at) == sorted(words.at)
        assert words.joined == "".join(words.folded[start:end] for start, end in words.spans)
        for offset, letter in enumerate(words.joined):
            assert words.folded[words.place(offset)] == letter


def test_a_name_is_cut_into_parts_with_what_joins_them() -> None:
    name = parse_name("Kröger & Hähnle", 0)
    assert name is not None
    assert (name.parts, name.links) == ((("kroger", "kroeger"), ("hahnle", "haehnle")), (True,))
    spelled = {key.text for key in keys(name)}
    assert {"krogerhahnle", "kroegerundhaehnle", "krogerandhahnle", "kroegerhahnle"} <= spelled


def test_a_part_that_says_what_a_name_is_of_stands_for_all_its_family_at_either_end() -> None:
    name = parse_name("Project Woodlark", 0)
    assert name is not None
    first, last = variants(name)
    assert first.parts[1] == last.parts[0] == ("woodlark",)
    assert first.parts[0] == last.parts[1] and {"project", "projekt", "проект", "项目"} <= set(first.parts[0])
    assert all(fold(word) == word for family in FAMILIES for word in family)
    assert len({word for family in FAMILIES for word in family}) == sum(map(len, FAMILIES))


def test_the_list_of_ordinary_words_is_folded_sorted_and_holds_each_once() -> None:
    words = COMMON.read_text(encoding="utf-8").split()
    assert words == sorted(set(words))
    assert all(fold(word) == word and word.isalpha() for word in words)
    assert all(fold(ending) == ending for ending in ENDINGS)
