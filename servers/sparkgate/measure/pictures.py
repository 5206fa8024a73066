"""Pictures of runs: rates against concurrency, first token against prompt size, two runs side by side.

They can be read without colour: every line has a marker and a style of its own, every bar a hatch, and a point with
warnings is hollow. matplotlib is the extra `plot`; it is imported when a picture is drawn and nowhere else.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from sparkgate.measure.sheets import Line, Pair, Panel, PictureError, Sheet, sheet_of
from sparkgate.measure.told import Measure, Told

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Format = Literal["png", "svg"]
FORMATS: tuple[Format, ...] = get_args(Format)
INSTALL = "pip install 'sparkgate[plot]'"
WIDTH_IN, PANEL_IN, DPI = 8.0, 3.4, 130

_MARKERS = "osD^vP"
_LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
_GREYS = ("#000000", "#555555", "#222222", "#777777", "#333333", "#666666")
_BARS = (("#bbbbbb", ""), ("white", "////"))
"""Fill and hatch of either side."""
_STYLE: Mapping[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "sparkgate",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.grid": True,
    "grid.color": "#cccccc",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
"""Text of an SVG stays text, in whatever sans-serif font the reader has; a dollar sign begins no formula."""


def draw(picture: str, runs: Sequence[Told], fmt: str = "png") -> bytes:
    """One picture of `sheets.PICTURES` as the bytes of a file.

    Args:
        runs: one run, or two for `compare`.
        fmt: `png` or `svg`.

    Raises:
        PictureError: an unknown picture or format, a wrong number of runs, nothing to draw, or no matplotlib.
    """
    if fmt not in FORMATS:
        raise PictureError(f"there is no format {fmt!r}; there are {', '.join(FORMATS)}")
    return _saved(sheet_of(picture, runs), fmt)


def _saved(sheet: Sheet, fmt: str) -> bytes:
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise PictureError(f"pictures need matplotlib: {INSTALL}") from None
    style: Any = _STYLE
    with matplotlib.rc_context():
        # The user's own matplotlibrc may ask for LaTeX and for fonts that are not there.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(style)
        figure = Figure(figsize=(WIDTH_IN, _height_in(sheet)), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        _fill(figure, sheet)
        out = io.BytesIO()
        nothing = {"Date": None, "Creator": "sparkgate"} if fmt == "svg" else {"Software": "sparkgate"}
        figure.savefig(out, format=fmt, metadata=nothing)
    return out.getvalue()


def _height_in(sheet: Sheet) -> float:
    return 0.9 + sum(PANEL_IN if panel.lines else 1.3 + 0.45 * len(panel.bars) for panel in sheet.panels)


def _fill(figure: Figure, sheet: Sheet) -> None:
    heights = [1.0 if panel.lines else 0.4 + 0.14 * len(panel.bars) for panel in sheet.panels]
    grid = figure.subplots(len(sheet.panels), 1, squeeze=False, height_ratios=heights)
    for panel, axes in zip(sheet.panels, grid[:, 0], strict=True):
        if panel.bars:
            _draw_bars(axes, panel)
        else:
            _draw_lines(axes, panel)
    figure.suptitle(sheet.title, fontsize=11)
    figure.supxlabel("; ".join(sheet.notes), fontsize=8, color="#444444")


def _draw_lines(axes: Axes, panel: Panel) -> None:
    for number, line in enumerate(panel.lines):
        _draw_line(axes, line, number)
    levels = sorted({x for line in panel.lines for x, _, _ in line.points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(levels, [f"{level:,}" for level in levels])
    axes.minorticks_off()
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    if panel.log_y:
        _log_scale(axes)
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,g}")
    if panel.knee:
        _draw_knee(axes, *panel.knee)
    if len(panel.lines) > 1 or panel.lines[0].label:
        axes.legend(fontsize=8, frameon=False)


def _log_scale(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())


def _draw_line(axes: Axes, line: Line, number: int) -> None:
    grey, marker = _GREYS[number], _MARKERS[number]
    xs = [x for x, _, _ in line.points]
    ys = [value.value for _, value, _ in line.points]
    errors = [[v.value - v.low for _, v, _ in line.points], [v.high - v.value for _, v, _ in line.points]]
    label = line.label or None
    axes.errorbar(
        xs,
        ys,
        yerr=errors,
        color=grey,
        linestyle=_LINE_STYLES[number],
        marker=marker,
        capsize=3,
        linewidth=1.4,
        label=label,
    )
    hollow = [(x, value.value) for x, value, doubtful in line.points if doubtful]
    if hollow:
        axes.plot(
            *zip(*hollow, strict=True), linestyle="", marker=marker, color=grey, markerfacecolor="white", zorder=5
        )


def _draw_knee(axes: Axes, at: int, text: str) -> None:
    axes.axvline(at, color="#000000", linewidth=1.0, linestyle=(0, (2, 2)))
    axes.annotate(text, (at, 0.04), xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points")


def _draw_bars(axes: Axes, panel: Panel) -> None:
    """Pairs of horizontal bars, the first cell at the top."""
    for side, name in enumerate(panel.names):
        _draw_side(axes, [(pair.a, pair.b)[side] for pair in panel.bars], side, name)
    for place, pair in enumerate(panel.bars):
        right = max(pair.a.high, pair.b.high)
        axes.annotate(_change(pair), (right, place), xytext=(6, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(panel.bars)), [pair.label for pair in panel.bars])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(panel.y)
    axes.margins(x=0.2)
    axes.set_xlim(left=0)
    if panel.legend:
        axes.legend(fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0, 1))


def _draw_side(axes: Axes, values: Sequence[Measure], side: int, name: str) -> None:
    fill, hatch = _BARS[side]
    axes.barh(
        [place + (side - 0.5) * 0.38 for place in range(len(values))],
        [one.value for one in values],
        0.36,
        xerr=[[one.value - one.low for one in values], [one.high - one.value for one in values]],
        facecolor=fill,
        edgecolor="black",
        hatch=hatch,
        capsize=3,
        error_kw={"color": "black", "ecolor": "black"},
        label=name,
    )


def _change(pair: Pair) -> str:
    """B over A in percent."""
    return f"{100 * (pair.b.value / pair.a.value - 1):+.1f} %" if pair.a.value > 0 else ""
