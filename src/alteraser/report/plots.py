"""Plots as inline SVG, so that a report is one file that needs nothing else."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence

from matplotlib import rc_context
from matplotlib.figure import Figure

COLOURS = {"original": "#8d99ae", "unlearned": "#2a9d8f", "retrained": "#e07a5f"}
_OTHER_COLOURS = ("#3d5a80", "#f2cc8f", "#81b29a", "#6d597a", "#b56576", "#355070")


def bars(title: str, values: Mapping[str, float], *, unit: str = "") -> str:
    """A horizontal bar per model with its figure written beside it."""
    figure = Figure(figsize=(4.6, 0.9 + 0.42 * len(values)))
    axes = figure.subplots()
    names = list(values)[::-1]
    drawn = axes.barh(names, [values[name] for name in names], color=[_colour(name, names) for name in names])
    axes.bar_label(drawn, labels=[f"{values[name]:.3g}{unit}" for name in names], padding=4)
    axes.margins(x=0.18)
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
    for name, (across, up) in lines.items():
        axes.plot(across, up, marker="o", markersize=3, label=name, color=_colour(name, list(lines)))
    if log:
        axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, loc="left", fontsize=11)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return _svg(figure, title)


def _colour(name: str, names: Sequence[str]) -> str:
    return COLOURS.get(name, _OTHER_COLOURS[list(names).index(name) % len(_OTHER_COLOURS)])


def _svg(figure: Figure, title: str) -> str:
    """The figure as an <svg> element; letters stay letters, and ids do not clash with those of other figures."""
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    label = re.sub(r"[^\w @.,-]", "", title)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
