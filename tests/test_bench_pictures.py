"""Pictures of runs: what is on them, what is left out, and that they are drawn apart and without colour."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from stored_runs import FASTER, GIVEN, PREFILL, SWEEP, level, run_of, stat

from sparkgate.clients.bench_pictures import plot
from sparkgate.measure import draw as drawing
from sparkgate.measure.draw import drawn
from sparkgate.measure.pictures import FORMATS, INSTALL, draw
from sparkgate.measure.sheets import PICTURES, PictureError, picture_for, sheet_of
from sparkgate.measure.told import Measure, groups, higher_is_better, measure, title

# -- what is on them


def test_a_sweep_shows_both_rates_and_the_knee() -> None:
    together, alone = sheet_of("sweep", [SWEEP]).panels
    assert [(line.label, [x for x, _, _ in line.points]) for line in together.lines] == [
        ("first to last token", [1, 2, 4, 8, 16]),
        ("with the wait before", [1, 2, 4, 8, 16]),
    ]
    assert together.knee and together.knee[0] == 4 and together.knee[1].startswith("knee: 4")
    assert [value.value for _, value, _ in alone.lines[0].points] == [99, 85, 75, 330 / 8, 335 / 16]


def test_an_invalid_cell_is_no_point_and_is_counted() -> None:
    sheet = sheet_of("sweep", [SWEEP])
    assert "1 without a valid number left out" in sheet.notes
    assert all(x != 32 for panel in sheet.panels for line in panel.lines for x, _, _ in line.points)


def test_a_point_with_warnings_is_marked() -> None:
    sheet = sheet_of("sweep", [SWEEP])
    assert [x for x, _, doubtful in sheet.panels[0].lines[0].points if doubtful] == [8]
    assert "hollow: with warnings" in sheet.notes


def test_a_sweep_that_still_grows_has_no_knee() -> None:
    growing = run_of([level(1, 100), level(2, 200), level(4, 400)])
    assert sheet_of("sweep", [growing]).panels[0].knee is None


def test_first_token_is_shown_against_prompt_size_cold_and_warm_apart() -> None:
    times, rates = sheet_of("prefill", [PREFILL]).panels
    assert times.log_y and times.y == "first token, ms" and rates.y == "prefill, tok/s"
    assert {line.label: [x for x, _, _ in line.points] for line in times.lines} == {
        "cold": [512, 4096, 32768],
        "warm": [512, 4096, 32768],
    }


def test_two_runs_show_the_cells_that_both_hold() -> None:
    sheet = sheet_of("compare", [SWEEP, FASTER])
    one, several = sheet.panels
    assert [(pair.label, pair.a.value, pair.b.value) for pair in one.bars] == [("concurrency 1", 99, 104)]
    assert [(pair.label, pair.a.value, pair.b.value) for pair in several.bars] == [
        ("concurrency 2", 170, 180),
        ("concurrency 4", 300, 310),
    ]
    assert one.names[0].startswith("A: run 12") and one.legend and not several.legend
    assert "higher is better" in sheet.notes


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (stat(100.0), Measure(100, 99, 101, sure=True)),
        (stat(100.0, 3), Measure(100, 97, 103)),
        ({"median": 5}, Measure(5, 5, 5)),
        ({"median": 5, "low": 6, "high": None, "ci95": [1, None]}, Measure(5, 5, 5)),
        ({"median": None}, None),
        ({"median": float("inf")}, None),
        ({"median": True}, None),
        ("5", None),
    ],
)
def test_an_interval_is_that_of_95_percent_where_there_is_one(stats: object, expected: Measure | None) -> None:
    assert measure({"key": {}, "status": "valid", "stats": {"m": stats}}, "m") == expected


@pytest.mark.parametrize("status", ["invalid", "cancelled", "", None])
def test_a_cell_that_is_not_valid_has_no_number(status: object) -> None:
    assert measure({"key": {}, "status": status, "stats": {"m": stat(5)}}, "m") is None


def test_groups_are_told_apart_by_what_differs() -> None:
    cells = [level(2, 10, family="code"), level(1, 5, family="prose"), level(1, 6, family="code")]
    found = groups(cells, "concurrency")
    assert {name: [one["key"]["concurrency"] for one in same] for name, same in found.items()} == {
        "code": [1, 2],
        "prose": [1],
    }


def test_groups_that_no_words_tell_apart_are_all_there() -> None:
    cells = [level(1, 5), level(1, 6, enforced=False), level(2, 7, enforced=False)]
    assert sum(len(same) for same in groups(cells, "concurrency").values()) == 3


@pytest.mark.parametrize(
    ("metric", "better", "words"),
    [
        ("decode_tok_s", True, "one stream, tok/s"),
        ("ttft_any_ms", False, "first token, ms"),
        ("j_per_token", False, "energy a token, J"),
        ("fairness", True, "fairness"),
    ],
)
def test_metrics_in_words(metric: str, better: bool, words: str) -> None:
    assert higher_is_better(metric) is better and title(metric) == words


@pytest.mark.parametrize(
    ("picture", "runs", "why"),
    [
        ("pie", [SWEEP], "there are sweep, prefill, compare"),
        ("sweep", [SWEEP, SWEEP], "shows 1 run, and 2"),
        ("compare", [SWEEP], "shows 2 runs, and 1"),
        ("sweep", [run_of([level(1, 99)])], "two different values of concurrency"),
        ("sweep", [run_of([level(1, 99), level(2, 99, "invalid")])], "nothing to draw"),
        ("prefill", [SWEEP], "two different values of prompt tokens"),
        ("compare", [SWEEP, PREFILL], "no cell in which both"),
        ("compare", [SWEEP, FASTER | {"plan": {"protocol_hash": "sha256:2"}}], "different protocols"),
        ("sweep", [{"cells": None}], "nothing to draw"),
        ("sweep", [{"cells": [{"key": 1}, 5, {"key": {"concurrency": "x"}}]}], "nothing to draw"),
    ],
)
def test_what_cannot_be_drawn_says_why(picture: str, runs: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(PictureError, match=why):
        sheet_of(picture, runs)


def test_the_picture_that_suits_is_chosen() -> None:
    assert {name: picture_for(runs) for name, runs in GIVEN.items()} == {name: name for name in PICTURES}


# -- how they are drawn


@pytest.fixture(scope="module")
def files() -> dict[tuple[str, str], bytes]:
    return {(name, fmt): draw(name, GIVEN[name], fmt) for name in PICTURES for fmt in FORMATS}


@pytest.mark.parametrize("name", PICTURES)
def test_a_png_is_large_enough_to_read(files: dict[tuple[str, str], bytes], name: str) -> None:
    data = files[name, "png"]
    width, height = struct.unpack(">II", data[16:24])
    assert data.startswith(b"\x89PNG\r\n") and width >= 1000 and height >= 400 and len(data) < 300_000


@pytest.mark.parametrize("name", PICTURES)
def test_an_svg_has_no_colour_and_fetches_nothing(files: dict[tuple[str, str], bytes], name: str) -> None:
    text = files[name, "svg"].decode()
    colours = set(re.findall(r"#([0-9a-f]{6})\b", text))
    assert colours and all(colour[:2] == colour[2:4] == colour[4:] for colour in colours)
    assert "@font-face" not in text and "<image" not in text and "url(http" not in text and "@import" not in text
    references = re.findall(r'(?:href|src)="([^"]*)"', text)
    assert all(one.startswith("#") for one in references)


def texts(data: bytes) -> set[str]:
    """Texts of an SVG, which stay text."""
    found = ElementTree.fromstring(data).iter("{http://www.w3.org/2000/svg}text")
    return {" ".join("".join(one.itertext()).split()) for one in found}


def test_lines_and_bars_differ_without_colour(files: dict[tuple[str, str], bytes]) -> None:
    sweep, compare = files["sweep", "svg"].decode(), files["compare", "svg"].decode()
    assert "stroke-dasharray" in sweep and "<pattern" in compare
    assert {"concurrency", "all streams, tok/s", "first to last token", "16"} <= texts(files["sweep", "svg"])
    assert {"+5.1 %", "concurrency 1", "one stream, tok/s"} <= texts(files["compare", "svg"])
    assert {"32,768", "1,000", "cold", "warm"} <= texts(files["prefill", "svg"])


def test_a_picture_is_the_same_each_time(files: dict[tuple[str, str], bytes]) -> None:
    assert draw("sweep", [SWEEP], "svg") == files["sweep", "svg"]


def test_names_of_others_are_text_and_no_formula() -> None:
    hostile = SWEEP | {"engine": "$x^2$ <b>&", "model": "a\nb"}
    assert "run 12, $x^2$ <b>&, a b" in texts(draw("sweep", [hostile], "svg"))


def test_another_format_is_refused() -> None:
    with pytest.raises(PictureError, match="there are png, svg"):
        draw("sweep", [SWEEP], "pdf")


def test_without_matplotlib_it_says_what_to_install() -> None:
    code = (
        f"import sys; sys.modules['matplotlib'] = None; sys.argv = ['draw']; from {drawing.MODULE} import main; main()"
    )
    asked = json.dumps({"picture": "sweep", "format": "png", "runs": [SWEEP]})
    ended = subprocess.run([sys.executable, "-c", code], input=asked, capture_output=True, text=True, check=False)
    assert ended.stderr == f"pictures need matplotlib: {INSTALL}\n" and ended.stdout == ""


# -- drawn apart


def test_the_child_draws_what_is_drawn_here(files: dict[tuple[str, str], bytes]) -> None:
    assert drawn("compare", GIVEN["compare"], "svg") == files["compare", "svg"]


def test_what_the_child_refuses_is_said_here() -> None:
    with pytest.raises(PictureError, match="two different values of concurrency"):
        drawn("sweep", [run_of([level(1, 99)])], "png")
    with pytest.raises(PictureError, match=r"took more than 0\.001 s"):
        drawn("sweep", [SWEEP], "png", timeout_s=0.001)
    with pytest.raises(PictureError, match="draw fewer cells"):
        drawn("sweep", [run_of([], note="x" * drawing.INPUT_MAX_BYTES)], "png")


def test_a_child_that_is_told_nonsense_ends_without_a_picture() -> None:
    argv = [sys.executable, "-I", "-m", drawing.MODULE]
    ended = subprocess.run(argv, input=b"{}", capture_output=True, check=False)
    assert ended.returncode and not ended.stdout


def test_the_guard_lets_exactly_this_child_start() -> None:
    code = (
        "import json, sys; from sparkgate.measure.draw import drawn; from sparkgate.policy.guard import Guard\n"
        "guard = Guard(); guard.install(); run = json.load(sys.stdin)\n"
        "print(len(drawn('sweep', [run], 'png', guard=guard)))\n"
        "try: drawn('sweep', [run], 'png')\n"
        "except Exception as error: print(error)"
    )
    argv = [sys.executable, "-I", "-c", code]
    ended = subprocess.run(argv, input=json.dumps(SWEEP), capture_output=True, text=True, check=False)
    size, refused = ended.stdout.splitlines()
    assert int(size) > 10_000 and "cannot be started: ConnectionRefusedByPolicy" in refused


# -- commands


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(SWEEP))
    return str(path)


def test_the_plot_command_writes_the_file_that_is_asked_for(tmp_path: Path, file: str) -> None:
    out = tmp_path / "picture.svg"
    told = CliRunner().invoke(plot, ["--file", file, "-o", str(out), "--json"])
    assert json.loads(told.stdout) == {"picture": "sweep", "file": str(out), "size_bytes": out.stat().st_size}
    assert out.read_bytes() == draw("sweep", [SWEEP], "svg")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--file", "{file}", "-o", "picture.pdf"], "neither .png nor .svg"),
        (["--file", "{file}", "--picture", "compare", "-o", "x.png"], "shows 2 runs"),
        (["--file", "/absent"], "cannot read /absent"),
        (["--file", "{nothing}"], "is no run"),
        ([], "name a run"),
        (["7"], "there is no run 7"),
    ],
)
def test_a_plot_that_cannot_be_made_says_why(tmp_path: Path, file: str, arguments: list[str], why: str) -> None:
    nothing = tmp_path / "nothing.json"
    nothing.write_text("[]")
    given = [word.format(file=file, nothing=nothing) for word in arguments]
    ended = CliRunner(env={"XDG_STATE_HOME": str(tmp_path)}).invoke(plot, given)
    assert ended.exit_code == 1 and why in ended.stderr
