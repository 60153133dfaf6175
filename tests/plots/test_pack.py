# SPDX-License-Identifier: Apache-2.0
"""A report packs what it has folded away: small, whole in a browser, and links lead into it."""

from __future__ import annotations

import gzip
import re
from base64 import b64decode
from pathlib import Path

import browser
import pytest
import synthetic

from plots.load import load_folder
from plots.pack import pack
from plots.report import render, write_report


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source's experiment is folded; its table of cells is long enough to be packed."""
    folder = tmp_path_factory.mktemp("results") / "one"
    zechner = next(e for e in synthetic.experiments() if e["name"] == "zechner2009")
    drawn = [f for f in zechner["figures"] if f["kind"] in ("bars", "scatter")]
    synthetic.write(folder, synthetic.result(zechner | {"figures": drawn}))
    return write_report(load_folder(folder), folder)


def test_only_what_is_marked_and_long_is_packed_and_all_of_it_comes_back() -> None:
    long = "<p>a</p>" * 5000
    text = pack(f"<b>1</b><!--pack-->{long}<!--packed--><b>2</b><!--pack-->short<!--packed-->")
    data = re.fullmatch(
        r'<b>1</b><script type="text/plain" class="packed">([A-Za-z0-9+/=]+)</script><b>2</b>short',
        text,
    )
    assert data is not None
    assert gzip.decompress(b64decode(data.group(1))).decode() == long
    assert len(text) < len(long) / 10


def test_a_browser_shows_what_was_packed(page: browser.Browser, report: Path) -> None:
    plain = render(load_folder(report.parent))
    assert report.stat().st_size < len(plain.encode()) - 100_000  # libraries weigh most of it
    packed = report.read_text()
    assert "script.packed" in packed
    assert 'class="packed"' in packed
    assert packed.count("<tr>") < plain.count("<tr>")
    page.visit(report.as_uri())
    assert page.complaints == []
    assert page.run("document.querySelectorAll('script.packed').length") == 0
    assert page.run("document.querySelectorAll('tr').length") >= plain.count("<tr>")
    headings = page.run("document.querySelectorAll('#zechner2009 th[tabindex]').length")
    assert headings > 0  # its tables sort


def test_a_link_leads_into_what_was_packed(page: browser.Browser, report: Path) -> None:
    inside = re.findall(r'id="(zechner2009-[^"]+)"', render(load_folder(report.parent)))[-1]
    assert f'id="{inside}"' not in report.read_text()
    page.visit(f"{report.as_uri()}#{inside}", 1280, 900)
    top = page.run(f"document.getElementById('{inside}').getBoundingClientRect().top")
    assert -5 < top < 900


def test_the_longest_committed_report_is_small(tmp_path: Path) -> None:
    longest = synthetic.ROOT / "results" / "nvidia-h200"
    assert write_report(load_folder(longest), tmp_path).stat().st_size < 3e6
