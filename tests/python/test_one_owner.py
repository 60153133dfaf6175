# SPDX-License-Identifier: Apache-2.0
"""Rules that stand in one file: what would show that they came back in another."""

from __future__ import annotations

import re

import pytest

from tests.support import ROOT

SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".py", ".js", ".j2"}
FOLDERS = ("harness", "implementations", "datasets", "library", "plugin", "plots", "tools")

#: What the rule cannot be written without -> the files that may have it.
OWNERS = {
    # Do the processes of a cell agree?
    r"(AGREEING|kAgreeingProcesses)\w* *= *[0-9.]": ["harness/record/agreement.h"],
    r"its processes disagree: ": ["harness/record/agreement.cpp"],
    # The hash of labels, centroids and machines.
    r"(?i)cbf29ce484222325": ["harness/support/hash.h"],
    # What JSON has where a part may be missing.
    r"\b(json|std::string|std::optional<double>)&? \w+\(const (nlohmann::)?json& \w+, "
    r"(const char\*|const std::string&) key\)": [
        "harness/machine/ceilings.cpp",  # objects alone, of a file that may hold anything
        "harness/run/journal.cpp",  # refuses a line without it
        "harness/support/json_member.h",
    ],
    # The versions of files that are read.
    r"\bkResultSchemaVersion = ": ["harness/record/measures.h"],
    r"\bSCHEMA_VERSION = ": ["plots/load.py"],
    # Which cell is exact, certified or approximate; of what kind its data are.
    r"^AnswerKind answer_kind\([^;{]*\{": ["harness/record/kinds.cpp"],
    r"low\.dump\(\)|\bspec\[.low.\]": ["harness/record/kinds.cpp"],
    # The limit of a cell, and what a result file says twice: plots/ asks the program for both.
    r"max\(bounds|auto bound = ": ["harness/record/limit.cpp"],
    r"\bthe slowest whole step ": ["harness/record/result_file.cpp"],
    # Which samples bound a median; which file of a machine has its newest ceilings.
    r"\b2 \* tail > |\bmath\.comb\(": ["harness/record/measures.cpp"],
    r"with_newest_ceilings\([^;]*\) \{$|def with_newest_ceilings": ["harness/record/limit.cpp"],
    # The model of `advise`: fitted by the program; a page predicts with its numbers.
    r"\bnnls\b|linalg\.(solve|cholesky)": [],
    r"(?i)deviation *= *0\.6|nine_?of_?ten *= *1\.": ["harness/record/advice.cpp"],
    # A program is started by spawn(), or by fork where the child has to be prepared.
    r"posix_spawn_file_actions_init": ["harness/support/spawn.cpp"],
    r"\bfork\(\)": ["harness/support/process.cpp", "harness/support/python_process.cpp"],
    r"const_cast<char\*>\(": ["harness/support/spawn.cpp"],
    # What an iteration has to do: operations and bytes. Pages get them as numbers (plots/work.py).
    r"\b3(\.0)? \* (\w+\.)?d \+ 2\b": [
        "harness/record/measures.cpp",
        "implementations/_stage_work.h",  # of labelling alone
    ],
    r"\bn \* (\w+\.)?d \+ 4(\.0)? \* (\w+\.)?n\b": [],
    r"\b2(\.0)? \* (\w+\.)?n \* (\w+\.)?k \* (\w+\.)?d\b": [],
    r"^def (compulsory|terms)\(": ["plots/work.py"],
    # When a row has length one, and what is scaled to it.
    r"abs\(squares - 1\)|void direction_of\(": ["harness/exact_step.h"],
    # A step that is slowed down belongs to the tests.
    r"SlowedSteps|PLANT_SLOWDOWN": [],
}


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    return {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
        for folder in FOLDERS
        for file in sorted((ROOT / folder).rglob("*"))
        if file.suffix in SUFFIXES and file.is_file()
    }


@pytest.mark.parametrize("rule", OWNERS)
def test_a_rule_stands_in_its_file_alone(sources: dict[str, str], rule: str) -> None:
    found = [name for name, text in sources.items() if re.search(rule, text, re.MULTILINE)]
    assert found == OWNERS[rule]
