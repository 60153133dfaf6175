# SPDX-License-Identifier: Apache-2.0
"""A sample of the points of traces, coloured by label, and the centroids; a panel per trace."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots import captions, panels, style
from plots.figures.convergence import names_of
from plots.load import Result
from plots.select import NothingToDraw
from plots.words import count, listed, many

Trace = dict[str, Any]
_MOST_NAMED = 12  # clusters in the legend


def _traces(result: Result, figure: dict[str, Any]) -> list[Trace]:
    """The figure's traces that kept points; the first one of the run if it names none."""
    wanted = names_of(figure)
    kept = {t["name"]: t for t in result.traces if t.get("points") and t.get("status") == "ok"}
    if not wanted and kept:
        return [next(iter(kept.values()))]
    found = [kept[name] for name in wanted if name in kept]
    if not found:
        reasons = [str(t["reason"]) for t in result.traces if t["name"] in wanted and t["reason"]]
        named = listed([repr(name) for name in wanted]) or "of this run"
        raise NothingToDraw("; ".join(reasons) or f"no points were kept for trace {named}")
    return found


def _points(trace: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Coordinates (sample x d), labels (sample) and, if kept, the last centroids (k x d)."""
    d = trace["d"]
    coordinates = np.asarray(trace["points"]["coordinates"], dtype=float).reshape(-1, d)
    labels = np.asarray(trace["points"]["labels"], dtype=int)
    kept = [s["centroids"] for s in trace.get("iterations") or [] if s.get("centroids") is not None]
    centroids = np.asarray(kept[-1], dtype=float).reshape(-1, d) if kept else None
    return coordinates, labels, centroids


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    traces = _traces(result, figure)
    several = len(traces) > 1
    flat = all(t["d"] == 1 for t in traces)
    width = min(len(traces), 2)
    lines = -(-len(traces) // width)
    fig = Figure(
        figsize=(4.4 * width + 1.2 if several else 7.6, (2.4 if flat else 4.2) * lines)
        if several
        else (7.6, 2.6 if flat else 5.0),
        layout="constrained",
    )
    axes = fig.subplots(lines, width, squeeze=False)
    handles: dict[str, Line2D] = {}
    for ax, trace in zip(axes.flat, traces, strict=False):
        if several:
            ax.set_title(f"{trace['name']}: {trace['variant']} {trace['precision']}", loc="left")
        _draw_points(ax, trace, handles)
    for ax in axes.flat[len(traces) :]:
        ax.set_visible(False)
    panels.side_legend(fig, sorted(handles.values(), key=lambda h: h.get_label() == "centroid"))
    return fig


def _draw_points(ax: Axes, trace: Trace, handles: dict[str, Line2D]) -> None:
    coordinates, labels, centroids = _points(trace)
    d = coordinates.shape[1]
    if d > 1:
        y = coordinates[:, 1]
    else:  # one coordinate: spread over the height, so that points do not hide one another
        y = np.random.RandomState(0).uniform(-0.35, 0.35, len(coordinates))
    size = float(np.clip(6000 / max(len(labels), 1), 5, 30))
    for j in np.unique(labels):
        chosen = labels == j
        ax.scatter(
            coordinates[chosen, 0],
            y[chosen],
            s=size,
            color=style.category(j),
            alpha=0.75,
            marker=style.category_marker(j),
            linewidths=0,
            rasterized=True,
        )
        if len(handles) < _MOST_NAMED:
            handles.setdefault(
                f"cluster {j}",
                style.handle(
                    f"cluster {j}",
                    linestyle="none",
                    marker=style.category_marker(j),
                    markersize=5,
                    color=style.category(j),
                ),
            )
    if centroids is not None:
        height = centroids[:, 1] if d > 1 else np.zeros(len(centroids))
        ax.scatter(
            centroids[:, 0],
            height,
            s=110,
            marker="X",
            color=style.BLACK,
            edgecolors="white",
            linewidths=1.2,
            zorder=5,
        )
        handles.setdefault(
            "centroid",
            style.handle(
                "centroid",
                linestyle="none",
                marker="X",
                markersize=9,
                color=style.BLACK,
                markeredgecolor="white",
            ),
        )
    ax.set_xlabel("first coordinate" if d > 1 else "coordinate")
    if d > 1:
        ax.set_ylabel("second coordinate")
        ax.set_aspect("equal", adjustable="datalim")
    else:
        ax.set_yticks([])


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    traces = _traces(result, figure)
    sentences = [figure["caption"]] if figure.get("caption") else []
    for trace in traces:
        named = f"{trace['name']}: " if len(traces) > 1 else ""
        coordinates, labels, _ = _points(trace)
        sentences.append(
            f"{named}{many(len(labels), 'point')} of {count(trace['n'])} ({trace['dataset']}), "
            f"labels and centroids of {trace['variant']} {trace['precision']} after "
            f"{many(len(trace.get('iterations') or []), 'iteration')} from {trace['init']}."
        )
        if coordinates.shape[1] > 2:
            sentences.append(f"{named}the first two of {trace['d']} coordinates are shown.")
        if coordinates.shape[1] == 1:
            sentences.append("The height of a point means nothing.")
    absent = [name for name in names_of(figure) if name not in {t["name"] for t in traces}]
    if absent:
        sentences.append(f"Without points in this run: {listed(absent)}.")
    sentences.append(captions.machine_sentence(result))
    return [*dict.fromkeys(sentences), *captions.closing(result)]
