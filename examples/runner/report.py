# SPDX-License-Identifier: BSD-3-Clause
"""What a run prints."""

import textwrap

from runner.pair import Outcome


def outputs(outcome: Outcome | None) -> str:
    """What both programs printed, for finding out why they failed."""
    if not outcome:
        return ""
    parts = []
    for role, result in (("server", outcome.server), ("client", outcome.client)):
        printed = (result.stdout + result.stderr).strip() or "(nothing)"
        parts.append(f"output of the {role}:\n{textwrap.indent(printed, '  ')}")
    return "\n".join(parts)


class TextReport:
    """For people."""

    def begin(self, facts: list[tuple[str, str]], count: int) -> None:
        for name, value in facts:
            print(f"{name + ':':<9} {value}")
        print(flush=True)

    def example(self, verdict: str, topic: str, detail: str, outcome: Outcome | None) -> None:
        print(f"{verdict:<5} {topic:<24} {detail}", flush=True)
        if verdict != "ok":
            print(textwrap.indent(outputs(outcome), "      "), flush=True)

    def end(self, verdicts: list[str]) -> None:
        print(f"\n{verdicts.count('ok')} of {len(verdicts)} examples succeeded")


class TapReport:
    """For test harnesses: the Test Anything Protocol."""

    def __init__(self) -> None:
        self.number = 0

    def begin(self, facts: list[tuple[str, str]], count: int) -> None:
        print(f"1..{count}")
        for name, value in facts:
            print(f"# {name}: {value}")

    def example(self, verdict: str, topic: str, detail: str, outcome: Outcome | None) -> None:
        self.number += 1
        result = "not ok" if verdict == "FAIL" else "ok"
        directive = f" # SKIP {detail}" if verdict == "skip" else ""
        print(f"{result} {self.number} - {topic}{directive}")
        if verdict != "skip":
            print(f"# {detail}")
        if verdict == "FAIL":
            print(textwrap.indent(outputs(outcome), "# ", lambda line: True), flush=True)

    def end(self, verdicts: list[str]) -> None:
        pass


REPORTS = {"text": TextReport, "tap": TapReport}
