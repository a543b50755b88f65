#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Stops a program at each probe of librpma: the arguments are what the program says of itself. Needs no uprobes."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

# Fields of struct ibv_wc.
COMPLETION = ["*(unsigned long *)$_probe_arg0", "*(int *)($_probe_arg0 + 8)", "*(unsigned *)($_probe_arg0 + 28)"]


def commands(output):
    yield from ("set pagination off", "set debuginfod enabled off", "break main", f"run > {output}")
    for name, formats in support.FORMATS.items():
        values = [f"$_probe_arg{number}" for number in range(len(formats))]
        if name == "completion":
            formats, values = ["0x%lx", "%d", "%u"], COMPLETION
        elif name == "provider_error":
            values[0] = "(char *)$_probe_arg0"
        yield from (f"break -probe-stap librpma:{name}", "commands", "silent",
                    f'printf "PROBE {name} {" ".join(formats)}\\n", {", ".join(values)}', "continue", "end")
    yield "continue"


class Probes(unittest.TestCase):
    def test_the_arguments_are_those_of_the_program(self):
        # What the program and gdb say would be torn to pieces in one pipe.
        with tempfile.TemporaryDirectory() as scratch:
            script, output = pathlib.Path(scratch, "script.gdb"), pathlib.Path(scratch, "output")
            script.write_text("\n".join(commands(output)))
            result = subprocess.run(["gdb", "-nx", "-batch", "-x", script, support.TRACED],
                                    capture_output=True, text=True, timeout=150)
            of_itself = output.read_text() if output.exists() else ""
        if "ptrace: Operation not permitted" in result.stderr:
            support.skip("this machine does not let a debugger work")
        lines = result.stdout.splitlines()
        seen = sorted(line.partition(" ")[2] for line in lines if line.startswith("PROBE "))
        self.assertIn("exited normally", result.stdout, result.stderr)
        self.assertEqual(support.of_program(of_itself), seen)
        self.assertGreater(len(seen), 20)


if __name__ == "__main__":
    if shutil.which("gdb") is None:
        support.skip("gdb is not installed")
    sys.exit(unittest.main(verbosity=2))
