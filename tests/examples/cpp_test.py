# SPDX-License-Identifier: BSD-3-Clause
"""The C++ client with a C server, and the excerpts of it in the documents."""

import re

from support import ROOT, ExamplesTest, main, pair

TOPIC = ROOT / "examples/18-cpp-handles"
TEXT = "Written in C++"


class Cpp(ExamplesTest):
    def test_data_written_in_cpp_arrives_at_a_server_in_c(self):
        outcome = pair("05", "18", (), (TEXT,))
        self.assert_success(outcome)
        self.assertEqual((f"Wrote a text: {TEXT}\n", ""), (outcome.client.stdout, outcome.client.stderr))
        self.assertIn(f"New value: {TEXT}", outcome.server.stdout)

    def test_the_documents_show_the_example(self):
        source = (TOPIC / "client.cpp").read_text()
        for document in (ROOT / "docs/cpp.md", TOPIC / "README.md"):
            shown = re.findall(r"```cpp\n(.*?)```", document.read_text(), flags=re.DOTALL)
            excerpts = [snippet for snippet in shown if "main(" not in snippet]  # man.listings runs whole programs
            self.assertTrue(excerpts, document)
            for snippet in excerpts:
                self.assertIn(snippet, source, document)


if __name__ == "__main__":
    main()
