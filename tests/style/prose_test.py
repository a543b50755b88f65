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


# What a file contains, and its path: the text, and the reports with their lines.
FILES = {
    ("joined comments", "src/a.cpp"):
        ("// Copies bytes. It\n// is told where.\nint x; // nobody\n", "1: rule 16", "3: rule 37"),
    ("a block comment", "include/a.h"): ("/*\n * Returns it.\n * Whoever asks waits.\n */\n", "3: rule 2"),
    ("a comment below the license", "src/a.cpp"):
        ("// SPDX-License-Identifier: BSD-3-Clause\n// Copies bytes.\n// Who calls?\n// Nobody.\n", "4: rule 9"),
    ("a comment below the license", "utils/a.sh"):
        ("#!/bin/sh\n# SPDX-License-Identifier: BSD-3-Clause\n# Who calls.\n", "3: rule 2"),
    ("a message of adjacent literals", "src/a.cpp"): ('log("the peer " "speaks nonsense");', "1: rule 19"),
    ("a literal that is no message", "src/a.cpp"): ('const char *key = "told";',),
    ("a character literal and a raw string", "src/a.cpp"):
        ("char q = '\"'; // nobody\nauto r = R\"(// nobody)\";\n", "1: rule 37"),
    ("Python", "utils/a.py"):
        ('"""Says why."""\n# Who calls\nx = "nobody was there"\n', "1: rule 17", "2: rule 2", "3: rule 37"),
    ("Markdown with code and links", "docs/a.md"):
        ("# A\n\n```\nnobody\n```\n\n`nobody` [x](nobody.md)\n\n| a | nobody |\n", "9: rule 37"),
    ("a question", "docs/a.md"): ("What does a flush do?\n",),
    ("an identifier", "src/a.cpp"): ("int most_lanes;\n", "1: rule 53"),
    ("an identifier of tests", "tests/a.cpp"): ("int most_lanes; void it_says_no();\n", "1: rule 55"),
    ("a case permitted in place", "src/a.cpp"): ("// prose-allow: 37\n// nobody is a user of Linux.\n",),
}


class Prose(unittest.TestCase):
    def setUp(self) -> None:
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
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

    def test_files(self) -> None:
        for (what, path), (text, *expected) in FILES.items():
            with self.subTest(what=what):
                self.assertEqual(self.reported(path, text), [f"{path}:{place}" for place in expected])

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
