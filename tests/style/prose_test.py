#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that utils/check-prose reports, or accepts, files with one sentence each."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECK = ROOT / "utils/check-prose"


class Prose(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        (self.root / "utils").mkdir()
        shutil.copy(ROOT / "utils/prose-rules.toml", self.root / "utils")
        (self.root / "utils/prose-allow").write_text("")
        (self.root / "utils/prose-baseline").write_text("# head\n")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def check(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, CHECK, "--root", self.root, *arguments], capture_output=True, text=True,
                              check=False, timeout=60)

    def reported(self, path: str, text: str) -> list[str]:
        self.write(path, text)
        done = self.check(path)
        self.assertEqual(done.returncode, 1 if done.stdout else 0, done.stderr)
        return [line.partition(": \"")[0] for line in done.stdout.splitlines()]

    def test_sentences_of_joined_comments(self) -> None:
        self.assertEqual(self.reported("src/a.cpp", "// Copies bytes. It\n// is told where.\nint x; // nobody\n"),
                         ["src/a.cpp:1: rule 16", "src/a.cpp:3: rule 37"])

    def test_block_comments(self) -> None:
        self.assertEqual(self.reported("include/a.h", "/*\n * Returns it.\n * Whoever asks waits.\n */\n"),
                         ["include/a.h:3: rule 2"])

    def test_comment_below_the_license(self) -> None:
        self.assertEqual(self.reported("src/a.cpp", "// SPDX-License-Identifier: BSD-3-Clause\n// Copies bytes.\n// Who calls?\n// Nobody.\n"),
                         ["src/a.cpp:4: rule 9"])
        self.assertEqual(self.reported("utils/a.sh", "#!/bin/sh\n# SPDX-License-Identifier: BSD-3-Clause\n# Who calls.\n"),
                         ["utils/a.sh:3: rule 2"])

    def test_messages_with_adjacent_literals(self) -> None:
        self.assertEqual(self.reported("src/a.cpp", 'log("the peer " "speaks nonsense");'), ["src/a.cpp:1: rule 19"])

    def test_literals_that_are_not_messages(self) -> None:
        self.assertEqual(self.reported("src/a.cpp", 'const char *key = "told";'), [])

    def test_character_literals_and_raw_strings(self) -> None:
        self.assertEqual(self.reported("src/a.cpp", "char q = '\"'; // nobody\nauto r = R\"(// nobody)\";\n"),
                         ["src/a.cpp:1: rule 37"])

    def test_python(self) -> None:
        self.assertEqual(self.reported("utils/a.py", '"""Says why."""\n# Who calls\nx = "nobody was there"\n'),
                         ["utils/a.py:1: rule 17", "utils/a.py:2: rule 2", "utils/a.py:3: rule 37"])

    def test_markdown_without_code_and_links(self) -> None:
        self.assertEqual(self.reported("docs/a.md", "# A\n\n```\nnobody\n```\n\n`nobody` [x](nobody.md)\n\n| a | nobody |\n"),
                         ["docs/a.md:9: rule 37"])

    def test_questions_are_allowed(self) -> None:
        self.assertEqual(self.reported("docs/a.md", "What does a flush do?\n"), [])

    def test_identifiers(self) -> None:
        self.assertEqual(self.reported("src/a.cpp", "int most_lanes;\n"), ["src/a.cpp:1: rule 53"])
        self.assertEqual(self.reported("tests/a.cpp", "int most_lanes; void it_says_no();\n"), ["tests/a.cpp:1: rule 55"])

    def test_one_case_is_permitted_in_place(self) -> None:
        self.assertEqual(self.reported("src/a.cpp", "// prose-allow: 37\n// nobody is a user of Linux.\n"), [])

    def test_one_case_is_permitted_by_the_list(self) -> None:
        (self.root / "utils/prose-allow").write_text("src/a.cpp:37:user of Linux\n")
        self.assertEqual(self.reported("src/a.cpp", "// nobody is a user of Linux. It has nobody.\n"),
                         ["src/a.cpp:1: rule 37"])

    def in_repository(self) -> None:
        subprocess.run(["git", "init", "-q", self.root], check=True)
        subprocess.run(["git", "-C", self.root, "add", "."], check=True)

    def test_baseline_only_falls(self) -> None:
        self.write("docs/a.md", "nobody\n\nnobody\n")
        self.in_repository()
        self.assertEqual(self.check("--update").returncode, 1)
        (self.root / "utils/prose-baseline").write_text("# head\ndocs 3\n")
        self.assertIn("--update", self.check().stdout)
        self.assertEqual(self.check("--update").returncode, 0)
        self.assertEqual((self.root / "utils/prose-baseline").read_text(), "# head\ndocs 2\n")
        self.assertEqual(self.check().returncode, 0)
        self.write("docs/b.md", "nobody\n")
        subprocess.run(["git", "-C", self.root, "add", "."], check=True)
        self.assertIn("docs/b.md:1: rule 37", self.check().stdout)

    def test_wrong_usage(self) -> None:
        self.assertEqual(self.check("--nosuch").returncode, 2)
        self.assertEqual(self.check("nosuch.md").returncode, 2)


if __name__ == "__main__":
    unittest.main()
