# SPDX-License-Identifier: Apache-2.0
"""What a page has folded away, and later or large pictures, packed: a tenth of the text, which the
browser unpacks when the rest is shown (plots/templates/report.js), so that a long report opens at
once."""

from __future__ import annotations

import base64
import gzip
import re

# Around what a template lets be packed; texts of results are escaped and hold no such mark.
_MARKED = re.compile(r"<!--pack-->(.*?)<!--packed-->", re.DOTALL)
_WORTH = 20_000  # characters; less is not worth the wait


def _packed(match: re.Match[str]) -> str:
    text = match.group(1)
    if len(text) < _WORTH:
        return text
    data = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return f'<script type="text/plain" class="packed">{data}</script>'


def pack(text: str) -> str:
    """The page with its long folded parts packed."""
    return _MARKED.sub(_packed, text)
