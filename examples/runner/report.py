# SPDX-License-Identifier: BSD-3-Clause
"""Output of a run."""

import re
import sys
import textwrap
import xml.etree.ElementTree as ElementTree

from runner.jobs import Verdict
from runner.pair import Outcome
from runner.storage import BY_HAND, PREPARE_BY_HAND

NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def outputs(outcome: Outcome | None) -> str:
    """Returns the output of both programs, for diagnosis."""
    if not outcome:
        return ""
    parts = []
    for role, result in (("server", outcome.server), ("client", outcome.client)):
        printed = (result.stdout + result.stderr).strip() or "(nothing)"
        parts.append(f"output of the {role}:\n{textwrap.indent(printed, '  ')}")
    return "\n".join(parts)


class TextReport:
    """Report for people."""

    def begin(self, facts: list[tuple[str, str]], names: list[str]) -> None:
        self.width = max(map(len, names))
        for name, value in facts:
            print(f"{name + ':':<9} {value}")
        print(flush=True)

    def add(self, verdict: Verdict) -> None:
        where = f"{verdict.transport}, {verdict.level}: " if verdict.kind == "ok" else ""
        print(f"{verdict.kind:<5} {verdict.name:<{self.width}}  {where}{verdict.detail}", flush=True)
        if verdict.kind != "ok":
            print(textwrap.indent(outputs(verdict.outcome), "      "), flush=True)

    def end(self, verdicts: list[Verdict]) -> None:
        kinds = [verdict.kind for verdict in verdicts]
        print(f"\n{kinds.count('ok')} of {len(kinds)} examples succeeded")


def show_commands(verdicts: list[Verdict]) -> None:
    """Prints the commands that start the same programs without the runner."""
    commands = [command for verdict in verdicts for command in verdict.commands]
    if not commands:
        return
    print("\nBy hand, each program in a terminal of its own, the server first:")
    if any(str(BY_HAND) in command for command in commands):
        print(f"  {PREPARE_BY_HAND}")
    print(textwrap.indent("\n".join(commands), "  "))


class TapReport:
    """Report in the Test Anything Protocol."""

    def __init__(self) -> None:
        self.number = 0

    def begin(self, facts: list[tuple[str, str]], names: list[str]) -> None:
        print(f"1..{len(names)}")
        for name, value in facts:
            print(f"# {name}: {value}")

    def add(self, verdict: Verdict) -> None:
        self.number += 1
        result = "not ok" if verdict.kind == "FAIL" else "ok"
        directive = f" # SKIP {verdict.detail}" if verdict.kind == "skip" else ""
        print(f"{result} {self.number} - {verdict.name}{directive}")
        if verdict.kind != "skip":
            print(f"# {verdict.transport}, {verdict.level}: {verdict.detail}", flush=True)
        if verdict.kind == "FAIL":
            print(textwrap.indent(outputs(verdict.outcome), "# ", lambda line: True), flush=True)

    def end(self, verdicts: list[Verdict]) -> None:
        pass


class JunitReport:
    """Report in the JUnit XML format, written at the end."""

    def begin(self, facts: list[tuple[str, str]], names: list[str]) -> None:
        self.facts = facts

    def add(self, verdict: Verdict) -> None:
        pass

    def end(self, verdicts: list[Verdict]) -> None:
        kinds = [verdict.kind for verdict in verdicts]
        suite = ElementTree.Element(
            "testsuite", name="examples", tests=str(len(kinds)), failures=str(kinds.count("FAIL")),
            skipped=str(kinds.count("skip")), errors="0", time=f"{sum(verdict.seconds for verdict in verdicts):.3f}")
        add_properties(suite, self.facts)
        for verdict in verdicts:
            case = ElementTree.SubElement(
                suite, "testcase", classname="examples", name=verdict.name, time=f"{verdict.seconds:.3f}")
            add_properties(case, [("transport", verdict.transport), ("persistence", verdict.level)])
            if verdict.kind != "ok":
                name = {"FAIL": "failure", "skip": "skipped"}[verdict.kind]
                ElementTree.SubElement(case, name, message=xml_text(verdict.detail))
            printed = verdict.detail if verdict.kind == "ok" else outputs(verdict.outcome)
            ElementTree.SubElement(case, "system-out").text = xml_text(printed)
        ElementTree.indent(suite)
        sys.stdout.write('<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, "unicode") + "\n")


def xml_text(text: str) -> str:
    """Removes characters that XML does not allow."""
    return NOT_IN_XML.sub("\ufffd", text)


def add_properties(parent: ElementTree.Element, facts: list[tuple[str, str]]) -> None:
    properties = ElementTree.SubElement(parent, "properties")
    for name, value in facts:
        ElementTree.SubElement(properties, "property", name=name, value=xml_text(value))


REPORTS = {"text": TextReport, "tap": TapReport, "junit": JunitReport}
