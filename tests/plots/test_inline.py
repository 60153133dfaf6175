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

from plots.inline import inline_svg, picture_text
from plots.load import load_folder
from plots.render import draw, encode, settle

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
HEAD += 'viewBox="0 0 90 60" width="90pt" height="60pt">'
WIDTH = 700  # pixels
# Pictures are compared in squares of so many pixels, since texts may be some tenths of a pixel off.
SQUARE = 5
TOLERANCE = 60  # of 255 levels, of the worst square; a mark that is missing gives more


def _element(inside: str, name: str = "f0-") -> str:
    return str(inline_svg(f"{HEAD}{inside}</svg>", name, "what it shows", "wide"))


def test_a_style_becomes_attributes_and_coordinates_are_short() -> None:
    text = _element('<g id="x"><path d="M 1.23456 0.004 \nL 9 9.5 " style="fill: none"/></g>')
    assert text == (
        '<svg class="picture wide" role="img" aria-label="what it shows" viewBox="0 0 90 60" '
        'font-family="DejaVu Sans,Verdana,sans-serif" stroke-linejoin="round">'
        '<path d="M1.23 0.004L9 9.5" fill="none"/></svg>'
    ).replace("0.004", "0")


def test_lines_along_an_axis_have_one_number() -> None:
    box = "M 1.001 2 L 9 2 L 9 7.5 L 1 7.5 z M 0 0 L 1 1 C 3 4 5 6 7 8 L 7 9 Q 1 1 2 2 L 3 2"
    text = _element(f'<path d="{box}"/><path d="M 3 1 L 1 3"/>')
    assert '<path d="M1 2H9V7.5H1zM0 0L1 1C3 4 5 6 7 8V9Q1 1 2 2H3"/>' in text
    assert '<path d="M3 1L1 3"/>' in text


def test_names_are_those_of_the_picture() -> None:
    text = _element(
        '<defs><path id="m" d="M 0 0 L 1 1 L 2 0 z"/>'
        '<clipPath id="c"><rect x="0" y="0" width="9" height="9"/></clipPath></defs>'
        '<g clip-path="url(#c)"><use xlink:href="#m" x="1" y="1"/></g>',
        "f7-",
    )
    names = set(re.findall(r' id="(f7-\d)"', text))
    assert len(names) == 2
    assert all(f'"#{name}"' in text or f'"url(#{name})"' in text for name in names)


def test_texts_stay_texts_of_their_width() -> None:
    style = "font-size: 10px; font-family: 'DejaVu Sans'; text-anchor: end"
    place = 'x="5" y="6" transform="rotate(-0 5 6)"'
    text = _element(f'<text style="{style}" {place}>cuda_atomic &lt;f32&gt;</text>')
    assert ">cuda_atomic &lt;f32&gt;</text>" in text
    font = ImageFont.truetype(mpl.get_data_path() + "/fonts/ttf/DejaVuSans.ttf", 1000)
    width = float(re.search(r'textLength="([^"]*)"', text).group(1))
    assert width == pytest.approx(font.getlength("cuda_atomic <f32>") / 100, abs=0.2)
    assert "rotate" not in text


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
    with pytest.raises(ValueError, match=r"element|attribute|reference"):
        _element(inside)


def test_nothing_breaks_out_of_label_or_text() -> None:
    hostile = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>"
    root = ET.fromstring(f"{HEAD}<text style='font-size: 9px' x='1' y='2'></text></svg>")
    root[0].text = hostile
    made = inline_svg(ET.tostring(root, encoding="unicode"), "f0-", hostile, "wide")
    assert "<script" not in made
    assert "<img" not in made
    assert made.count("<") == 4  # svg and text, and their ends


def _shot(page: browser.Browser, path: Path, body: str, height: int) -> np.ndarray:
    """Mean levels of a page's squares."""
    path.write_text(
        "<!doctype html><meta charset=utf-8><style>* { margin: 0 } svg, img { display: block; "
        f"width: {WIDTH}px; height: auto }}</style>{body}"
    )
    page.visit(path.as_uri(), WIDTH, 600)
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
    taken = page.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("L"))
    squares = (height // SQUARE, SQUARE, WIDTH // SQUARE, SQUARE)
    return pixels.astype(float).reshape(squares).mean(axis=(1, 3))


def test_every_kind_looks_in_a_page_as_in_its_file(
    page: browser.Browser, tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    small_experiment["variants"] += ["cuda_c", {"variant": "cuda_c", "precision": "tf32"}]
    data = synthetic.result(small_experiment)
    synthetic.fail(data["cells"][3], "error")
    synthetic.write(tmp_path, data)
    (result,) = load_folder(tmp_path)
    file, html = tmp_path / "picture.svg", tmp_path / "page.html"
    for figure in result.figures:
        if figure["kind"] in ("rows", "claims", "table"):  # these are tables of the page
            continue
        picture = draw(result, figure).picture
        settle(picture)
        file.write_bytes(encode(picture, "svg"))
        made = str(inline_svg(picture_text(picture), "f0-", figure["title"], "wide"))
        assert len(made) < 0.7 * file.stat().st_size
        width, height = picture.get_size_inches()
        pixels = int(WIDTH * height / width) // SQUARE * SQUARE
        outside, inside = (
            _shot(page, html, body, pixels) for body in (f'<img src="{file.name}">', made)
        )
        assert page.complaints == []
        worst = np.abs(outside - inside).max()
        assert worst < TOLERANCE, (figure["id"], worst)
        assert np.abs(outside - inside).mean() < 2, figure["id"]
        if figure["id"] == "one-panel":  # one mark less would be seen
            spoiled = _shot(page, html, re.sub(r"<use[^>]* fill=[^>]*>", "", made, count=1), pixels)
            assert np.abs(outside - spoiled).max() > TOLERANCE
