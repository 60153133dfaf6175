# SPDX-License-Identifier: Apache-2.0
"""Report and index hold everything, load nothing and escape what they did not write themselves."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import os
import re
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

import pytest
import synthetic
from synthetic import CLAIM, Json

from plots import __main__ as command
from plots import index as overview
from plots import words
from plots.load import load_folder
from plots.report import render
from tests.support import says

# Data, two libraries' worth of them in the report, and one's own; the index also has its chart.
SCRIPTS, SCRIPTS_OF_INDEX = 4, 7
BESIDE = ("small.json", "../index.html")
HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;"


STUDY = {
    "name": "sums",
    "study": "float_sums",
    "summary": "What does a sum in one float lose?",
    "status": "ok",
    "reason": None,
    "dataset": "blobs-100x2",
    "n": 100,
    "d": 2,
    "k": 3,
    "init": "first",
    "parameters": {"ways": ["one float", "pairwise"]},
    "rows": [
        {"way": "one float", "error": 3e-5, "points": 100_000, "same": False, "lost": None},
        {"way": "pairwise", "error": 0.0, "points": 1000, "same": True, "lost": 5},
    ],
    "findings": {"iterations_apart": 11},
    "notes": ["A note of the study."],
    "seconds": 0.25,
}


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
        self.text += " " if tag in ("td", "th") else ""

    def handle_endtag(self, tag: str) -> None:
        self._raw -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._raw:
            self.text += data


@pytest.fixture
def data(small_experiment: Json) -> Json:
    """Few figures, without claims and studies: each test adds what it is about."""
    wanted = ("one-panel", "bars", "table")
    figures = [f for f in small_experiment["figures"] if f["id"] in wanted]
    small_experiment |= {"figures": figures, "claims": [], "studies": []}
    return synthetic.result(small_experiment)


def _unpacked(path: Path) -> str:
    """The text of a report with what it has packed (plots/pack.py)."""
    return re.sub(
        r'<script type="text/plain" class="packed">([^<]*)</script>',
        lambda match: gzip.decompress(base64.b64decode(match.group(1))).decode(),
        path.read_text(),
    )


def _render(folder: Path, *results: Json) -> str:
    for data in results:
        synthetic.write(folder, data)
    return render(load_folder(folder))


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path, data: Json) -> None:
    page = _Page(_render(tmp_path, data))
    for tag, attributes in page.elements:
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            value = attributes.get(name) or ""
            if tag == "use":  # marks, within the picture
                assert name != "href" or value.startswith("#f"), value
            elif tag == "a":  # files next to the page, and places on it
                assert name != "href" or value in BESIDE or value.startswith("#"), value
            else:
                assert value == "" or value.startswith("data:image/"), (tag, name, value[:60])
        assert tag not in ("link", "iframe", "object", "embed", "base")
        assert "style" not in attributes  # the policy below would refuse it
        assert not [name for name in attributes if name.startswith("on")]
    css = "".join(re.findall(r"<style>(.*?)</style>", _render(tmp_path, data), re.S))
    assert all(
        url.strip("'\"").startswith("data:image/") for url in re.findall(r"url\((.*?)\)", css)
    )
    assert "@import" not in css


def test_the_policy_admits_the_inline_code_alone(tmp_path: Path, data: Json) -> None:
    text = _render(tmp_path, data)
    page = _Page(text)
    policy = next(
        a["content"]
        for tag, a in page.elements
        if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    inline = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", text, re.S)
    digests = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in inline]
    assert sorted(re.findall("'sha256-([^']*)'", policy)) == sorted(digests)
    scripts = [attributes for tag, attributes in page.elements if tag == "script"]
    assert [one for one in scripts if one] == [{"type": "application/json", "id": "board-data"}]
    assert len(scripts) == SCRIPTS


def test_hostile_texts_stay_texts(tmp_path: Path, data: Json) -> None:
    spec, context = data["spec"], data["context"]
    context["machine"]["cpu"]["model"] = HOSTILE
    context["environment"]["warnings"] = [HOSTILE]
    context["command_line"] = HOSTILE
    spec["title"] = spec["description"] = HOSTILE
    spec["published"][0]["label"] = spec["published"][0]["machine"] = HOSTILE
    spec["published"][0] |= {"group": HOSTILE, "why": HOSTILE}
    spec["claims"] = [CLAIM | {"statement": HOSTILE, "where": HOSTILE, "why": HOSTILE}]
    data["studies"] = [STUDY | {"summary": HOSTILE, "notes": [HOSTILE], "findings": {HOSTILE: 1}}]
    data["studies"][0]["rows"] = [{HOSTILE: HOSTILE}]
    spec["figures"][0]["title"] = HOSTILE
    spec["figures"][1]["caption"] = HOSTILE
    synthetic.fail(data["cells"][7], "error", HOSTILE)
    data["cells"][0]["noted"] = [HOSTILE]
    text = _render(tmp_path, data)
    page = _Page(text)
    assert sum(tag == "script" for tag, _ in page.elements) == SCRIPTS
    assert text.count("</script>") == SCRIPTS
    assert not [a for tag, a in page.elements if tag == "img" and a.get("src") == "x"]
    assert page.text.count(HOSTILE) >= 6


def test_every_failed_cell_is_listed_with_its_reason_and_no_time(
    tmp_path: Path, data: Json
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


def test_an_incomplete_run_is_marked_in_page_figures_and_captions(
    tmp_path: Path, data: Json
) -> None:
    data |= {"complete": False, "planned_cells": 99}
    text = _render(tmp_path, data)
    page = _words(text)
    pictures = re.findall(r'<svg class="picture.*?</svg>', text, re.S)
    assert len(pictures) == 2
    assert all("partial: 12 of 99 cells" in picture for picture in pictures)
    assert page.count("partial: 12 of 99 cells.") == 3  # notice and two captions


ONLY = "--only 'cpu_a|openmp_b'"


@pytest.mark.parametrize("only", [ONLY, "'--only=cpu_a|openmp_b'", "--only=cpu_a"])
def test_a_narrowed_run_says_what_was_left_out_and_why(
    tmp_path: Path, data: Json, only: str
) -> None:
    data |= {"complete": False, "planned_cells": 16}
    data["spec"]["variants"].append("openmp_absent")
    data["context"]["command_line"] = f"kmeans-bench run small {only} --scale quick"
    reason = f"this run was narrowed by {only}"
    text = _render(tmp_path, data)
    page = _words(text)
    sentence = f"partial: 12 of 16 cells; {reason}."
    assert page.count(sentence) == 3  # on top and below two figures
    assert f"partial: 12 of 16 cells; {reason} A small sweep" in page  # above the experiment
    absent = f": openmp_absent f32; {reason}."
    assert page.count(absent) == 2  # on top and at the experiment
    pictures = re.findall(r'<svg class="picture.*?</svg>', text, re.S)
    assert len(pictures) == 2
    for picture in pictures:  # across the picture, short
        assert "partial: 12 of 16 cells" in picture
        assert "narrowed" not in picture
    row = _folders(tmp_path, ("alpha", data))
    assert "partial: 12 of 16 cells" in _words(row)


def test_a_run_without_traces_or_studies_is_incomplete_too(tmp_path: Path, data: Json) -> None:
    data |= {"complete": False}
    assert "traces or studies are missing" in _words(_render(tmp_path, data))


def test_a_complete_file_of_a_narrowed_run_names_what_it_lacks(tmp_path: Path, data: Json) -> None:
    """Earlier versions called such a run complete."""
    data["spec"]["variants"].append("openmp_absent")
    data["context"]["command_line"] = f"kmeans-bench run small {ONLY}"
    page = _words(_render(tmp_path, data))
    assert f": openmp_absent f32; this run was narrowed by {ONLY}." in page
    assert "Incomplete" not in page


def test_a_library_that_stopped_early_says_so(tmp_path: Path, data: Json) -> None:
    data["cells"] += [
        synthetic.cell("small", "python_x", "f64", (n, 2, 2), 300, executed=executed)
        for n, executed in ((100, 183), (1000, 300))
    ]
    older = synthetic.cell("small", "python_y", "f64", (100, 2, 2), 300)
    del older["executed_iterations"]
    data["cells"].append(older)
    data["planned_cells"] = len(data["cells"])
    text = _render(tmp_path, data)
    assert '<td class=n data-order="300">183 of 300<' in text
    assert text.count("183 of 300<") == 1
    page = _words(text)
    assert says(page, "python_x f64 stopped", "183 of 300 at n = 100, d = 2, k = 2")
    assert says(page, "over all T: python_y")


def test_prior_measurements_have_a_table_of_their_own(tmp_path: Path, data: Json) -> None:
    data["spec"]["figures"] = [f for f in data["spec"]["figures"] if f["kind"] != "table"]
    data["spec"]["published"][0] |= {"prior": True, "label": "ours of last year"}
    page = _words(_render(tmp_path, data))
    published, prior = (page.index(t) for t in ("their GPU", "Prior measurements next to today's"))
    assert page.index("Published next to measured") < published < prior
    assert prior < page.index("ours of last year")
    assert "prior / ours" in page


@pytest.mark.parametrize(
    ("where", "change", "words"),
    [
        ("suite", {"git_dirty": True}, "built from a modified working tree"),
        ("suite", {"build_type": "Debug"}, "build type Debug"),
        ("suite", {"sanitizers": "address,undefined"}, "sanitizers address,undefined"),
    ],
)
def test_what_is_not_for_publication_says_so_in_page_section_figures_and_index(
    tmp_path: Path, data: Json, where: str, change: Json, words: str
) -> None:
    other = synthetic.result(data["spec"] | {"name": "other"})
    data["context"][where] |= change
    page = _words(_render(tmp_path, data, other))
    sentence = f"Not for publication: {words}."
    assert f"{sentence} (small)" in page  # of two experiments, this one
    assert page.count(sentence) == 1 + 1 + 2  # on top, in the section, below two figures
    row = _folders(tmp_path, ("alpha", data))
    assert _words(row).count("not for publication") == 1


def test_doubtful_conditions_stand_on_top_and_at_their_experiment(
    tmp_path: Path, data: Json
) -> None:
    synthetic.write(tmp_path, data)
    conditions = [
        {"check": "load", "state": "doubtful", "detail": "Other work took 30 % of a processor."},
        {"check": "governor", "state": "good", "detail": "performance"},
        {"check": "swap", "state": "unknown", "detail": HOSTILE},
        {"check": "power", "state": "doubtful", "detail": HOSTILE},
    ]
    results = [
        dataclasses.replace(r, context=r.context | {"conditions": conditions})
        for r in load_folder(tmp_path)
    ]
    page = _words(render(results))
    assert page.count("load: Other work took 30 % of a processor.") == 2
    assert page.count(f"power: {HOSTILE}") == 2
    assert "governor" not in page
    assert "swap" not in page


def test_unsteady_and_noted_cells_are_counted_marked_and_explained(
    tmp_path: Path, data: Json
) -> None:
    data["cells"][0]["noted"] = ["the GPU was throttled"]
    data["cells"][2]["noted"] = ["samples of one process spread widely", "load average 9"]
    synthetic.resample(data["cells"][3], [[1.0], [2.0], [4.0]])
    data["cells"][3]["unsteady"] = ["its processes disagree: 1 process at 1.00 s, 1 at 2.00 s ..."]
    text = _render(tmp_path, data)
    page = _words(text)
    measured = sum(cell["status"] == "ok" for cell in data["cells"])
    assert page.count(f"2 of {measured} measured cells noted") == 3  # on top, contents, footnotes
    assert page.count(f"1 of {measured} measured cells unsteady") == 2  # on top, footnotes
    assert "1 unsteady" in page.split("Machine and limits")[0]  # contents: in the tally
    assert text.count('<a class="tag" href="#doubts-small"') == 2
    assert text.count('<a class="tag warning" href="#doubts-small"') == 1
    assert "the GPU was throttled" in page
    assert "load average 9" in page
    folded = text[text.index('<details id="doubts-small">') :].split("</details>")[0]
    assert "load average 9" in folded
    row = text[text.index("unsteady</a>") :].split("<tr>")[0]
    assert f"1.00 s {words.TO} 4.00 s (min{words.TO}max)" in row  # where it lies, and no median
    assert "2.00 s" not in row


def test_setup_and_whole_calls_stand_next_to_the_iteration(tmp_path: Path, data: Json) -> None:
    cell = data["cells"][0]
    cell["setup_seconds"] = 0.5
    synthetic.retime(cell, 0.25)
    cell["setup_includes"] = "the copy to float64 and the tree"
    text = _render(tmp_path, data)
    heads = text[text.index("All cells (") :].split("</thead>")[0]
    assert re.findall("<th[^>]*>([^<]*)</th>", heads)[:4] == [
        "variant",
        "median per iteration",
        "share of limit",
        "verification",
    ]  # what decides stands first, where a narrow screen shows it
    row = text[text.index("<tbody>", text.index("All cells (")) :].split("<tr>")[1]
    for value in ("500 ms", "750 ms", "5.50 s", "75.5 s"):
        assert value in row
    assert "cpu_a: the copy to float64 and the tree" in _words(text)


def test_a_python_library_has_a_setup_and_no_whole_call(tmp_path: Path, data: Json) -> None:
    cell = data["cells"][0]
    cell |= {"setup_seconds": 0.5, "backend": "python"}
    synthetic.retime(cell, 0.25)
    text = _render(tmp_path, data)
    row = text[text.index("<tbody>", text.index("All cells (")) :].split("<tr>")[1]
    assert "500 ms" in row
    for value in ("750 ms", "5.50 s", "75.5 s"):
        assert value not in row
    assert says(_words(text), "Python libraries", "setup includes the interpreter")


def test_the_share_of_computed_distances_has_a_column_where_it_is_known(
    tmp_path: Path, data: Json
) -> None:
    assert "distances computed" not in _render(tmp_path, data)
    data["cells"][0]["computed_share"] = 0.03125
    text = _render(tmp_path, data)
    cells = text[text.index("All cells (") :]
    heads = re.findall("<th[^>]*>([^<]*)</th>", cells.split("</thead>")[0])
    assert heads[-1] == "distances computed"
    rows = cells[cells.index("<tbody>") :].split("</tbody>")[0].split("<tr>")[1:]
    assert rows[0].rstrip("</tr>").endswith('data-order="0.03125">3.1 %')
    assert all(row.rstrip("</tr>").endswith(f">{words.NONE}") for row in rows[1:])


def test_what_all_pictures_share_is_said_once(tmp_path: Path, data: Json) -> None:
    page = _words(_render(tmp_path, data))
    assert page.count("2 threads; quick scale") == 1


def test_warnings_and_a_modified_build_stand_on_top(tmp_path: Path, data: Json) -> None:
    data["context"]["suite"] |= {"git_dirty": True, "sanitizers": "address"}
    data["context"]["environment"]["warnings"] = ["OPENBLAS_CORETYPE halves the matrix product."]
    text = _Page(_render(tmp_path, data)).text
    assert "modified working tree and sanitizers address" in text
    assert "OPENBLAS_CORETYPE halves the matrix product." in text


def test_known_answers_and_published_numbers_are_shown(tmp_path: Path, data: Json) -> None:
    text = _Page(_render(tmp_path, data)).text
    assert "Known answers" in text
    assert "3.0e-14" in text
    assert "Published next to measured" in text
    assert "an old GPU" in text


def test_a_missed_known_answer_is_shown_as_wrong(tmp_path: Path, data: Json) -> None:
    trace = data["traces"][0]
    trace |= {"status": "wrong", "reason": "inertia of iteration 3 is off by 2e-4"}
    trace["expected"] |= {"passed": False, "inertia_relative_error": 2e-4}
    text = _Page(_render(tmp_path, data)).text
    assert "inertia of iteration 3 is off by 2e-4" in text


def test_a_wrong_answer_that_is_kept_as_printed_does_not_alarm(tmp_path: Path, data: Json) -> None:
    for cell in data["cells"][6:8]:
        synthetic.fail(cell, "wrong", "labels differ")
    data["cells"][6]["wrong_because"] = "the source forgets a barrier"
    text = _render(tmp_path, data)
    assert "1 wrong, 1 wrong as expected" in re.sub(r"\d+ (?:ok|error|skipped), ", "", text)
    assert "the source forgets a barrier" in text
    assert text.count('class="status wrong"') == 2  # once in each of the two tables
    assert text.count('class="status expected"') == 2


def test_the_gpu_is_named_with_its_driver_limits_and_own_times(
    tmp_path: Path, small_experiment: Json
) -> None:
    small_experiment["figures"] = small_experiment["figures"][:1]  # drawing them all says no more
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
    assert "GPU matrix product, bf16 (cuBLAS 13.0) 800 000 GFLOP/s" in text
    assert "GPU matrix product, int8 (cuBLAS 13.0) 1 500 000 GOP/s" in text
    assert "read from the GPU's L2 (1.95 KiB) 8 000 GB/s" in text
    assert "barrier over the GPU's grid 1.00 µs" in text


def test_an_int8_product_that_failed_or_is_not_on_file_is_not_measured(
    tmp_path: Path, small_experiment: Json
) -> None:
    small_experiment["figures"] = small_experiment["figures"][:1]
    small_experiment["variants"] += ["cuda_c"]
    data = synthetic.result(small_experiment)
    rates = data["context"]["ceilings"]["gpu"]["gemm_gflops"]
    for change in (lambda: rates.update(int8=None), lambda: rates.pop("int8")):
        change()
        text = re.sub(r"\s+", " ", _Page(_render(tmp_path, data)).text)
        assert "GPU matrix product, int8 (cuBLAS 13.0) not measured" in text


def test_several_experiments_share_one_page(
    tmp_path: Path, data: Json, small_experiment: Json
) -> None:
    other = synthetic.result(small_experiment | {"name": "other", "title": "The other one"})
    page = _Page(_render(tmp_path, data, other))
    ids = [a["id"] for tag, a in page.elements if tag == "section"]
    assert ids == ["answer", "contents", "other", "small", "machine", "reading"]
    assert "2 experiments, 24 cells" in page.text


def _words(text: str) -> str:
    return re.sub(r"\s+", " ", _Page(text).text)


def test_claims_stand_with_verdict_number_and_reason(tmp_path: Path, data: Json) -> None:
    slow = CLAIM | {"id": "slow", "statement": "It is a billion times as fast."}
    slow["tests"] = [CLAIM["tests"][0] | {"at_least": 1e9}]
    absent = CLAIM | {"id": "absent", "statement": "A GPU is faster."}
    absent["tests"] = [CLAIM["tests"][0] | {"variant": "cuda_z"}]
    once = CLAIM | {"id": "once", "statement": "At ten thousand clusters too."}
    once["tests"] = [CLAIM["tests"][0] | {"where": {"k": [2], "n": [100]}}]
    data["spec"]["claims"] = [CLAIM, slow, once, absent]
    for cell in data["cells"]:
        if (cell["variant"], cell["n"], cell["k"]) == ("openmp_b", 100, 2):
            synthetic.resample(cell, [[cell["seconds_per_iteration"]["median"]]])
    data["spec"]["claims"][0]["tests"][0]["where"] = {"n": [1000]}
    text = _render(tmp_path, data)
    page = _words(text)
    assert says(page, "4 statements: 1 holds, 1 does not, 0 in part, 1 ", ", 1 not tested here")
    assert says(page, "? not enough samples one sample of openmp_b f32")
    assert "other work" not in page
    data["cells"][0]["noted"] = ["a fixed computation beside it take 1.70 times as long as at best"]
    assert "1 of 12 times" in _words(_render(tmp_path, data))
    assert re.search(r"faster\. section 3 . holds .*openmp_b over cpu_a: [\d.]+", page)
    assert "✗ does not hold" in page
    assert says(page, "A GPU is faster. section 3; not tested here", "no cell of cuda_z")
    assert page.count("It uses all cores.") == 3
    assert 'id="claim-small-slow"' in text
    # What was not tested does not stand in the way of what was.
    folded = text.index("<summary>1 of 4 claims")
    assert text.index('id="claim-small-slow"') < folded < text.index('id="claim-small-absent"')


def test_studies_show_findings_notes_and_sortable_rows(tmp_path: Path, data: Json) -> None:
    failed = STUDY | {"name": "late", "status": "error", "reason": "took too long", "rows": []}
    data["studies"] = [STUDY, failed]
    data["spec"]["figures"].append({"id": "t", "kind": "rows", "title": "R", "study": "sums"})
    text = _render(tmp_path, data)
    page = _words(text)
    assert "Study: sums ok" in page
    assert "What does a sum in one float lose?" in page
    assert re.search(r"iterations apart ?11", page)
    assert "A note of the study." in page
    assert "ways one float, pairwise" in page
    assert "<td class=n>100 000<" in text
    assert "<td class=n>3.0000e-05<" in text
    assert '<td class=n data-order="">—<' in text  # null sorts last
    assert "<td>no<" in text
    assert 'href="#study-small-sums"' in text
    assert "took too long" in page


def test_a_long_list_among_the_parameters_is_reported_by_its_length(
    tmp_path: Path, data: Json
) -> None:
    printed = [0.123456 + place for place in range(400)]
    data["studies"] = [STUDY | {"parameters": {"printed": printed, "few": [1, 2]}}]
    page = _words(_render(tmp_path, data))
    assert "printed (400 numbers, in the result file)" in page
    assert "few 1, 2" in page
    assert "0.1235" not in page


def test_a_long_study_is_cut_and_says_so(tmp_path: Path, data: Json) -> None:
    rows = [{"step": step, "error": step / 7} for step in range(1001)]
    data["studies"] = [STUDY | {"rows": rows}]
    assert "Rows (500 of 1 001, all in small.json)" in _words(_render(tmp_path, data))


def test_tables_of_published_numbers_show_their_group(tmp_path: Path, data: Json) -> None:
    first, second = data["spec"]["published"][:2]
    first |= {"group": "Table I", "why": "A newer processor.", "label": "entry of the table"}
    second |= {"label": "entry of the text"}
    table = next(f for f in data["spec"]["figures"] if f["kind"] == "table")
    table |= {"group": "Table I", "title": "Table I again"}
    page = _words(_render(tmp_path, data))
    assert page.count("entry of the table") == 1
    assert page.index("Table I again") < page.index("entry of the table")
    assert page.index("Published next to measured") < page.index("entry of the text")
    assert "A newer processor." in page
    assert re.search(r"[\d.]+ m?s \S [\d.]+ m?s", page)  # the interval


def test_figures_link_their_data_and_their_file(tmp_path: Path, data: Json) -> None:
    path = synthetic.write(tmp_path, data)
    figures = tmp_path / "figures"
    figures.mkdir()
    for name in ("one-panel", "bars"):
        (figures / f"small-{name}.svg").write_text("<svg/>")
    os.utime(path, (2_000_000_000, 2_000_000_000))
    os.utime(figures / "small-one-panel.svg", (2_000_000_001, 2_000_000_001))
    os.utime(figures / "small-bars.svg", (1_000_000_000, 1_000_000_000))
    links = [a.get("href") for tag, a in _Page(_render_again(tmp_path)).elements if tag == "a"]
    assert links.count("small.json") == 1 + len(data["spec"]["figures"])
    assert links.count("figures/small-one-panel.svg") == 1
    assert "figures/small-bars.svg" not in links  # older than the numbers


def _render_again(folder: Path) -> str:
    return render(load_folder(folder))


def test_contents_lead_to_every_section(tmp_path: Path, data: Json) -> None:
    page = _Page(_render(tmp_path, data))
    ids = [a["id"] for _, a in page.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    inside = {a["href"] for tag, a in page.elements if tag == "a" and (a["href"] or "")[0] == "#"}
    assert {"#small", "#machine", "#reading"} <= inside
    assert {(link or "")[1:] for link in inside} <= set(ids)


def test_every_table_of_data_can_be_sorted(tmp_path: Path, data: Json) -> None:
    synthetic.fail(data["cells"][7], "error", "reason")
    data["spec"]["claims"], data["studies"] = [CLAIM], [STUDY]
    tables = re.findall(r"<table[^>]*>(?:(?!</table>).)*</table>", _render(tmp_path, data), re.S)
    headed = [table for table in tables if "<thead>" in table and "<td" in table]
    assert len(headed) >= 7
    assert all('class="sortable' in table[:40] for table in headed)


# --- Index -----------------------------------------------------------------------------------


def _folders(tmp_path: Path, *machines: tuple[str, Json]) -> str:
    for name, data in machines:
        synthetic.write(tmp_path / name, data)
    names = dict.fromkeys(name for name, _ in machines)
    return overview.render({tmp_path / name: load_folder(tmp_path / name) for name in names})


def test_the_index_sets_claims_against_machines(tmp_path: Path, small_experiment: Json) -> None:
    small_experiment["claims"] = [CLAIM]
    one = synthetic.result(small_experiment)
    two = synthetic.result(small_experiment)
    for cell in two["cells"]:
        if cell["variant"] == "openmp_b":
            synthetic.fail(cell, "skipped", "one core only")
    three = synthetic.result(small_experiment | {"name": "other", "claims": []})
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alpha" / "report.html").write_text("")
    text = _folders(tmp_path, ("alpha", one), ("beta", two), ("gamma", three))
    page = _words(text)
    assert says(page, "3 machines, 1 statement", "1 experiment")
    assert "What we ask" not in page
    assert "alpha (quick)" in page
    row = next(r for r in re.findall(r"<tr>(?:(?!</tr>).)*</tr>", text, re.S) if "section 3" in r)
    assert re.findall(r'class="verdict (\w+)"', row) == ["holds", "untested"]
    assert "one core only" in row
    assert "not run" in row
    assert 'href="alpha/report.html#claim-small-faster"' in row
    assert "beta/report.html" not in text  # was not drawn
    assert "(no report drawn)" in page


def test_questions_of_our_own_are_no_statements_of_sources(tmp_path: Path, data: Json) -> None:
    mine = CLAIM | {"id": "mine", "statement": "Are we fast?", "of": "ours"}
    data["spec"]["claims"] = [CLAIM, mine, CLAIM | {"id": "again", "repeats": "small/faster"}]
    other = json.loads(json.dumps(data)) | {"experiment": "other"}
    other["spec"] |= {"name": "other", "claims": [mine | {"id": "asked"}]}
    text = _folders(tmp_path, ("alpha", data), ("alpha", other))
    page = _words(text)
    assert says(page, "1 statement of published articles", "2 questions", "2 experiments")
    said, asked = (page.index(t) for t in ("Each claim, and", "What we ask of our own"))
    assert said < page.index("small, 3 claims") < asked < page.index("other, 1 question")
    assert "section 3; our question" in page
    assert "section 3; the same statement as small/faster" in page
    rows = re.findall(r"<tr>(?:(?!</tr>).)*</tr>", text, re.S)
    ends = [re.findall(r"<td class=n>([^<]*)", row)[-7:] for row in rows if "alpha" in row][:3]
    # Of the machine and of its two experiments: hold, do not ... and our own.
    assert sorted((end[0], end[-1]) for end in ends) == [
        ("0", "1 of 1"),
        ("1", "1 of 1"),
        ("1", "2 of 2"),
    ]
    report = _words(render(load_folder(tmp_path / "alpha")))
    assert says(report, "1 statement: 1 holds, 0 do not", "2 questions of our own: 2 hold")


def test_the_index_counts_cells(tmp_path: Path, data: Json) -> None:
    for place in (6, 7, 8):
        synthetic.fail(data["cells"][place], "wrong", "r")
    text = _folders(tmp_path, ("alpha", data))
    rows = re.findall(r"<tr>(?:(?!</tr>).)*</tr>", text, re.S)
    numbers = re.findall(r"<td class=n>(\d+)", next(r for r in rows if ">small<" in r))
    assert len(data["cells"]) == 12
    assert numbers[:5] == ["9", "3", "0", "0", "0"]  # ok, wrong, skipped, error; studies


def test_hostile_texts_stay_texts_in_the_index(tmp_path: Path, data: Json) -> None:
    data["context"]["machine"]["cpu"]["model"] = HOSTILE
    data["context"]["machine"]["gpus"] = [{"name": HOSTILE}]
    data["context"]["suite"]["git_commit"] = "<img>"
    data["spec"]["title"] = HOSTILE
    data["spec"]["claims"] = [CLAIM | {"statement": HOSTILE, "where": HOSTILE}]
    folder = "x'\"><img src=x onerror=alert(3)>&#"
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "report.html").write_text("")
    text = _folders(tmp_path, (folder, data))
    page = _Page(text)
    assert not [tag for tag, _ in page.elements if tag in ("img", "iframe", "object", "link")]
    assert sum(tag == "script" for tag, _ in page.elements) == SCRIPTS_OF_INDEX
    assert page.text.count(HOSTILE) >= 5
    links = [a["href"] or "" for tag, a in page.elements if tag == "a"]
    there = {link.partition("#")[0] for link in links if not link.startswith("#")}
    assert [urllib.parse.unquote(link) for link in there] == [f"{folder}/report.html"]


# --- Commands --------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path: Path, small_experiment: Json, monkeypatch: pytest.MonkeyPatch) -> Path:
    small_experiment["figures"] = small_experiment["figures"][1:3]
    for name in ("reference-one", "two"):
        synthetic.write(tmp_path / name, synthetic.result(small_experiment))
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    return tmp_path


def _made(root: Path) -> set[str]:
    return {
        str(p.relative_to(root))
        for p in root.rglob("*")
        if p.is_file() and p.suffix in (".svg", ".png", ".html")
    }


PAGES = {"index.html", "reference-one/report.html", "two/report.html"}


def _pictures(machine: str) -> set[str]:
    names = ("one-panel", "bars")
    return {f"{machine}/figures/small-{n}.{kind}" for n in names for kind in ("svg", "png")}


def test_everything_is_drawn_of_every_machine(results: Path) -> None:
    assert command.main([]) == 0
    assert _made(results) == PAGES | _pictures("two") | _pictures("reference-one")
    report = _unpacked(results / "two" / "report.html")
    assert 'href="figures/small-bars.svg"' in report


def test_reports_need_no_figure_files(results: Path) -> None:
    assert command.main(["report"]) == 0
    assert _made(results) == PAGES


def test_one_machine_is_drawn_alone_but_the_index_has_all(results: Path) -> None:
    assert command.main(["all", str(results / "two")]) == 0
    made = _made(results)
    assert made == {"index.html", "two/report.html"} | _pictures("two")
    assert "reference-one" in (results / "index.html").read_text()
    assert command.main(["figures", str(results / "reference-one")]) == 0
    assert _made(results) == made | _pictures("reference-one")


def test_a_folder_elsewhere_gets_an_index_only_if_that_is_asked(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "RESULTS", results / "empty")
    assert command.main(["report", str(results / "two")]) == 0
    assert _made(results) == {"two/report.html"}
    assert command.main(["index", str(results / "two")]) == 0
    assert _made(results) == {"two/report.html", "index.html"}
    assert command.main([]) == 2  # nothing under results/


def test_a_broken_file_is_named_and_the_rest_is_drawn(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (results / "two" / "small.json").write_text("{")
    assert command.main(["report"]) == 2
    assert _made(results) == {"index.html", "reference-one/report.html"}
    assert "two/small.json" in capsys.readouterr().err
