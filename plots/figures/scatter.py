# SPDX-License-Identifier: Apache-2.0
"""A sample of a trace's points, coloured by label, and its centroids."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots import captions, panels, style
from plots.load import Result
from plots.select import NothingToDraw
from plots.words import count, many


def _trace(result: Result, figure: dict[str, Any]) -> dict[str, Any]:
    wanted = figure.get("trace")
    for trace in result.traces:
        if wanted in (None, trace["name"]) and trace.get("points"):
            return trace
    reasons = [str(t["reason"]) for t in result.traces if t["name"] == wanted and t.get("reason")]
    raise NothingToDraw("; ".join(reasons) or f"no points were kept for trace {wanted!r}")


def _points(trace: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Coordinates (sample x d), labels (sample) and, if kept, the last centroids (k x d)."""
    d = trace["d"]
    coordinates = np.asarray(trace["points"]["coordinates"], dtype=float).reshape(-1, d)
    labels = np.asarray(trace["points"]["labels"], dtype=int)
    kept = [s["centroids"] for s in trace.get("iterations") or [] if s.get("centroids") is not None]
    centroids = np.asarray(kept[-1], dtype=float).reshape(-1, d) if kept else None
    return coordinates, labels, centroids


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    trace = _trace(result, figure)
    coordinates, labels, centroids = _points(trace)
    d = coordinates.shape[1]
    fig = Figure(figsize=(7.6, 5.0 if d > 1 else 2.6), layout="constrained")
    ax = fig.subplots()
    if d > 1:
        y = coordinates[:, 1]
    else:  # one coordinate: spread over the height, so that points do not hide one another
        y = np.random.RandomState(0).uniform(-0.35, 0.35, len(coordinates))
    clusters = np.unique(labels)
    size = float(np.clip(6000 / max(len(labels), 1), 5, 30))
    for j in clusters:
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
    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=style.category_marker(j),
            markersize=5,
            color=style.category(j),
            label=f"cluster {j}",
        )
        for j in clusters[:12]
    ]
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
        handles.append(
            Line2D(
                [],
                [],
                linestyle="none",
                marker="X",
                markersize=9,
                color=style.BLACK,
                markeredgecolor="white",
                label="centroid",
            )
        )
    ax.set_xlabel("first coordinate" if d > 1 else "coordinate")
    if d > 1:
        ax.set_ylabel("second coordinate")
        ax.set_aspect("equal", adjustable="datalim")
    else:
        ax.set_yticks([])
    panels.side_legend(fig, handles)
    return fig


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    trace = _trace(result, figure)
    coordinates, labels, _ = _points(trace)
    sentences = [figure["caption"]] if figure.get("caption") else []
    sentences.append(
        f"{many(len(labels), 'point')} of {count(trace['n'])} ({trace['dataset']}), labels and "
        f"centroids of {trace['variant']} {trace['precision']} after "
        f"{many(len(trace.get('iterations') or []), 'iteration')} from {trace['init']}."
    )
    if coordinates.shape[1] > 2:
        sentences.append(f"The first two of {trace['d']} coordinates are shown.")
    if coordinates.shape[1] == 1:
        sentences.append("The height of a point means nothing.")
    if trace.get("status") != "ok":
        sentences.append(f"The trace is {trace['status']}: {trace.get('reason')}.")
    return [*sentences, captions.machine_sentence(result)]
