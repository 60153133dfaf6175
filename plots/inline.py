# SPDX-License-Identifier: Apache-2.0
"""A drawn figure as a piece of an HTML page: matplotlib's SVG with texts that can be searched and
copied, names that are the picture's own, and attributes in place of `style`, which a page's policy
refuses. Nothing but shapes and texts gets through."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from functools import cache

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

# Metrics of the second are those of the first; where neither is there, `textLength` sets the width.
FONTS = "DejaVu Sans,Verdana,sans-serif"
_SVG, _HREF = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_LEFT_OUT = {_SVG + "metadata", _SVG + "style"}
_TAGS = {
    *("svg", "g", "defs", "clipPath", "pattern"),
    *("path", "use", "rect", "image", "text"),
}
_ATTRIBUTES = {
    *("id", "d", "x", "y", "width", "height", "transform", "href", "patternUnits", "viewBox"),
    *("fill", "fill-opacity", "fill-rule", "stroke", "stroke-width", "stroke-dasharray"),
    *("stroke-dashoffset", "stroke-linecap", "stroke-linejoin", "stroke-opacity", "opacity"),
    *("stroke-miterlimit", "clip-path", "font-size", "font-family", "font-weight", "font-style"),
    *("text-anchor", "image-rendering", "preserveAspectRatio"),
}
_INHERITED = {key for key in _ATTRIBUTES if key.startswith(("fill", "stroke"))}
_URL = re.compile(r"url\(#([^)]*)\)")
_NUMBER = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
_DATA_IMAGE = "data:image/png;base64,"
_WIDE, _SMALL_WIDTH = 8, 5.2  # inches
_SHORT = 5  # letters; shorter texts may be as wide as they like


def _rounded(text: str) -> str:
    """A hundredth of a point, 72 to the inch, is finer than any screen."""

    def short(match: re.Match[str]) -> str:
        number = f"{float(match.group()):.2f}".rstrip("0").rstrip(".")
        return "0" if number == "-0" else number

    return _NUMBER.sub(short, " ".join(text.split()))


def _path(data: str) -> str:
    """Without blanks next to letters, which say nothing; lines along an axis by one number."""
    parts, x, y = [], "", ""
    for letter, text in re.findall(r"([MLCQz]) ?([^MLCQz]*)", data):
        numbers = text.split()
        if letter == "L" and len(numbers) == 2 and x in numbers[:1]:
            parts.append(f"V{numbers[1]}")
        elif letter == "L" and len(numbers) == 2 and y in numbers[1:]:
            parts.append(f"H{numbers[0]}")
        else:
            parts.append(letter + " ".join(numbers))
        x, y = numbers[-2:] or ("", "")
    return "".join(parts)


@cache
def _text_width(text: str, size: float, bold: bool) -> float:
    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0])


def _width(text: ET.Element) -> float:
    """Of a text in the font that the layout was made with, in points."""
    size = float(text.get("font-size", "10px").removesuffix("px"))
    bold = text.get("font-weight", "normal") not in ("normal", "400")
    return _text_width(text.text or "", size, bold)


class _Page:
    """What the elements of one picture have in common: names that are unique in the page."""

    def __init__(self, svg: str, name: str) -> None:
        self._name = name
        self._used = set(re.findall(r'(?:href="|url\()#([^")]*)', svg))
        self._ids: dict[str, str] = {}
        self._said: dict[str, set[str]] = {}  # of shapes that are used by name

    def _id(self, name: str) -> str:
        return self._ids.setdefault(name, f"{self._name}{len(self._ids)}")

    def _attributes(self, element: ET.Element, tag: str) -> dict[str, str]:
        """Those of the page, the rules of `style` among them."""
        found = {"href" if key == _HREF else key: value for key, value in element.attrib.items()}
        for rule in filter(str.strip, found.pop("style", "").split(";")):
            key, _, value = (part.strip() for part in rule.partition(":"))
            found[key] = value
        if found.get("id") not in self._used:
            found.pop("id", None)
        for key, value in found.items():
            if key not in _ATTRIBUTES:
                raise ValueError(f"an attribute {key!r} of {tag}")
            if key == "id":
                found[key] = self._id(value)
            elif key == "href" and value.startswith("#"):
                found[key] = "#" + self._id(value[1:])
            elif key != "href":
                found[key] = _rounded(_URL.sub(lambda m: f"url(#{self._id(m.group(1))})", value))
            elif not value.startswith(_DATA_IMAGE):
                raise ValueError("a reference to elsewhere")
        if "d" in found:
            found["d"] = _path(found["d"])
        if tag == "use":
            # What the shape says itself it does not take from where it is used.
            said = self._said.get(found.get("href", ""), set())
            found = {key: value for key, value in found.items() if key not in said}
        elif "id" in found:
            self._said["#" + found["id"]] = found.keys() & _INHERITED
        if found.get("font-family", "").replace("'", "") == "DejaVu Sans":
            del found["font-family"]  # that of the whole picture
        if found.get("text-anchor") == "start":
            del found["text-anchor"]
        if found.get("transform", "").startswith("rotate(-0 "):
            del found["transform"]
        return found

    def adopt(self, element: ET.Element) -> list[ET.Element]:
        """The element with all below it as one of the page; of a group that only names, its
        children."""
        if element.tag in _LEFT_OUT:
            return []
        tag = element.tag.removeprefix(_SVG)
        if tag not in _TAGS:
            raise ValueError(f"an element {tag!r}")
        own = ET.Element(tag, self._attributes(element, tag))
        if tag == "text":
            own.text = "".join(element.itertext())
            if len(own.text) >= _SHORT:
                own.set("textLength", f"{_width(own):.1f}")
        own.extend([inner for child in element for inner in self.adopt(child)])
        if tag == "defs" and not len(own):
            return []
        return list(own) if tag == "g" and not own.attrib else [own]


def inline_svg(svg: str, name: str, label: str, kind: str) -> Markup:
    """The picture as an element of a page; raises ValueError for what no picture of ours has.

    `name` begins its names, and is unique in the page; `label` says what it shows to those who do
    not see it; `kind` is its class.
    """
    page, root = _Page(svg, name), ET.fromstring(svg)
    own = ET.Element("svg", {"class": f"picture {kind}", "role": "img", "aria-label": label})
    own.set("viewBox", root.attrib["viewBox"])
    own.set("font-family", FONTS)
    own.set("stroke-linejoin", "round")  # as matplotlib has it in a style sheet
    own.extend([inner for child in root for inner in page.adopt(child)])
    return Markup(ET.tostring(own, encoding="unicode").replace(" />", "/>"))


def kind_of(picture: Figure) -> str:
    """The class that says how much of a page's width a picture takes."""
    width = picture.get_size_inches()[0]
    return "wide" if width > _WIDE else "narrow" if width > _SMALL_WIDTH else "small"


def picture_text(picture: Figure) -> str:
    """The picture as SVG whose texts are texts."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        picture.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
