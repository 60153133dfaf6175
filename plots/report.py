# SPDX-License-Identifier: Apache-2.0
"""One self-contained report.html per machine: everything inline, nothing fetched, every text from
a result file escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from plots import words
from plots.captions import build_warning, machine_name, partial_text
from plots.figures import table
from plots.load import Cell, Result
from plots.metrics import ceilings, gpu_ceilings, gpu_l2_bytes, limit_seconds, share_of_limit
from plots.pool import starmap
from plots.published import Comparison, comparisons, shape_text
from plots.render import draw, encode, settle
from plots.select import label_of, reason_of, shape_title, status_of

TEMPLATES = Path(__file__).resolve().parent / "templates"
_DIFFERS_FROM_OK = ("wrong", "error", "wrong as expected", "skipped")


@dataclass(frozen=True)
class Picture:
    """A figure of the report: an image as a data URI, or the reason why there is none."""

    title: str
    caption: list[str]
    source: Markup | None
    wide: bool
    absent: str | None


@dataclass(frozen=True)
class Row:
    """A cell as the report's table shows it; `order` are numbers to sort by, or None."""

    cell: Cell
    texts: list[tuple[str, float | None]]
    suspect: list[str]


def picture_of(result: Result, figure: dict[str, Any]) -> Picture:
    drawing = draw(result, figure)
    if drawing.picture is None:
        return Picture(figure["title"], [], None, False, drawing.absent)
    settle(drawing.picture)
    image = base64.b64encode(encode(drawing.picture, "svg")).decode("ascii")
    wide = drawing.picture.get_size_inches()[0] > 8
    # Base64 holds no character that could end the attribute.
    return Picture(
        figure["title"], drawing.caption, Markup("data:image/svg+xml;base64," + image), wide, None
    )


def _verification_text(cell: Cell) -> str:
    found = cell.data.get("verification")
    if not found:
        return words.NONE
    differing, excess = found.get("labels_differing"), found.get("largest_excess")
    parts = []
    if differing is not None:
        parts.append("labels equal" if differing == 0 else f"{words.percent(differing)} differ")
    if differing and excess is not None:
        parts.append(f"excess ≤ {excess:.1e}")
    if found.get("points_checked", 0) < found.get("points_total", 0):
        parts.append(f"{words.short_count(found['points_checked'])} points checked")
    return ", ".join(parts) or ("passed" if found.get("passed") else "not passed")


def _interval_text(cell: Cell) -> str:
    times = cell.seconds
    if times is None:
        return words.NONE
    text = f"{words.seconds(times.low)} {words.TO} {words.seconds(times.high)}"
    return text if times.confident else text + f" (min{words.TO}max)"


def _device_text(cell: Cell) -> tuple[str, float | None]:
    """The median by the GPU's own events."""
    median = (cell.data.get("device_seconds_per_iteration") or {}).get("median")
    median = median if cell.ok else None
    return words.seconds(median), median


def has_device_times(result: Result) -> bool:
    return any(_device_text(cell)[1] is not None for cell in result.cells)


def row_of(result: Result, cell: Cell, with_device: bool = False) -> Row:
    """Columns in the order of the template's headings."""
    rates = cell.data.get("gbytes_per_second") or {} if cell.ok else {}
    gflops = cell.data.get("gflops") if cell.ok else None
    limit = limit_seconds(result, cell) if cell.ok else None
    share = share_of_limit(result, cell)
    differing = (cell.data.get("verification") or {}).get("labels_differing")
    binding = f" of {limit[1]}" if limit else ""
    texts = [
        (
            words.seconds(cell.seconds.mid if cell.seconds else None),
            cell.seconds.mid if cell.seconds else None,
        ),
        (_interval_text(cell), None),
        *([_device_text(cell)] if with_device else []),
        (str(cell.sample_count) if cell.ok else words.NONE, cell.sample_count if cell.ok else None),
        (words.rate(gflops), gflops),
        (words.rate(rates.get("compulsory")), rates.get("compulsory")),
        (words.rate(rates.get("as_written")), rates.get("as_written")),
        (words.percent(share) + (binding if share else ""), share),
        (_verification_text(cell), differing),
    ]
    return Row(cell, texts, list(cell.data.get("suspect") or []))


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


def _notices(results: Sequence[Result]) -> list[str]:
    """Warnings about the run as a whole, each once."""
    notices = []
    for result in results:
        if (text := build_warning(result)) is not None:
            notices.append(text)
        if (text := partial_text(result)) is not None:
            notices.append(f"{result.experiment} is {text}.")
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
    return list(dict.fromkeys(notices))


def _tally(cells: Sequence[Cell]) -> str:
    counts = {status: 0 for status in ("ok", *_DIFFERS_FROM_OK)}
    for cell in cells:
        status = status_of(cell)
        counts[status] = counts.get(status, 0) + 1
    return ", ".join(f"{number} {status}" for status, number in counts.items() if number)


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
                "labels": {True: "equal", False: "differ"}.get(
                    expected.get("labels_begin_equal"), words.NONE
                ),
            }
        )
    return rows


def _failures(result: Result) -> list[Cell]:
    """Cells without a time, the unexpected ones first."""
    order = {status: place for place, status in enumerate(_DIFFERS_FROM_OK)}
    failed = [cell for cell in result.cells if not cell.ok]
    return sorted(failed, key=lambda cell: order.get(status_of(cell), 0))


def _section(result: Result) -> dict[str, Any]:
    published: list[Comparison] = comparisons(result)
    with_device = has_device_times(result)
    return {
        "result": result,
        "partial": partial_text(result),
        "tally": _tally(result.cells),
        # Tables are better as HTML than as a picture of one.
        "pictures": starmap(
            picture_of,
            [
                (result, figure)
                for figure in result.figures
                if figure["kind"] != table.__name__.rpartition(".")[2]
            ],
        ),
        "rows": [row_of(result, cell, with_device) for cell in result.cells],
        "with_device": with_device,
        "failures": _failures(result),
        "suspects": [
            (cell, text)
            for cell in result.cells
            if cell.ok
            for text in cell.data.get("suspect") or []
        ],
        "published": [c for c in published if c.entry["quantity"] not in ("inertia", "loss")],
        "published_steps": [c for c in published if c.entry["quantity"] in ("inertia", "loss")],
        "answers": _answers(result),
    }


def _sha256_source(text: str) -> str:
    """A Content-Security-Policy source that admits exactly this inline text."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def render(results: Sequence[Result]) -> str:
    """The report on results of one machine, as the text of one HTML file."""
    style_text = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    script_text = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        label_of=label_of,
        reason_of=reason_of,
        shape_text=shape_text,
        shape_title=shape_title,
        status_of=status_of,
        words=words,
    )
    first = results[0]
    return environment.get_template("report.html.j2").render(
        policy=Markup(
            "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
            f"style-src {_sha256_source(style_text)}; script-src {_sha256_source(script_text)}"
        ),
        style=Markup(style_text),
        script=Markup(script_text),
        machine=machine_name(first),
        machine_rows=_machine_rows(first.context.get("machine") or {}),
        ceiling_rows=_ceiling_rows(first),
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
        notices=_notices(results),
        sections=[_section(result) for result in results],
        total=sum(len(result.cells) for result in results),
        tally=_tally([cell for result in results for cell in result.cells]),
    )


def write_report(results: Sequence[Result], folder: Path) -> Path:
    path = folder / "report.html"
    temporary = path.with_suffix(".html.part")
    temporary.write_text(render(results), encoding="utf-8")
    temporary.replace(path)
    return path
