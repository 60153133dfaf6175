# SPDX-License-Identifier: Apache-2.0
"""The leaderboard as one picture: at every problem of some runs, how far from the machine's limit
the fastest variant of each kind of answer is."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import captions, style
from plots.leaderboard import APPROXIMATE, CERTIFIED, EXACT, LIBRARY, kind_of_answer
from plots.load import Cell, Result
from plots.metrics import share_of_limit
from plots.words import TIMES, digits, many, rounded_count, seconds

# The same colours and marks as in the page's chart.
LOOKS = {
    EXACT: ("#0072B2", "o"),
    CERTIFIED: ("#D55E00", "s"),
    APPROXIMATE: ("#009E73", "^"),
    LIBRARY: ("#CC79A7", "D"),
}
_ROW = 0.27  # inches


def best_of(result: Result) -> dict[tuple[int, int, int], dict[str, Cell]]:
    """By problem, the smallest first, the fastest cell of each kind of answer; Python libraries
    apart from the suite's own."""
    found: dict[tuple[int, int, int], dict[str, Cell]] = {}
    for cell in result.cells:
        if cell.seconds is None or share_of_limit(result, cell) is None:
            continue
        kind = kind_of_answer(cell.exact, cell.precision)
        if cell.backend == "python" and kind == CERTIFIED:
            kind = LIBRARY
        here = found.setdefault(cell.shape, {})
        other = here.get(kind)
        if other is None or other.seconds is None or cell.seconds.mid < other.seconds.mid:
            here[kind] = cell
    return dict(sorted(found.items(), key=lambda item: item[0][0] * item[0][1] * item[0][2]))


def draw(results: Sequence[Result]) -> Figure:
    style.apply()
    best = [best_of(result) for result in results]
    height = [_ROW * len(rows) for rows in best]
    fig = Figure(figsize=(9.0, sum(height) + 0.9 * len(best) + 0.3), layout="constrained")
    axes = fig.subplots(len(best), 1, squeeze=False, gridspec_kw={"height_ratios": height})[:, 0]
    for ax, result, rows in zip(axes, results, best, strict=True):
        _panel(ax, result, rows)
    handles = [
        axes[0].scatter([], [], color=color, marker=mark, label=kind)
        for kind, (color, mark) in LOOKS.items()
    ]
    fig.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
    return fig


def _panel(ax: Axes, result: Result, rows: dict[tuple[int, int, int], dict[str, Cell]]) -> None:
    for place, here in enumerate(rows.values()):
        over = {kind: 1 / (share_of_limit(result, cell) or 1) for kind, cell in here.items()}
        ax.plot([min(over.values()), max(over.values())], [place, place], color=style.LIGHT_GREY)
        for kind, value in over.items():
            color, mark = LOOKS[kind]
            ax.scatter([value], [place], color=color, marker=mark, s=34, zorder=3)
        cell = here.get(EXACT)
        if cell is not None and cell.seconds is not None:
            text = f"{cell.variant}, {seconds(cell.seconds.mid)}"
            # Beside the row, where no mark is.
            at = (1.01, place)
            ax.annotate(text, at, xycoords=("axes fraction", "data"), va="center", fontsize=8)
    titles = [f"{rounded_count(n)} {TIMES} {d}, k = {rounded_count(k)}" for n, d, k in rows]
    ax.set_yticks(range(len(rows)), titles)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: digits(value, 1))
    ax.axvline(1, color=style.BLACK, linestyle=(0, (4, 2)), linewidth=1)
    ax.set_xlabel("time of an iteration over the least that brute force needs here (dashed)")
    used = [many(result.context["threads"], "thread"), captions.gpus_used(result)]
    ax.set_title(
        # Two lines: a machine's name may be long.
        f"{captions.machine_name(result)},\n{' or '.join(filter(None, used))}; "
        "fastest exact at the right",
        loc="left",
    )
    ax.grid(visible=True, axis="x", color=style.LIGHT_GREY, linewidth=0.6)
