# SPDX-License-Identifier: BSD-3-Clause
"""Compiles each program in the documents as printed. Each must write into the file of the server of example 05.

usage: listings_test.py BUILD"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
from common import directory, free_port  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
# Detects a hang; every program takes much less.
LIMIT_S = 60


def listing(document: str, language: str) -> str:
    """Returns the first complete program of a document in the given language."""
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    programs = [block for block in re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if "main(" in block]
    return programs[0]


class ListingsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.scratch = directory(self, prefix="librpma-listings-")

    def compile(self, source: str, compiler: str, suffix: str, *flags: str) -> pathlib.Path:
        file, program = self.scratch / f"client{suffix}", self.scratch / "client"
        file.write_text(source, encoding="utf-8")
        subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", *flags, f"-I{ROOT}/include", file, "-o", program, f"-L{BUILD}/lib",
                        f"-Wl,-rpath,{BUILD}/lib", "-lrpma", "-libverbs"], check=True)
        return program

    def expect_written(self, program: pathlib.Path, text: str) -> None:
        """Runs the program as a client of the server of example 05, whose file must then contain the text."""
        file, port = self.scratch / "server.pmem", str(free_port())
        file.write_bytes(bytes(65536))
        device = [BUILD / "bin/softrdma", "run", "--"]
        ready, announce = os.pipe()
        server = subprocess.Popen([*device, BUILD / "examples/05-flush-to-persistent/server", "--ready-fd", str(announce),
                                   "127.0.0.1", port, file, "on"], pass_fds=[announce], stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        os.close(announce)
        self.assertTrue(os.read(ready, 1))  # end of file if the server exits
        os.close(ready)
        done = subprocess.run([*device, program, "127.0.0.1", port], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual((0, f"durable: {text}\n"), (done.returncode, done.stdout), done.stderr)
        server.communicate(timeout=LIMIT_S)
        self.assertEqual(0, server.returncode)
        self.assertIn(text.encode(), file.read_bytes())

    def test_the_fifteen_calls_of_c(self) -> None:
        source = listing("rdma-in-ten-minutes.md", "c")
        before_the_end = source[source.index("1 to 3"):source.index("The end")]
        calls = re.findall(r"\b(rpma_\w+)\(", before_the_end)
        self.assertEqual(15, len([call for call in calls if not call.endswith("2str")]), calls)
        self.expect_written(self.compile(source, os.environ.get("CC", "cc"), ".c", "-std=c11"), "Written in ten minutes")

    def test_the_program_of_cpp(self) -> None:
        source = listing("cpp.md", "cpp")
        self.expect_written(self.compile(source, os.environ.get("CXX", "c++"), ".cpp", "-std=c++20"), "Written in C++")


if __name__ == "__main__":
    unittest.main(verbosity=2)
