# SPDX-License-Identifier: BSD-3-Clause
"""Server and client of example 20: several clients write into the file of one server.

usage: example_test.py EXAMPLE-DIRECTORY"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import ADDR, LIMIT_S, execute, free_port

EXAMPLE = pathlib.Path(sys.argv.pop(1))


class ExampleTest(unittest.TestCase):
    def setUp(self):
        self.file = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="rpma-example-20-")), "file")
        self.file.write_bytes(bytes(4096))

    def run_program(self, name, *arguments):
        return execute([sys.executable, EXAMPLE / name, *arguments], timeout=LIMIT_S)

    def test_two_clients_write_into_the_file(self):
        port = str(free_port())
        with subprocess.Popen([sys.executable, EXAMPLE / "server.py", ADDR, port, self.file, "2"], stdout=subprocess.PIPE,
                              text=True) as server:
            self.addCleanup(server.kill)
            self.assertEqual(f"listening on {ADDR} port {port}\n", server.stdout.readline())
            for text in ("first", "second"):
                done = self.run_program("client.py", ADDR, port, text)
                self.assertEqual((0, f"durable: {text}\n"), (done.returncode, done.stdout), done.stderr)
                self.assertEqual(f"New value: {text}\n", server.stdout.readline())
                self.assertTrue(self.file.read_bytes().startswith(text.encode() + b"\0"))
        self.assertEqual(0, server.returncode)

    def test_failures_have_one_line(self):
        for arguments, status, words in (((ADDR, "1"), 2, "usage: server.py"), ((ADDR, "1", self.file, "x"), 2, "usage: server.py"),
                                         (("name.invalid", str(free_port()), self.file), 1, "server.py: RPMA_E_PROVIDER"),
                                         ((ADDR, str(free_port()), "/no/file"), 1, "server.py: [Errno 2]")):
            done = self.run_program("server.py", *arguments)
            self.assertEqual(status, done.returncode, done.stderr)
            self.assertTrue(done.stderr.startswith(words), done.stderr)
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
