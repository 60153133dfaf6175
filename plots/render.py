# SPDX-License-Identifier: Apache-2.0
"""From a result and a figure's description to files; the same input gives the same SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from plots import style
from plots.captions import partial_text
from plots.figures import module_of
from plots.load import Result
from plots.pool import starmap
from plots.select import NothingToDraw
from plots.words import wrapped

_METADATA = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
_COMPRESSION = 3  # of 9: as small as 6 for pictures of few colours, and faster
_LINE = 0.158  # inches per line of caption
_PARTIAL = "partial"  # what is written across an incomplete run's picture
_LARGEST_MARK, _MARK = 26.0, 4.0  # its size in points, at most, and per inch of the picture's width


@dataclass(frozen=True)
class Drawing:
    """A drawn figure, or the reason why there is none."""

    figure: dict[str, Any]
    picture: Figure | None
    caption: list[str]
    absent: str | None = None


def draw(result: Result, figure: dict[str, Any]) -> Drawing:
    """Never fails for lack of data; a selection without content gives a Drawing with a reason."""
    style.apply()
    module = module_of(figure["kind"])
    try:
        picture = module.draw(result, figure)
        caption = module.caption(result, figure)
    except NothingToDraw as reason:
        return Drawing(figure, None, [], str(reason))
    partial = partial_text(result)
    if partial:
        picture.text(
            0.5,
            0.5,
            partial,
            ha="center",
            va="center",
            rotation=24,
            fontsize=min(_LARGEST_MARK, _MARK * picture.get_size_inches()[0]),
            color=style.BLACK,  # readable over coloured fields too
            alpha=0.3,
            zorder=10,
            gid=_PARTIAL,
        )
    return Drawing(figure, picture, caption)


def with_caption(drawing: Drawing) -> Figure:
    """The figure under its title and above its caption, for a file that travels alone."""
    picture = drawing.picture
    if picture is None:
        raise ValueError(f"nothing was drawn: {drawing.absent}")
    width, height = picture.get_size_inches()
    columns = int(width * 15.2)
    title = wrapped(drawing.figure["title"], int(width * 8.5))
    text = "\n".join(wrapped(sentence, columns) for sentence in drawing.caption)
    foot = (text.count("\n") + 1) * _LINE + 0.12
    head = 0.16 + 0.22 * (title.count("\n") + 1)
    engine = picture.get_layout_engine()
    picture.set_size_inches(width, height + foot + head)
    total = height + foot + head
    box = (0.0, foot / total, 1.0, height / total)
    if engine is not None:
        engine.set(rect=box)
    else:
        for ax in picture.axes:
            ax.set_position((0.01, box[1], 0.98, box[3]))
    for mark in picture.findobj(lambda artist: artist.get_gid() == _PARTIAL):
        mark.set_y(box[1] + 0.5 * box[3])  # the middle of the panels, not of the file
    picture.text(
        0.08 / width, 1 - 0.1 / total, title, ha="left", va="top", fontsize=11.5, fontweight="bold"
    )
    picture.text(
        0.08 / width,
        (foot - 0.02) / total,
        text,
        ha="left",
        va="top",
        fontsize=style.SMALL - 0.5,
        color=style.GREY,
        linespacing=1.32,
    )
    return picture


def settle(picture: Figure) -> None:
    """Computes the layout once and keeps it, instead of again for each file format."""
    engine = picture.get_layout_engine()
    if engine is not None:
        engine.execute(picture)
        for legend in picture.legends:  # between title and caption, as the panels are
            legend.set_bbox_to_anchor(engine.get()["rect"], transform=picture.transFigure)
        # "none" leaves a placeholder, and everything is drawn twice
        picture.set_layout_engine(None)
        _snap(picture)


def _snap(picture: Figure) -> None:
    """The solver of the layout orders its variables by their addresses, so the last bits of a
    position change from one drawing to the next, and with them names within an SVG file."""
    for ax in picture.axes:
        place = ax.get_position(original=True)
        ax.set_position([round(value, 9) for value in place.bounds])


def encode(picture: Figure, kind: str) -> bytes:
    """`kind` is "svg" or "png"."""
    buffer = io.BytesIO()
    options = {"pil_kwargs": {"compress_level": _COMPRESSION}} if kind == "png" else {}
    picture.savefig(buffer, format=kind, metadata=_METADATA[kind], **options)
    return buffer.getvalue()


def _write_figure(result: Result, figure: dict[str, Any], folder: Path) -> tuple[str, str | None]:
    name = f"{result.experiment}-{figure['id']}"
    drawing = draw(result, figure)
    if drawing.picture is None:  # an older picture would pretend to belong to this result
        for kind in _METADATA:
            (folder / f"{name}.{kind}").unlink(missing_ok=True)
        return name, drawing.absent
    picture = with_caption(drawing)
    settle(picture)
    for kind in _METADATA:
        (folder / f"{name}.{kind}").write_bytes(encode(picture, kind))
    return name, None


def write_figures(results: Sequence[Result], folder: Path) -> list[tuple[str, str | None]]:
    """Writes <experiment>-<figure id>.svg and .png; returns the names, each with the reason if
    there was nothing to draw."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [(result, figure, folder) for result in results for figure in result.figures]
    return starmap(_write_figure, tasks)
