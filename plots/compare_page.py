# SPDX-License-Identifier: Apache-2.0
"""comparison.html and its figures: what changed between two results, as one self-contained page."""

from __future__ import annotations

import math
import os
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from plots import words
from plots.compare_figures import draw_all
from plots.comparison import OUTCOMES, PAGE, SIGNS, VERDICTS, WORDS, Comparison, Pair
from plots.inline import inline_svg, kind_of, picture_text
from plots.load import Result, ResultError, load_folder, load_result, together
from plots.render import Drawing, encode, settle, with_caption
from plots.report import page, write_page


@dataclass(frozen=True)
class Picture:
    """A figure of the page, or the reason why there is none."""

    name: str
    title: str
    caption: list[str]
    source: Markup | None
    file: str | None
    absent: str | None


@dataclass(frozen=True)
class Line:
    """A cell of both sides as the table shows it; orders are numbers to sort by."""

    pair: Pair
    ratio_text: str
    ratio_order: str
    interval_text: str
    strength: str  # how far the ratio is from 1
    p_text: str
    base_text: str
    base_order: str
    new_text: str
    new_order: str
    samples_text: str


def ratio_text(ratio: float | None) -> str:
    """1.123, 0.877, 12.3: three decimals around 1."""
    if ratio is None:
        return words.NONE
    return f"{ratio:.3f}" if 0.1 <= ratio < 10 else words.digits(ratio)


def line_of(pair: Pair) -> Line:
    ratio = pair.ratio
    interval = words.NONE
    if ratio is not None and ratio.confident:
        interval = f"{ratio_text(ratio.low)} {words.TO} {ratio_text(ratio.high)}"

    def times(side: dict[str, Any]) -> tuple[str, str]:
        value = side["seconds"]
        if value is None:
            return side["status"], ""
        return words.seconds(value), f"{value:.5g}"

    def samples(side: dict[str, Any]) -> str:
        if side["seconds"] is None:
            return words.NONE
        return f"{side['samples']} of {side['processes']}"

    base, new = times(pair.base), times(pair.new)
    return Line(
        pair,
        ratio_text(ratio.mid if ratio else None),
        f"{ratio.mid:.5g}" if ratio else "",
        interval,
        f"{abs(math.log(ratio.mid)):.5g}" if ratio else "",
        words.NONE if pair.p_adjusted is None else f"{pair.p_adjusted:.2g}",
        *base,
        *new,
        f"{samples(pair.base)}; {samples(pair.new)}",
    )


def _worst_first(pairs: Sequence[Pair]) -> list[Pair]:
    order = {verdict: place for place, verdict in enumerate(VERDICTS)}
    return sorted(
        pairs,
        key=lambda p: (
            not p.regression,
            not p.correctness,
            order[p.verdict],
            -abs(math.log(p.ratio.mid)) if p.ratio else 0.0,
        ),
    )


def _results(place: Path | None) -> list[Result]:
    """Those of a folder or a file; nothing where they cannot be read, since the comparison says all
    that matters."""
    if place is None or not place.exists():
        return []
    try:
        return load_folder(place) if place.is_dir() else [load_result(place)]
    except ResultError:
        return []


def _link(place: Path | None, folder: Path) -> str | None:
    """A file as seen from the page's folder, if it is there and on the same tree."""
    if place is None or not place.exists():
        return None
    return urllib.parse.quote(os.path.relpath(place, folder))


def _report_of(place: Path | None) -> Path | None:
    if place is None:
        return None
    return (place if place.is_dir() else place.parent) / "report.html"


def _side(
    name: str, side: dict[str, Any], place: Path | None, results: Sequence[Result], folder: Path
) -> dict[str, Any]:
    files = {result.experiment: result.path for result in results}
    commits = list(dict.fromkeys(f["git_commit"][:12] for f in side["files"] if f["git_commit"]))
    dates = sorted({f["started"][:10] for f in side["files"] if f["started"]})
    return side | {
        "name": name,
        "report": _link(_report_of(place), folder),
        "commits": commits,
        "dirty": sorted({f["experiment"] for f in side["files"] if f["git_dirty"]}),
        "partial": sorted({f["experiment"] for f in side["files"] if not f["complete"]}),
        "dates": " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else words.NONE,
        "scales": ", ".join(sorted({f["scale"] for f in side["files"]})),
        "links": [
            (f["experiment"], _link(files.get(f["experiment"]), folder)) for f in side["files"]
        ],
    }


def _matrix(comparison: Comparison) -> list[tuple[str, list[int], list[int]]]:
    """Verdicts by experiment, and how many answers are broken, lost, or changed otherwise."""
    rows = []
    for name in comparison.experiments:
        own = [p for p in comparison.pairs if p.experiment == name]
        numbers = [sum(p.verdict == verdict for p in own) for verdict in VERDICTS]
        answers = [
            sum(p.regression for p in own),
            sum(p.lost and not p.regression for p in own),
            sum(p.changed_otherwise for p in own),
        ]
        rows.append((name, numbers, answers))
    return rows


def _notices(sides: Sequence[dict[str, Any]]) -> list[str]:
    notices = []
    for side in sides:
        if side["partial"]:
            names = words.listed(side["partial"])
            notices.append(f"The {side['name']} is of an incomplete run: {names}.")
        if side["dirty"]:
            names = words.listed(side["dirty"])
            notices.append(
                f"Not for publication: the {side['name']} was built from a modified working tree "
                f"({names})."
            )
    return notices


def render(
    comparison: Comparison,
    pictures: Sequence[Picture] = (),
    places: tuple[Path | None, Path | None] = (None, None),
    results: tuple[Sequence[Result], Sequence[Result]] = ((), ()),
) -> str:
    """The page as text, for the folder that holds the comparison."""
    folder = comparison.path.parent.resolve()
    sides = [
        _side(name, side, place, found, folder)
        for name, side, place, found in zip(
            ("base", "new result"),
            (comparison.base, comparison.new),
            places,
            results,
            strict=True,
        )
    ]
    pairs = _worst_first(comparison.pairs)
    doubtful = [p for p in pairs if p.unsteady or p.noted]
    return page(
        "comparison.html.j2",
        comparison=comparison,
        sides=sides,
        notices=_notices(sides),
        drawn=pictures,
        lines=[line_of(p) for p in pairs],
        changed=[p for p in pairs if p.correctness],
        broken=[p for p in pairs if p.still_broken],
        doubtful=doubtful,
        matrix=_matrix(comparison),
        VERDICTS=VERDICTS,
        SIGNS=SIGNS,
        OUTCOMES=OUTCOMES,
        WORDS=WORDS,
        ratio_text=ratio_text,
        summary=_link(folder / "summary.md", folder),
        file=urllib.parse.quote(comparison.path.name),
    )


def write_picture(place: int, name: str, drawing: Drawing, folder: Path) -> Picture:
    """A figure for the page, and alone as files."""
    title = drawing.figure["title"]
    files = {kind: folder / f"{name}.{kind}" for kind in ("svg", "png")}
    if drawing.picture is None:  # an older picture would pretend to be of this comparison
        for path in files.values():
            path.unlink(missing_ok=True)
        return Picture(name, title, [], None, None, drawing.absent)
    # Twice, here and while drawing: a square panel is laid out in two steps. (settle() would end
    # the layout, which the copy with title and caption needs again.)
    drawing.picture.get_layout_engine().execute(drawing.picture)
    kind = kind_of(drawing.picture)
    source = inline_svg(picture_text(drawing.picture), f"f{place}-", title, kind)
    alone = with_caption(drawing)
    settle(alone)
    for kind, path in files.items():
        path.write_bytes(encode(alone, kind))
    link = urllib.parse.quote(f"{folder.name}/{name}.svg")
    return Picture(name, title, drawing.caption, source, link, None)


def write(
    comparison: Comparison, base: Path | None, new: Path | None
) -> tuple[Path, list[Picture]]:
    """Figures and page next to the comparison. `base` and `new` are the folders or files that were
    compared, as far as they are at hand."""
    before, after = _results(base), _results(new)
    shared = together([*before, *after])
    before, after = shared[: len(before)], shared[len(before) :]
    folder = comparison.path.parent / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    drawings = draw_all(comparison, before, after)
    pictures = [write_picture(place, *one, folder) for place, one in enumerate(drawings)]
    text = render(comparison, pictures, (base, new), (before, after))
    return write_page(comparison.path.parent / PAGE, text), pictures
