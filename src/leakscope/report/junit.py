"""JUnit XML, which every CI system reads: one test case per limit and check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple
from xml.etree import ElementTree

from leakscope.errors import printable

CaseOutcome = Literal["passed", "failed", "inconclusive"]


class Case(NamedTuple):
    """One thing that was decided, or could not be.

    Attributes:
        group: what it belongs to, such as "gate".
        name: its name within the group.
        outcome: how it ended.
        sentence: the outcome as a sentence.
    """

    group: str
    name: str
    outcome: CaseOutcome
    sentence: str


def junit_xml(suite: str, cases: Sequence[Case]) -> bytes:
    """The cases as a JUnit file.

    What failed is a `failure`, what is inconclusive an `error`: neither is a pass. XML cannot contain control
    characters, not even escaped, so they are written as Python would.
    """
    counts = {
        "tests": len(cases),
        "failures": sum(case.outcome == "failed" for case in cases),
        "errors": sum(case.outcome == "inconclusive" for case in cases),
        "skipped": 0,
    }
    attributes = {"name": _text(suite), **{name: str(number) for name, number in counts.items()}}
    root = ElementTree.Element("testsuites", attributes)
    parent = ElementTree.SubElement(root, "testsuite", attributes)
    for case in cases:
        _add_case(parent, case)
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _add_case(parent: ElementTree.Element, case: Case) -> None:
    names = {"classname": f"leakscope.{_text(case.group)}", "name": _text(case.name)}
    element = ElementTree.SubElement(parent, "testcase", names)
    sentence = _text(case.sentence)
    if case.outcome == "passed":
        ElementTree.SubElement(element, "system-out").text = sentence
    else:
        tag = "failure" if case.outcome == "failed" else "error"
        problem = {"type": case.outcome, "message": sentence}
        ElementTree.SubElement(element, tag, problem).text = sentence


def _text(text: str) -> str:
    return printable(" ".join(text.split()))
