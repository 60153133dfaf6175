# SPDX-License-Identifier: Apache-2.0
"""Traces iteration by iteration: inertia and loss above their last value, labels that changed,
movement of the centroids; for one-dimensional points the centroids themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from plots import captions, panels, style
from plots.load import Result
from plots.select import NothingToDraw
from plots.words import MINUS, compact, count, listed, many

Trace = dict[str, Any]
_LINES = ("-", "--", ":", "-.")
_ROUNDING = 1e-12  # relative; a printed value so close to the last one is the last one


def traces_of(result: Result, figure: dict[str, Any]) -> list[Trace]:
    """The figure's traces in its order, or all of the run; raises NothingToDraw."""
    wanted = names_of(figure)
    by_name = {t["name"]: t for t in result.traces}
    traces = [by_name[name] for name in wanted or by_name if name in by_name]
    if not traces:
        named = listed([repr(name) for name in wanted])
        raise NothingToDraw(f"this run has no trace {named}" if wanted else "no trace was run")
    if not any(t.get("iterations") for t in traces):
        raise NothingToDraw("; ".join(f"{t['name']}: {t.get('reason')}" for t in traces))
    return [t for t in traces if t.get("iterations")]


def names_of(figure: dict[str, Any]) -> list[str]:
    """The traces that the figure names: one, several or none."""
    wanted = figure.get("trace") or []
    return [wanted] if isinstance(wanted, str) else list(wanted)


def _values(trace: Trace, key: str) -> tuple[list[int], list[float]]:
    steps = [s for s in trace["iterations"] if s.get(key) is not None]
    return [s["iteration"] for s in steps], [float(s[key]) for s in steps]


def _published(result: Result, traces: Sequence[Trace], key: str) -> dict[str, list[dict]]:
    """Printed values of the quantity for the same problem, by label."""
    shapes = {(t["n"], t["d"], t["k"]) for t in traces}
    groups: dict[str, list[dict]] = {}
    for entry in result.spec.get("published", []):
        shape = tuple(entry.get(name) for name in ("n", "d", "k"))
        if entry["quantity"] == key and (shape in shapes or None in shape) and "iteration" in entry:
            groups.setdefault(entry["label"], []).append(entry)
    return groups


def _centroids(trace: Trace) -> tuple[list[int], np.ndarray] | None:
    """Iterations and centroids (iterations x k), for one-dimensional points only."""
    steps = [s for s in trace["iterations"] if s.get("centroids") is not None]
    if trace["d"] != 1 or not steps:
        return None
    return (
        [s["iteration"] for s in steps],
        np.array([np.asarray(s["centroids"], dtype=float).ravel() for s in steps]),
    )


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    traces = traces_of(result, figure)
    parts: list[tuple[str, Callable[[Axes, Trace, int], None]]] = []
    if any(_centroids(t) for t in traces):
        parts.append(("centroids", _draw_centroids))
    for key, title in (
        ("inertia", f"inertia: (value {MINUS} last) / last"),
        ("loss", f"loss: (value {MINUS} last) / last"),
    ):
        if any(_values(t, key)[1] for t in traces):
            parts.append((title, lambda ax, t, i, key=key: _draw_excess(ax, t, i, key)))
    for key, title in (("changed", "labels changed"), ("movement", "movement of the centroids")):
        if any(any(_values(t, key)[1]) for t in traces):
            parts.append((title, lambda ax, t, i, key=key: _draw_log(ax, t, i, key)))
    columns = 2 if len(parts) > 1 else 1
    lines = -(-len(parts) // columns)
    fig = Figure(figsize=(4.1 * columns + 2.4, 2.5 * lines + 0.3), layout="constrained")
    axes = fig.subplots(lines, columns, squeeze=False).ravel()
    handles: dict[str, Line2D] = {}
    for ax, (title, draw_part) in zip(axes, parts, strict=False):
        ax.set_title(title, loc="left")
        ax.set_xlabel("iteration")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        for index, trace in enumerate(traces):
            draw_part(ax, trace, index)
        for key in ("inertia", "loss"):
            if title.startswith(key):
                _draw_published(ax, result, traces, key, handles)
    longest = max(t["iterations"][-1]["iteration"] for t in traces)
    for ax in axes[: len(parts)]:
        ax.set_xlim(0.3, longest + 0.7)
    for ax in axes[len(parts) :]:
        ax.set_visible(False)
    own = [
        Line2D(
            [],
            [],
            color=style.category(i),
            linestyle=_LINES[i % 4],
            marker="o",
            markersize=3,
            label=f"{t['name']}: {t['variant']} {t['precision']}",
        )
        for i, t in enumerate(traces)
    ]
    panels.side_legend(fig, own + list(handles.values()))
    return fig


def _draw_excess(ax: Axes, trace: Trace, index: int, key: str) -> None:
    """(value - last) / last on a logarithmic axis; the last itself has no place there."""
    places, values = _values(trace, key)
    if len(values) < 2 or values[-1] == 0:
        return
    _log_line(ax, places, [(v - values[-1]) / values[-1] for v in values], index)


def _draw_log(ax: Axes, trace: Trace, index: int, key: str) -> None:
    places, values = _values(trace, key)
    _log_line(ax, places, values, index)


def _log_line(ax: Axes, places: Sequence[int], values: Sequence[float], index: int) -> None:
    shown = [v if v > 0 else float("nan") for v in values]
    ax.plot(
        places,
        shown,
        color=style.category(index),
        linestyle=_LINES[index % 4],
        marker="o",
        markersize=3.5,
        zorder=3 + index,
    )
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(numticks=7))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: compact(v)))


def _draw_centroids(ax: Axes, trace: Trace, index: int) -> None:
    found = _centroids(trace)
    if found is None:
        return
    places, values = found
    for j in range(values.shape[1]):
        ax.plot(
            places,
            values[:, j],
            color=style.category(j),
            marker=style.category_marker(j),
            markersize=3,
            linewidth=1.1,
            linestyle=_LINES[index % 4],
        )


def _draw_published(
    ax: Axes, result: Result, traces: Sequence[Trace], key: str, handles: dict[str, Line2D]
) -> None:
    """Printed values, above the last value of the first trace drawn."""
    reference = next((v for t in traces if (v := _values(t, key)[1])), None)
    if reference is None or reference[-1] == 0:
        return
    for index, (label, entries) in enumerate(_published(result, traces, key).items()):
        marker = "x+12"[index % 4]
        excess = [(e["value"] - reference[-1]) / reference[-1] for e in entries]
        ax.plot(
            [e["iteration"] for e in entries],
            [v if v > _ROUNDING else float("nan") for v in excess],
            linestyle="none",
            marker=marker,
            markersize=6,
            color=style.PUBLISHED,
            zorder=2,
        )
        handles.setdefault(
            label,
            Line2D(
                [],
                [],
                linestyle="none",
                marker=marker,
                markersize=6,
                color=style.PUBLISHED,
                label=f"printed: {label}",
            ),
        )


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    traces = traces_of(result, figure)
    sentences = captions.opening(result, figure)
    for trace in traces:
        last = trace["iterations"][-1]
        text = (
            f"{trace['name']}: {trace['variant']} {trace['precision']} on {trace['dataset']}, "
            f"k = {count(trace['k'])}, first centroids {trace['init']}, "
            f"{many(last['iteration'], 'iteration')}"
        )
        if trace.get("stop"):
            text += f" (stop {trace['stop']})"
        if last.get("inertia") is not None:
            text += f"; last inertia {last['inertia']:.10g}"
        if last.get("loss") is not None:
            text += f", loss {last['loss']:.8g}"
        sentences.append(text + ".")
        if trace.get("status") != "ok":
            sentences.append(f"{trace['name']} is {trace['status']}: {trace.get('reason')}.")
    if any(_published(result, traces, key) for key in ("inertia", "loss")):
        sentences.append(
            "Printed values are drawn against the last value of the first trace that has the "
            "quantity; those at or below it have no place on the logarithmic axis."
        )
    drawn = {t["name"] for t in traces}
    absent = [name for name in names_of(figure) if name not in drawn]
    if absent:
        sentences.append(f"Without a trace in this run: {listed(absent)}.")
    return [*sentences, *captions.closing(result)]
