# SPDX-License-Identifier: BSD-3-Clause
"""rpmemd --remove: files that it deletes or preserves, and the errno value as exit code."""

import errno
import fcntl
import os
import unittest

from support import DaemonTest


class Remove(DaemonTest):
    def setUp(self):
        super().setUp()
        self.write_set("sets/a.set", (8, "p0"), (2, "p1"))
        self.set = self.place / "sets/a.set"

    def make_parts(self):
        return [self.write_part("p0", 8), self.write_part("p1", 2)]

    def test_the_parts_go_and_the_set_stays(self):
        parts = self.make_parts()
        done = self.rpmemd("--remove", "sets/a.set")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual([part.exists() for part in parts], [False, False])
        self.assertTrue(self.set.exists())

    def test_the_set_file_is_removed_on_request(self):
        for words in (["-r", "sets/a.set", "-s"], ["--remove=sets/a.set", "--pool-set", "--force"]):
            self.make_parts()
            self.write_set("sets/a.set", (8, "p0"), (2, "p1"))
            self.assertEqual(self.rpmemd(*words).returncode, 0)
            self.assertEqual(sorted(path.name for path in self.place.iterdir()), [".rpmemd.conf", "log", "sets"])
            self.assertFalse(self.set.exists())

    def test_without_all_parts_nothing_goes(self):
        part = self.write_part("p0", 8)
        self.refused(self.rpmemd("--remove", "sets/a.set", "--pool-set"), errno.ENOENT, "p1")
        self.assertTrue(part.exists() and self.set.exists())

    def test_force_continues_after_errors_and_succeeds(self):
        part = self.write_part("p1", 2)
        done = self.rpmemd("--remove", "sets/a.set", "--force")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertFalse(part.exists())
        for name in ("sets/a.set", "none.set", "/absolute.set", "../a.set", "sets"):
            self.assertEqual(self.rpmemd("--remove", name, "--force").returncode, 0, name)
        self.assertTrue(self.set.exists())

    def test_a_damaged_part_goes(self):
        # pmempool sync rebuilds a lost replica. First it removes the remaining files with --force.
        for words in ([], ["--force"]):
            parts = [self.write_part("p0", 7), self.write_part("p1", 0)]
            self.assertEqual(self.rpmemd("--remove", "sets/a.set", *words).returncode, 0)
            self.assertEqual([part.exists() for part in parts], [False, False])

    def test_a_wrong_set_is_refused(self):
        self.refused(self.rpmemd("--remove", "none.set"), errno.ENOENT, "none.set")
        self.refused(self.rpmemd("--remove", f"{self.place}/sets/a.set"), errno.EINVAL, "absolute")
        self.refused(self.rpmemd("--remove", "sets/../sets/a.set"), errno.EINVAL, r"'\.\.'")
        self.set.write_text("PMEMPOOLSET\n8M relative\n")
        self.refused(self.rpmemd("--remove", "sets/a.set"), errno.EINVAL, "line 2.*absolute")
        self.write_set("everybody.set", (8, "p0"), mode=0o666)
        self.refused(self.rpmemd("--remove", "everybody.set"), errno.EACCES, "writable by all users")

    def test_a_part_in_use_stays(self):
        first, second = self.make_parts()
        with second.open("rb") as user:
            fcntl.flock(user, fcntl.LOCK_EX)
            self.refused(self.rpmemd("--remove", "sets/a.set"), errno.EBUSY, "p1: in use")
            self.assertTrue(first.exists() and second.exists())
            self.assertEqual(self.rpmemd("--remove", "sets/a.set", "--force").returncode, 0)
            self.assertEqual((first.exists(), second.exists()), (False, True))

    def test_the_files_of_directories_go(self):
        for words in ([], ["--force"]):
            for name in ("one", "two"):
                (self.place / name).mkdir(exist_ok=True)
            parts = [self.write_part(name, 8) for name in ("one/000000.pmem", "two/000001.pmem", "one/000002.pmem")]
            other = self.write_part("one/000003.other", 8)
            self.write_set("d.set", (1024, "one"), (1024, "two"), options="OPTION SINGLEHDR\n")
            self.assertEqual(self.rpmemd("--remove", "d.set", *words).returncode, 0)
            self.assertEqual([part.exists() for part in parts], [False, False, False])
            self.assertTrue(other.exists())

    def test_a_link_is_not_followed(self):
        target = self.write_part("data", 8)
        os.symlink(target, self.place / "p0")
        self.write_part("p1", 2)
        self.refused(self.rpmemd("--remove", "sets/a.set"), errno.EACCES, "symbolic link")
        self.assertTrue(target.exists())

    @unittest.skipIf(os.geteuid() == 0, "root may do everything")
    def test_memory_without_read_permission_is_rejected(self):
        self.make_parts()
        (self.place / "p1").chmod(0)
        self.refused(self.rpmemd("--remove", "sets/a.set"), errno.EACCES, "p1")


if __name__ == "__main__":
    unittest.main()
