# SPDX-License-Identifier: Apache-2.0
"""The rooms of the harness: every include follows an arrow, and the picture shows the arrows."""

import re
from collections import defaultdict

import pytest

from tests.support import ROOT

CONTRACT = "harness"  # the headers on top of harness/
INCLUDE = re.compile(r'^#include "((?:harness|datasets|implementations)/[^"]+)"', re.MULTILINE)

# What is not a room, but may use some: variants the contract, messages and GPUs; studies whatever
# answers questions about variants.
OTHERS = {
    "datasets": {"support"},
    "implementations": {"machine"},
    "experiments": {"verify", "record"},
}


def arrows_of_the_build():
    """Room -> rooms that its library links, as harness/CMakeLists.txt has it."""
    text = (ROOT / "harness" / "CMakeLists.txt").read_text()
    arrows = {}
    for name, arguments in re.findall(r"^kmeans_room\((\w+)([^)]*)\)", text, re.MULTILINE):
        arrows[name] = set(re.findall(r"kmeans_(\w+)_room", arguments))
        if "kmeans_datasets" in arguments:
            arrows[name].add("datasets")
    return arrows


def reached(start, arrows):
    """Everything that `start` may use: what its arrows lead to, and the contract."""
    found, left = {CONTRACT}, [start]
    while left:
        for room in arrows.get(left.pop(), ()):
            if room not in found:
                found.add(room)
                left.append(room)
    return found


def room_of(path):
    parts = path.split("/")
    if parts[0] != "harness":
        return parts[0]
    return parts[1] if len(parts) > 2 else CONTRACT


def sources():
    for folder in ("harness", "datasets", "implementations", "experiments/studies"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in {".h", ".cpp", ".cu", ".cuh", ".inc"}:
                yield file.relative_to(ROOT).as_posix(), file.read_text()


@pytest.fixture(scope="module")
def arrows():
    return arrows_of_the_build() | OTHERS


def test_every_folder_of_the_harness_is_a_room_of_the_build(arrows):
    folders = {
        file.name for file in (ROOT / "harness").iterdir() if file.is_dir() and any(file.iterdir())
    }
    assert folders == set(arrows) - set(OTHERS)


def test_no_room_uses_itself_through_others(arrows):
    for room in arrows:
        beyond = set().union(*(reached(used, arrows) for used in arrows[room]), set())
        assert room not in beyond, f"{room} is used by what it uses"


def test_every_include_follows_an_arrow(arrows):
    broken = []
    for path, text in sources():
        own = room_of(path)
        broken += [
            f"{path} includes {header}: {own} may use {', '.join(sorted(reached(own, arrows)))}"
            for header in INCLUDE.findall(text)
            if room_of(header) not in reached(own, arrows) | {own}
        ]
    assert not broken, "\n".join(broken)


def test_sources_include_their_own_header_first():
    """So that it is compiled with nothing before it (cmake/KmeansHeaders.cmake counts on it)."""
    first = re.compile(r"^#include (.+)$", re.MULTILINE)
    files = dict(sources())
    pairs = {path: path.removesuffix(".cpp") + ".h" for path in files if path.endswith(".cpp")}
    pairs = {path: header for path, header in pairs.items() if header in files}
    assert len(pairs) > 50
    for path, header in pairs.items():
        assert first.search(files[path])[1] == f'"{header}"', path


def test_the_contract_stands_on_its_own():
    for name in ("variant.h", "study.h", "exact_step.h"):
        assert not INCLUDE.findall((ROOT / "harness" / name).read_text()), name


def test_the_picture_shows_the_arrows_of_the_build(arrows):
    text = (ROOT / "docs" / "design.md").read_text()
    picture = re.search(r"```mermaid\n(.*?)```", text, re.DOTALL)
    assert picture, "docs/design.md has no picture of the rooms"
    drawn = defaultdict(set)
    for source, target in re.findall(r"^\s*(\w+) --> (\w+)", picture[1], re.MULTILINE):
        drawn[source].add(target)
    assert dict(drawn) == {room: used for room, used in arrows.items() if used}
