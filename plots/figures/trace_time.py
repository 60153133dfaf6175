# SPDX-License-Identifier: Apache-2.0
"""Seconds until traces end: iterations times seconds per iteration over n, d or k, a line per
variant, the number of iterations at each point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import captions, panels, style
from plots.load import Interval, Result
from plots.metrics import trace_runs, trace_seconds
from plots.patterns import matches
from plots.select import DIMENSIONS, NothingToDraw
from plots.words import compact_seconds, count, listed, many, seconds, span, wrapped

Trace = dict[str, Any]
_TITLE_LETTERS = 40  # of a line above one of several panels
_ENOUGH = 6  # samples for a confidence interval


def traces_of(result: Result, figure: dict[str, Any]) -> list[Trace]:
    """Those whose whole name is or matches one of the figure's; raises NothingToDraw."""
    wanted = figure.get("traces")
    found = [
        t for t in result.traces if wanted is None or any(matches(w, t["name"]) for w in wanted)
    ]
    if not found:
        raise NothingToDraw(f"this run has no trace {listed(wanted or [])}".rstrip())
    return found


def total_seconds(trace: Trace) -> float | None:
    """Nothing for a trace that is wrong or was not run."""
    found = total_interval(trace)
    return found.mid if found else None


def total_interval(trace: Trace) -> Interval | None:
    """The same with the spread of the runs that were timed again; of a single run without any."""
    return trace_seconds(trace) if trace.get("status") == "ok" else None


def _facet(trace: Trace, x: str) -> tuple:
    others = tuple(trace[name] for name in DIMENSIONS if name != x)
    return (*others, trace.get("stop") or "", trace["init"])


def _title(trace: Trace, facets: Sequence[tuple], x: str) -> str:
    """What distinguishes this panel, and always how the traces end."""
    columns = list(zip(*facets, strict=True))
    parts = [
        f"{name} = {count(trace[name])}"
        for name, values in zip([n for n in DIMENSIONS if n != x], columns, strict=False)
        if len(set(values)) > 1 or len(facets) == 1
    ]
    parts.append(_end(trace))
    if len(set(columns[-1])) > 1:
        parts.append(f"from {trace['init']}")
    return ", ".join(parts)


def _end(trace: Trace) -> str:
    rule = trace.get("stop")
    if not rule:
        return "fixed iterations"
    kind, _, limit = rule.partition(":")
    if kind == "labels":
        return "until no label changes"
    return (
        f"until the {kind} is below {limit}"
        if kind == "movement"
        else f"until the {kind} settles to {limit}"
    )


def draw(result: Result, figure: dict[str, Any]) -> Figure:
    traces = traces_of(result, figure)
    if not any(total_seconds(t) for t in traces):
        reasons = [f"{t['name']}: {t.get('reason') or t.get('status')}" for t in traces]
        raise NothingToDraw("; ".join(reasons[:3]))
    x = figure.get("x", "n")
    facets = sorted({_facet(t, x) for t in traces})
    series = list(dict.fromkeys((t["variant"], t["precision"]) for t in traces))
    width = min(len(facets), 3)
    lines = -(-len(facets) // width)
    single = len(facets) == 1
    fig = Figure(
        figsize=(
            (5.8 if single else 3.4 * width) + panels.LEGEND_WIDTH,
            3.6 if single else 2.9 * lines,
        ),
        layout="constrained",
    )
    axes = fig.subplots(lines, width, squeeze=False)
    any_gap = False
    for index, (ax, facet) in enumerate(zip(axes.flat, facets, strict=False)):
        chosen = [t for t in traces if _facet(t, x) == facet]
        title = _title(chosen[0], facets, x)
        ax.set_title(title if single else wrapped(title, _TITLE_LETTERS), loc="left")
        panels.numeric_x(ax, x, [t[x] for t in chosen])
        gaps: list[tuple[float, style.Color]] = []
        for name in series:
            own = [t for t in chosen if (t["variant"], t["precision"]) == name]
            gaps += _draw_line(ax, result, own, x)
        any_gap = any_gap or bool(gaps)
        _write_iterations(ax, chosen, x)
        ax.margins(y=0.12)
        panels.log_y(ax, compact_seconds)
        panels.gap_strip(ax, gaps)
        if index % width == 0:
            ax.set_ylabel("time until the end")
    for ax in axes.flat[len(facets) :]:
        ax.set_visible(False)
    handles = [
        style.handle(f"{v} {p}", linestyle=_look(result, v, p).line, **_look(result, v, p).marks)
        for v, p in series
    ]
    if any_gap:
        handles.append(panels.gap_handle())
    panels.side_legend(fig, handles)
    return fig


def _look(result: Result, variant: str, precision: str) -> style.Look:
    return style.look(result, variant.split("_")[0], variant, precision)


def _draw_line(ax: Axes, result: Result, traces: Sequence[Trace], x: str) -> panels.Gaps:
    """Returns where a trace has no time."""
    if not traces:
        return []
    traces = sorted(traces, key=lambda t: t[x])
    look = _look(result, traces[0]["variant"], traces[0]["precision"])
    totals = [total_interval(t) for t in traces]
    nan = float("nan")
    ax.errorbar(
        [t[x] for t in traces],
        [v.mid if v else nan for v in totals],
        yerr=[
            [max(0.0, v.mid - v.low) if v else nan for v in totals],
            [max(0.0, v.high - v.mid) if v else nan for v in totals],
        ],
        linestyle=look.line if len(traces) >= panels.FEWEST_JOINED else "none",
        elinewidth=1.0,
        zorder=3,
        **look.marks,
    )
    return [(t[x], look.color) for t, v in zip(traces, totals, strict=True) if v is None]


def _write_iterations(ax: Axes, traces: Sequence[Trace], x: str) -> None:
    """Above the highest bar of a place, below the lowest, to the right of points between."""
    places: dict[int, list[tuple[Interval, Trace]]] = {}
    for trace in traces:
        total = total_interval(trace)
        if total is not None:
            places.setdefault(trace[x], []).append((total, trace))
    for place, found in places.items():
        found.sort(key=lambda pair: -pair[0].mid)
        for index, (total, trace) in enumerate(found):
            height, shift, ha, va = total.mid, (7, 0), "left", "center"
            if index == 0:
                height = max(total.high for total, _ in found)
                shift, ha, va = (0, 5), "center", "bottom"
            elif index == len(found) - 1:
                height = min(total.low for total, _ in found)
                shift, ha, va = (0, -5), "center", "top"
            ax.annotate(
                str(len(trace["iterations"])),
                (place, height),
                xytext=shift,
                textcoords="offset points",
                ha=ha,
                va=va,
                fontsize=style.SMALL - 1,
                zorder=4,
            )


def _samples_sentences(traces: Sequence[Trace]) -> list[str]:
    """How many runs stand behind each point."""
    again = [t for t in traces if t.get("runs_seconds")]
    sentences = []
    if again:
        runs = span([len(trace_runs(t)) for t in again])
        processes = span([len(t["runs_seconds"]) for t in again])
        loose = sum(len(trace_runs(t)) < _ENOUGH for t in again)
        kind = "95 % confidence interval of the median"
        if loose == len(again):
            kind = "smallest and largest"
        elif loose:
            kind += f", or smallest and largest for {loose} of {len(again)} points"
        sentences.append(
            f"Medians of {runs} whole {'run' if runs == '1' else 'runs'} "
            f"({processes} {'process' if processes == '1' else 'processes'}), bars: {kind}."
        )
    once = len(traces) - len(again)
    if once:
        which = f"{once} of {many(len(traces), 'point')}" if again else "Each point"
        sentences.append(f"{which} is one run, timed while it was recorded: without an interval.")
    return sentences


def caption(result: Result, figure: dict[str, Any]) -> list[str]:
    traces = traces_of(result, figure)
    timed = [t for t in traces if total_seconds(t) is not None]
    sentences = [
        *captions.opening(result, figure),
        "Time of the steps alone, from the first to the one that ends the trace; the small "
        "numbers are the iterations.",
        *_samples_sentences(timed),
    ]
    if timed:
        least = min(timed, key=lambda t: total_seconds(t) or 0.0)
        most = max(timed, key=lambda t: total_seconds(t) or 0.0)
        sentences.append(
            f"From {seconds(total_seconds(least))} ({least['variant']}, {len(least['iterations'])} "
            f"iterations) to {seconds(total_seconds(most))} ({most['variant']}, "
            f"{len(most['iterations'])} iterations)."
        )
    for trace in traces:
        if trace not in timed:
            why = (trace.get("reason") or "no time was taken").rstrip(".")
            sentences.append(f"No time: {trace['name']}, {trace.get('status')}: {why}.")
    return [*sentences, *captions.closing(result)]
