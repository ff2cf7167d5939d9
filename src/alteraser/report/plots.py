"""Plots as inline SVG, so that a report is one file that needs nothing else."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

COLOURS = {"original": "#8d99ae", "unlearned": "#2a9d8f", "retrained": "#e07a5f"}
_OTHER_COLOURS = (
    "#3d5a80",
    "#e9c46a",
    "#81b29a",
    "#6d597a",
    "#b56576",
    "#0f9bd7",
    "#d62828",
    "#7f7f7f",
    "#9acd32",
    "#222222",
)


def bars(title: str, values: Mapping[str, float], *, unit: str = "", decimals: int = 4) -> str:
    """A horizontal bar per model with its figure written beside it."""
    with rc_context({"text.parse_math": False}):  # a dollar in a name starts no formula
        figure = Figure(figsize=(4.6, 0.9 + 0.42 * len(values)))
        axes = figure.subplots()
        names = list(values)
        drawn = axes.barh(
            range(len(names)), list(values.values()), color=[_colour(name, names) for name in names]
        )
        axes.bar_label(drawn, labels=[f"{value:.{decimals}f}{unit}" for value in values.values()], padding=4)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.margins(x=0.25)
        axes.set_title(title, loc="left", fontsize=11)
        axes.xaxis.set_visible(False)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        return _svg(figure, title)


def curves(
    title: str,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    x: str,
    y: str,
    log: bool = False,
) -> str:
    """A line per name over (x, y) points."""
    figure = Figure(figsize=(4.6, 3.0))
    axes = figure.subplots()
    drawn = []
    for name, (across, up) in lines.items():
        drawn += axes.plot(across, up, marker="o", markersize=3, color=_colour(name, list(lines)))
    if log:
        axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=11)
    legend = axes.legend(
        drawn, list(lines), frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    axes.spines[["top", "right"]].set_visible(False)
    return _svg(figure, title)


Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]


def panels(
    title: str,
    rows: Mapping[str, Mapping[str, Lines]],
    *,
    log_x: Sequence[str] = (),
    log_y: Sequence[str] = (),
    from_zero: Sequence[str] = (),
) -> str:
    """A grid of small plots: a row for each measure, a column for each thing varied, one legend for all.

    `log_x` names the columns, `log_y` the rows with a logarithmic scale, `from_zero` the rows whose scale begins there.
    """
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    names = list(dict.fromkeys(name for row in rows.values() for lines in row.values() for name in lines))
    figure = Figure(figsize=(0.8 + 2.5 * len(columns), 0.9 + 2.1 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(columns), squeeze=False, sharex="col", sharey="row")
    drawn: dict[str, Any] = {}
    for axes_row, (measure, row) in zip(grid, rows.items(), strict=True):
        for axes, column in zip(axes_row, columns, strict=True):
            for name, (across, up) in row.get(column, {}).items():
                (drawn[name],) = axes.plot(across, up, marker="o", markersize=3, color=_colour(name, names))
            axes.set_xscale("log" if column in log_x else "linear")
            axes.xaxis.set_minor_formatter(NullFormatter())  # over less than a decade they would overlap
            axes.set_yscale("log" if measure in log_y else "linear")
            if measure in from_zero:
                axes.set_ylim(bottom=0)
            axes.spines[["top", "right"]].set_visible(False)
        axes_row[0].set_ylabel(measure)
    for axes, column in zip(grid[-1], columns, strict=True):
        axes.set_xlabel(column)
    figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    legend = figure.legend(
        list(drawn.values()), list(drawn), frameon=False, loc="outside lower center", ncols=4, fontsize=8
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    return _svg(figure, title)


def small_multiples(title: str, plots: Mapping[str, Lines], *, x: str, y: str) -> str:
    """A small plot for each entry, three in a row, each with scales of its own, x a logarithmic one; one legend."""
    names = list(dict.fromkeys(name for lines in plots.values() for name in lines))
    n_rows = -(-len(plots) // 3)
    figure = Figure(figsize=(8.3, 0.9 + 2.1 * n_rows), layout="constrained")
    grid = figure.subplots(n_rows, 3, squeeze=False).flatten()
    drawn: dict[str, Any] = {}
    for axes, (plot, lines) in zip(grid, plots.items(), strict=False):
        for name, (across, up) in lines.items():
            (drawn[name],) = axes.plot(across, up, marker="o", markersize=3, color=_colour(name, names))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(bottom=0)
        axes.set_title(plot, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[len(plots) :]:
        axes.set_visible(False)
    figure.supxlabel(x, fontsize=9)
    figure.supylabel(y, fontsize=9)
    figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    figure.legend(
        list(drawn.values()), list(drawn), frameon=False, loc="outside upper right", ncols=4, fontsize=8
    )
    return _svg(figure, title)


def scatter(title: str, points: Mapping[str, tuple[float, float]], *, x: str, y: str) -> str:
    """A point with its name for each entry, x on a logarithmic scale."""
    figure = Figure(figsize=(7.0, 3.6))
    axes = figure.subplots()
    names = list(points)
    for name, (across, up) in points.items():
        axes.scatter([across], [up], color=_colour(name, names), s=36, label=name)
    axes.set_xscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=11)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return _svg(figure, title)


Points = tuple[Sequence[float], Sequence[float]]


def clouds(
    title: str,
    panels: Mapping[str, Mapping[str, Points]],
    *,
    hollow: Mapping[str, Mapping[str, tuple[float, float]]],
    hollow_name: str,
    x: str,
    y: str,
) -> str:
    """A plot for each panel, side by side: small points for the runs of each name, a large one at their mean.

    `hollow` has points of others for some names, drawn hollow. x is on a logarithmic scale.
    """
    names = list(dict.fromkeys(name for clouds in panels.values() for name in clouds))
    figure = Figure(figsize=(0.6 + 3.0 * len(panels), 3.6), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    drawn: dict[str, Any] = {}
    for axes, (panel, clouds) in zip(grid, panels.items(), strict=True):
        for name, (across, up) in clouds.items():
            colour = _colour(name, names)
            axes.scatter(across, up, color=colour, s=10, alpha=0.35, linewidths=0)
            mean = sum(across) / len(across), sum(up) / len(up)
            drawn[name] = axes.scatter(*([value] for value in mean), color=colour, s=55, zorder=3)
        for name, point in hollow.get(panel, {}).items():
            square: dict[str, Any] = {"marker": "s", "facecolors": "none", "linewidths": 1.5}
            axes.scatter(*([value] for value in point), s=60, edgecolors=_colour(name, names), **square)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_title(panel, fontsize=10)
        axes.set_xlabel(x)
        axes.spines[["top", "right"]].set_visible(False)
    grid[0].set_ylabel(y)
    drawn[hollow_name] = grid[0].scatter([], [], s=60, marker="s", facecolors="none", edgecolors="#222222")
    figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    legend = figure.legend(
        list(drawn.values()), list(drawn), frameon=False, loc="outside lower center", ncols=4, fontsize=8
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    return _svg(figure, title)


def coloured_points(
    title: str, points: Sequence[tuple[float, float]], values: Sequence[float], *, x: str, y: str
) -> str:
    """A point for each value, which its colour tells; both scales are logarithmic, and the greatest has a ring."""
    figure = Figure(figsize=(4.6, 3.4))
    axes = figure.subplots()
    across, up = zip(*points, strict=True)
    drawn = axes.scatter(across, up, c=values, cmap="viridis", s=46)
    best = max(range(len(values)), key=values.__getitem__)
    axes.scatter([across[best]], [up[best]], s=150, facecolors="none", edgecolors="#d62828", linewidths=1.5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    figure.colorbar(drawn, ax=axes)
    return _svg(figure, title)


def _colour(name: str, names: Sequence[str]) -> str:
    return COLOURS.get(name, _OTHER_COLOURS[list(names).index(name) % len(_OTHER_COLOURS)])


def _svg(figure: Figure, title: str) -> str:
    """The figure as an <svg> element: letters stay letters, and ids do not clash with those of other figures."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    style: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "sans-serif"}
    with rc_context(style), warnings.catch_warnings():
        # The reader's fonts draw the letters; that matplotlib's lack one only makes its room a guess.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata=nothing)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    return svg.replace("<svg ", f'<svg role="img" aria-label={quoteattr(title)} ', 1)
