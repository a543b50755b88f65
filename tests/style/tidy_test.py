#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of utils/check-tidy: what counts as checked in a clone without an earlier run."""

import pathlib
import subprocess
import tempfile
import unittest

import scripts

tidy = scripts.load("check-tidy")


class Upstream(unittest.TestCase):
    def setUp(self):
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.origin, self.clone = directory / "origin", directory / "my clone"
        self.git(directory, "init", "--quiet", self.origin)
        for name in ("a.cpp", "b.cpp", "CMakeLists.txt"):
            (self.origin / name).write_text("// empty\n")
        self.git(self.origin, "add", ".")
        self.commit(self.origin)
        self.git(directory, "clone", "--quiet", self.origin, self.clone)

    @staticmethod
    def git(directory, *arguments):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=n@localhost", *arguments], cwd=directory, check=True)

    def commit(self, directory):
        self.git(directory, "commit", "--quiet", "--all", "--message=test")

    def assert_equal(self, expected, root):
        is_unchanged = tidy.equals_upstream(root)
        self.assertEqual(expected, {name for name in ("a.cpp", "b.cpp") if is_unchanged({root / name})})

    def test_a_fresh_clone_equals_its_upstream(self):
        self.assert_equal({"a.cpp", "b.cpp"}, self.clone)

    def test_committed_and_other_changes_are_checked(self):
        (self.clone / "a.cpp").write_text("// changed\n")
        self.assert_equal({"b.cpp"}, self.clone)
        self.commit(self.clone)
        self.assert_equal({"b.cpp"}, self.clone)

    def test_another_build_is_checked(self):
        (self.clone / "CMakeLists.txt").write_text("# changed\n")
        self.assert_equal(set(), self.clone)

    def test_without_an_upstream_branch_all_are_checked(self):
        self.assert_equal(set(), self.origin)


if __name__ == "__main__":
    unittest.main()
