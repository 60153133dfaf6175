# SPDX-License-Identifier: Apache-2.0
"""What must agree across files of the repository: versions, links, licence lines, variant table."""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime
from pathlib import Path

import pytest

from tests.support import ROOT, captured, kmeans_bench, needs_program

sys.path.insert(0, str(ROOT / "tools"))

import update_readme

SOURCE_SUFFIXES = {".cpp", ".h", ".inc", ".cu", ".cuh", ".py", ".sh", ".cmake"}


def repository_files() -> list[Path]:
    """Files that are, or are about to be, in the repository."""
    listing = captured(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    files = (ROOT / name for name in listing.stdout.split("\0") if name)
    return [file for file in files if file.is_file()]


def test_version_is_the_same_everywhere() -> None:
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == version
    assert re.search(r"^## (\d+\.\d+\.\d+)", changelog, re.MULTILINE)[1] == version


def test_every_source_file_begins_with_its_licence() -> None:
    without = []
    for file in repository_files():
        if file.suffix in SOURCE_SUFFIXES or file.name == "CMakeLists.txt":
            head = file.read_text(encoding="utf-8").splitlines()[:2]
            if not any("SPDX-License-Identifier: Apache-2.0" in line for line in head):
                without.append(str(file.relative_to(ROOT)))
    assert without == []


def test_no_line_of_cxx_is_longer_than_120_columns() -> None:
    """clang-format lays code out in 100, and leaves comments as they are."""
    long = []
    for file in repository_files():
        if file.suffix in {".cpp", ".h", ".cu", ".cuh"}:
            lines = file.read_text(encoding="utf-8").splitlines()
            long += [
                f"{file.relative_to(ROOT)}:{i}" for i, x in enumerate(lines, 1) if len(x) > 120
            ]
    assert long == []


def anchors(page: Path) -> set[str]:
    """Of the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def test_every_python_test_is_in_a_file_that_pytest_collects() -> None:
    """tools/test.sh fails when one of these files is not run."""
    elsewhere = []
    for file in repository_files():
        tests = file.suffix == ".py" and re.search(
            r"^(async )?def test_|^class Test", file.read_text(encoding="utf-8"), re.MULTILINE
        )
        name = file.relative_to(ROOT)
        if tests and not (name.parts[0] == "tests" and name.name.startswith("test_")):
            elsewhere.append(str(name))
    assert elsewhere == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in repository_files():
        if page.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            there = page.parent / name if name else page
            missing = anchor and there.suffix == ".md" and anchor not in anchors(there)
            if not there.exists() or missing:
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


# Of what a native engineer would not say.
ODD_WORDS = re.compile(
    r"\b(anew|beside|mended|tell|tells|thence|till|told|whence)\b", re.IGNORECASE
)


def test_pages_use_plain_words() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    odd = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        typed = re.sub(r"<!-- \w+:begin.*?:end -->", "", text, flags=re.DOTALL)
        odd += [f"{page.relative_to(ROOT)}: {word}" for word in ODD_WORDS.findall(typed)]
    assert odd == []


def test_requirements_are_pinned_and_hashed() -> None:
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    pinned = {
        match[1].lower(): block
        for block in re.split(r"\n(?=\S)", text)
        if (match := re.match(r"([\w.-]+)==[\w.]+ .*\\\n +--hash=sha256:", block))
    }
    for line in (ROOT / "requirements.in").read_text(encoding="utf-8").splitlines():
        name = re.match(r"[\w.-]+", line)
        if name:
            assert name[0].lower() in pinned, f"{name[0]} is not pinned with hashes"


LISTING = {
    "variants": [
        {"name": "reference", "backend": "cpu", "exact": True},
        {"name": "cpu_naive", "backend": "cpu", "exact": False},
    ],
    "missing_backends": [{"name": "eigen", "reason": "not found", "variants": ["eigen_gemm"]}],
}


def test_variant_table_is_rebuilt_but_keeps_rows_of_missing_backends() -> None:
    old_rows = "| eigen | - | [`eigen_gemm`](y) |\n| gone | - | [`gone_a`](z) |\n"
    readme = f"before\n{update_readme.BEGIN}\n{old_rows}{update_readme.END}\n| eigen | x | y |\n"
    table = update_readme.render_table(LISTING, readme)
    assert table.splitlines()[2:] == [
        "| cpu | [`reference`](../implementations/cpu/reference.cpp) "
        "| [`cpu_naive`](../implementations/cpu/cpu_naive.cpp) |",
        "| eigen | - | [`eigen_gemm`](y) |",
    ]
    updated = update_readme.replace_table(readme, table)
    assert updated.startswith("before\n")
    assert updated.endswith("| eigen | x | y |\n")


@needs_program
def test_variant_table_of_the_docs_is_what_the_program_lists() -> None:
    listing = kmeans_bench("list", "--json")
    readme = (ROOT / update_readme.VARIANTS).read_text(encoding="utf-8")
    table = update_readme.render_table(json.loads(listing.stdout), readme)
    assert update_readme.replace_table(readme, table) == readme, "run tools/update_readme.py"


def test_make_help_says_how_long_measuring_takes() -> None:
    said = captured(["make", "help"], cwd=ROOT, check=True)
    least, most = map(int, re.search(r"(\d+) to (\d+) minutes", said.stdout).groups())
    took = {}
    for folder in (ROOT / "results").glob("reference-*"):
        results = [json.loads(file.read_text()) for file in folder.glob("*.json")]
        contexts = [result["context"] for result in results if result["scale"] == "quick"]
        spans = [
            datetime.fromisoformat(context["finished"]) - datetime.fromisoformat(context["started"])
            for context in contexts
        ]
        took[folder.name] = sum(span.total_seconds() for span in spans) / 60
    assert any(least <= minutes <= most for minutes in took.values()), took
