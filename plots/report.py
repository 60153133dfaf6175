# SPDX-License-Identifier: Apache-2.0
"""One self-contained report.html per machine: everything inline, nothing fetched, every text from
a result file escaped."""

from __future__ import annotations

import base64
import hashlib
import re
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from plots import claims, disturbed, fits, leaderboard, standing, words
from plots.captions import (
    build_warning,
    doubtful_conditions,
    early_sentences,
    machine_name,
    machine_sentence,
    narrowed_text,
    not_run_sentences,
    partial_sentence,
    partial_text,
    parts_sentence,
)
from plots.comparison import Link, comparisons_in
from plots.derived import newest_of
from plots.inline import inline_svg, kind_of, picture_text
from plots.load import Cell, Result
from plots.metrics import (
    WHOLE_CALLS,
    ceilings,
    gpu_ceilings,
    gpu_l2_bytes,
    whole_call_seconds,
)
from plots.pack import pack
from plots.parts import PLAIN, TEMPLATES, Extras, template
from plots.pool import starmap
from plots.published import (
    PER_ITERATION,
    Comparison,
    about,
    comparisons,
    headings,
    label_text,
    shape_text,
)
from plots.render import draw, settle
from plots.select import UNSTEADY, label_of, reason_of, shape_title, short_shape, status_of

# Better as HTML, which can be sorted and searched, than as a picture of a table.
_TABLES = ("table", "rows", "claims")
_FIELDS_SHOWN = 1000  # of the rows of a study; the result file holds all
_NUMBERS_SHOWN = 40  # of a list among the parameters of a study
_FIRST_NOTICES = 3  # on the first screen, the gravest; the others fold away
_DIFFERS_FROM_OK = ("wrong", "error", "wrong as expected", "skipped")


@dataclass(frozen=True)
class Picture:
    """A figure of the report: drawn in the page, a table that the page has as HTML, or the reason
    why there is none."""

    id: str
    title: str
    kind: str
    caption: list[str]
    source: Markup | None = None
    absent: str | None = None
    published: tuple[Comparison, ...] = ()  # of a table of published numbers
    studies: tuple[str, ...] = ()  # of a table of a study's rows
    file: str | None = None  # the figure's own file next to the report, if there is one


@dataclass(frozen=True)
class Row:
    """A cell as the report's table shows it: texts, each with a number to sort by where the text
    does not read as one."""

    cell: Cell
    first: list[tuple[str, str | None]]  # the columns that every screen has room for
    texts: list[tuple[str, str | None]]  # those behind the problem


def picture_of(result: Result, figure: dict[str, Any], place: int = 0) -> Picture:
    """`place` distinguishes the pictures of a page."""
    about = (figure["id"], figure["title"], figure["kind"])
    drawing = draw(result, figure)
    if drawing.picture is None:
        return Picture(*about, [], absent=drawing.absent, file=_file_of(result, figure))
    settle(drawing.picture)
    kind = kind_of(drawing.picture)
    source = inline_svg(picture_text(drawing.picture), f"f{place}-", figure["title"], kind)
    # The section says once what all of its pictures have in common.
    caption = [text for text in drawing.caption if text != machine_sentence(result)]
    return Picture(*about, caption, source, file=_file_of(result, figure))


def _table_of(result: Result, figure: dict[str, Any]) -> Picture:
    about = (figure["id"], figure["title"], figure["kind"])
    caption = [figure["caption"]] if figure.get("caption") else []
    file = _file_of(result, figure)
    if figure["kind"] == "claims":
        found = bool(claims.verdicts(result))
        absent = None if found else "the experiment states no claim of its source"
        return Picture(*about, caption, absent=absent, file=file)
    if figure["kind"] == "rows":
        wanted = figure.get("study", [])
        names = wanted if isinstance(wanted, list) else [wanted]
        there = tuple(study["name"] for study in result.studies if study["name"] in names)
        absent = None if there else f"no study {words.listed(names)} in this run"
        return Picture(*about, caption, studies=there, absent=absent, file=file)
    group = figure.get("group")
    rows = [row for row in _published(result) if group in (None, row.entry.get("group"))]
    absent = None if rows else "the experiment quotes no such number"
    return Picture(*about, caption, published=tuple(rows), absent=absent, file=file)


def _published(result: Result) -> list[Comparison]:
    """Without values per iteration, which are shown apart."""
    return [row for row in comparisons(result) if row.entry["quantity"] not in PER_ITERATION]


def _file_of(result: Result, figure: dict[str, Any]) -> str | None:
    """The figure's file as a link from the report, unless it is missing or older than its data."""
    name = f"figures/{result.experiment}-{figure['id']}.svg"
    path = result.path.parent / name
    fresh = path.is_file() and path.stat().st_mtime >= result.path.stat().st_mtime
    return urllib.parse.quote(name) if fresh else None


def _verification_text(cell: Cell) -> str:
    found = cell.data.get("verification")
    if not found:
        return words.NONE
    differing, excess = found.get("labels_differing"), found.get("largest_excess")
    parts = []
    if differing is not None:
        parts.append("labels equal" if differing == 0 else f"{words.percent(differing)} wrong")
    if differing and excess is not None:
        parts.append(f"excess ≤ {excess:.1e}")
    if found.get("points_checked", 0) < found.get("points_total", 0):
        parts.append(f"{words.short_count(found['points_checked'])} points checked")
    return ", ".join(parts) or ("passed" if found.get("passed") else "not passed")


def _interval_text(cell: Cell) -> str:
    times = cell.measured
    if times is None:
        return words.NONE
    text = f"{words.seconds(times.low)} {words.TO} {words.seconds(times.high)}"
    return text if times.confident else text + f" (min{words.TO}max)"


def _ordered_seconds(value: float | None) -> tuple[str, str]:
    return words.seconds(value), "" if value is None else f"{value:.5g}"


def _ordered_share(value: float | None) -> tuple[str, str]:
    return (words.NONE, "") if value is None else (words.percent(value), f"{value:.5g}")


def _device_seconds(cell: Cell) -> float | None:
    """The median by the GPU's own events."""
    return (cell.data.get("device_seconds_per_iteration") or {}).get("median") if cell.ok else None


def _computed_share(cell: Cell) -> float | None:
    """The share of brute force's distances that the variant formed."""
    return cell.data.get("computed_share") if cell.ok else None


def has_computed_shares(result: Result) -> bool:
    return any(_computed_share(cell) is not None for cell in result.cells)


def has_device_times(result: Result) -> bool:
    return any(_device_seconds(cell) is not None for cell in result.cells)


def row_of(
    result: Result, cell: Cell, with_device: bool = False, with_computed: bool = False
) -> Row:
    """Columns in the order of the template's headings."""
    computed = _computed_share(cell)
    rates = cell.data.get("gbytes_per_second") or {} if cell.ok else {}
    limit = cell.limit if cell.ok else None
    share = cell.share_of_limit
    differing = (cell.data.get("verification") or {}).get("labels_differing")
    binding = f" of {limit[1]}" if limit and share else ""
    times = cell.seconds
    first = [
        _ordered_seconds(times.mid if times else None),
        (words.percent(share) + binding, None),
        (_verification_text(cell), "" if differing is None else f"{differing:.5g}"),
    ]
    setup = cell.data.get("setup_seconds") if cell.status == "ok" else None
    texts = [
        (_interval_text(cell), f"{cell.measured.low:.5g}" if cell.measured else ""),
        _ordered_seconds(setup),
        *(_ordered_seconds(whole_call_seconds(cell, steps)) for steps in WHOLE_CALLS),
        *([_ordered_seconds(_device_seconds(cell))] if with_device else []),
        (str(cell.sample_count) if cell.status == "ok" else words.NONE, None),
        (words.rate(cell.data.get("gflops") if cell.ok else None), None),
        (words.rate(rates.get("compulsory")), None),
        (words.rate(rates.get("as_written")), None),
        *([_ordered_share(computed)] if with_computed else []),
    ]
    return Row(cell, first, texts)


def _machine_rows(machine: dict[str, Any]) -> list[tuple[str, str]]:
    """All that is known of the machine; of a GPU its name and driver first."""
    rows = []
    gpus = machine.get("gpus") or []
    for index, gpu in enumerate(gpus, start=1):
        name = "GPU" if len(gpus) == 1 else f"GPU {index}"
        rows.append((name, str(gpu.get("name") or "without a name")))
        if gpu.get("driver"):
            rows.append((f"{name} driver", str(gpu["driver"])))
        rest = {key: value for key, value in gpu.items() if key not in ("name", "driver")}
        facts = ", ".join(f"{key} {value}" for key, value in _flat(rest))
        rows += [(f"{name} facts", facts)] if facts else []
    return rows + list(_flat({key: value for key, value in machine.items() if key != "gpus"}))


def _flat(record: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested facts as lines of name and value, an object of a list in one line; null and empty ones
    are left out."""
    if isinstance(record, dict):
        for key, value in record.items():
            yield from _flat(value, f"{name} {key}".strip().replace("_", " "))
    elif isinstance(record, list) and any(isinstance(item, dict) for item in record):
        for index, item in enumerate(record, start=1):
            facts = ", ".join(f"{key} {value}" for key, value in _flat(item))
            yield (f"{name} {index}", facts)
    elif isinstance(record, list):
        if record:
            yield name, ", ".join(_fact(name, item) for item in record)
    elif record is not None and record != "":
        yield name, _fact(name, record)


def _fact(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("bytes"):
        return words.size(value)
    return words.digits(value, 4) if isinstance(value, float) else str(value)


def _ceiling_rows(result: Result) -> list[tuple[str, str]]:
    limits = ceilings(result)
    fma, gemm = limits.get("fma_gflops") or {}, limits.get("gemm_gflops") or {}
    library = f" ({gemm['library']})" if gemm.get("library") else ""
    rows = [
        ("read from memory, all threads", limits.get("read_gbytes_per_second"), "GB/s"),
        ("read from cache, all threads", limits.get("read_gbytes_per_second_cache"), "GB/s"),
        ("copy in memory (read + write)", limits.get("copy_gbytes_per_second"), "GB/s"),
    ]
    rows += [
        (f"multiply-add, {kind}, {which.replace('_', ' ')}", fma.get(f"{kind}_{which}"), "GFLOP/s")
        for kind in ("f32", "f64")
        for which in ("one_thread", "all_threads")
    ]
    rows += [
        (f"matrix product, {kind}{library}", gemm.get(kind), "GFLOP/s") for kind in ("f32", "f64")
    ]
    return [
        (name, f"{words.digits(value)} {unit}" if value else "not measured")
        for name, value, unit in rows
    ] + _gpu_ceiling_rows(result)


def _gpu_ceiling_rows(result: Result) -> list[tuple[str, str]]:
    """Limits of the GPU in use; none where there is no GPU."""
    limits = gpu_ceilings(result)
    if not limits:
        return []
    details = limits.get("details") or {}
    fma, gemm = limits.get("fma_gflops") or {}, limits.get("gemm_gflops") or {}
    library = f" (cuBLAS {details['cublas']})" if details.get("cublas") else ""
    l2_bytes = gpu_l2_bytes(result)
    l2_name = f"L2 ({words.size(l2_bytes)})" if l2_bytes else "L2"
    rates = [
        ("read from GPU memory", limits.get("read_gbytes_per_second"), "GB/s"),
        (f"read from the GPU's {l2_name}", limits.get("read_gbytes_per_second_l2"), "GB/s"),
        ("copy in GPU memory (read + write)", limits.get("copy_gbytes_per_second"), "GB/s"),
    ]
    for way, key in (("host to GPU", "host_to_device"), ("GPU to host", "device_to_host")):
        transfer = limits.get(f"{key}_gbytes_per_second") or {}
        rates += [(f"{way}, {kind} memory", value, "GB/s") for kind, value in transfer.items()]
    rates += [(f"GPU multiply-add, {kind}", fma.get(kind), "GFLOP/s") for kind in ("f32", "f64")]
    rates += [
        (f"GPU matrix product, {kind}{library}", gemm.get(kind), "GFLOP/s")
        for kind in ("f64", "f32", "tf32", "f16", "bf16")
    ]
    # Whole numbers; older files have no such rate.
    rates.append((f"GPU matrix product, int8{library}", gemm.get("int8"), "GOP/s"))
    rows = [
        (name, f"{words.digits(value)} {unit}" if value else "not measured")
        for name, value, unit in rates
    ]
    rows += [
        (name, words.seconds(limits[key]) if limits.get(key) else "not measured")
        for name, key in (
            ("kernel launch, back to back", "launch_seconds"),
            ("kernel launch and wait", "launch_and_synchronise_seconds"),
            ("kernel in a graph", "graph_node_seconds"),
            ("barrier over the GPU's grid", "grid_barrier_seconds"),
        )
    ]
    return [("GPU in use", str(details["name"])), *rows] if details.get("name") else rows


def _where(results: Sequence[Result], own: Sequence[Result]) -> str:
    """The experiments that a notice is about; empty if it is about all on the page."""
    if len(own) == len(results):
        return ""
    return f" ({words.listed([result.experiment for result in own])})"


def _not_run(result: Result) -> list[str]:
    """Variants that are not in the file. Files of earlier versions call a narrowed run complete, so
    that is said too."""
    narrowed = narrowed_text(result)
    return [
        f"{text.rstrip('.')}; {narrowed}." if narrowed else text
        for text in not_run_sentences(result, {})
    ]


def _grave_notices(results: Sequence[Result]) -> list[str]:
    """Why the numbers must not be used, or are not all."""
    return _once_each(
        results,
        lambda r: [text] if (text := build_warning(r)) else [],
        lambda r: [text] if (text := partial_sentence(r)) else [],
    )


def _notices(results: Sequence[Result]) -> list[str]:
    """Further warnings about the runs of the page, the gravest first."""
    return _once_each(
        results,
        lambda r: [text] if (text := parts_sentence(r)) else [],
        _not_run,
        lambda r: [f"Doubtful conditions. {text}" for text in doubtful_conditions(r)],
        _disturbances,
    )


def _once_each(results: Sequence[Result], *by_kind: Callable[[Result], Sequence[str]]) -> list[str]:
    """Each notice once, with the experiments that it is about."""
    texts: dict[str, list[Result]] = {}
    for find in by_kind:
        for result in results:
            for text in find(result):
                texts.setdefault(text, []).append(result)
    return [text + _where(results, own) for text, own in texts.items()]


def _disturbances(result: Result) -> list[str]:
    notices = []
    if (ceilings(result).get("details") or {}).get("disturbed"):
        notices.append("Other work took the processor away while the ceilings were measured.")
    if (gpu_ceilings(result).get("details") or {}).get("disturbed"):
        notices.append("The GPU was disturbed while its ceilings were measured.")
    environment = result.context.get("environment") or {}
    notices += [str(text) for text in environment.get("warnings") or []]
    neutralised = environment.get("neutralised") or []
    if neutralised:
        notices.append(
            "Removed or replaced for library variants: "
            + words.listed([str(name) for name in neutralised])
            + "."
        )
    return notices


def _unsteady(cells: Sequence[Cell]) -> str | None:
    """How many of the measured cells are unsteady."""
    measured = [cell for cell in cells if cell.status == "ok"]
    found = sum(bool(cell.unsteady) for cell in measured)
    return _of_measured(found, measured, UNSTEADY)


def _noted(cells: Sequence[Cell]) -> str | None:
    """How many of the measured cells are noted."""
    measured = [cell for cell in cells if cell.status == "ok"]
    return _of_measured(sum(bool(cell.noted) for cell in measured), measured, "noted")


def _of_measured(found: int, measured: Sequence[Cell], word: str) -> str | None:
    if not found:
        return None
    return f"{words.count(found)} of {words.many(len(measured), 'measured cell')} {word}"


def _tally(cells: Sequence[Cell]) -> str:
    counts = {status: 0 for status in ("ok", UNSTEADY, *_DIFFERS_FROM_OK)}
    for cell in cells:
        status = status_of(cell)
        counts[status] = counts.get(status, 0) + 1
    return ", ".join(f"{number} {status}" for status, number in counts.items() if number)


def _setup_sentences(cells: Sequence[Cell]) -> list[str]:
    """What libraries' set-up or iterations contain, as they state it."""
    stated: dict[str, dict[str, None]] = {}
    for cell in cells:
        if cell.data.get("setup_includes"):
            stated.setdefault(str(cell.data["setup_includes"]), {})[cell.variant] = None
    return [f"{words.listed(list(names))}: {text}" for text, names in stated.items()]


def _answers(result: Result) -> list[dict[str, Any]]:
    """Traces that had a known answer to meet."""
    rows = []
    for trace in result.traces:
        expected = trace.get("expected")
        if not expected and trace.get("status") == "ok":
            continue
        expected = expected or {}
        error = expected.get("inertia_relative_error")
        tolerance = expected.get("relative_tolerance")
        rows.append(
            {
                "name": trace["name"],
                "what": f"{trace['variant']} {trace['precision']}",
                "status": trace["status"],
                "reason": trace.get("reason"),
                "error": words.NONE if error is None else f"{error:.1e}",
                "tolerance": words.NONE if tolerance is None else f"{tolerance:.0e}",
                "labels": {True: "equal", False: "differ", None: words.NONE}.get(
                    expected.get("labels_begin_equal"), words.NONE
                ),
            }
        )
    return rows


def _failures(result: Result) -> list[Cell]:
    """Cells that ran and have no time, the unexpected ones first."""
    order = {status: place for place, status in enumerate(_DIFFERS_FROM_OK)}
    failed = [cell for cell in result.cells if cell.status not in ("ok", "skipped")]
    return sorted(failed, key=lambda cell: order.get(status_of(cell), 0))


def _study(study: dict[str, Any]) -> dict[str, Any]:
    """A study as the template shows it: facts, findings, and rows with numbers to sort by."""
    rows = study.get("rows") or []
    keys = list(dict.fromkeys(key for row in rows for key in row))
    is_fit = study.get("study") == fits.FIT
    if is_fit:
        keys = [key for key in fits.SHOWN if any(row.get(key) is not None for row in rows)]
    shown = max(1, _FIELDS_SHOWN // max(1, len(keys)))
    about = {key: study.get(key) for key in ("dataset", "n", "d", "k", "init")}
    facts = [f"{key} = {_value(value)}" for key, value in about.items() if value is not None]
    facts += [
        f"{name} {value}" for name, value in _flat(_without_bulk(study.get("parameters") or {}))
    ]
    if study.get("seconds"):
        facts.append(f"took {words.seconds(study['seconds'])}")
    return {
        "name": study["name"],
        "kind": "Whole fit" if is_fit else "Study",
        "summary": study.get("summary") or "",
        "status": study["status"],
        "reason": study.get("reason"),
        "facts": facts,
        "findings": [
            (key.replace("_", " "), _value(value))
            for key, value in (study.get("findings") or {}).items()
        ],
        "notes": study.get("notes") or [],
        "headings": [
            (key.replace("_", " "), any(_is_number(row.get(key)) for row in rows)) for key in keys
        ],
        "rows": [[_ordered(row.get(key)) for key in keys] for row in rows[:shown]],
        "count": len(rows),
    }


def _without_bulk(parameters: dict[str, Any]) -> dict[str, Any]:
    """Long lists of numbers, such as all centroids that a source prints, as their number."""
    return {
        key: f"({words.many(len(value), 'number')}, in the result file)"
        if isinstance(value, list) and len(value) > _NUMBERS_SHOWN and all(map(_is_number, value))
        else value
        for key, value in parameters.items()
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(value: Any) -> str:
    if value is None:
        return words.NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return words.count(value)
    return words.digits(value, 5) if isinstance(value, float) else str(value)


def _ordered(value: Any) -> tuple[str, str | None]:
    """Text of a table cell and its sort key: "" for an empty cell, None to sort by the text."""
    return _value(value), "" if value is None else None


def _leftover(result: Result, pictures: Sequence[Picture]) -> list[Comparison]:
    """Published numbers that no table figure of this page shows."""
    shown = {id(row.entry) for picture in pictures for row in picture.published}
    return [row for row in _published(result) if id(row.entry) not in shown]


def _by_origin(rows: Sequence[Comparison]) -> list[list[Comparison]]:
    """Published numbers, then prior measurements: each kind that there is has a table."""
    groups = [[row for row in rows if row.prior == prior] for prior in (False, True)]
    return [group for group in groups if group]


def _iterations_text(cell: Cell) -> str:
    """T, and how many of them a library ran."""
    asked = words.count(cell.iterations)
    return (
        f"{words.count(cell.executed_iterations or 0)} of {asked}" if cell.stopped_early else asked
    )


def _pictures(results: Sequence[Result]) -> list[list[Picture]]:
    """Those of each result, drawn on all processors. Tables share their rows with the rest of the
    page, so they are made in this process."""
    drawn = [(r, figure) for r in results for figure in r.figures if figure["kind"] not in _TABLES]
    tasks = [(r, figure, place) for place, (r, figure) in enumerate(drawn)]
    done = iter(starmap(picture_of, tasks))
    return [
        [_table_of(r, f) if f["kind"] in _TABLES else next(done) for f in r.figures]
        for r in results
    ]


GROUPS = {
    "frontier": "How fast, how near to the limits",
    "source": "What the sources say, measured again",
    "study": "Faults of printed code, and precision",
}
# What an experiment is for shows in its figures: times next to limits, winners, ladders come first.
_FIRST_FIGURES = ("whole-call", "winners", "ladder", "bars", "heatmap")


def group_of(result: Result) -> str:
    if result.spec.get("source"):
        return "source"
    return "study" if result.spec.get("studies") else "frontier"


def _by_purpose(result: Result) -> tuple[int, int, str]:
    kinds = {figure["kind"] for figure in result.spec.get("figures", [])}
    places = [place for place, kind in enumerate(_FIRST_FIGURES) if kind in kinds]
    first = min(places, default=len(_FIRST_FIGURES))
    return (list(GROUPS).index(group_of(result)), first, result.experiment)


def _idle(result: Result) -> str | None:
    """Why nothing of an experiment ran here; None where something did."""
    done: list[Any] = [c for c in result.cells if c.status != "skipped"]
    done += [one for one in (*result.traces, *result.studies) if one.get("status") != "skipped"]
    if done:
        return None
    reasons = Counter(text for c in result.cells if (text := reason_of(c)))
    return next((reason for reason, _ in reasons.most_common(1)), "nothing is planned here")


def _idle_text(sections: Sequence[dict[str, Any]]) -> str:
    """'8 of 20 experiments could not run here: no NVIDIA driver is installed here'."""
    reasons = Counter(section["idle"] for section in sections if section["idle"])
    reasons_text = "; ".join(reason for reason, _ in reasons.most_common())
    count = f"{sum(reasons.values())} of {words.many(len(sections), 'experiment')}"
    return f"{count} could not run here: {reasons_text}"


def _folded(result: Result, tally: str, claims_tally: str) -> str | None:
    """The line of a section that is folded away: sources and studies; None for the others."""
    if group_of(result) == "frontier":
        return None
    return "; ".join(filter(None, [tally, claims_tally]))


def _skipped(cells: Sequence[Cell]) -> list[str]:
    """Cells that could not run here, by reason: a line each."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.status == "skipped":
            found.setdefault(reason_of(cell) or "no reason was given", []).append(cell)
    return [
        f"{words.many(len(own), 'cell')} skipped: {reason} "
        f"({words.listed(list(dict.fromkeys(cell.variant for cell in own)), 12)})"
        for reason, own in found.items()
    ]


def _section(result: Result, pictures: Sequence[Picture]) -> dict[str, Any]:
    with_device = has_device_times(result)
    with_computed = has_computed_shares(result)
    found = claims.verdicts(result)
    tally = _tally(result.cells)
    claims_tally = claims.tally_text(found)
    return {
        "result": result,
        "group": group_of(result),
        "idle": _idle(result),
        "folded": _folded(result, tally, claims_tally),
        "file": urllib.parse.quote(result.path.name),
        "partial": partial_text(result),
        "narrowed": narrowed_text(result),
        "not_run": _not_run(result),
        "early": early_sentences(result.cells),
        "warning": build_warning(result),
        "conditions": doubtful_conditions(result),
        "unsteady": _unsteady(result.cells),
        "noted": _noted(result.cells),
        "about": machine_sentence(result) if any(p.source for p in pictures) else None,
        "includes": _setup_sentences(result.cells),
        "tally": tally,
        "claims": found,
        "claims_tally": claims_tally,
        "disturbed": disturbed.text(result.cells),
        "all_ours": all(verdict.ours for verdict in found),
        "pictures": pictures,
        "studies": [_study(study) for study in result.studies],
        "rows": [
            row_of(result, cell, with_device, with_computed)
            for cell in result.cells
            if cell.status != "skipped"
        ],
        "with_device": with_device,
        "with_computed": with_computed,
        "failures": _failures(result),
        "skipped": _skipped(result.cells),
        "untested": standing.untested_text(found),
        "doubts": [
            (cell, word, text)
            for cell in result.cells
            if cell.status == "ok"
            for word, texts in ((UNSTEADY, cell.unsteady), ("noted", cell.noted))
            for text in texts
        ],
        "published": _by_origin(_leftover(result, pictures)),
        "published_steps": [c for c in comparisons(result) if c.entry["quantity"] in PER_ITERATION],
        "answers": _answers(result),
    }


def _sha256_source(text: str) -> str:
    """A Content-Security-Policy source that admits exactly this inline text."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _unbroken(text: str) -> str:
    """Lines break after a comma alone: 'n = 1 000, d = 2'."""
    return ", ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in text.split(", "))


_STYLES, _EARLY = "<style></style>", "<script>early</script>"
_SCRIPTS = "<script></script>"
_TABLE_PARTS = r"</?(?:table|thead|tbody|tr|td|th)\b[^>]*>"
_BEFORE, _AFTER = re.compile(rf"\s+(?={_TABLE_PARTS})"), re.compile(rf"({_TABLE_PARTS})\s+")


def _tightened(text: str) -> str:
    """The page without blanks between the parts of tables, and without </td>, which HTML does not
    need. Texts of results are escaped, so none of them looks like a tag."""
    text = _AFTER.sub(r"\1", _BEFORE.sub("", text))
    return text.replace("</td>", "").replace('<td class="n"', "<td class=n")


def page(name: str, extras: Extras = PLAIN, **values: Any) -> str:
    """A page from a template: styles and scripts inline, and a policy that admits those alone."""
    styles = [*extras.styles, template("report.css"), template("standing.css")]
    early, late = extras.early, (*extras.late, template("report.js"))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        ABOUT=claims.ABOUT,
        CLAIM_SIGNS=claims.SIGNS,
        CLAIM_WORDS=claims.WORDS,
        about=about,
        headings=headings,
        iterations_text=_iterations_text,
        label_of=label_of,
        label_text=label_text,
        reason_of=reason_of,
        untested_reason=standing.reason_of,
        shape_text=shape_text,
        shape_title=shape_title,
        short_shape=short_shape,
        status_of=status_of,
        unbroken=_unbroken,
        whole_calls=WHOLE_CALLS,
        words=words,
    )
    text = environment.get_template(name).render(
        policy=Markup(
            "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
            f"style-src {' '.join(map(_sha256_source, styles))}; "
            f"script-src {' '.join(map(_sha256_source, early + late))}"
        ),
        **values,
    )
    # Put in last: a style or script is what its digest says, to the letter.
    text = _tightened(text)
    text = _put(text, _STYLES, [f"<style>{style}</style>" for style in styles])
    text = _put(text, _SCRIPTS, [f"<script>{script}</script>" for script in late])
    return _put(text, _EARLY, [f"<script>{script}</script>" for script in early]) if early else text


def _put(text: str, mark: str, parts: Sequence[str]) -> str:
    before, found, after = text.partition(mark)
    if not found:
        raise ValueError(f"the page has no {mark}")
    return "".join([before, *parts, after])


def render(results: Sequence[Result], compared: Sequence[Link] = ()) -> str:
    """The report on results of one machine, as the text of one HTML file; `compared` are the
    comparisons that lie in its folder."""
    first, newest = results[0], newest_of({r.path: r.sha256 for r in results})
    limits = next(result for result in results if result.path.name == newest)
    folder = first.path.parent.resolve()
    results = sorted(results, key=_by_purpose)
    sections = [
        _section(result, pictures)
        for result, pictures in zip(results, _pictures(results), strict=True)
    ]
    found = [verdict for section in sections for verdict in section["claims"]]
    sources = standing.sources_of((section["result"], section["claims"]) for section in sections)
    groups = [section["group"] for section in sections if not section["idle"]]
    return page(
        "report.html.j2",
        leaderboard.extras(with_chart=False),
        **leaderboard.values(leaderboard.assemble({folder: results}, folder)),
        groups=[(group, title) for group, title in GROUPS.items() if group in groups],
        machine=machine_name(first),
        machine_rows=_machine_rows(first.context.get("machine") or {}),
        ceiling_rows=_ceiling_rows(limits),
        ceilings_of=f"{limits.path.name}, {limits.context.get('started')}",
        suite_rows=list(_flat(first.context.get("suite") or {})),
        environment_rows=list(
            _flat(
                {
                    k: v
                    for k, v in (first.context.get("environment") or {}).items()
                    if k not in ("warnings", "neutralised")
                }
            )
        ),
        first=first,
        compared=compared,
        grave=_grave_notices(results),
        notices=_notices(results),
        first_notices=_FIRST_NOTICES,
        unsteady=_unsteady([cell for result in results for cell in result.cells]),
        noted=_noted([cell for result in results for cell in result.cells]),
        sections=[section for section in sections if not section["idle"]],
        idle=[section for section in sections if section["idle"]],
        idle_text=_idle_text(sections),
        sources=sources,
        source_kinds=standing.kinds_of([source.tally for source in sources]),
        sources_untested=standing.untested_text(
            [entry.verdict for source in sources for entry in source.entries]
        ),
        total=sum(len(result.cells) for result in results),
        tally=_tally([cell for result in results for cell in result.cells]),
        claims_tally=claims.tally_text(found) if found else None,
    )


def write_page(path: Path, text: str) -> Path:
    """Whole or not at all."""
    temporary = path.with_suffix(path.suffix + ".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    return path


def write_report(results: Sequence[Result], folder: Path) -> Path:
    return write_page(folder / "report.html", pack(render(results, comparisons_in(folder))))
