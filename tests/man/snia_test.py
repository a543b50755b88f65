#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that docs/snia.md lists each of the 29 requirements once, and that each test and function in it exists."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = (ROOT / "include/librpma_mirror.h").read_text()


def source_of(suite):
    """Returns the source file of a ctest suite."""
    room, name = suite.split(".", 1)
    if room == "vm":
        registered = f"({name} " in (ROOT / "tests/vm/CMakeLists.txt").read_text()
        last = name.rpartition(".")[2]
        found = [path for path in (ROOT / f"tests/vm/{last}.c", ROOT / f"tests/vm/{last.replace('_', '-')}") if path.is_file()]
        return found[0].read_text() if registered and found else None
    if (room, name) == ("mirror", "simulation"):
        return "".join((ROOT / "tests/mirror/simulation" / file).read_text() for file in ("history.cpp", "lasting.cpp"))
    simulation = {"simulation_mutants": "simulation/mutants.py"}
    for candidate in (f"{name}.cpp", f"{name}_test.cpp", f"{name}_test.py", simulation.get(name, "")):
        path = ROOT / "tests" / room / candidate
        if path.is_file():
            return path.read_text()
    return None


def faults(text):
    rows = re.findall(r"(?m)^\| (\d+) \|(.*)\|(.*)\|(.*)\|$", text)
    if [int(row[0]) for row in rows] != list(range(1, 30)):
        yield "the rows are not 1 to 29"
    for number, _, answer, proof in rows:
        named = [(suite, function) for suite, functions in re.findall(r"`([a-z]+\.[a-z_.]+)`((?: `[a-z_0-9]+`)+)", proof)
                 for function in re.findall(r"\w+", functions)]
        if not named:
            yield f"{number}: no test is named"
        for suite, function in named:
            source = source_of(suite)
            if source is None:
                yield f"{number}: suite {suite} not found"
            elif not re.search(rf"TEST\((?:[\w<>\s]+,\s+)?{function}[,)]|(def |void (?:history|scenario)::|static void ){function}\("
                               rf'|\("{function}", ', source):
                yield f"{number}: {suite} lacks {function}"
        for name in re.findall(r"\b(?:rpma_mirror|RPMA_MIRROR)_\w+", answer):
            if not re.search(rf"\b{name}\b", HEADER):
                yield f"{number}: the header lacks {name}"


class Snia(unittest.TestCase):
    def setUp(self):
        self.text = (ROOT / "docs/snia.md").read_text()

    def test_each_requirement_has_its_proof(self):
        self.assertEqual(list(faults(self.text)), [])

    def test_missing_items_are_reported(self):
        for before, after, expected in (
                ("| 7 |", "| 8 |", "the rows are not 1 to 29"),
                ("`tickets_and_order`", "`tickets_and_chaos`", "11: mirror.set_test lacks tickets_and_chaos"),
                ("`starts_do_not_wait`", "`starts_wait`", "29: mirror.tickets_test lacks starts_wait"),
                ("`mirror.table` `a_set_is_mapped", "`mirror.chair` `a_wished", "1: suite mirror.chair not found"),
                ("`rpma_mirror_sync`", "`rpma_mirror_sink`", "4: the header lacks rpma_mirror_sink")):
            self.assertIn(before, self.text)
            self.assertIn(expected, list(faults(self.text.replace(before, after, 1))))


if __name__ == "__main__":
    unittest.main()
