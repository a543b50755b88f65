#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the arguments of each librpma probe against the output of the program. Needs no uprobes."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

import support

# Runs in gdb without stopping for the user. At such a stop gdb removes all breakpoints and halts all threads, and it
# can lose hits of other threads.
WATCH = """
import json

class Watched(gdb.Breakpoint):
    def __init__(self, name, form, values):
        super().__init__("-probe-stap librpma:" + name)
        self.silent = True
        self.name, self.form, self.values = name, form, values

    def stop(self):
        if self.name == "poll":
            gdb.set_convenience_variable("polled_to", gdb.parse_and_eval("$_probe_arg0"))
            return False
        found = [gdb.parse_and_eval(value) for value in self.values]
        found = [value.string() if value.type.code == gdb.TYPE_CODE_PTR else int(value) for value in found]
        seen.write("%s %s\\n" % (self.name, self.form % tuple(found)))
        return False

gdb.execute("break main")
gdb.execute("run > " + output)
with open(seen_by_gdb, "w", encoding="utf-8") as seen:
    for name, form, values in json.loads(probes):
        Watched(name, form, values)
    gdb.execute("continue")
"""

# How gdb reads an argument of that form, and fields of the struct ibv_wc that was polled to.
TYPES = {"%u": "(unsigned)", "%d": "(int)", "%lu": "(unsigned long)", "0x%lx": "(unsigned long)", "%s": "(char *)"}
COMPLETION = ["*(unsigned long *)$polled_to", "*(int *)($polled_to + 8)", "*(unsigned *)($polled_to + 28)"]


def watched():
    """Returns the output of the program, and the observations of gdb."""
    with tempfile.TemporaryDirectory() as scratch:
        script, output, seen = (pathlib.Path(scratch, name) for name in ("script.py", "output", "seen"))
        probes = list(support.arguments(lambda number, form: f"{TYPES[form]}$_probe_arg{number}", COMPLETION))
        known = {"output": str(output), "seen_by_gdb": str(seen), "probes": json.dumps(probes)}
        script.write_text("".join(f"{name} = {value!r}\n" for name, value in known.items()) + WATCH)
        result = support.execute(["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-x", script, support.TRACED])
        if "exited normally" not in result.stdout:
            raise AssertionError(f"the program does not come to its end in gdb:\n{result.stdout}\n{result.stderr}")
        return support.of_program(output.read_text()), sorted(seen.read_text().splitlines())


class Probes(unittest.TestCase):
    maxDiff = None

    def test_the_arguments_are_those_of_the_program(self):
        of_itself, seen = watched()
        self.assertEqual(of_itself, seen)
        self.assertGreater(len(seen), 20)


if __name__ == "__main__":
    if shutil.which("gdb") is None:
        support.skip("gdb is not installed")
    usable = support.execute(["gdb", "-nx", "-batch", "-ex", "python pass", "-ex", "run", "/bin/true"])
    if "not supported in this copy of GDB" in usable.stderr:
        support.skip("this gdb does not know Python: install gdb instead of gdb-minimal")
    if "exited normally" not in usable.stdout:
        support.skip("this machine does not let a debugger work: " + usable.stderr.strip().replace("\n", " "))
    sys.exit(unittest.main(verbosity=2))
