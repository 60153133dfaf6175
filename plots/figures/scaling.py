# SPDX-License-Identifier: Apache-2.0
"""How well threads, ranks or GPUs that share the points are used: `show` strong (the same points on
more of them), weak (as many points each), or the share of communication in an iteration. Next to
efficiencies on GPUs, what plots.scaling_model makes of the time on one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from plots import captions, panels, scaling_model, style
from plots.load import Cell, Interval, Result
from plots.metrics import stage_share
from plots.select import (
    DIMENSIONS,
    GPUS,
    RANKS,
    THREADS,
    NothingToDraw,
    Panel,
    cells_of,
    drawn_of,
    shape_title,
)
from plots.words import count

_WIDTH = 3  # panels abreast
_IDEAL, _MODEL = "all of them busy", "model"
Value = Callable[[Cell], Interval | None]


def _axis(figure: dict[str, Any]) -> str:
    x = figure.get("x", RANKS)
    axes = [RANKS, GPUS] if figure.get("show") == "communication" else [THREADS, RANKS, GPUS]
    if x not in axes:
        raise NothingToDraw(f"x is {' or '.join(axes)}, not {x!r}")
    return x


def _each(cell: Cell, x: str) -> float:
    """Points of a thread, rank or GPU."""
    return cell.n / getattr(cell, x)


def _groups(figure: dict[str, Any], cells: list[Cell], x: str) -> list[Panel]:
    """Panels of cells that are compared: of one shape, or of as many points each. An efficiency
    needs the time of one, and weak scaling several counts; the rest is there for the other kind."""
    weak = figure.get("show") == "weak"
    groups: dict[tuple, list[Cell]] = {}
    for cell in cells:
        key = (_each(cell, x), cell.d, cell.k) if weak else cell.shape
        groups.setdefault(key, []).append(cell)
    if figure.get("show") != "communication":
        groups = {
            key: group
            for key, group in groups.items()
            if any(getattr(c, x) == 1 for c in group)
            and (not weak or len({getattr(c, x) for c in group}) > 1)
        }
    if not groups:
        raise NothingToDraw(
            f"no two cells have as many points for each of their {x}"
            if weak
            else f"no cell says what one of the {x} takes"
        )

    def title(key: tuple, group: list[Cell]) -> str:
        """In two lines: a panel is narrow, and the sizes are long."""
        points = f"n = {count(round(key[0]))} each" if weak else shape_title(group[0], ["n"])
        return points + "\n" + shape_title(group[0], [name for name in DIMENSIONS if name != "n"])

    return [Panel(title(key, group), tuple(group)) for key, group in sorted(groups.items())]


def _base_of(cell: Cell, panel: Panel, x: str) -> Cell | None:
    """What one does alone."""
    alike = [
        c
        for c in panel.cells
        if getattr(c, x) == 1 and (c.variant, c.precision) == (cell.variant, cell.precision)
    ]
    return alike[0] if alike else None


def efficiency(base: Cell | None, cell: Cell, x: str) -> Interval | None:
    """The share of their time that all spend on what one alone would have to do as well."""
    if base is None or base.seconds is None or cell.seconds is None:
        return None
    if base is cell:
        return Interval(1.0, 1.0, 1.0, base.seconds.confident)
    ratio = base.seconds.over(cell.seconds)
    share = (cell.n / base.n) / getattr(cell, x)
    return Interval(ratio.mid * share, ratio.low * share, ratio.high * share, ratio.confident)


def communication_share(cell: Cell, x: str) -> Interval | None:
    """Of ranks, rank 0's calls in an iteration; of GPUs the stage."""
    if not cell.ok:
        return None
    if x == GPUS:
        return stage_share(cell, "communication")
    if cell.ranks == 1:
        return Interval(0.0, 0.0, 0.0, True)
    times = cell.data.get("rank_times")
    if not times:
        return None
    shares = [
        part / whole
        for part, whole in zip(
            times["communication_seconds_per_iteration"],
            times["seconds_per_iteration"],
            strict=True,
        )
        if whole > 0
    ]
    # The bar goes from the rank that waits least to the one that waits most.
    return Interval(shares[0], min(shares), max(shares), False) if shares else None


def _value(figure: dict[str, Any], panel: Panel, x: str) -> Value:
    if figure.get("show") == "communication":
        return lambda cell: communication_share(cell, x)
    return lambda cell: efficiency(_base_of(cell, panel, x), cell, x)


def _modelled(figure: dict[str, Any], x: str) -> bool:
    return x == GPUS and figure.get("show") != "communication"


def _draw_model(ax: Axes, figure: dict[str, Any], panel: Panel) -> None:
    base = _base_of(panel.cells[0], panel, GPUS)
    if base is None or base.seconds is None:
        return
    weak = figure.get("show") == "weak"
    model = scaling_model.weak_efficiency if weak else scaling_model.strong_efficiency
    places = sorted({c.gpus for c in panel.cells})
    values = [model(base.seconds.mid, base.d, base.k, gpus) for gpus in places]
    ax.plot(places, values, zorder=2.2, **_model_look())


def _model_look() -> dict[str, Any]:
    return {"color": style.GREY, "linewidth": 1.1, "linestyle": (0, (4, 2)), "marker": "_"}


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    x = _axis(figure)
    cells = drawn_of(result, figure)
    chosen = _groups(figure, cells, x)
    width = len(chosen) if len(chosen) <= _WIDTH else 2 if len(chosen) == 4 else _WIDTH
    padded: list[Panel | None] = [*chosen, *[None] * (-len(chosen) % width)]
    rows = [padded[i : i + width] for i in range(0, len(padded), width)]
    fig, grid = panels.figure_grid(rows)
    shares = figure.get("show") == "communication"
    ends: list[Any] = []
    gaps = False
    for panel_row, axes_row in zip(rows, grid, strict=True):
        for panel, ax in zip(panel_row, axes_row, strict=True):
            if panel is None or ax is None:
                continue
            panels.numeric_x(ax, x, [getattr(c, x) for c in panel.cells])
            if not shares:
                ax.axhline(1.0, color=style.BASELINE, linewidth=1.2, zorder=1)
            if _modelled(figure, x):
                _draw_model(ax, figure, panel)
            shown, missing = panels.draw_lines(ax, result, panel.cells, x, _value(figure, panel, x))
            ends = shown or ends
            ax.set_ylim(0, max(0.1 if shares else 1.05, ax.get_ylim()[1]))
            ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
            ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
            panels.gap_strip(ax, missing)
            gaps = gaps or bool(missing)
        if axes_row[0] is not None:
            axes_row[0].set_ylabel("share of an iteration" if shares else "efficiency")
    drawn = [c for panel in chosen for c in panel.cells]
    handles = panels.series_handles(
        result, panels.ordered_series(drawn, ends, x), panels.joined(drawn, x)
    )
    if not shares:
        handles.append(style.handle(_IDEAL, color=style.BASELINE, linewidth=1.2))
    if _modelled(figure, x):
        handles.append(style.handle(_MODEL, **_model_look()))
    panels.side_legend(fig, handles + [panels.gap_handle()] * gaps)
    return fig


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    x = _axis(figure)
    cells = cells_of(result, figure)
    if figure.get("show") == "communication":
        notes = [
            "Share of an iteration in calls to the others, waiting for them included"
            + (
                ", of rank 0; bars: from the rank that spends least on them to the one that spends "
                "most."
                if x == RANKS
                else ", when each stage is waited for: more than in an iteration as it is timed."
            )
        ]
        return captions.caption(result, figure, cells, notes)
    one = "GPU" if x == GPUS else x.removesuffix("s")
    notes = [
        f"Efficiency: the time of one {one} over that of p, "
        + (
            f"each with as many points as the one {one}."
            if figure.get("show") == "weak"
            else "and over p, for the same points."
        )
    ]
    if x == RANKS:
        notes.append(f"All {x} run on one machine and share its processors and memory.")
    if _modelled(figure, x):
        notes.append("Model: docs/scaling.md, from the time on one GPU and the costs of NCCL.")
    return captions.caption(result, figure, cells, notes)
