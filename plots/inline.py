# SPDX-License-Identifier: Apache-2.0
"""A drawn figure as a piece of an HTML page: the same picture as its SVG file, at a quarter of its
size, with texts that can be searched and copied.

Coordinates are rounded to a tenth of a point (720 to the inch), those of marks and patterns to a
hundredth; groups without meaning are dissolved, and what looks alike shares a class. Texts keep the
width that they were laid out with, whatever font a reader has. No `style` attribute is left, so
that a page's policy may refuse those, and nothing but shapes and texts gets through.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

# Metrics of the second are those of the first; where neither is there, `textLength` sets the width.
FONTS = "DejaVu Sans,Verdana,sans-serif"
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_SHAPES = {"path", "use", "rect", "image", "text"}
_HOLDERS = {"svg", "g", "defs", "clipPath", "pattern"}
_SMALL = {"defs", "clipPath", "pattern"}  # hold what is drawn elsewhere, in places of their own
_GEOMETRY = {
    *("id", "d", "x", "y", "width", "height", "transform", "href", "patternUnits"),
    *("preserveAspectRatio", "viewBox"),
}
_LOOKS = {
    *("fill", "fill-opacity", "fill-rule", "stroke", "stroke-width", "stroke-dasharray"),
    *("stroke-dashoffset", "stroke-linecap", "stroke-linejoin", "stroke-opacity", "opacity"),
    *("stroke-miterlimit", "clip-path", "font-size", "font-family", "font-weight", "font-style"),
    *("text-anchor", "image-rendering"),
}
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_FRAGMENT = re.compile(r"url\(#([^)]*)\)")
_DASH = re.compile(r"M (\S+) (\S+)\s+L (\S+) (\S+)\s*")
_CLASS = 16  # hexadecimal digits
_LOOK = re.compile(rf'(?<=class=")look-[0-9a-f]{{{_CLASS}}}')
_DATA_IMAGE = "data:image/png;base64,"
_WIDE, _SMALL_WIDTH = 8, 5.2  # inches
_LINE_MARGIN, _MARK_MARGIN = 0.1, 6.0  # points; the latter is half of the largest mark
_PLACES, _FINE = 1, 2  # decimals
_SHORT = 5  # letters; shorter texts may be as wide as they like


def _rounded(text: str, places: int = _PLACES) -> str:
    def short(match: re.Match[str]) -> str:
        number = f"{float(match.group()):.{places}f}"
        number = number.rstrip("0").rstrip(".")
        return "0" if number == "-0" else number

    return _NUMBER.sub(short, text)


def _path(text: str, places: int = _PLACES) -> str:
    """Absolute coordinates without needless blanks; straight lines along an axis as such."""
    parts: list[str] = []
    place: tuple[str, str] | None = None
    last = ""
    tokens = re.findall(r"[A-Za-z]|[-\d.e]+", text)
    index = 0
    while index < len(tokens):
        command = tokens[index]
        size = {"M": 2, "L": 2, "Q": 4, "C": 6}.get(command)
        if size is None:
            if command not in "zZ":
                raise ValueError(f"a path with the command {command!r}")
            parts.append("z")
            place, last = None, "z"
            index += 1
            continue
        points = [
            _rounded(token if token != "-0" else "0")
            for token in tokens[index + 1 : index + 1 + size]
        ]
        index += 1 + size
        x, y = points[-2:]
        if command == "L" and place is not None and (x == place[0] or y == place[1]):
            command, points = ("V", [y]) if x == place[0] else ("H", [x])
        letter = "" if command == last and command not in "HV" else command
        if letter == "" and parts:
            letter = "" if points[0].startswith("-") else " "
        parts.append(letter + " ".join(points).replace(" -", "-"))
        place, last = (x, y), command
    return "".join(parts)


def _dots(text: str) -> tuple[list[tuple[float, float]], float] | None:
    """Centres and radius of a path of several equal circles, which dotted hatching is made of."""
    centres, sizes = [], set()
    for circle in text.strip().rstrip("zZ").split("z"):
        if re.sub(r"[^A-Z]", "", circle) != "MCCCCCCCC":
            return None
        numbers = [float(token) for token in re.findall(r"[-\d.e]+", circle)]
        xs, ys = numbers[0::2], numbers[1::2]
        centres.append(((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2))
        sizes |= {round((max(xs) - min(xs)) / 2, 2), round((max(ys) - min(ys)) / 2, 2)}
    return (centres, sizes.pop()) if len(sizes) == 1 and len(centres) > 1 else None


@cache
def _width(text: str, size: float, bold: bool) -> float:
    """Of a text in the font that the layout was made with, in points."""
    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0])


def _looks(element: ET.Element) -> dict[str, str]:
    """Style and presentation attributes as one, with numbers rounded."""
    found = {name: value for name, value in element.attrib.items() if name in _LOOKS}
    for rule in element.get("style", "").split(";"):
        name, _, value = (part.strip() for part in rule.partition(":"))
        if not name:
            continue
        if name not in _LOOKS:
            raise ValueError(f"a style with {name!r}")
        found[name] = value
    if found.get("font-family", "").replace("'", "") == "DejaVu Sans":
        del found["font-family"]  # that of the whole picture
    return {name: _rounded(value, 3) for name, value in found.items()}


class _Writer:
    """Writes an element with what is below it; names are those of one picture in a page of many."""

    def __init__(self, name: str) -> None:
        self.rules: dict[str, str] = {}  # by class
        self._name = name
        self._ids: dict[str, str] = {}
        self.boxes: dict[str, tuple[float, float, float, float]] = {}  # of clipping, by name
        self._fine = 0  # how many elements of _SMALL are open
        # Marks that are one line (ticks, ends of error bars), by name: drawn where they are used.
        self._dashes: dict[str, tuple[list[float], dict[str, str]]] = {}

    def _is_inside(self, element: ET.Element, clip: str) -> bool:
        """Would clipping cut nothing off? Asked of straight lines, and of groups of marks."""
        box = self.boxes.get(clip.removeprefix("url(#").removesuffix(")"))
        if box is None:
            return False
        tag, margin = element.tag.removeprefix(_SVG), _LINE_MARGIN
        if tag == "path" and not re.search("[CQ]", element.get("d", "")):
            numbers = [float(x) for x in re.findall(r"-?[\d.]+", element.get("d", ""))]
        elif tag == "g" and all(child.tag == _SVG + "use" for child in element):
            marks = [(child.get("x", "0"), child.get("y", "0")) for child in element]
            numbers, margin = [float(x) for mark in marks for x in mark], -_MARK_MARGIN
        else:
            return False
        left, top, right, bottom = box
        return all(left - margin <= x <= right + margin for x in numbers[0::2]) and all(
            top - margin <= y <= bottom + margin for y in numbers[1::2]
        )

    def _class_of(self, looks: dict[str, str]) -> str:
        """The class of a way to look: the same in every picture, so that a page has it once."""
        rule = ";".join(f"{name}:{value}" for name, value in sorted(looks.items()))
        name = "look-" + hashlib.sha256(rule.encode()).hexdigest()[:_CLASS]
        self.rules[name] = rule
        return name

    def _id(self, name: str) -> str:
        return self._ids.setdefault(name, f"{self._name}{len(self._ids)}")

    def _attributes(self, element: ET.Element, tag: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, value in element.attrib.items():
            name = key.removeprefix(_XLINK)
            if name == "style" or name in _LOOKS or (name == "id" and tag in ("g", "text")):
                continue
            if name not in _GEOMETRY:
                raise ValueError(f"an attribute {name!r} of {tag}")
            if name == "href":
                if not value.startswith(("#", _DATA_IMAGE)):
                    raise ValueError("a reference to elsewhere")
                found[name] = "#" + self._id(value[1:]) if value[0] == "#" else value
            elif name == "id":
                found[name] = self._id(value)
            elif name == "d":
                found[name] = _path(value, _FINE if self._fine else _PLACES)
            elif name == "transform":
                found[name] = _rounded(value, 5)
            else:
                found[name] = _rounded(value, _PLACES if tag in ("use", "text") else _FINE)
        return found

    def _text(self, element: ET.Element, looks: dict[str, str], own: dict[str, str]) -> str:
        text = "".join(element.itertext())
        rotation = re.fullmatch(r"rotate\((\S+) \S+ \S+\)", own.get("transform", ""))
        if rotation and float(rotation.group(1)) == 0:
            del own["transform"]
        if len(text) >= _SHORT:
            size = float(looks["font-size"].removesuffix("px"))
            bold = looks.get("font-weight", "normal") not in ("normal", "400")
            own["textLength"] = f"{_width(text, size, bold):.1f}"
        return text

    def write(self, element: ET.Element) -> list[_Piece]:
        tag = element.tag.removeprefix(_SVG)
        if tag in ("metadata", "style"):
            return []
        if tag not in _SHAPES and tag not in _HOLDERS:
            raise ValueError(f"an element {tag!r}")
        looks = _looks(element)
        dash = _DASH.fullmatch(element.get("d", ""))
        if tag == "path" and dash and element.get("id"):
            self._dashes[element.attrib["id"]] = ([float(x) for x in dash.groups()], looks)
            return []
        if tag == "use" and (dash := self._dashes.get(element.get(_XLINK + "href", "")[1:])):
            return [_dashed(element, looks, *dash)]
        if tag == "path" and self._fine and (dots := _dots(element.get("d", ""))):
            return [_dotted(looks, *dots)]
        own = self._attributes(element, tag)
        clip = looks.pop("clip-path", None)
        if clip and not self._is_inside(element, clip):
            own["clip-path"] = _FRAGMENT.sub(lambda m: f"url(#{self._id(m.group(1))})", clip)
        # Patterns are named within the picture, so what they fill is no look of every picture.
        if "url(" in looks.get("fill", ""):
            own["fill"] = _FRAGMENT.sub(
                lambda m: f"url(#{self._id(m.group(1))})", looks.pop("fill")
            )
        if tag in _SHAPES:
            text = self._text(element, looks, own) if tag == "text" else ""
            if (tag == "text" and not text.strip()) or (tag == "path" and not own.get("d")):
                return []  # nothing to see
            return [_Piece(tag, looks, own, str(escape(text)))]
        self._fine += tag in _SMALL
        pieces = [piece for child in element for piece in self.write(child)]
        self._fine -= tag in _SMALL
        if not pieces or (tag == "g" and not own and not looks):
            return self._in_order(element, pieces)
        lines = _merged(pieces)
        if set(own) == {"clip-path"} and not looks and len(lines) == 1 and lines[0].is_line:
            return [replace(lines[0], own=lines[0].own | own)]
        return [_Piece(tag, looks, own, self.text(pieces))]

    @staticmethod
    def _in_order(element: ET.Element, pieces: list[_Piece]) -> list[_Piece]:
        """Of an axis: grid, ticks and names apart, which do not lie on one another."""
        if not element.get("id", "").startswith("matplotlib.axis"):
            return pieces
        order = {tag: place for place, tag in enumerate(("defs", "path", "use", "g", "text"))}
        return sorted(pieces, key=lambda piece: order.get(piece.tag, len(order)))

    def text(self, pieces: list[_Piece]) -> str:
        """Runs of pieces that look alike share a group, runs of lines are one path."""
        parts: list[str] = []
        for looks, run in itertools.groupby(_merged(pieces), key=lambda piece: piece.looks):
            inside = list(run)
            shared = self._class_of(looks) if looks else ""
            if shared and len(inside) == 1:
                parts.append(inside[0].text({"class": shared}))
            elif shared and "opacity" not in looks:
                parts.append(f'<g class="{shared}">{"".join(p.text({}) for p in inside)}</g>')
            else:
                parts += [p.text({"class": shared} if shared else {}) for p in inside]
        return "".join(parts)


@dataclass(frozen=True)
class _Piece:
    tag: str
    looks: dict[str, str]
    own: dict[str, str]
    inside: str

    def text(self, more: dict[str, str]) -> str:
        return _tag(self.tag, more | self.own, self.inside)

    @property
    def is_line(self) -> bool:
        """A path whose overlaps with its like do not show."""
        return (
            self.tag == "path"
            and self.looks.get("fill") == "none"
            and not {"opacity", "stroke-opacity"} & set(self.looks)
            and set(self.own) <= {"d", "clip-path"}
        )


def _dashed(
    use: ET.Element, looks: dict[str, str], ends: list[float], own_looks: dict[str, str]
) -> _Piece:
    """The line of a mark where it is used."""
    x, y = float(use.get("x", "0")), float(use.get("y", "0"))
    x0, y0, x1, y1 = ends
    path = _path(f"M {x + x0:.6f} {y + y0:.6f} L {x + x1:.6f} {y + y1:.6f}")
    return _Piece("path", looks | own_looks | {"fill": "none"}, {"d": path}, "")


def _dotted(looks: dict[str, str], centres: list[tuple[float, float]], radius: float) -> _Piece:
    """Filled circles as the round ends of lines without length."""
    wide = 2 * radius + float(looks.get("stroke-width", "1"))
    path = "".join(f"M{_rounded(f'{x:.6f} {y:.6f}', _FINE)}h0" for x, y in centres)
    line = {"fill": "none", "stroke-width": f"{wide:g}", "stroke-linecap": "round"}
    return _Piece("path", looks | line, {"d": path}, "")


def _merged(pieces: list[_Piece]) -> list[_Piece]:
    done: list[_Piece] = []
    for piece in pieces:
        last = done[-1] if done else None
        if (
            last is not None
            and last.is_line
            and piece.is_line
            and last.looks == piece.looks
            and last.own.get("clip-path") == piece.own.get("clip-path")
        ):
            done[-1] = replace(last, own=last.own | {"d": last.own["d"] + piece.own["d"]})
        else:
            done.append(piece)
    return done


def _tag(tag: str, attributes: dict[str, str], inside: str) -> str:
    text = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return f"<{tag}{text}>{inside}</{tag}>" if inside else f"<{tag}{text}/>"


@dataclass(frozen=True)
class Inline:
    """A picture as an element of a page, and the rules of the classes that it uses."""

    element: Markup
    rules: dict[str, str]


def inline_svg(svg: str, name: str, label: str, kind: str) -> Inline:
    """The picture as an element of a page; raises ValueError for what no picture of ours has.

    `name` begins its names, and is unique in the page; `label` says what it shows to those who do
    not see it; `kind` is its class.
    """
    root = ET.fromstring(svg)
    writer = _Writer(name)
    for clip in root.iter(_SVG + "clipPath"):
        for rect in clip.iter(_SVG + "rect"):
            x, y, width, height = (float(rect.get(k, "0")) for k in ("x", "y", "width", "height"))
            writer.boxes[clip.get("id", "")] = (x, y, x + width, y + height)
    head = {
        "class": f"picture {kind}",
        "role": "img",
        "aria-label": label,
        "viewBox": _rounded(root.attrib["viewBox"], _FINE),
    }
    pieces = [piece for child in root for piece in writer.write(child)]
    return Inline(Markup(_tag("svg", head, writer.text(pieces))), writer.rules)


def short_names(pictures: Iterable[Inline]) -> dict[str, str]:
    """Of the classes of a page's pictures; the same pictures give the same names."""
    found = sorted({name for picture in pictures for name in picture.rules})
    return {name: f"p{place}" for place, name in enumerate(found)}


def sheet(pictures: Iterable[Inline], names: dict[str, str]) -> str:
    """The rules of all pictures of a page, each once."""
    rules = {name: rule for picture in pictures for name, rule in picture.rules.items()}
    if not rules:
        return ""
    head = f".picture{{font-family:{FONTS};stroke-linejoin:round;stroke-linecap:butt}}\n"
    return head + "".join(f".{names[name]}{{{rule}}}\n" for name, rule in sorted(rules.items()))


def renamed(page: str, names: dict[str, str]) -> str:
    """A page with short names for the classes of its pictures."""
    return _LOOK.sub(lambda match: names.get(match.group(), match.group()), page)


def kind_of(picture: Figure) -> str:
    """The class that tells how much of a page's width a picture takes."""
    width = picture.get_size_inches()[0]
    return "wide" if width > _WIDE else "narrow" if width > _SMALL_WIDTH else "small"


def picture_text(picture: Figure) -> str:
    """The picture as SVG whose texts are texts."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        picture.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
