# SPDX-License-Identifier: Apache-2.0
"""The report holds everything, loads nothing and escapes what it did not write itself."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import synthetic

from plots.load import load_folder
from plots.report import render

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;"


class _Page(HTMLParser):
    """Elements with their attributes, and the text outside of script and style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._raw = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._raw += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._raw -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._raw:
            self.text += data


@pytest.fixture
def data(small_experiment: dict[str, Any]) -> dict[str, Any]:
    return synthetic.result(small_experiment)


def _render(folder: Path, *results: dict[str, Any]) -> str:
    for data in results:
        synthetic.write(folder, data)
    return render(load_folder(folder))


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path, data: dict[str, Any]) -> None:
    page = _Page(_render(tmp_path, data))
    for tag, attributes in page.elements:
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            value = attributes.get(name) or ""
            assert value == "" or value.startswith(("data:image/", "#")), (tag, name, value[:60])
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        assert "style" not in attributes  # the policy below would refuse it
        assert not [name for name in attributes if name.startswith("on")]
    css = next(re.finditer(r"<style>(.*?)</style>", _render(tmp_path, data), re.S)).group(1)
    assert "url(" not in css
    assert "@import" not in css


def test_the_policy_admits_the_inline_code_alone(tmp_path: Path, data: dict[str, Any]) -> None:
    page = _Page(_render(tmp_path, data))
    policy = next(
        a["content"]
        for tag, a in page.elements
        if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert policy.count("'sha256-") == 2
    assert sum(tag == "script" for tag, _ in page.elements) == 1


def test_hostile_texts_stay_texts(tmp_path: Path, data: dict[str, Any]) -> None:
    spec, context = data["spec"], data["context"]
    context["machine"]["cpu"]["model"] = HOSTILE
    context["environment"]["warnings"] = [HOSTILE]
    context["command_line"] = HOSTILE
    spec["title"] = spec["description"] = HOSTILE
    spec["published"][0]["label"] = spec["published"][0]["machine"] = HOSTILE
    spec["figures"][0]["title"] = HOSTILE
    spec["figures"][1]["caption"] = HOSTILE
    synthetic.fail(data["cells"][7], "error", HOSTILE)
    data["cells"][0]["suspect"] = [HOSTILE]
    text = _render(tmp_path, data)
    page = _Page(text)
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert text.count("</script>") == 1
    assert not [a for tag, a in page.elements if tag == "img" and a.get("src") == "x"]
    assert page.text.count(HOSTILE) >= 6


def test_every_failed_cell_is_listed_with_its_reason_and_no_time(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    statuses = {"skipped": 0, "wrong": 0, "error": 0}
    for index, cell in enumerate(data["cells"][6:12]):
        status = list(statuses)[index % 3]
        statuses[status] += 1
        data["cells"][6 + index] = synthetic.cell(
            "small",
            cell["variant"],
            cell["precision"],
            (cell["n"], cell["d"], cell["k"]),
            10,
            status=status,
            reason=f"reason number {index}",
        )
    text = _render(tmp_path, data)
    for index in range(6):
        assert f"reason number {index}" in text
    for row in re.findall(
        r"<tr>(?:(?!</tr>).)*status (?:skipped|wrong|error)(?:(?!</tr>).)*</tr>", text, re.S
    ):
        assert not re.search(r"\d (s|ms|µs|ns)<", row)
    assert "6 ok, 2 wrong, 2 error, 2 skipped" in _Page(text).text


def test_an_incomplete_run_says_so(tmp_path: Path, data: dict[str, Any]) -> None:
    data |= {"complete": False, "planned_cells": 99}
    text = _Page(_render(tmp_path, data)).text
    assert "partial: 12 of 99 cells" in text


def test_warnings_and_a_modified_build_stand_on_top(tmp_path: Path, data: dict[str, Any]) -> None:
    data["context"]["suite"] |= {"git_dirty": True, "sanitizers": "address"}
    data["context"]["environment"]["warnings"] = ["OPENBLAS_CORETYPE halves the matrix product."]
    text = _Page(_render(tmp_path, data)).text
    assert "modified working tree and sanitizers address" in text
    assert "OPENBLAS_CORETYPE halves the matrix product." in text


def test_known_answers_and_published_numbers_are_shown(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    text = _Page(_render(tmp_path, data)).text
    assert "Known answers" in text
    assert "3.0e-14" in text
    assert "Published beside measured" in text
    assert "no counterpart in this suite yet" in text
    assert "an old GPU" in text


def test_a_missed_known_answer_is_shown_as_wrong(tmp_path: Path, data: dict[str, Any]) -> None:
    trace = data["traces"][0]
    trace |= {"status": "wrong", "reason": "inertia of iteration 3 is off by 2e-4"}
    trace["expected"] |= {"passed": False, "inertia_relative_error": 2e-4}
    text = _Page(_render(tmp_path, data)).text
    assert "inertia of iteration 3 is off by 2e-4" in text


def test_a_wrong_answer_that_is_kept_as_printed_does_not_alarm(
    tmp_path: Path, data: dict[str, Any]
) -> None:
    for cell in data["cells"][6:8]:
        synthetic.fail(cell, "wrong", "labels differ")
    data["cells"][6]["wrong_because"] = "the source forgets a barrier"
    text = _render(tmp_path, data)
    assert "1 wrong, 1 wrong as expected" in re.sub(r"\d+ (?:ok|error|skipped), ", "", text)
    assert "labels differ (kept as printed: the source forgets a barrier)" in text
    assert text.count('class="status wrong"') == 2  # once in each of the two tables
    assert text.count('class="status expected"') == 2


def test_the_gpu_is_named_with_its_driver_limits_and_own_times(
    tmp_path: Path, small_experiment: dict[str, Any]
) -> None:
    without = _Page(_render(tmp_path, synthetic.result(small_experiment))).text
    assert "median by the GPU" not in without
    assert "barrier over the GPU" not in without
    small_experiment["variants"] += ["cuda_c"]
    data = synthetic.result(small_experiment)
    cell = next(c for c in data["cells"] if c["variant"] == "cuda_c")
    cell["device_seconds_per_iteration"] = cell["seconds_per_iteration"] | {"median": 0.123}
    text = re.sub(r"\s+", " ", _Page(_render(tmp_path, data)).text)
    assert "Synthetic GPU" in text
    assert "580.1" in text
    assert "median by the GPU's events" in text
    assert "123 ms" in text
    assert "GPU matrix product, bf16 (cuBLAS 13.0)800 000 GFLOP/s" in text
    assert "read from the GPU's L2 (1.95 KiB)8 000 GB/s" in text
    assert "barrier over the GPU's grid1.00 µs" in text


def test_several_experiments_share_one_page(
    tmp_path: Path, data: dict[str, Any], small_experiment: dict[str, Any]
) -> None:
    other = synthetic.result(small_experiment | {"name": "other", "title": "The other one"})
    page = _Page(_render(tmp_path, data, other))
    ids = [a["id"] for tag, a in page.elements if tag == "section"]
    assert ids == ["other", "small", "machine", "reading"]
    assert "2 experiments, 24 cells" in page.text
