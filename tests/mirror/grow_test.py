#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rpma-mirror grow: the copies of real targets before, during and after growth, of a closed set and of one that a program has
open, with targets that reject it."""

import os
import unittest

from support import LENGTH, MirrorTest, limit_file_size

LARGE = 2 * LENGTH


class Grow(MirrorTest):
    def setUp(self):
        super().setUp()
        self.text = "data that must remain"

    def created(self, *targets, more="background-resync off"):
        """A closed set that contains a text."""
        host = super().created(*targets, more=more)
        writer = self.writer(host)
        self.assertEqual(self.flush(writer, self.text), 0)
        self.end(writer)
        self.done("resync", host)
        return host

    def with_space(self, more="background-resync off"):
        """Targets whose set files list a larger part."""
        targets = [self.target(), self.target()]
        host = self.created(*targets, more=more)
        for target in targets:
            target.list_parts(f"16M {target.place}/part")
        return host, targets

    def check_content(self, host, length, *targets):
        """Each copy has the text and zeros, and the copies are equal."""
        expected = self.text.encode().ljust(length, b"\0")
        for copy in [host.parent / "home", *(target.place / "part" for target in targets)]:
            self.assertTrue(copy.read_bytes()[:length] == expected, copy)
        state = self.json("status", host)
        self.assertEqual((state["length"], state["clean"]), (length, True))
        self.assertEqual(self.json("verify", host)["equal"], True)

    def test_a_set_grows_and_the_new_bytes_are_zero(self):
        host, (a, b) = self.with_space()
        self.assertEqual(self.json("grow", host, "16M"), {"length": LARGE, "in_sync": [0, 1, 2], "not_in_sync": []})
        self.check_content(host, LARGE, a, b)
        # The copies are equal, so the next opening compares nothing.
        self.assertEqual(self.json("resync", host)["compared"], 0)
        self.assertIn(f"length: {LARGE} bytes\n", self.done("grow", host, LARGE))
        self.refused(1, f"cannot shrink from {LARGE} to {LENGTH} bytes", "grow", host, "8M")
        self.refused(1, "not a multiple of 4096", "grow", host, LARGE + 1)
        self.check_content(host, LARGE, a, b)

    def test_a_set_grows_into_another_part(self):
        host, (a, b) = self.with_space()
        a.list_parts(f"8M {a.place}/part", f"4M {a.place}/second", f"4M {a.place}/third")
        (a.place / "third").write_bytes(b"x" * (4 << 20))
        self.done("grow", host, "12M")
        self.done("grow", host, "16M")
        self.assertEqual([(a.place / name).stat().st_size for name in ("part", "second", "third")],
                         [LENGTH, 4 << 20, 4 << 20])
        self.assertEqual((a.place / "third").read_bytes(), bytes(4 << 20))
        self.check_content(host, LARGE, b)
        # A set that is opened while its set file lists more keeps its length.
        b.list_parts(f"32M {b.place}/part")
        for target in a, b:
            target.kill()
            target.start()
        self.check_content(host, LARGE, b)

    def unchanged(self, host, *targets):
        """The set has its old length on each copy, which count as unchanged, and a program can use it."""
        self.assertEqual(self.json("resync", host)["compared"], 0)
        self.check_content(host, LENGTH, *targets)
        writer = self.writer(host)
        self.assertEqual(self.flush(writer, self.text), 0)
        self.end(writer)
        self.done("resync", host)

    def test_a_target_without_the_capacity_rejects_it(self):
        host, (a, b) = self.with_space()
        b.list_parts(f"12M {b.place}/part")
        self.refused(1, "set too small: its parts have 12582912 bytes, 16777216 requested .increase .* add a part.$", "grow",
                     host, "16M")
        self.unchanged(host, a, b)
        b.list_parts(f"16M {b.place}/other")
        self.refused(1, "part: differs from the set file", "grow", host, "16M")
        b.list_parts(f"8M {b.place}/part")
        self.unchanged(host, a, b)
        self.done("grow", host, "8M")

    @unittest.skipIf(os.getuid() != 0, "only root can mount a file system")
    def test_a_full_disk_of_a_target_rejects_it(self):
        disk = self.place / "target1" / "disk"
        mount = f'mkdir -p {disk} && mount -t tmpfs -o size=12M none {disk} && exec "$@"'
        a, b = self.target(), self.target(at=("unshare", "-m", "sh", "-c", mount, "sh"))
        part = f"/proc/{b.process.pid}/root{disk}/part"
        b.list_parts(f"8M {disk}/part")
        a.list_parts(f"16M {a.place}/part")
        host = self.created(a, b)
        b.list_parts(f"16M {disk}/part")
        self.refused(1, "cannot extend the part .* to 16777216 bytes: No space left on device", "grow", host, "16M")
        self.assertEqual(os.stat(part).st_size, LENGTH)
        self.unchanged(host, a)
        b.list_parts(f"12M {disk}/part")
        self.done("grow", host, "12M")
        self.check_content(host, 12 << 20, a)
        with open(part, "rb") as file:
            self.assertEqual(file.read(), self.text.encode().ljust(12 << 20, b"\0"))

    def test_a_full_disk_of_this_machine_rejects_it(self):
        host, (a, b) = self.with_space()
        self.refused(1, "cannot extend .*home to 16777216 bytes: File too large", "grow", host, "16M",
                     preexec_fn=limit_file_size(LENGTH))
        self.assertEqual((host.parent / "home").stat().st_size, LENGTH)
        self.unchanged(host, a, b)

    def test_a_set_in_use_is_rejected(self):
        host, (a, b) = self.with_space()
        host.write_text(host.read_text().replace("background-resync", "admin-socket off\nbackground-resync"))
        writer = self.writer(host)
        self.refused(1, "in use by another process", "grow", host, "16M")
        self.assertEqual(self.flush(writer, self.text), 0)
        there = self.host(5, a, b)
        self.refused(1, "rpma-mirror promote", "grow", there, "16M")
        self.assertEqual(self.flush(writer, self.text), 0)

    def grown_in_use(self, host, writer, length):
        self.assertEqual(self.json("grow", host, length), {"length": length, "in_sync": [0, 1, 2], "not_in_sync": []})
        self.assertEqual(self.json("status", host, status=0)["length"], length)
        self.assertEqual(self.flush(writer, self.text), 0)

    def test_a_set_grows_in_use(self):
        host, (a, b) = self.with_space(more="max-length 16M")
        writer = self.writer(host)
        a.list_parts(f"10M {a.place}/part")
        self.refused(1, "set too small: .*: the length of the set is unchanged$", "grow", host, "12M")
        a.list_parts(f"16M {a.place}/part")
        self.grown_in_use(host, writer, 12 << 20)
        self.refused(1, "cannot shrink from 12582912 to 8388608 bytes", "grow", host, "8M")
        self.refused(1, "not a multiple of 4096", "grow", host, "12582913")
        self.refused(1, "addresses are reserved for 16777216 .increase max-length", "grow", host, "17M")
        self.grown_in_use(host, writer, LARGE)
        self.assertTrue(self.json("verify", host)["equal"])
        self.end(writer)
        self.done("resync", host)
        self.check_content(host, LARGE, a, b)


if __name__ == "__main__":
    unittest.main()
