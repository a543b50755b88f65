#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks what utils/check-classes counts as a member function."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Declarations of two functions each, and declarations of none.
TWO = ("int a();\n    int b() const { return 0; }", "x(int of) : v_(of) {}\n    ~x();", "bool operator==(const x &) const;\n    void f();",
       "template<class F>\n    void f(F g) { g(); }\n    std::function<int(int)> g(std::function<void()> h);",
       "// int c();\n    int a(), v = 0;\n    [[noreturn]] void b();")
NONE = ("int v = f();", "std::function<int(int)> f;", "int (*f)(int) = nullptr;", "using f = int(int);", "friend int f(x &);",
        "x(const x &) = delete;", "struct y {\n        int f();\n    };", "std::atomic<int> v{g()};")
LARGE = "    int a{}();\n"


class Classes(unittest.TestCase):
    def faults(self, members: str, folder: str = "mirror", name: str = "x") -> str:
        with tempfile.TemporaryDirectory() as root:
            source = pathlib.Path(root) / "src" / folder / "x.hpp"
            source.parent.mkdir(parents=True)
            source.write_text(f"class {name} final : public base\n{{\npublic:\n    {members}\n}};\n")
            done = subprocess.run([sys.executable, ROOT / "utils/check-classes", root], capture_output=True, text=True, check=False,
                                  timeout=60)
        self.assertEqual(done.returncode, 1 if "src/" in done.stdout else 0, done.stderr)
        return "".join(line for line in done.stdout.splitlines() if line.startswith("src/"))

    def count(self, members: str) -> int:
        """Returns the number of functions, found by adding others until the class is too large."""
        added = "".join(LARGE.format(number) for number in range(26))
        found = self.faults(members + "\n" + added)
        return int(found.split(" has ")[1].split()[0]) - 26

    def test_functions_are_counted(self) -> None:
        for members in TWO:
            with self.subTest(members):
                self.assertEqual(self.count(members), 2)

    def test_other_members_are_not(self) -> None:
        for members in NONE:
            with self.subTest(members):
                self.assertEqual(self.count(members), 0)

    def test_the_limit_is_25(self) -> None:
        self.assertEqual(self.faults("".join(LARGE.format(number) for number in range(25))), "")
        self.assertIn("x has 26 member functions", self.faults("".join(LARGE.format(number) for number in range(26))))

    def test_other_folders_have_no_limit(self) -> None:
        self.assertEqual(self.faults("".join(LARGE.format(number) for number in range(99)), "softrdma"), "")


if __name__ == "__main__":
    unittest.main()
