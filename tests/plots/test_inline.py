# SPDX-License-Identifier: Apache-2.0
"""A picture inside of a page is the drawn one, and nothing else gets in with it."""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import browser
import matplotlib as mpl
import numpy as np
import pytest
import synthetic
from PIL import Image, ImageFont

from plots.inline import inline_svg, picture_text, renamed, sheet, short_names
from plots.load import load_folder
from plots.render import draw, encode, settle

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
HEAD += 'viewBox="0 0 90 60" width="90pt" height="60pt">'
WIDTH = 700  # pixels
# Pictures are compared in squares of so many pixels, since texts may be some tenths of a pixel off.
SQUARE = 5
TOLERANCE = 60  # of 255 levels, of the worst square; a mark that is missing gives more


def _element(inside: str, name: str = "f0-") -> str:
    made = inline_svg(f"{HEAD}{inside}</svg>", name, "what it shows", "wide")
    names = short_names([made])
    return renamed(str(made.element), names) + sheet([made], names)


def test_looks_become_classes_and_lines_that_look_alike_one_path() -> None:
    line = '<path d="M {0} 0.04999 L {0} 9.123456 L 20.5 9.1234" style="fill: none; stroke: #abc"/>'
    text = _element(f"<g id='x'>{line.format('1.25')}</g>{line.format(3)}")
    assert text == (
        '<svg class="picture wide" role="img" aria-label="what it shows" viewBox="0 0 90 60">'
        '<path class="p0" d="M1.2 0V9.1H20.5M3 0V9.1H20.5"/></svg>'
        ".picture{font-family:DejaVu Sans,Verdana,sans-serif;stroke-linejoin:round;"
        "stroke-linecap:butt}\n.p0{fill:none;stroke:#abc}\n"
    )


def test_marks_of_one_line_are_drawn_where_they_are_used() -> None:
    text = _element(
        '<defs><path id="tick" d="M 0 0 \nL 0 3.5 \n" style="stroke: #000"/></defs>'
        '<use xlink:href="#tick" x="10" y="20"/><use xlink:href="#tick" x="12.06" y="20"/>'
    )
    assert '<path class="p0" d="M10 20V23.5M12.1 20V23.5"/>' in text
    assert "<use" not in text


def test_names_are_those_of_the_picture() -> None:
    text = _element(
        '<defs><path id="m" d="M 0 0 L 1 1 L 2 0 z"/>'
        '<clipPath id="c"><rect x="0" y="0" width="9" height="9"/></clipPath></defs>'
        '<g clip-path="url(#c)"><use xlink:href="#m" x="1" y="1"/></g>',
        "f7-",
    )
    ids = {name for name in text.split('"') if name.startswith("f7-")}
    assert len(ids) == 2
    assert all(f'"#{name}"' in text or f'"url(#{name})"' in text for name in ids)


def test_texts_stay_texts_of_their_width() -> None:
    style = "font-size: 10px; font-family: 'DejaVu Sans'; text-anchor: end"
    place = 'x="5" y="6" transform="rotate(-0 5 6)"'
    text = _element(f'<text style="{style}" {place}>cuda_atomic &lt;f32&gt;</text>')
    assert ">cuda_atomic &lt;f32&gt;</text>" in text
    font = ImageFont.truetype(mpl.get_data_path() + "/fonts/ttf/DejaVuSans.ttf", 1000)
    width = float(re.search(r'textLength="([^"]*)"', text).group(1))
    assert width == pytest.approx(font.getlength("cuda_atomic <f32>") / 100, abs=0.2)
    assert "rotate" not in text
    assert "text-anchor:end" in text


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        "<foreignObject><b>x</b></foreignObject>",
        '<a xlink:href="https://example.invalid"><path d="M 0 0 L 1 1 z"/></a>',
        '<path d="M 0 0 L 1 1 z" onclick="alert(1)"/>',
        '<image xlink:href="https://example.invalid/x.png" width="1" height="1"/>',
        '<use xlink:href="other.svg#m"/>',
        '<path d="M 0 0 L 1 1 z" style="behavior: url(x)"/>',
        "<animate/>",
    ],
)
def test_what_no_drawn_picture_has_is_refused(inside: str) -> None:
    with pytest.raises(ValueError, match=r"element|attribute|reference|style"):
        _element(inside)


def test_nothing_breaks_out_of_label_or_text() -> None:
    hostile = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>"
    svg = f"{HEAD}<text style='font-size: 9px' x='1' y='2'></text></svg>"
    root = ET.fromstring(svg)
    root[0].text = hostile
    made = inline_svg(ET.tostring(root, encoding="unicode"), "f0-", hostile, "wide")
    assert "<script" not in made.element
    assert "<img" not in made.element
    assert str(made.element).count("<") == 4  # svg and text, and their ends


def test_hatching_of_dots_keeps_its_dots() -> None:
    def circle(x: float) -> str:
        curves = "".join(
            f"C {x + a} {a} {x + b} {b} {x + c} {c} " for a, b, c in [(0.4, 0.2, -0.4)] * 8
        )
        return f"M {x} 0.4 {curves}z "

    text = _element(
        '<defs><pattern id="h" patternUnits="userSpaceOnUse" x="0" y="0" width="72" height="72">'
        f'<path d="{circle(3)}{circle(9)}" style="fill: #123; stroke: #123; stroke-width: 1"/>'
        '</pattern></defs><rect x="0" y="0" width="9" height="9" style="fill: url(#h)"/>'
    )
    assert 'd="M3 0h0M9 0h0"' in text
    assert "stroke-linecap:round" in text
    assert "stroke-width:1.8" in text


def _shot(page: browser.Browser, path: Path, body: str, css: str, height: int) -> np.ndarray:
    path.write_text(
        "<!doctype html><meta charset=utf-8><style>* { margin: 0 } svg, img { display: block; "
        f"width: {WIDTH}px; height: auto }} {css}</style>{body}"
    )
    page.visit(path.as_uri(), WIDTH, 600)
    taken = page.send(
        "Page.captureScreenshot",
        format="png",
        captureBeyondViewport=True,
        clip={"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1},
    )
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("L"))
    rows = pixels.shape[0] // SQUARE
    squares = pixels[: rows * SQUARE, :].astype(float)
    return squares.reshape(rows, SQUARE, WIDTH // SQUARE, SQUARE).mean(axis=(1, 3))


def test_every_kind_looks_in_a_page_as_in_its_file(
    page: browser.Browser, tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    small_experiment["variants"] += ["cuda_c", {"variant": "cuda_c", "precision": "tf32"}]
    data = synthetic.result(small_experiment)
    synthetic.fail(data["cells"][3], "error")
    synthetic.write(tmp_path, data)
    (result,) = load_folder(tmp_path)
    for place, figure in enumerate(result.figures):
        if figure["kind"] in ("rows", "claims", "table"):  # these are tables of the page
            continue
        drawing = draw(result, figure)
        assert drawing.picture is not None
        settle(drawing.picture)
        file = tmp_path / f"{place}.svg"
        file.write_bytes(encode(drawing.picture, "svg"))
        made = inline_svg(picture_text(drawing.picture), f"f{place}-", figure["title"], "wide")
        names = short_names([made])
        assert len(made.element) < 0.5 * file.stat().st_size
        width, height = drawing.picture.get_size_inches()
        pixels = int(WIDTH * height / width) // SQUARE * SQUARE
        shots = [
            _shot(page, tmp_path / "page.html", body, sheet([made], names), pixels)
            for body in (f'<img src="{file.name}">', renamed(str(made.element), names))
        ]
        assert page.complaints == []
        worst = np.abs(shots[0] - shots[1]).max()
        assert worst < TOLERANCE, (figure["id"], worst)
        assert np.abs(shots[0] - shots[1]).mean() < 2, figure["id"]
        if figure["id"] == "one-panel":  # one mark less would be seen
            body = re.sub(r"<use[^>]*/>", "", renamed(str(made.element), names), count=1)
            spoiled = _shot(page, tmp_path / "page.html", body, sheet([made], names), pixels)
            assert np.abs(shots[0] - spoiled).max() > TOLERANCE
