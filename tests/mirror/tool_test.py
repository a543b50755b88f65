#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rpma-mirror with real targets: its output, its effect on the copies, and its exit codes."""

import fcntl
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import unittest
import unittest.mock

from support import LIBRARY, LIMIT_S, TOOL, MirrorTest, limit_file_size, wait_until

FENCED, INCOMPLETE = -110004, -110007


class Tool(MirrorTest):
    def test_status_of_a_whole_set_and_of_one_that_is_not(self):
        a, b = self.target(), self.target()
        host = self.host(0, a, b)
        self.refused(1, "create", "status", host)
        self.done("create", host)
        text = self.done("status", host)
        self.assertRegex(text, r"^set [0-9a-f]{32}: 8\.0 MiB, policy safety, epoch 1, version 1, not clean")
        self.assertRegex(text, rf"(?m)^2 +in sync +1\.1 +{b.address} set$")
        self.assertRegex(text, r"(?m)^0 +in sync +1\.1 +\S+/home \(this machine\)$")
        self.assertTrue(text.endswith("\nall copies are in sync\n"))
        state = self.json("status", host)
        self.assertEqual((state["members"], state["in_sync"], state["not_in_sync"]), ([0, 1, 2], [0, 1, 2], []))
        self.assertEqual([copy["state"] for copy in state["copies"]], ["in sync"] * 3)
        self.refused(1, "local copy already exists", "create", host)
        b.kill()
        text = self.done("status", host, status=1)
        self.assertRegex(text, r"(?m)^2 +offline +- .*connection to the target failed$")
        self.assertTrue(text.endswith("\nnot in sync: copy 2\n"))
        self.assertEqual(self.json("status", host, status=1)["not_in_sync"], [2])

    def test_status_of_a_set_that_cannot_be_reached_names_the_targets(self):
        a, b = self.target(), self.target()
        here, there = self.host(0, a, b), self.host(5, a, b)
        self.refused(1, "does not exist .run rpma-mirror create", "status", there)
        self.done("create", here)
        a.kill()
        b.kill()
        text = rf"copy 1 at {a.address}: connection to the target failed; copy 2 at {b.address}: .*rpmemd --listen"
        self.refused(1, text, "status", there)
        # The machine that has a copy reports the state of that copy.
        self.assertRegex(self.done("status", here, status=1), r"(?m)^2 +offline +- .*connection to the target failed$")

    def samples(self, host, status):
        """Value of each sample of the state by name and copy."""
        found = {}
        for (name, labels), value in self.parsed(self.done("status", "--prometheus", host, status=status)).items():
            if ',set="' not in labels:  # the program does not have the set open, or the state contains the sample
                sample = re.fullmatch(rf'set_file="{host}"(?:,copy="(\d+)",location="[^"]+")?', labels)
                self.assertIsNotNone(sample, labels)
                found[name, sample[1]] = value
        return found

    def mark(self, writer, text, number):
        self.assertEqual(self.flush(writer, text), 0)
        self.assertEqual(self.flush(writer, f"mark {number}"), 0)

    def test_a_copy_is_read_while_a_writer_works(self):
        a, b = self.target(), self.target()
        here, there = self.host(0, a, b), self.host(5, a, b)
        file = self.place / "backup"
        self.refused(1, "not found", "read", there, file)
        self.done("create", here)
        self.refused(1, "no consistency point was set in time .open the set and set one, or close it", "read", "--timeout", 1, there, file)
        writer = self.writer(here)
        self.mark(writer, "first", 7)
        # Without a point the file is not written, and the one that exists stays.
        file.write_text("old")
        self.refused(1, "no consistency point", "read", "--timeout", 5, there, file)
        self.assertEqual(file.read_text(), "old")
        text = self.done("read", "--any-time", there, file)
        self.assertRegex(text, r"^\S+/backup: 8\.0 MiB from copy 1\ncontent of any time after consistency point 7, not consistent\n$")
        self.assertEqual((file.stat().st_size, file.read_bytes()[:6]), (8 << 20, b"first\0"))
        reading = subprocess.Popen([TOOL, "read", "--json", there, file], stdout=subprocess.PIPE, text=True)
        number = 7
        while reading.poll() is None:
            number += 1
            self.mark(writer, f"text{number:04}", number)
        result = json.loads(reading.communicate()[0])
        self.assertEqual((result["consistency"], result["age_proven"], result["epoch"]), ("point", True, 2))
        self.assertEqual(file.read_bytes()[:8].decode(), f"text{result['consistency_point']:04}")
        # The epoch is that of the writer, which still has all targets.
        state = self.json("status", there, status=1)
        self.assertEqual((state["epoch"], state["in_sync"]), (2, [0, 1, 2]))
        self.assertEqual(list(self.place.glob("backup.*")), [])
        self.refused(1, "cannot write .*No such file", "read", "--any-time", there, self.place / "none" / "backup")
        os.mkfifo(self.place / "pipe")
        self.refused(1, "cannot write .*not a regular file", "read", "--any-time", there, self.place / "pipe")
        self.assertTrue((self.place / "pipe").is_fifo())
        writer.send_signal(signal.SIGSTOP) # so it does not evict the target
        b.kill()
        self.assertRegex(self.done("read", "--any-time", there, file), "a target in sync did not respond")

    def test_a_full_disk_leaves_the_file(self):
        a = self.target()
        here = self.created(a)
        writer = self.writer(here)
        self.mark(writer, "first", 1)
        file = self.place / "backup"
        file.write_text("old")
        self.refused(1, "cannot write .*File too large", "read", "--any-time", here, file, preexec_fn=limit_file_size(1 << 20))
        self.assertEqual(file.read_text(), "old")
        self.assertEqual(list(self.place.glob("backup.*")), [])

    def test_status_as_metrics(self):
        a, b = self.target(), self.target()
        host = self.host(0, a, b)
        result = self.tool("status", "--prometheus", host)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r'(?m)^rpma_mirror_epoch\{set_file="\S+"\} 0$')
        self.assertRegex(result.stderr, "^rpma-mirror: the set does not exist")
        self.done("create", host)
        found = self.samples(host, 0)
        self.assertEqual(found["rpma_mirror_length_bytes", None], 8 << 20)
        self.assertEqual((found["rpma_mirror_copies", None], found["rpma_mirror_copies_in_sync", None]), (3, 3))
        writer = self.writer(host)
        self.assertEqual(self.flush(writer, "mark 77"), 0)
        b.kill()
        wait_until(lambda: self.tool("status", host).returncode == 1)
        found = self.samples(host, 1)
        self.assertEqual((found["rpma_mirror_in_use", None], found["rpma_mirror_consistency_point", None]), (1, 77))
        self.assertEqual([found["rpma_mirror_copy_online", copy] for copy in "012"], [1, 1, 0])
        self.assertEqual(found["rpma_mirror_epoch", None], found["rpma_mirror_copy_record_epoch", "1"])
        self.assertEqual(found["rpma_mirror_clean", None], 0)
        self.refused(2, "--json excludes --prometheus", "status", "--json", "--prometheus", host)

    def test_a_failure_has_its_code_in_the_json(self):
        a = self.target()
        host = self.created(a)
        a.kill()
        result = self.tool("resync", "--json", host)
        self.assertEqual(result.returncode, 1)
        error = json.loads(result.stdout)["error"]
        self.assertEqual((error["code"], error["text"]), (INCOMPLETE, "a target that was in sync does not respond"))
        self.assertEqual(result.stderr, f"rpma-mirror: {error['message']}\n")

    def test_a_target_that_returns_is_resynced(self):
        a, b = self.target(), self.target()
        host = self.created(a, b)
        b.kill()
        self.refused(1, r"copy 2 .*in sync but unreachable \(target .*is rpmemd --listen running there", "resync", host)
        report = self.json("resync", host, "--force", status=1)
        self.assertEqual((report["in_sync"], report["not_in_sync"]), ([0, 1], [2]))
        b.start()
        b.damage(5_000_000, b"old")
        result = self.tool("resync", host, "--progress", "on")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("in sync: 0, 1 and 2\n", result.stdout)
        self.assertRegex(result.stderr, r"(?m)^copy 2: 100% of 8\.0 MiB, \S+ .?i?B/s, 0 s left, 64\.0 KiB sent$")
        self.assertEqual(b.bytes(5_000_000, 3), b"\0\0\0")
        # A second call does not need to do anything.
        self.assertEqual(self.json("resync", host)["compared"], 0)

    def test_verify_finds_what_differs_and_leaves_it(self):
        a, b = self.target(), self.target()
        host = self.created(a, b)
        self.assertTrue(self.json("verify", host)["equal"])
        # The medium fails while the set is open. The next opening detects errors that happened before it.
        verify = subprocess.Popen([TOOL, "verify", "--json", "--rate", "4M", host], stdout=subprocess.PIPE, text=True)
        while not self.tool("status", "--json", host).stdout.count('"in_use": true'):
            self.assertIsNone(verify.poll())
        b.damage(7_000_000, b"rot")
        found = json.loads(verify.communicate()[0])
        self.assertEqual(verify.returncode, 1)
        self.assertFalse(found["equal"])
        self.assertEqual([copy["different"] for copy in found["copies"]], [0, 1])
        self.assertEqual(found["copies"][1]["first"], 7_000_000 // 65536 * 65536)
        self.assertEqual(b.bytes(7_000_000, 3), b"rot")
        self.done("resync", host)
        self.assertEqual(b.bytes(7_000_000, 3), b"\0\0\0")
        self.assertIn("the copies are equal", self.done("verify", host, "2"))
        # The opening detects what another program writes into the file of a copy.
        with open(b.place / "part", "r+b") as part:
            part.write(b"stranger")
        self.assertIn("files of a copy were changed after the close: opening it sent 64.0 KiB\n",
                      self.done("verify", host))
        self.refused(2, "target of copy 7 not found", "verify", host, "7")

    def test_verify_reports_the_level_of_each_target(self):
        a, b = self.target(), self.target()
        host = self.created(a, b)
        for memory, level in (("PAGE", r"(volatile|written-back)"), ("CACHE_LINE", "native-flush")):
            with unittest.mock.patch.dict(os.environ, PMEM2_FORCE_GRANULARITY=memory):
                for t in (a, b):
                    t.kill()
                    t.start()
                self.assertRegex(self.done("verify", host), rf"(?m)^2 +{level} +8\.0 MiB +0 segments +- +{b.address}$")
                for copy in self.json("verify", host)["copies"]:
                    self.assertRegex(copy["level"], f"^{level}$")

    def test_promotion_takes_the_set_from_a_writer(self):
        a, b = self.target(), self.target()
        here, there = self.created(a, b), self.host(5, a, b)
        writer = self.writer(here)
        self.assertEqual(self.flush(writer, "acknowledged"), 0)
        self.assertEqual(self.json("status", here)["copies"][0]["error"], "the set is in use")
        self.refused(1, "in use by another process", "promote", here)
        # On another machine only a promotion opens the set; no other command fences the writer.
        for words in (("verify", there), ("resync", there), ("add", there, 3, a.address, "set"), ("remove", there, 1)):
            self.refused(1, "rpma-mirror promote", *words)
        self.assertEqual(self.flush(writer, "still"), 0)
        self.assertNotIn("consistency point", self.done("status", there, status=1))
        self.assertEqual(self.flush(writer, "mark 12345678901"), 0)
        self.assertIn("\nlast consistency point: 12345678901\n\nCOPY", self.done("status", there, status=1))
        self.assertEqual(self.json("status", there, status=1)["consistency_point"], 12345678901)
        report = self.json("promote", there)
        self.assertEqual((report["reason"], report["in_sync"], report["consistency_point"]),
                         ("target-newest", [1, 2, 5], 12345678901))
        self.assertEqual(self.flush(writer, "too late"), FENCED)
        self.assertEqual((there.parent / "home").read_bytes()[:12], b"stillwledged")

    def test_a_fence_stops_a_writer(self):
        a, b = self.target(), self.target()
        here, there = self.created(a, b), self.host(5, a, b)
        writer = self.writer(here)
        self.assertEqual(self.flush(writer, "before"), 0)
        b.kill()
        self.assertEqual(self.flush(writer, "without"), 0)
        self.assertEqual(self.json("fence", there)["epoch"], 3)
        self.assertEqual(self.flush(writer, "too late"), FENCED)
        a.kill()
        self.refused(1, "is rpmemd --listen running there", "fence", there)

    def test_targets_are_added_and_dropped(self):
        a, b = self.target(), self.target()
        host = self.host(0, a)
        host.chmod(0o640)
        owner = 1 if os.getuid() == 0 else os.getuid()
        os.chown(host, owner, -1)
        self.done("create", host)
        a.damage(0, b"x")  # the local copy is the source when the set is opened
        self.assertEqual(self.json("add", host, 2, b.address, "set")["in_sync"], [0, 1, 2])
        self.assertEqual((host.stat().st_mode & 0o777, host.stat().st_uid), (0o640, owner))
        self.assertTrue(host.read_text().endswith(f"\ntarget 2 {b.address} set\n"))
        self.refused(1, "", "add", host, 2, b.address, "set")
        before = host.read_text()
        for words in (b.address, "my set"), (b.address, "set#2"), ("a#b:1", "set"):
            self.refused(2, "a set file cannot contain it", "add", host, 3, *words)
        self.assertEqual((host.read_text(), self.json("status", host)["members"]), (before, [0, 1, 2]))
        self.assertIn("in sync: 0 and 2\n", self.done("remove", host, 1))
        self.assertNotIn("target 1", host.read_text())
        self.refused(1, "policy safety", "remove", host, 2)
        a.kill()
        self.done("status", host)
        self.assertEqual(list(host.parent.glob("set.*")), [])

    def test_status_of_a_set_on_a_read_only_file_system(self):
        host = self.created(self.target())
        mount = f'mount --bind {host.parent} {host.parent} && mount -o remount,bind,ro {host.parent} && exec "$@"'
        read_only = ("unshare", "-rm", "sh", "-c", mount, "sh")
        self.assertIn("all copies are in sync", self.done("status", host, before=read_only))
        self.refused(1, "Read-only file system", "resync", host, before=read_only)

    def test_changes_of_two_administrators_are_in_the_set_file(self):
        host = self.created(self.target(), self.target())
        text = host.read_text()
        with open(host, encoding="utf-8") as locked:
            fcntl.flock(locked, fcntl.LOCK_EX)  # the other administrator
            remove = self.changing(host, [0, 1], "remove", host, 2)
            with self.assertRaises(subprocess.TimeoutExpired):
                remove.wait(1)
            (host.parent / "new").write_text(text + "# kept\n")
            (host.parent / "new").rename(host)
        self.assertEqual(remove.wait(LIMIT_S), 0)
        self.assertEqual(host.read_text(), re.sub("target 2.*\n", "", text) + "# kept\n")

    def test_an_added_copy_without_its_line(self):
        a, b = self.target(), self.target()
        host = self.created(a)
        self.add_without_line(host, 2, b)
        text = self.done("status", host, status=1)
        self.assertRegex(text, r"(?m)^2 +offline +- +.not in the set file.")
        for command in "resync", "promote":
            self.refused(1, "copy 2 .not in the set file. in sync but unreachable: .*with rpma-mirror add, or use force", command, host)
        self.assertEqual(self.json("add", host, 2, b.address, "set")["in_sync"], [0, 1, 2])
        self.assertEqual(host.read_text().count(f"target 2 {b.address} set\n"), 1)
        self.done("status", host)
        self.refused(1, "duplicate copy number 2", "add", host, 2, b.address, "set")

    def test_a_set_file_that_cannot_be_written_stays(self):
        host = self.created(self.target(), self.target())
        text = host.read_text() + "# the targets\n" * (32 << 10)
        host.write_text(text)
        self.refused(1, "copies changed, but cannot write .*: File too large .remove the line of target 2", "remove", host, 2,
                     preexec_fn=limit_file_size(len(text) - 1000))
        self.assertEqual((host.read_text(), list(host.parent.glob("set.*"))), (text, []))

    @unittest.skipIf("ASAN_OPTIONS" in os.environ, "UBSan needs descriptors")
    def test_a_process_without_descriptors_does_not_suggest_force(self):
        host = self.created(self.target(), self.target())
        messages = set()
        for limit in range(3, 200):
            result = self.tool("resync", host, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
            if result.returncode == 0:
                break
            if result.returncode == 77: # the library of the device cannot be loaded
                continue
            self.assertNotRegex(result.stderr, "force|running there|unreachable|refused", f"{limit} descriptors")
            messages.add(re.sub(r"\d+", "N", result.stderr))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex("".join(messages), "target .*: Too many open files")

    def test_a_signal_stops_it_and_it_continues_later(self):
        a = self.target()
        host = self.created(a)
        slow = subprocess.Popen([TOOL, "resync", host, "--progress", "on", "--rate", "1M"], stderr=subprocess.PIPE,
                                stdout=subprocess.DEVNULL, text=True)
        self.assertRegex(slow.stderr.readline(), r"^copy 1: +\d+% of 8\.0 MiB, .* left")
        slow.send_signal(signal.SIGINT)
        rest = slow.stderr.read()
        slow.stderr.close()
        self.assertEqual(slow.wait(), 1, rest)
        self.assertRegex(rest, "rpma-mirror: canceled")
        self.done("resync", host)

    def test_wrong_usage(self):
        self.refused(2, "no command given")
        self.refused(2, "SET-FILE is required", "status")
        self.refused(2, "unexpected argument 'destroy'", "destroy", "x")
        self.refused(2, "set file not found", "status", self.place / "none")
        (self.place / "bad").write_text("RPMAMIRROR\nlocal zero /x 8M\n")
        self.refused(2, "bad:2: 'zero' is not a number", "status", self.place / "bad")
        self.refused(2, "--help", "add", self.place / "bad", 16, "x:1", "set")
        self.refused(2, "LENGTH: '12q' is not a size such as 100M", "grow", self.place / "bad", "12q")
        for size in "-1", "18446744073709551616":
            self.refused(2, f"--rate: '{size}' is not a size such as 100M", "resync", self.place / "bad", f"--rate={size}")
        self.refused(2, "cannot read .*: not a regular file", "status", self.place)
        (self.place / "bad").write_text("RPMAMIRROR\nlocal 0 /x 8M\n")
        self.refused(2, "bad: target missing .add a line 'target'", "status", self.place / "bad")
        self.assertIn("promote", self.done("--help"))
        self.assertRegex(self.done("--version"), r"^rpma-mirror \d")

    def test_without_a_device_it_cannot_run(self):
        a = self.target()
        host = self.created(a)
        # The libraries, without the software device in their directory.
        alone = self.place / "alone"
        alone.mkdir()
        for name in ("librpma.so.0", "librpma_mirror.so.0"):
            shutil.copy(pathlib.Path(LIBRARY).parent / name, alone)
        self.refused(77, "install softrdma", "resync", host,
                     env={**os.environ, "LD_LIBRARY_PATH": str(alone)})


if __name__ == "__main__":
    unittest.main()
