# SPDX-License-Identifier: Apache-2.0
"""Traces iteration by iteration: inertia and loss above their last value, labels that changed,
movement of the centroids; for one-dimensional points the centroids themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from plots import captions, panels, style
from plots.load import Result
from plots.select import NothingToDraw
from plots.words import MINUS, compact, count, listed, many

Trace = dict[str, Any]
_LINES = ("-", "--", ":", "-.")
_MARKER, _RIM, _RIMS = 3.5, 2.0, 2  # sizes in points; at most so many rims around a marker
_ROUNDING = 1e-12  # relative; a printed value so close to the last one is the last one
_KEYS = ("inertia", "loss")  # that sources print per iteration
_OWN = "own_loss"
_PRINTED = "x+sD^v"  # markers of printed values, hollow
_FEW_DIGITS = 8  # of printed values, which then show on the axis


def traces_of(result: Result, figure: dict[str, Any]) -> list[Trace]:
    """The figure's traces in its order, or all of the run; raises NothingToDraw."""
    wanted = names_of(figure)
    by_name = {t["name"]: t for t in result.traces}
    traces = [by_name[name] for name in wanted or by_name if name in by_name]
    if not traces:
        named = listed([repr(name) for name in wanted])
        raise NothingToDraw(f"this run has no trace {named}" if wanted else "no trace was run")
    right = [t for t in traces if t.get("status") == "ok" and t.get("iterations")]
    if not right:
        raise NothingToDraw("; ".join(f"{t['name']}: {t.get('reason')}" for t in traces))
    return right


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


def _longest(result: Result, traces: Sequence[Trace]) -> int:
    """The last iteration that is drawn, of a trace or printed."""
    printed = [e for key in _KEYS for own in _published(result, traces, key).values() for e in own]
    return max(
        [t["iterations"][-1]["iteration"] for t in traces] + [e["iteration"] for e in printed]
    )


def _markers(result: Result, traces: Sequence[Trace]) -> dict[str, str]:
    """Of printed values, by label: one of its own for each, whatever the quantity."""
    labels = dict.fromkeys(label for key in _KEYS for label in _published(result, traces, key))
    return {label: _PRINTED[index % len(_PRINTED)] for index, label in enumerate(labels)}


def _quantities(traces: Sequence[Trace]) -> list[tuple[str, str, str]]:
    """What is drawn above its last value: key of the iterations, title, and of which published
    numbers. A variant's own loss is what its source prints, so they stand there if it is known."""
    own = any(_values(t, _OWN)[1] for t in traces)
    found = [("inertia", "inertia", "inertia"), ("loss", "loss", "" if own else "loss")]
    found += [(_OWN, "loss as the variant sums it", "loss")] if own else []
    return [
        (key, f"{title}: (value {MINUS} last) / last", published)
        for key, title, published in found
        if any(_values(t, key)[1] for t in traces)
    ]


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    traces = traces_of(result, figure)
    markers = _markers(result, traces)
    parts: list[tuple[str, Callable[[Axes], None]]] = []
    if any(_centroids(t) for t in traces):
        parts.append(("centroids", lambda ax: _draw_centroids(ax, traces)))
    for key, title, published in _quantities(traces):
        printed = _published(result, traces, published) if published else {}
        parts.append(
            (
                title,
                lambda ax, key=key, printed=printed: _draw_excess(
                    ax, traces, key, printed, markers
                ),
            )
        )
    for key, title in (("changed", "labels changed"), ("movement", "movement of the centroids")):
        if any(any(_values(t, key)[1]) for t in traces):
            parts.append((title, lambda ax, key=key: _draw_log(ax, traces, key)))
    columns = 2 if len(parts) > 1 else 1
    lines = -(-len(parts) // columns)
    fig = Figure(figsize=(4.1 * columns + 2.4, 2.5 * lines + 0.3), layout="constrained")
    axes = fig.subplots(lines, columns, squeeze=False).ravel()
    longest = _longest(result, traces)
    for ax, (title, draw_part) in zip(axes, parts, strict=False):
        ax.set_title(title, loc="left")
        ax.set_xlabel("iteration")
        ax.set_xlim(0.3, longest + 0.7)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        draw_part(ax)
    for ax in axes[len(parts) :]:
        ax.set_visible(False)
    handles = [
        style.handle(f"{t['name']}: {t['variant']} {t['precision']}", **_look(i, len(traces)))
        for i, t in enumerate(traces)
    ]
    handles += [
        style.handle(f"printed: {label}", **_printed_look(marker))
        for label, marker in markers.items()
    ]
    panels.side_legend(fig, handles)
    return fig


def _look(index: int, traces: int) -> dict[str, Any]:
    """Markers get smaller from trace to trace, so that none hides one at the same place."""
    over = min(traces - 1 - index, _RIMS)
    return {
        "color": style.category(index),
        "linestyle": _LINES[index % 4],
        "marker": style.category_marker(index),
        "markersize": _MARKER + _RIM * over,
    }


def _printed_look(marker: str) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": marker,
        "markersize": 6,
        "markerfacecolor": "none",
        "color": style.PUBLISHED,
    }


def _draw_excess(
    ax: Axes,
    traces: Sequence[Trace],
    key: str,
    printed: dict[str, list[dict]],
    markers: dict[str, str],
) -> None:
    """(value - last) / last on a logarithmic axis; on the strip below it the last value itself and
    whatever is no larger. Printed values are held against the last one of the first trace."""
    shown = []
    reference = None
    for index, trace in enumerate(traces):
        places, values = _values(trace, key)
        if not values or values[-1] == 0:
            continue
        last = values[-1]
        reference = reference or last
        shown.append((places, [(v - last) / last for v in values], _look(index, len(traces))))
    for label, entries in printed.items():
        if reference:
            places = [e["iteration"] for e in entries]
            excess = [(e["value"] - reference) / reference for e in entries]
            near = [0.0 if abs(v) < _ROUNDING else v for v in excess]
            shown.append((places, near, _printed_look(markers[label])))
    _log_lines(ax, shown)


def _draw_log(ax: Axes, traces: Sequence[Trace], key: str) -> None:
    looks = [_look(index, len(traces)) for index in range(len(traces))]
    _log_lines(ax, [(*_values(t, key), look) for t, look in zip(traces, looks, strict=True)])


def _log_lines(
    ax: Axes, shown: Sequence[tuple[Sequence[int], Sequence[float], dict[str, Any]]]
) -> None:
    """What is not above 0 stands on the strip below the axis."""
    rows = []
    least = 0.0
    for order, (places, values, look) in enumerate(shown):
        heights = [v if v > 0 else float("nan") for v in values]
        printed = look["linestyle"] == "none"
        ax.plot(places, heights, zorder=2 if printed else 3 + order, **look)
        low = [place for place, v in zip(places, values, strict=True) if not v > 0]
        least = min([least, *values])
        if low:
            rows.append((low, look))
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(numticks=7))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: compact(v)))
    panels.zero_strip(ax, rows, "0" if least == 0 else "\u2264 0")


def _draw_centroids(ax: Axes, traces: Sequence[Trace]) -> None:
    for index, trace in enumerate(traces):
        found = _centroids(trace)
        if found is None:
            continue
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


def significant_digits(values: Sequence[float]) -> int:
    """The fewest that write all of the values."""
    return next(d for d in range(1, 18) if all(float(f"{v:.{d - 1}e}") == v for v in values))


def _printed_sentences(result: Result, traces: Sequence[Trace]) -> list[str]:
    """How far apart printed values can be, where that is so coarse that it shows."""
    sentences = []
    for key in _KEYS:
        for label, entries in _published(result, traces, key).items():
            values = [e["value"] for e in entries if e["value"] > 0]
            if not values:
                continue
            digits, last = significant_digits(values), values[-1]
            step = 10.0 ** (math.floor(math.log10(last)) - digits + 1) / last
            if digits <= _FEW_DIGITS:
                sentences.append(
                    f"Printed {label}: {len(entries)} values of {digits} digits, so their steps "
                    f"are {step:.1e} of the value; where they stand still or jump by that much, "
                    "it is the printing that shows."
                )
    return sentences


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
    if any(_published(result, traces, key) for key in _KEYS):
        sentences.append(
            "Printed values are drawn against the last value of the first trace that has the "
            "quantity."
        )
        sentences += _printed_sentences(result, traces)
    sentences.append("The strip below an axis holds what is 0, or no larger than the last value.")
    drawn = {t["name"] for t in traces}
    absent = [name for name in names_of(figure) if name not in drawn]
    if absent:
        sentences.append(f"Without a trace in this run: {listed(absent)}.")
    return [*sentences, *captions.closing(result)]
