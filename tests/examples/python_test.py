# SPDX-License-Identifier: BSD-3-Clause
"""The Python client with a C server, and the excerpts of it in the documentation."""

import os
import re
import sys

import rpma
from support import (
    ADDR, HERE, ROOT, SOFTRDMA, ExamplesTest, Side, execute, free_port, main, pmem_file, program, run_pair)

CLIENT = ROOT / "examples/20-python/client.py"
PYTHON = Side(CLIENT.parent, has_options=False)
DOCUMENT = ROOT / "docs/python.md"


class Python(ExamplesTest):
    def run_client(self, *server_operands: str, text: str):
        port = free_port(ADDR)
        return run_pair([*SOFTRDMA, program("05", "server"), ADDR, port, *server_operands],
                        [[sys.executable, "-X", "dev", str(CLIENT), ADDR, port, text]], HERE, PYTHON, 60)

    def test_data_written_by_python_is_durable_in_the_file_of_the_server(self):
        with pmem_file() as path:
            outcome = self.run_client(str(path), "on", text="Grüße")
            self.assert_success(outcome)
            self.assertEqual(("durable: Grüße\n", ""), (outcome.client.stdout, outcome.client.stderr))
            self.assertIn("New value: Grüße", outcome.server.stdout)
            self.assertEqual("Grüße".encode() + b"\0", path.read_bytes()[17:25])

    def test_a_server_without_persistence_is_reported_in_one_line(self):
        outcome = self.run_client(text="lost")
        self.assert_failure(outcome.client, 1, "client.py: RPMA_E_NOSUPP")

    def test_a_port_without_a_server_and_a_wrong_command_line(self):
        result = execute([sys.executable, str(CLIENT), ADDR, free_port(ADDR)], env=os.environ | {"RPMA_DEVICE": "softrdma"})
        self.assert_failure(result, 1, "REJECTED")
        for wrong in ([], [ADDR], [ADDR, "1", "x" * 1024], [ADDR, "1", "x", "y"]):
            result = execute([sys.executable, str(CLIENT), *wrong])
            self.assert_status(result, 2)
            self.assertIn("usage: client.py ADDR PORT", result.stderr)

    def test_the_document_contains_the_example_and_every_name(self):
        document = DOCUMENT.read_text()
        shown = re.findall(r"```python\n(.*?)```", document, flags=re.DOTALL)
        self.assertIn(shown[0], CLIENT.read_text())
        for number, snippet in enumerate(shown):
            compile(snippet, f"{DOCUMENT} {number}", "exec")
        self.assertEqual([], [name for name in rpma.__all__ if f"`{name}" not in document])
        for name, member in vars(rpma).items():
            if name in rpma.__all__ and isinstance(member, type):
                methods = [method for method in vars(member) if not method.startswith("_") and callable(getattr(member, method))]
                self.assertEqual([], [method for method in methods if method not in document], name)


if __name__ == "__main__":
    main()
