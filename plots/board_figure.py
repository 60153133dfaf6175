# SPDX-License-Identifier: Apache-2.0
"""The leaderboard as one picture: at every problem of some runs, how far from the machine's limit
the fastest variant of each kind of answer is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import captions, style
from plots.leaderboard import APPROXIMATE, CERTIFIED, EXACT, LIBRARY
from plots.load import Cell, Result
from plots.words import TIMES, digits, many, rounded_count, seconds, wrapped

# The same colours and marks as in the page's chart.
LOOKS = {
    EXACT: ("#0072B2", "o"),
    CERTIFIED: ("#D55E00", "s"),
    APPROXIMATE: ("#009E73", "^"),
    LIBRARY: ("#CC79A7", "D"),
}
_ROW, _WIDTH = 0.27, 9.0  # inches
_NARROW_ROW, _NARROW_WIDTH = 0.36, 4.3  # on a phone: a row's texts stand above its marks


def best_of(result: Result) -> dict[tuple[int, int, int], dict[str, Cell]]:
    """By problem, the smallest first, the fastest cell of each kind of answer, variants that choose
    among others included; Python libraries apart from the suite's own. README and docs/ call no
    other one the fastest exact."""
    found: dict[tuple[int, int, int], dict[str, Cell]] = {}
    for cell in result.cells:
        if cell.seconds is None:
            continue
        kind = cell.answer
        if cell.backend == "python" and kind == CERTIFIED:
            kind = LIBRARY
        here = found.setdefault(cell.shape, {})
        other = here.get(kind)
        if other is None or other.seconds is None or cell.seconds.mid < other.seconds.mid:
            here[kind] = cell
    return dict(sorted(found.items(), key=lambda item: item[0][0] * item[0][1] * item[0][2]))


def _with_limits(result: Result) -> dict[tuple[int, int, int], dict[str, Cell]]:
    """Those whose limit is known."""
    known = {
        shape: {kind: cell for kind, cell in here.items() if cell.share_of_limit}
        for shape, here in best_of(result).items()
    }
    return {shape: here for shape, here in known.items() if here}


def draw(results: Sequence[Result], narrow: bool = False) -> Figure:
    """`narrow`: so that it can be read where a page is as wide as a phone."""
    style.apply()
    best = [_with_limits(result) for result in results]
    height = [(_NARROW_ROW if narrow else _ROW) * len(rows) for rows in best]
    size = (_NARROW_WIDTH if narrow else _WIDTH, sum(height) + 0.9 * len(best) + 0.3)
    fig = Figure(figsize=size, layout="constrained")
    axes = fig.subplots(len(best), 1, squeeze=False, gridspec_kw={"height_ratios": height})[:, 0]
    for ax, result, rows in zip(axes, results, best, strict=True):
        _panel(ax, result, rows, narrow)
    handles = [
        axes[0].scatter([], [], color=color, marker=mark, label=kind)
        for kind, (color, mark) in LOOKS.items()
    ]
    columns = 2 if narrow else len(handles)
    fig.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False)
    return fig


def _panel(
    ax: Axes, result: Result, rows: dict[tuple[int, int, int], dict[str, Cell]], narrow: bool
) -> None:
    titles = [f"{rounded_count(n)} {TIMES} {d}, k = {rounded_count(k)}" for n, d, k in rows]
    for place, (title, here) in enumerate(zip(titles, rows.values(), strict=True)):
        over = {kind: 1 / (cell.share_of_limit or 1) for kind, cell in here.items()}
        ax.plot([min(over.values()), max(over.values())], [place, place], color=style.LIGHT_GREY)
        for kind, value in over.items():
            color, mark = LOOKS[kind]
            ax.scatter([value], [place], color=color, marker=mark, s=34, zorder=3)
        cell = here.get(EXACT)
        text = f"{cell.variant}, {seconds(cell.seconds.mid)}" if cell and cell.seconds else ""
        # Where no mark is: right of the row, or above it.
        at = (0.0, place - 0.43) if narrow else (1.01, place)
        look: dict[str, Any] = {
            "xycoords": ("axes fraction", "data"),
            "va": "center",
            "fontsize": 8,
        }
        if narrow:
            look["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
        ax.annotate(f"{title}: {text}" if narrow else text, at, **look)
    ax.set_yticks([] if narrow else range(len(rows)), None if narrow else titles)
    ax.set_ylim(len(rows) - 0.5, -0.8 if narrow else -0.5)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: digits(value, 1))
    ax.axvline(1, color=style.BLACK, linestyle=(0, (4, 2)), linewidth=1)
    lines = "\n" if narrow else " "
    ax.set_xlabel(f"time of an iteration over the least{lines}that brute force needs here (dashed)")
    used = [many(result.context["threads"], "thread"), captions.gpus_used(result)]
    # A machine's name may be long.
    name = wrapped(f"{captions.machine_name(result)},", 48 if narrow else 200)
    exact = "fastest exact above" if narrow else "fastest exact at the right"
    ax.set_title(f"{name}\n{' or '.join(filter(None, used))}; {exact}", loc="left")
    ax.grid(visible=True, axis="x", color=style.LIGHT_GREY, linewidth=0.6)
