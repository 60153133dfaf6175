# SPDX-License-Identifier: Apache-2.0
"""What every figure has to say next to the picture: where, how often, how sure, against what, and
what is missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from plots.load import Cell, Interval, Result
from plots.metrics import is_unsure, named, speedup
from plots.select import UNSTEADY, label_of, name_text, reason_of, shape_title, status_of
from plots.words import TIMES, count, digits, listed, many, seconds, span

_MANY_NOTES = 2  # kinds of conditions that a footnote names
_MANY_GAPS = 6  # sentences about gaps, beyond which they leave out the places
INTERVAL = "interval"  # what samples_sentence speaks of where nothing draws the interval
_EVERY = "*"  # in an experiment's list: every variant that takes the shape
_FEW_OPTIONS = 3  # that a sentence repeats
_SHARD = re.compile(r"--shard[ =](\d+)/(\d+)")
# Lines of joined parts have a semicolon between them.
_NARROWED = re.compile(r"""'--(only|shard)=[^']*'|--(only|shard)[ =]('[^']*'|"[^"]*"|[^\s;]+)""")
_NUMBER = re.compile(r"\d[\d.]*(e[+-]?\d+)?")


def gpus_of(result: Result) -> list[str]:
    """The machine's GPUs, those of one name together."""
    gpus = (result.context.get("machine") or {}).get("gpus") or []
    names = Counter(str(gpu["name"]) for gpu in gpus if gpu.get("name"))
    return [name if number == 1 else f"{number} {TIMES} {name}" for name, number in names.items()]


def machine_name(result: Result) -> str:
    """The processor as its vendor names it, with the machine's short name."""
    machine = result.context.get("machine") or {}
    cpu = machine.get("cpu") or {}
    model = next((cpu[key] for key in ("model", "model_name", "name") if cpu.get(key)), None)
    parts = [str(model)] if model else []
    parts += gpus_of(result)
    short = machine.get("id")
    if not parts:
        return str(short or "unnamed machine")
    return " + ".join(parts) + (f" ({short})" if short else "")


def machine_sentence(result: Result) -> str:
    threads = result.context.get("threads")
    sentence = f"Machine: {machine_name(result)}"
    if threads:
        sentence += f"; parallel variants use {many(threads, 'thread')}"
    if used := gpus_used(result):
        sentence += f"; a GPU variant uses {used}"
    return sentence + f"; {result.scale} scale."


def gpus_used(result: Result) -> str:
    """By a variant, where the machine has several; else nothing."""
    if len((result.context.get("machine") or {}).get("gpus") or []) <= 1:
        return ""
    several = any((cell.gpus or 1) > 1 for cell in result.cells)
    return "one GPU unless more are named" if several else "one GPU"


def samples_sentence(cells: Sequence[Cell], shown: str = "bars") -> str:
    """How many samples stand behind each point, and what shows how far they spread."""
    timed = [c for c in cells if c.seconds is not None]
    if not timed:
        return "No cell of this figure has a time."
    sizes = span([c.sample_count for c in timed])
    sentence = f"Medians of {sizes} samples ("
    processes = span([c.data.get("processes") or 1 for c in timed])
    sentence += f"{processes} {'process' if processes == '1' else 'processes'})"
    loose = sum(1 for c in timed if c.seconds is not None and not c.seconds.confident)
    if loose == 0:
        return sentence + f"; {shown}: 95 % confidence interval of the median."
    if loose == len(timed):
        return (
            sentence + f"; fewer than 6 samples each, so {shown} "
            f"{'show' if shown == 'bars' else 'means'} the smallest and the largest."
        )
    return (
        sentence
        + f"; {shown}: 95 % confidence interval of the median, or smallest and largest for "
        f"{loose} of {len(timed)} points with fewer than 6 samples."
    )


def missing_sentences(cells: Sequence[Cell]) -> list[str]:
    """Every cell without a time; those that share shapes and a reason, its numbers aside, stand in
    one sentence."""
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        if not cell.ok:
            pattern = _NUMBER.sub("#", reason_of(cell))
            groups.setdefault((label_of(cell), status_of(cell), pattern), []).append(cell)
    alike: dict[tuple, list[list[Cell]]] = {}
    for (_, status, pattern), group in groups.items():
        alike.setdefault((status, pattern, tuple(c.shape for c in group)), []).append(group)
    if len(alike) > _MANY_GAPS:
        return _gaps_in_short(alike)
    everywhere = {c.shape for c in cells}
    sentences = []
    for (status, _, shapes), members in alike.items():
        labels = listed([label_of(group[0]) for group in members], limit=40)
        places = listed([f"({shape_title(c)})" for c in members[0]], limit=3)
        if len(shapes) > 1 and set(shapes) == everywhere:
            places = "all shapes"
        reasons = list(dict.fromkeys(reason_of(c) for group in members for c in group))
        text = f"{_nothing(status)}: {labels}, {status}, at {places}"
        text += f": {reasons[0]}" if reasons[0] else ""
        sentences.append(text + (", and so on." if len(reasons) > 1 else "."))
    return sentences


def _nothing(status: str) -> str:
    return "No one number" if status == UNSTEADY else "No time"


def noted_sentences(cells: Sequence[Cell]) -> list[str]:
    """A footnote: how many of the times were taken under which conditions, the numbers of the first
    standing for all."""
    timed = [c for c in cells if c.ok]
    kinds: dict[str, list[str]] = {}
    for cell in timed:
        for pattern, text in {_NUMBER.sub("#", t): t for t in cell.noted}.items():
            kinds.setdefault(pattern, []).append(text)
    noted = sum(bool(c.noted) for c in timed)
    if not noted:
        return []
    most = sorted(kinds.values(), key=lambda texts: -len(texts))
    shown = [f"{texts[0].rstrip('.')} ({count(len(texts))})" for texts in most[:_MANY_NOTES]]
    rest = len(most) - len(shown)
    return [
        f"Noted: {count(noted)} of {many(len(timed), 'time')} were taken under conditions such as "
        + "; ".join(shown)
        + (f"; and {many(rest, 'other')}" if rest else "")
        + "."
    ]


def _gaps_in_short(alike: dict[tuple, list[list[Cell]]]) -> list[str]:
    """One sentence per status and reason, without the places, which the picture shows."""
    merged: dict[tuple[str, str], list[list[Cell]]] = {}
    for (status, pattern, _), groups in alike.items():
        merged.setdefault((status, pattern), []).extend(groups)
    sentences = []
    for (status, _), groups in merged.items():
        found: dict[str, int] = {}
        for group in groups:
            label = label_of(group[0])
            found[label] = found.get(label, 0) + len(group)
        labels = listed([f"{label} ({number})" for label, number in found.items()], limit=40)
        reasons = list(dict.fromkeys(reason_of(c) for group in groups for c in group))
        text = f"{_nothing(status)}: {labels}, {status}, at so many shapes"
        text += f": {reasons[0]}" if reasons[0] else ""
        sentences.append(text + (", and so on." if len(reasons) > 1 else "."))
    return sentences


def baseline_sentences(result: Result, cells: Sequence[Cell], baseline: dict | str) -> list[str]:
    """Name, threads, absolute time of the baseline, and whether anything serial beats it."""
    shapes = {c.shape for c in cells}
    base = [c for c in named(result.cells, baseline) if c.shape in shapes]
    timed = [c for c in base if c.seconds is not None]
    name = name_text(baseline)
    if not timed:
        return [f"The baseline {name} has no time here, so there is no speed-up to show."]
    name = label_of(timed[0])
    threads = span([c.threads for c in timed])
    on_gpu = timed[0].on_gpu
    place = "on the GPU" if on_gpu else f"{threads} thread{'' if threads == '1' else 's'}"
    head = f"Baseline: {name}, {place}, "
    if len(timed) <= 4:
        times = listed([f"{seconds(c.seconds.mid)} ({shape_title(c)})" for c in timed if c.seconds])
        head += f"per iteration {times}."
    else:
        ordered = sorted(timed, key=lambda c: c.seconds.mid if c.seconds else 0)
        head += (
            f"per iteration {seconds(ordered[0].seconds.mid)} ({shape_title(ordered[0])}) to "
            f"{seconds(ordered[-1].seconds.mid)} ({shape_title(ordered[-1])})."
        )
    best = sum(1 for c in timed if _is_best_of_its_kind(result, c))
    kind = (
        f"{timed[0].precision} code on the GPU"
        if on_gpu
        else f"one-thread {timed[0].precision} code"
        if threads == "1"
        else f"{timed[0].precision} code on at most {threads} threads"
    )
    rank = f"It is the fastest {kind} of this run at {count(best)} of {many(len(timed), 'shape')}."
    return [head, rank, "Speed-ups are ratios of medians, never averaged."]


def _is_best_of_its_kind(result: Result, baseline: Cell) -> bool:
    """Among the cells of its shape and precision: those on the GPU, or else on the CPU with no more
    threads."""
    rivals = [
        c
        for c in result.cells
        if c.shape == baseline.shape
        and c.precision == baseline.precision
        and c.on_gpu == baseline.on_gpu
        and (c.on_gpu or c.threads <= baseline.threads)
    ]
    ratios = [s.mid for c in rivals if (s := speedup(baseline, c)) is not None]
    return max(ratios, default=1.0) <= 1.0


def build_warning(result: Result) -> str | None:
    """Why these numbers are not for publication, if they are not."""
    suite = result.context.get("suite") or {}
    faults = []
    if suite.get("git_dirty"):
        faults.append("built from a modified working tree")
    if suite.get("build_type") not in (None, "Release"):
        faults.append(f"build type {suite['build_type']}")
    if suite.get("sanitizers"):
        faults.append(f"sanitizers {suite['sanitizers']}")
    return f"Not for publication: {listed(faults)}." if faults else None


def doubtful_conditions(result: Result) -> list[str]:
    """What was found to spoil measurements before the run began; older files do not say."""
    found = result.context.get("conditions") or []
    return [f"{c['check']}: {c['detail']}" for c in found if c.get("state") == "doubtful"]


def partial_text(result: Result) -> str | None:
    if result.complete:
        return None
    if len(result.cells) >= result.planned_cells:  # what is missing is not a cell
        return "partial run"
    return f"partial: {count(len(result.cells))} of {many(result.planned_cells, 'cell')}"


def narrowed_text(result: Result) -> str | None:
    """The options that made a run, or the parts that were joined, leave things out, as typed."""
    line = result.context.get("command_line") or ""
    line = line if isinstance(line, str) else " ".join(map(str, line))
    shards = {(int(i), int(of)) for i, of in _SHARD.findall(line)}
    dealt = {of for _, of in shards}
    # Of joined parts that are all there, being parts is not what left something out.
    whole = len(dealt) == 1 and len(shards) == max(dealt)
    options = [(f[1] or f[2], f[0]) for f in _NARROWED.finditer(line)]
    options = [(kind, text) for kind, text in options if not (whole and kind == "shard")]
    first = next((kind for kind, _ in options), None)
    found = list(dict.fromkeys(text for kind, text in options if kind == first))
    if len(found) > _FEW_OPTIONS:
        found[_FEW_OPTIONS:] = [f"{many(len(found) - _FEW_OPTIONS, 'other')}"]
    return f"this run was narrowed by {listed(found)}" if found else None


def partial_sentence(result: Result) -> str | None:
    """What is missing from an incomplete file, and why if that is known."""
    if result.complete:
        return None
    text, narrowed = f"Incomplete run, {partial_text(result)}", narrowed_text(result)
    if len(result.cells) >= result.planned_cells:
        text = "Incomplete run: traces or studies are missing"
    return text + (f"; {narrowed}." if narrowed else ".")


def parts_sentence(result: Result) -> str | None:
    """That a result was joined from parts, measured one by one or next to each other."""
    parts = result.context.get("parts") or []
    if not parts:
        return None
    return (
        f"Joined from {many(len(parts), 'part')}, measured on machines of this kind, each problem "
        "with all its variants in one of them; limits are those of the first part's machine."
    )


def early_sentences(cells: Sequence[Cell]) -> list[str]:
    """Libraries that ran fewer iterations than asked for, and those of which the file does not
    say."""
    stopped: dict[str, list[str]] = {}
    for cell in cells:
        if cell.stopped_early:
            place = f"{count(cell.executed_iterations or 0)} of {count(cell.iterations)}"
            stopped.setdefault(label_of(cell), []).append(f"{place} at {shape_title(cell)}")
    sentences = [
        f"{label} stopped before T, and its time per iteration is over those it ran: "
        f"{'; '.join(places[:3])}{f'; and {len(places) - 3} more' if len(places) > 3 else ''}."
        for label, places in stopped.items()
    ]
    unrecorded = {label_of(c): None for c in cells if c.ok and c.executed_iterations is None}
    if unrecorded:
        sentences.append(
            "This file of an earlier version does not record how many of the T iterations "
            f"libraries ran; their times are over all T: {listed(list(unrecorded), limit=40)}."
        )
    return sentences


def not_run_sentences(result: Result, figure: dict) -> list[str]:
    """Variants that the experiment has at this scale and the figure would show, of which the file
    holds no cell, as after a run that was narrowed."""
    plan = (result.spec.get("scales") or {}).get(result.scale) or {}
    where = {
        key: wanted if isinstance(wanted, list) else [wanted]
        for key, wanted in (figure.get("where") or {}).items()
    }
    absent = []
    for entry in plan.get("variants") or result.spec.get("variants") or []:
        wanted = {"variant": entry} if isinstance(entry, str) else entry
        variant, threads = wanted["variant"], wanted.get("threads")
        own = {
            "variant": variant,
            "backend": variant.split("_")[0],
            "precision": wanted.get("precision", "f32"),
            "threads": threads,
        }
        shown = all(own[key] in where[key] for key in own if key in where and own[key] is not None)
        if shown and variant != _EVERY and not named(result.cells, wanted):
            name = f"{variant} {own['precision']}" + (f" {TIMES}{threads}" * bool(threads))
            absent.append(name + (f" on {wanted['gpus']} GPUs" if wanted.get("gpus") else ""))
    if not absent:
        return []
    return [f"Not in this file, though the experiment has them: {listed(absent, limit=40)}."]


def caption(
    result: Result,
    figure: dict,
    cells: Sequence[Cell],
    notes: Sequence[str] = (),
    shown: str = "bars",
) -> list[str]:
    """The sentences under a figure of cells; `shown` names what shows the intervals."""
    sentences = [*opening(result, figure), samples_sentence(cells, shown)]
    sentences += [*early_sentences(cells), *notes, *missing_sentences(cells)]
    sentences += noted_sentences(cells)
    return [*sentences, *not_run_sentences(result, figure), *closing(result)]


def opening(result: Result, figure: dict) -> list[str]:
    """The figure's own words, then the machine."""
    own = [figure["caption"]] if figure.get("caption") else []
    return [*own, machine_sentence(result)]


def highlight_sentences(figure: dict, cells: Sequence[Cell]) -> list[str]:
    """Which variants stand out."""
    shown = {c.variant for c in cells if c.ok}
    named = [name for name in figure.get("highlight", []) if name in shown]
    return [f"Thick: {listed(named)}."] if named else []


def unsure_sentence(ratios: Sequence[Interval]) -> str:
    """What ~ means before a ratio in a field, and how many have it."""
    unsure = sum(map(is_unsure, ratios))
    return f"~: the intervals of the two times overlap ({unsure} of {len(ratios)} fields)."


def setup_sentences(cells: Sequence[Cell]) -> list[str]:
    """Where times per iteration leave out a setup that is longer than one of them."""
    timed = [c for c in cells if c.seconds is not None and c.data.get("setup_seconds") is not None]
    long = {c.key: r for c in timed if c.seconds and (r := _setup_over_step(c)) > 1}
    if not long:
        return []
    most = max((c for c in timed if c.key in long), key=lambda c: long[c.key])
    return [
        f"Setup, once a call, is outside of these times: it takes longer than an iteration at "
        f"{count(len(long))} of {many(len(timed), 'point')}, at most as long as "
        f"{digits(long[most.key])} of them ({label_of(most)}, {shape_title(most)}: "
        f"{seconds(most.data['setup_seconds'])})."
    ]


def _setup_over_step(cell: Cell) -> float:
    return cell.data["setup_seconds"] / cell.seconds.mid if cell.seconds else 0.0


def closing(result: Result) -> list[str]:
    return [text for text in (partial_sentence(result), build_warning(result)) if text]


def share(value: float) -> str:
    return f"{digits(100 * value)} %"
