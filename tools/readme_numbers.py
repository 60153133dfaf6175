# SPDX-License-Identifier: Apache-2.0
"""The numbers and pictures of README.md and docs/, from the results that lie in the repository.

tools/readme.json says which: a block is what stands between two markers of its `document`
(README.md unless it names another), of one of the kinds below. Machines are named by a pattern, so
that no folder's name is typed; processors, numbers of threads and commits are what the result files
say. What the results do not have cannot be asked for.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import readme_studies  # noqa: E402

from plots import (  # noqa: E402
    board_figure,
    captions,
    claims,
    disturbed,
    leaderboard,
    published,
)
from plots.experiment import expanded  # noqa: E402
from plots.load import Cell, Result, load_folder, read_json  # noqa: E402
from plots.metrics import named, speedup  # noqa: E402
from plots.select import UNSTEADY, name_text  # noqa: E402
from plots.words import (  # noqa: E402
    NONE,
    TIMES,
    count,
    digits,
    factor,
    listed,
    many,
    percent,
    seconds,
    span,
)

DESCRIPTION = Path(__file__).resolve().with_name("readme.json")
PICTURES = Path("docs/figures")
BEGIN, END = "<!-- numbers:begin {} -->", "<!-- numbers:end -->"
_BLOCK = re.compile(r"<!-- numbers:begin (\S+) -->\n(.*?)<!-- numbers:end -->", re.DOTALL)


class DescriptionError(Exception):
    """tools/readme.json asks for something that is not there; the text says what."""


class Machines:
    """The folders of results/, each loaded once, whole, since colours follow from all of it."""

    def __init__(self, results: Path, experiments: Path = published.EXPERIMENTS) -> None:
        self.results = results
        self._experiments = experiments
        self.load = cache(self._load)
        self.spec = cache(self._spec)

    def _load(self, folder: Path) -> dict[str, Result]:
        return {result.experiment: result for result in load_folder(folder)}

    def _spec(self, experiment: str) -> dict[str, Any]:
        path = self._experiments / f"{experiment}.json"
        if not path.is_file():
            raise DescriptionError(f"there is no experiment {experiment}")
        return expanded(read_json(path))

    def folders(self, pattern: str = "*") -> list[Path]:
        found = self.results.glob(pattern)
        return sorted(p for p in found if p.is_dir() and any(p.glob("*.json")))

    def folder(self, pattern: str) -> Path:
        """The one that the pattern fits."""
        found = self.folders(pattern)
        if len(found) != 1:
            names = listed([folder.name for folder in found]) or "none"
            raise DescriptionError(f"{pattern!r} is to fit one folder of results; it fits {names}")
        return found[0]

    def _folders_of(self, machines: str | Sequence[str]) -> list[Path]:
        return [self.folder(one) for one in ([machines] if isinstance(machines, str) else machines)]

    def results_of(self, machines: str | Sequence[str]) -> dict[str, Result]:
        """By experiment, of one machine, or of several: the first one that has it."""
        found: dict[str, Result] = {}
        for folder in reversed(self._folders_of(machines)):
            found |= self.load(folder)
        return found

    def result(self, machines: str | Sequence[str], experiment: str) -> Result:
        found = self.results_of(machines).get(experiment)
        if found is None:
            folders = [f"results/{folder.name}" for folder in self._folders_of(machines)]
            have = "has" if len(folders) == 1 else "have"
            raise DescriptionError(f"{listed(folders)} {have} no {experiment}")
        return found


# --- Words -----------------------------------------------------------------------------------


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int]) -> str:
    """A Markdown table; `right` are the columns of numbers."""
    to_the_right = set(right)
    rule = ["---:" if i in to_the_right else "---" for i in range(len(headings))]
    lines = [headings, rule, *rows]
    return "".join("| " + " | ".join(map(_escape, line)) + " |\n" for line in lines)


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _source(results: Sequence[Result]) -> str:
    """Which folders and machines, at which scale, and what speaks against trusting it."""
    scales = listed(list(dict.fromkeys(result.scale for result in results)))
    machines = {result.path.parent.name: result for result in results}
    text = " and ".join(
        f"`results/{folder}`: {captions.machine_name(result)}"
        + (f", {many(threads, 'thread')}" if (threads := result.context.get("threads")) else "")
        for folder, result in sorted(machines.items())
    )
    commits = listed(sorted({_commit(result) for result in results}))
    text += f"; {scales} scale, measured at commit {commits}."
    for result in results:
        warnings = [
            captions.partial_sentence(result),
            *captions.not_run_sentences(result, {}),
            captions.build_warning(result),
        ]
        text += "".join(f" `{result.experiment}`: {warning}" for warning in warnings if warning)
    return text


def _commit(result: Result) -> str:
    """What was measured: variants may have changed since."""
    suite = result.context.get("suite") or {}
    return str(suite.get("git_commit", "unknown"))[:7]


def _disturbed(cells: Sequence[Cell]) -> str:
    """A sentence, empty where nothing was in the way."""
    text = disturbed.short_text(cells)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _samples(cells: Sequence[Cell]) -> str:
    timed = [cell for cell in cells if cell.ok]
    if not timed:
        return "No cell has a time."
    sizes = [cell.sample_count for cell in timed]
    processes = [cell.data.get("processes") or 1 for cell in timed]
    samples = f"{span(sizes)} {'sample' if max(sizes) == 1 else 'samples'}"
    return f"Medians of {samples} from {span(processes)} " + (
        "process." if max(processes) == 1 else "processes."
    )


def _time(cell: Cell, text: Callable[[float], str]) -> str:
    """Of a cell, per iteration; in its place what became of it."""
    return text(cell.seconds.mid) if cell.seconds else UNSTEADY if cell.unsteady else cell.status


def _total(cell: Cell) -> str:
    """Of all iterations; a library that ended before them has no such time."""
    if cell.stopped_early:
        return f"stopped after {count(cell.executed_iterations or 0)}"
    return _time(cell, lambda value: seconds(value * cell.iterations))


def _cell(result: Result, name: dict[str, Any] | str, shape: tuple[int, int, int]) -> Cell:
    found = [cell for cell in named(result.cells, name) if cell.shape == shape]
    if not found:
        raise DescriptionError(f"{result.experiment} has no cell of {name} at {shape}")
    return next((cell for cell in found if cell.ok), found[0])


# --- Blocks ----------------------------------------------------------------------------------


def times(machines: Machines, block: dict[str, Any]) -> str:
    """Milliseconds per iteration, a row for each shape of the run, a column for each variant."""
    columns = block["columns"]
    names = [_name_of(column) for column in columns]
    result = machines.result(block["machine"], block["experiment"])
    titles = [column.get("title") or f"`{column['variant']}`" for column in columns]
    # The last column compares with the exact one that is fastest at the shape.
    base, exact = result.spec["baseline"], _exact_times(result)
    slow = base if isinstance(base, str) else base["variant"]
    shown = {column["variant"]: title for column, title in zip(columns, titles, strict=True)}
    ratio = f"{shown.get(slow, f'`{slow}`')} / fastest exact"
    rows, used = [], []
    for shape in dict.fromkeys(cell.shape for cell in result.cells):
        cells = [_cell(result, name, shape) for name in names]
        used += cells
        before = _cell(result, base, shape)
        after = exact.get(shape)
        gain = speedup(before, after) if after else None
        rows.append(
            [
                *(count(size) for size in shape),
                *(_time(cell, lambda value: digits(1e3 * value)) for cell in cells),
                f"{factor(gain.mid)} `{after.variant}`" if after and gain else NONE,
            ]
        )
    about = [
        f"Milliseconds per iteration, experiment `{result.experiment}`, "
        f"{_iterations(used)}. {_source([result])}",
        _samples(used),
        _disturbed(used),
        *captions.early_sentences(used),
    ]
    table = _table(["n", "d", "k", *titles, ratio], rows, range(4 + len(columns)))
    return " ".join(filter(None, about)) + "\n\n" + table


def peers(machines: Machines, block: dict[str, Any]) -> str:
    """The fastest exact variant and each of `libraries`, or the fastest of all: a row for each
    shape of the run, or of `shapes`; what is said of all is then said of the run."""
    result = machines.result(block["machine"], block["experiment"])
    exact, wanted = _exact_times(result), block.get("libraries")
    shapes = dict.fromkeys(cell.shape for cell in result.cells)
    chosen = [tuple(shape) for shape in block.get("shapes", shapes)]
    if missing := [shape for shape in chosen if shape not in shapes]:
        raise DescriptionError(f"{result.experiment} has no shape {missing[0]}")
    rows, gains, used = [], [], []
    for shape in shapes:
        own = exact.get(shape)
        if own is None or own.seconds is None or (wanted and shape not in chosen):
            continue
        sizes = [count(size) for size in shape]
        first = [*sizes, seconds(own.seconds.mid), f"`{own.variant}`"]
        if wanted:
            there = [_cell(result, _name_of(one), shape) for one in wanted]
            row = [*first, *(_next_to(cell, own) for cell in there)]
        else:
            fastest = _fastest_library(result, shape)
            if fastest is None:
                continue
            there, name = [fastest], f"`{fastest.variant}` {fastest.precision}"
            row = [*first, *_parts_next_to(fastest, own), name]
        rows += [row] if shape in chosen else []
        ratios = [gain.mid for cell in there if (gain := speedup(cell, own))]
        gains += [min(ratios)] if ratios else []
        used += [own, *there]
    about = " ".join(filter(None, [_source([result]), _samples(used), _disturbed(used)]))
    if wanted:
        headings = ["n", "d", "k", "exact", "by", *(one["title"] for one in wanted)]
        return f"{about}\n\n" + _table(headings, rows, [*range(4), *range(5, len(headings))])
    headings = ["n", "d", "k", "exact", "by", "fastest library", "wrong", TIMES, "by"]
    ahead = sum(gain > 1 for gain in gains)
    mean = statistics.geometric_mean(gains)
    return (
        f"{about}\n\n{_table(headings, rows, [*range(4), 5, 6, 7])}\n"
        f"The exact variant is the faster one at {ahead} of {many(len(gains), 'shape')}; the "
        f"library takes {digits(min(gains))} to {digits(max(gains))} times as long (geometric mean "
        f"{digits(mean)}).\n"
    )


def _name_of(column: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in column.items() if key != "title"}


def _fastest_library(result: Result, shape: tuple[int, int, int]) -> Cell | None:
    """Of any precision."""
    libraries = [c for c in result.cells if c.backend == "python" and c.shape == shape]
    timed = [(c.seconds.mid, c.key, c) for c in libraries if c.seconds]
    return min(timed)[-1] if timed else None


def _parts_next_to(cell: Cell, own: Cell) -> tuple[str, str, str]:
    """Its time, its wrong labels, and how many times that of the other it is."""
    differing = (cell.data.get("verification") or {}).get("labels_differing")
    gain = speedup(cell, own)
    wrong = NONE if differing is None else "none" if differing == 0 else percent(differing)
    return _time(cell, seconds), wrong, digits(gain.mid) if gain else NONE


def _next_to(cell: Cell, own: Cell) -> str:
    time, wrong, ratio = _parts_next_to(cell, own)
    return f"{time} ({wrong}), {ratio}" if cell.seconds else time


def _iterations(cells: Sequence[Cell]) -> str:
    return f"{span([cell.iterations for cell in cells])} iterations a repetition"


def totals(machines: Machines, block: dict[str, Any]) -> str:
    """The time of all T iterations at one shape: a row for each variant, a column for each
    experiment."""
    shape = tuple(block["shape"][axis] for axis in ("n", "d", "k"))
    results = [machines.result(block["machine"], name) for name in block["experiments"]]
    rows, used = [], []
    for variant in block["variants"]:
        cells = [_cell(result, variant, shape) for result in results]
        used += cells
        rows.append([f"`{variant}`", *map(_total, cells)])
    iterations = {cell.iterations for cell in used}
    about = (
        f"Time of {span(sorted(iterations))} iterations over {count(shape[0])} points, "
        f"d = {shape[1]}, k = {shape[2]}. " + _source(results)
    )
    early = captions.early_sentences(used)
    about = " ".join(filter(None, [about, _samples(used), _disturbed(used), *early]))
    headings = ["variant", *block["experiments"].values()]
    return about + "\n\n" + _table(headings, rows, range(1, len(headings)))


def _chosen(machines: Machines, row: dict[str, Any]) -> dict[str, Any]:
    """The published number of the experiment that has all keys of the row's `number`."""
    entries = machines.spec(row["experiment"]).get("published", [])
    wanted = row["number"]
    found = [e for e in entries if all(e.get(key) == value for key, value in wanted.items())]
    if len(found) != 1:
        raise DescriptionError(
            f"{len(found)} published numbers of {row['experiment']} have {wanted}, not one"
        )
    return found[0]


def _rows_of_source(names: Sequence[str], rows: Sequence[list[str]]) -> list[list[str]]:
    """Each source named once."""
    first = dict.fromkeys(names)
    seen: set[str] = set()
    lines = []
    for name in first:
        for own, row in zip(names, rows, strict=True):
            if own == name:
                lines.append(["" if name in seen else f"`{name}`", *row])
                seen.add(name)
    return lines


def numbers(machines: Machines, block: dict[str, Any]) -> str:
    """Published numbers next to ours, both as plots/published.py forms them."""
    rows, used = [], []
    for row in block["rows"]:
        entry = _chosen(machines, row)
        result = machines.result(block["machine"], row["experiment"])
        what = ", ".join(filter(None, [entry["label"], published.shape_text(entry)]))
        printed = published.quantity_text(entry["quantity"], entry["value"], exact=True)
        if entry.get("prior"):
            printed += " (prior measurement)"
        machine = f"machine: {entry['machine']}"
        theirs = "; ".join(filter(None, [entry["where"], machine, entry.get("note")]))
        used.append(result)
        found = next(c for c in published.comparisons(result) if c.entry == entry)
        ours = found.measured_text
        if found.interval_text != NONE:
            ours += f", {found.interval_text}"
        name = name_text(entry)
        how = f"`{name}`" if found.measured_text == found.remark else f"`{name}`: {found.remark}"
        rows.append([what, printed, theirs, ours, how])
    names = [row["experiment"] for row in block["rows"]]
    table = _table(
        ["source", "number", "published", "where, on what", "here", "how ours is formed"],
        _rows_of_source(names, rows),
        [2, 4],
    )
    return _with_source(used) + table


def statements(machines: Machines, block: dict[str, Any]) -> str:
    """Statements of the sources with the verdicts of plots/claims."""
    rows, used = [], []
    for row in block["rows"]:
        known = machines.spec(row["experiment"]).get("claims", [])
        claim = next((claim for claim in known if claim["id"] == row["claim"]), None)
        if claim is None:
            raise DescriptionError(f"experiment {row['experiment']} has no claim {row['claim']}")
        result = machines.result(block["machine"], row["experiment"])
        used.append(result)
        found = claims.verdict_of(result, claim)
        rows.append([claim["statement"], f"{found.sign} {found.verdict}", found.measured or NONE])
    names = [row["experiment"] for row in block["rows"]]
    table = _table(
        ["experiment", "statement of the source", "verdict", "measured here"],
        _rows_of_source(names, rows),
        [],
    )
    # A page that says it once need not repeat of which results it speaks.
    return table if block.get("source_named") else _with_source(used) + table


def _with_source(used: Sequence[Result]) -> str:
    one_each = list({result.experiment: result for result in used}.values())
    disturbances = _disturbed([cell for result in one_each for cell in result.cells])
    return " ".join(filter(None, [_source(one_each), disturbances])) + "\n\n"


def tally(machines: Machines, block: dict[str, Any]) -> str:
    """How many statements of sources came out as what, on every machine that has some, of those
    that `machines` fits: who has measured here has results of their own as well as the
    repository's. A verdict that none has gets no column."""
    rows = []
    patterns = block.get("machines", ["*"])
    for folder in sorted({f for pattern in patterns for f in machines.folders(pattern)}):
        found, testing = [], []  # those that have claims: a folder's machines may differ
        for result in machines.load(folder).values():
            own = [verdict for verdict in claims.verdicts(result) if not verdict.ours]
            found += own
            testing += [result] if own else []
        if not testing:
            continue
        counts = claims.tally(found)
        cells = [cell for result in testing for cell in result.cells if cell.ok]
        hit = f"{count(len(disturbed.disturbed(cells)))} of {count(len(cells))}"
        scales = listed(sorted({result.scale for result in testing}))
        has = captions.gpus_of(testing[0]) or [captions.machine_name(testing[0])]
        rows.append(([f"`{folder.name}` ({listed(has)})", scales], counts, hit))
    kinds = [kind for kind in claims.KINDS if any(counts[kind] for _, counts, _ in rows)]
    words = [f"{claims.SIGNS[kind]} {claims.WORDS[kind]}" for kind in kinds]
    headings = ["machine", "scale", "statements", *words, "times measured next to other work"]
    lines = [
        [*start, *map(str, [sum(counts.values()), *(counts[kind] for kind in kinds)]), hit]
        for start, counts, hit in rows
    ]
    return _table(headings, lines, range(2, len(headings)))


def duration(machines: Machines, block: dict[str, Any]) -> str:
    """How long all experiments of a folder took, from their own clocks."""
    folder = machines.folder(block["machine"])
    results = list(machines.load(folder).values())
    spent = 0.0
    for result in results:
        ends = [result.context.get(key) for key in ("started", "finished")]
        if not all(ends):
            return f"The files of `results/{folder.name}` do not say how long they took.\n"
        first, last = (datetime.fromisoformat(str(end)) for end in ends)
        spent += (last - first).total_seconds()
    return (
        f"On the machine of `results/{folder.name}` ({captions.machine_name(results[0])}, "
        f"{many(results[0].context['threads'], 'thread')}) measuring its "
        f"{many(len(results), 'experiment')} took {many(round(spent / 60), 'minute')} "
        f"at {listed(sorted({result.scale for result in results}))} scale.\n"
    )


def picture(_: Machines, block: dict[str, Any]) -> str:
    """Of a figure of a result, or of plots/board_figure.py over several."""
    place = PICTURES / block["file"]
    inside = document_of(block).startswith("docs/")  # as seen from the document
    place = place.relative_to("docs") if inside else place
    if "narrow" not in block:
        return f"![{block['alt']}]({place})\n"
    return (
        "<picture>\n"
        f'  <source media="(max-width: 640px)" srcset="{place.with_name(block["narrow"])}">\n'
        f'  <img src="{place}" alt="{block["alt"]}">\n'
        "</picture>\n"
    )


def findings(machines: Machines, block: dict[str, Any]) -> str:
    """Of whole fits, of exact next to a baseline, next to the limit, of claims of the sources."""
    said = [_of_whole_fits(machines, own) for own in block["fits"]]
    parts = [_against_baseline, _next_to_the_limit, _of_the_sources]
    return "".join(f"- {text}\n" for text in [*said, *(part(machines, block) for part in parts)])


def _of_whole_fits(machines: Machines, own: dict[str, Any]) -> str:
    result = machines.result(own["machine"], own["experiment"])
    return readme_studies.whole_fits(result, own["estimator"], own["yardstick"], own["title"])


def seeds(machines: Machines, block: dict[str, Any]) -> str:
    return readme_studies.seeds(machines.result(block["machine"], block["experiment"]))


def _exact_times(result: Result) -> dict[tuple[int, int, int], Cell]:
    best = board_figure.best_of(result).items()
    return {shape: here[leaderboard.EXACT] for shape, here in best if leaderboard.EXACT in here}


def _against_baseline(machines: Machines, block: dict[str, Any]) -> str:
    own = block["baseline"]
    result = machines.result(own["machine"], own["experiment"])
    exact = _exact_times(result)
    base = [_cell(result, own["name"], shape) for shape in exact]
    used = [*exact.values(), *base]
    pairs = zip(base, exact.values(), strict=True)
    gains = [gain.mid for slow, fast in pairs if (gain := speedup(slow, fast))]
    return (
        f"**Exact is not slow.** On {captions.machine_name(result)} with "
        f"{many(result.context['threads'], 'thread')} the fastest exact variant is "
        f"{digits(min(gains))} to {digits(max(gains))} times as fast per iteration as "
        f"{own['title']}, at {many(len(gains), 'shape')} of `{result.experiment}`. "
        f"A fit of {own['title']} has {span([cell.iterations for cell in base])} "
        f"iterations there, and its time contains {own['contains']}. {_disturbed(used)}".rstrip()
    )


def _next_to_the_limit(machines: Machines, block: dict[str, Any]) -> str:
    own = block["limit"]
    result = machines.result(own["machine"], own["experiment"])
    # Who skips work can be beyond the limit, which says nothing of how near to it one can come.
    shares = {
        shape: (share, cell)
        for shape, cell in _exact_times(result).items()
        if (share := cell.share_of_limit) and share <= 1
    }
    shape = max(shares, key=lambda one: shares[one][0])
    share, cell = shares[shape]
    here = board_figure.best_of(result)[shape]
    others = [here[kind] for kind in (leaderboard.LIBRARY, leaderboard.CERTIFIED) if kind in here]
    aside = listed(
        [f"`{c.variant}`, certified, {seconds(c.seconds.mid)}" for c in others if c.seconds]
    )
    n, d, k = shape
    used = captions.gpus_used(result)
    machine = captions.machine_name(result) + (f", {used} a variant" if used else "")
    return (
        f"**Nor on a GPU.** On {machine}{_next_to_libraries(result)} the "
        f"exact variant that comes nearest to the limit is `{cell.variant}` at {count(n)} {TIMES} "
        f"{count(d)}, k = {count(k)}: {_time(cell, seconds)} an iteration, "
        f"{percent(share)} of it" + (f" ({aside})." if aside else ".") + _after(_shown(result))
    )


def _after(cells: Sequence[Cell]) -> str:
    text = _disturbed(cells)
    return f" {text}" if text else ""


def _shown(result: Result) -> list[Cell]:
    """The fastest exact ones and the fastest libraries."""
    exact = _exact_times(result)
    libraries = [_fastest_library(result, shape) for shape in exact]
    return [*exact.values(), *(cell for cell in libraries if cell is not None)]


def _next_to_libraries(result: Result) -> str:
    """At how many shapes the fastest exact variant leads the fastest library of any precision."""
    gains = []
    for shape, cell in _exact_times(result).items():
        library = _fastest_library(result, shape)
        gain = speedup(library, cell) if library else None
        gains += [gain.mid] if gain else []
    ahead = [gain for gain in gains if gain > 1]
    if not ahead:
        return ""
    where = "all" if len(ahead) == len(gains) else f"{len(ahead)} of"
    return (
        f", at {where} {many(len(gains), 'shape')} of `{result.experiment}`, the fastest exact "
        f"variant is {digits(min(ahead))} to {digits(max(ahead))} times as fast as the fastest "
        "library of that run, whatever its precision;"
    )


def _of_the_sources(machines: Machines, block: dict[str, Any]) -> str:
    results = machines.results_of(block["sources"]["machine"]).values()
    tested = [r for r in results if any(not v.ours for v in claims.verdicts(r))]
    folders = sorted({f"`results/{r.path.parent.name}`" for r in tested})
    on = captions.machine_name(tested[0]) if len(folders) == 1 else f"machines of {listed(folders)}"
    counts = claims.tally(v for r in tested for v in claims.verdicts(r))
    total = sum(counts.values()) - counts[claims.UNTESTED] - counts[claims.TOO_FEW]
    return (
        f"**What is printed need not hold.** Of {many(total, 'statement')} of "
        f"published articles, tested on {on}, "
        f"{counts['holds']} hold, {counts['partly']} hold in part, {counts['fails']} do not"
        + (f", {counts['undecided']} are undecided" if counts["undecided"] else "")
        + " "
        "([some of them](docs/measured.md); all in the report)."
        + _after([cell for r in tested for cell in r.cells])
    )


KINDS: dict[str, Callable[[Machines, dict[str, Any]], str]] = {
    "times": times,
    "peers": peers,
    "totals": totals,
    "numbers": numbers,
    "statements": statements,
    "tally": tally,
    "duration": duration,
    "picture": picture,
    "board": picture,
    "findings": findings,
    "seeds": seeds,
}


def _figure(machines: Machines, block: dict[str, Any]) -> tuple[Result, dict[str, Any]]:
    """The result and its own description of the figure."""
    result = machines.result(block["machine"], block["experiment"])
    for figure in result.figures:
        if figure["id"] == block["figure"]:
            return result, figure
    raise DescriptionError(f"{block['experiment']} has no figure {block['figure']}")


# --- README and pictures ---------------------------------------------------------------------


def description(path: Path = DESCRIPTION) -> dict[str, dict[str, Any]]:
    return read_json(path)


def document_of(block: dict[str, Any]) -> str:
    return str(block.get("document", "README.md"))


def by_document(blocks: dict[str, dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """The blocks of each document, README.md being one even without any."""
    found: dict[str, dict[str, dict[str, Any]]] = {"README.md": {}}
    for name, block in blocks.items():
        found.setdefault(document_of(block), {})[name] = block
    return found


def render(readme: str, blocks: dict[str, dict[str, Any]], machines: Machines) -> str:
    """The same README with every block as the results give it."""
    present = [found[1] for found in _BLOCK.finditer(readme)]
    if sorted(present) != sorted(blocks):
        raise DescriptionError(
            f"the document has the blocks {listed(sorted(present), 20)}; "
            f"{DESCRIPTION.name} describes {listed(sorted(blocks), 20)}"
        )

    def written(found: re.Match[str]) -> str:
        block = blocks[found[1]]
        text = KINDS[block["kind"]](machines, block)
        return f"{BEGIN.format(found[1])}\n{text}{END}"

    return _BLOCK.sub(written, readme)


def draw(blocks: dict[str, dict[str, Any]], machines: Machines) -> dict[str, bytes]:
    """Every picture by its file's name: the bytes that `make figures` writes for its result."""
    from plots import render as drawing

    pictures = {}
    for block in blocks.values():
        if block["kind"] == "board":
            runs = [machines.result(one["machine"], one["experiment"]) for one in block["runs"]]
            page = board_figure.draw(runs)
            if "narrow" in block:
                narrow = board_figure.draw(runs, narrow=True)
                drawing.settle(narrow)
                pictures[block["narrow"]] = drawing.encode(narrow, "svg")
        elif block["kind"] == "picture":
            drawn = drawing.draw(*_figure(machines, block))
            if drawn.picture is None:
                raise DescriptionError(f"{block['file']} cannot be drawn: {drawn.absent}")
            page = drawing.with_caption(drawn)
        else:
            continue
        drawing.settle(page)
        pictures[block["file"]] = drawing.encode(page, "svg")
    return pictures


def why_not_drawn(requirements: Path = ROOT / "requirements.txt") -> str:
    """Empty if pictures come out of this Python as they do everywhere: another version of
    matplotlib may write other bytes for the same picture."""
    try:
        import matplotlib
    except ImportError:
        return "matplotlib is missing; make setup installs it"
    pinned = re.search(r"^matplotlib==(\S+)", requirements.read_text(encoding="utf-8"), re.M)
    if pinned and matplotlib.__version__ != pinned[1]:
        return f"matplotlib is {matplotlib.__version__}, not the pinned {pinned[1]}"
    return ""


def stale_pictures(pictures: dict[str, bytes], folder: Path) -> list[str]:
    """Names of files that differ from what was drawn, are missing, or are drawn by nothing."""
    there = {file.name for file in folder.iterdir() if file.is_file()} if folder.is_dir() else set()
    differing = [
        name
        for name, data in pictures.items()
        if name not in there or (folder / name).read_bytes() != data
    ]
    return sorted([*differing, *(there - set(pictures))])


def write_pictures(pictures: dict[str, bytes], folder: Path) -> list[str]:
    """Makes the folder hold exactly these; returns what changed."""
    changed = stale_pictures(pictures, folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in changed:
        if name in pictures:
            (folder / name).write_bytes(pictures[name])
        else:
            (folder / name).unlink()
    return changed
