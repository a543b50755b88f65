#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A mirrored set as a disk of real NBD clients, and failover between two machines."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest

import nbd

from server import LIMIT_S, PLUGIN, DiskTest
from support import execute, stop, wait_until

BLOCK = 4096


class Clients(DiskTest):
    def setUp(self):
        super().setUp()
        self.set_file = self.created(self.target(), self.target())

    def test_nbdinfo_shows_what_the_disk_supports(self):
        server = self.serve(self.set_file)
        export = json.loads(self.run_client("nbdinfo", "--json", server.uri))["exports"][0]
        for flag in ("can_fua", "can_flush", "can_multi_conn", "can_trim", "can_zero", "can_fast_zero"):
            self.assertTrue(export[flag], flag)
        self.assertFalse(export["is_read_only"])
        self.assertEqual((export["block_size_minimum"], export["block_size_preferred"]), (512, BLOCK))
        self.assertGreater(export["export-size"], 6 << 20)
        self.assertEqual(export["export-size"] % BLOCK, 0)

    def test_copies_come_back_after_a_restart_and_on_another_machine(self):
        server = self.serve(self.set_file)
        source = self.random_file("source", 4 << 20)
        self.run_client("nbdcopy", source, server.uri)
        self.assertEqual(server.end(), 0, server.log())
        there = self.host(5, *self.targets)
        for set_file in (self.set_file, there, self.set_file):
            server = self.serve(set_file)
            self.run_client("nbdcopy", server.uri, "copy")
            self.assertEqual((self.place / "copy").read_bytes()[:4 << 20], source.read_bytes())
            self.assertEqual(server.end(), 0, server.log())
        self.assertNotIn("error", server.log())

    def test_fio_verifies_its_writes(self):
        server = self.serve(self.set_file)
        self.run_client("fio", "--name=disk", "--ioengine=nbd", f"--uri={server.uri}", "--rw=randwrite", "--bsrange=512-64k",
                        "--blockalign=512", "--size=4m", "--io_size=8m", "--iodepth=16", "--fsync=32",
                        "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--randseed=7")

    def test_qemu_io_writes_zeroes_and_discards(self):
        server = self.serve(self.set_file)
        out = self.run_client("qemu-io", "-f", "raw", server.uri, "-c", "write -P 0xab 0 1M", "-c", "write -f -P 0xcd 5632 512",
                              "-c", "write -z 65536 10240", "-c", "discard 131072 65536", "-c", "flush",
                              "-c", "read -P 0xab 4096 1536", "-c", "read -P 0xcd 5632 512", "-c", "read -P 0xab 6144 59392",
                              "-c", "read -P 0 65536 10240", "-c", "read -P 0xab 75776 55296", "-c", "read -P 0 131072 65536")
        self.assertNotIn("verification failed", out)
        extents = json.loads(self.run_client("nbdinfo", "--map", "--json", server.uri))
        self.assertIn({"offset": 131072, "length": 65536, "type": 3, "description": "hole,zero"}, extents)

    def test_writes_of_several_connections_are_flushed_by_any(self):
        server = self.serve(self.set_file)
        handles = [self.connect(server) for _ in range(3)]
        for i, handle in enumerate(handles):
            handle.pwrite(bytes([i + 1]) * 3 * BLOCK, i * 3 * BLOCK + 512)
        handles[0].flush()
        server.kill()
        del handle, handles
        there = self.connect(self.serve(self.host(5, *self.targets)))
        for i in range(2):
            self.assertEqual(there.pread(512, i * 3 * BLOCK + 512), bytes([i + 1]) * 512)
        self.assertEqual(there.pread(3 * BLOCK, 6 * BLOCK + 512), b"\3" * 3 * BLOCK)
        self.assertEqual(there.pread(512, 0), bytes(512))

    def test_a_disk_that_is_written_often_reuses_its_blocks(self):
        handle = self.connect(self.serve(self.set_file))
        for i in range(40):
            handle.pwrite(bytes([i]) * (1 << 20), (i % 5) << 20, nbd.CMD_FLAG_FUA if i % 3 == 0 else 0)
        for i in range(35, 40):
            self.assertEqual(handle.pread(1 << 20, (i % 5) << 20), bytes([i]) * (1 << 20))

    def test_a_fenced_writer_answers_errors_and_ends(self):
        server = self.serve(self.set_file)
        handle = self.connect(server)
        handle.pwrite(b"a" * BLOCK, 0, nbd.CMD_FLAG_FUA)
        other = self.serve(self.host(5, *self.targets))
        requests = {"write": lambda: handle.pwrite(b"b" * BLOCK, 0, nbd.CMD_FLAG_FUA), "read": lambda: handle.pread(BLOCK, 0),
                    "flush": handle.flush, "trim": lambda: handle.trim(BLOCK, 0), "zero": lambda: handle.zero(BLOCK, 0)}
        for name, request in requests.items():
            with self.subTest(name), self.assertRaises(nbd.Error) as failure:
                for _ in range(1000 if name == "write" else 1):
                    request()
            self.assertEqual(failure.exception.errno, "EIO", name)
        with self.assertRaises(nbd.Error):
            self.connect(server)
        self.assertEqual(server.process.wait(LIMIT_S), 1)
        self.assertRegex(server.log(), "disk failed: .*another writer")
        self.assertEqual(self.connect(other).pread(BLOCK, 0), b"a" * BLOCK)

    def test_a_stopped_writer_that_continues_is_fenced(self):
        server = self.serve(self.set_file)
        self.connect(server).pwrite(b"a" * BLOCK, 0, nbd.CMD_FLAG_FUA)
        stop(server.process)
        other = self.connect(self.serve(self.host(5, *self.targets)))
        self.assertEqual(other.pread(BLOCK, 0), b"a" * BLOCK)
        other.pwrite(b"c" * BLOCK, 0, nbd.CMD_FLAG_FUA)
        server.go_on()
        # The writer is idle, and must detect the loss of its targets on its own.
        server.process.wait(LIMIT_S)
        self.assertIn("disk failed", server.log())
        self.assertEqual(other.pread(BLOCK, 0), b"c" * BLOCK)

    def test_a_read_in_which_the_machine_is_suspended_is_not_answered(self):
        suspended = self.place / "suspended"
        preload = self.place / "preload.so"  # LD_PRELOAD cannot contain a path with a blank
        preload.symlink_to(os.environ["NBDKIT_SUSPENDED"])
        preloaded = ("env", f"LD_PRELOAD={preload}", f"SUSPENDED={suspended}")
        server = self.serve(self.set_file, at=preloaded)
        handle = self.connect(server)
        handle.pwrite(b"a" * BLOCK, 0, nbd.CMD_FLAG_FUA)
        suspended.touch()
        cookie = handle.aio_pread(nbd.Buffer(BLOCK), 0)
        wait_until(lambda: not suspended.exists(), "the copy of the block", LIMIT_S)
        self.connect(self.serve(self.host(5, *self.targets))).pwrite(b"c" * BLOCK, 0, nbd.CMD_FLAG_FUA)
        server.go_on()
        with self.assertRaises(nbd.Error):
            while not handle.aio_command_completed(cookie):
                handle.poll(-1)

    def test_a_target_that_returns_is_in_sync_again(self):
        server = self.serve(self.set_file)
        handle = self.connect(server)
        self.targets[0].kill()
        handle.pwrite(b"x" * BLOCK, 8192, nbd.CMD_FLAG_FUA)
        self.targets[0].start()
        wait_until(lambda: "copy 1 is in sync" in server.log(), "the resync of copy 1", LIMIT_S)
        self.targets[1].kill()
        server.kill()
        there = self.connect(self.serve(self.host(5, *self.targets), "force=true"))
        self.assertEqual(there.pread(BLOCK, 8192), b"x" * BLOCK)

    def test_a_client_that_reconnects_continues_on_the_other_machine(self):
        link = self.place / "disk"
        server = self.serve(self.set_file)
        link.symlink_to(server.socket)
        client = subprocess.Popen(
            ["qemu-io", "--image-opts", f"driver=nbd,server.type=unix,server.path={link},reconnect-delay=300"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)
        self.addCleanup(lambda: (client.kill(), client.wait(), client.stdin.close(), client.stdout.close()))
        client.stdin.write("write -f -P 1 0 4096\n")
        while "wrote 4096/4096" not in (line := client.stdout.readline()):
            self.assertNotEqual(line, "")
        server.kill()
        client.stdin.write("write -f -P 2 4096 4096\nread -P 1 0 4096\nread -P 2 4096 4096\nquit\n")
        client.stdin.flush()
        other = self.serve(self.host(5, *self.targets))
        link.unlink()
        link.symlink_to(other.socket)
        rest = client.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(client.returncode, 0, rest)
        self.assertIn("wrote 4096/4096", rest)
        self.assertEqual(rest.count("read 4096/4096"), 2, rest)
        self.assertNotIn("failed", rest)

    def test_a_database_through_nbdfuse(self):
        if not os.access("/dev/fuse", os.R_OK | os.W_OK) or not all(map(shutil.which, ("nbdfuse", "fusermount3"))):
            self.skipTest("/dev/fuse or its programs are missing (install nbdfuse and fuse3)")
        server = self.serve(self.set_file)
        image = self.place / "image"
        image.touch()
        fuse = subprocess.Popen(["nbdfuse", image, server.uri], stderr=subprocess.PIPE, text=True)
        self.addCleanup(fuse.stderr.close)
        end = time.monotonic() + LIMIT_S
        while image.stat().st_size == 0:
            if fuse.poll() is not None:
                self.skipTest(f"FUSE cannot be used here: {fuse.stderr.read()}")
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        try:
            self.run_client("mke2fs", "-q", "-F", "-t", "ext4", image)
            database = self.place / "database"
            with sqlite3.connect(database) as connection:
                connection.execute("CREATE TABLE t (i INTEGER PRIMARY KEY, x)")
                connection.executemany("INSERT INTO t (x) VALUES (?)", [(f"row {i}",) for i in range(1000)])
            connection.close()
            self.run_client("debugfs", "-w", "-R", f"write {database} database", image)
            self.run_client("e2fsck", "-fn", image)
        finally:
            subprocess.run(["fusermount3", "-u", image], check=False)
            fuse.terminate()
            fuse.wait(LIMIT_S)
        server.kill()
        other = self.serve(self.host(5, *self.targets))
        self.run_client("nbdcopy", other.uri, "copy")
        self.run_client("e2fsck", "-fn", "copy")
        self.run_client("debugfs", "-R", "dump database found", "copy")
        connection = sqlite3.connect(self.place / "found")
        self.assertEqual(connection.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        self.assertEqual(connection.execute("SELECT COUNT(*) FROM t").fetchone(), (1000,))
        connection.close()


class Mistakes(DiskTest):
    def refused(self, pattern, *words, status=1):
        (self.place / "socket").unlink(missing_ok=True)
        result = execute(["nbdkit", "-f", "-U", self.place / "socket", PLUGIN, *words], timeout=LIMIT_S)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertRegex(result.stderr, pattern)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_each_is_one_line(self):
        target = self.target()
        set_file = self.host(0, target)
        self.refused(r"no set file \(add set=PATH\)")
        self.refused("set file not found", "set=/nonexistent/set")
        self.refused(r"colour: unknown parameter \(use set", f"set={set_file}", "colour=red")
        self.refused(r"lanes=65: out of range \(use 1 to 64\)", f"set={set_file}", "lanes=65")
        self.refused("lanes: ", f"set={set_file}", "lanes=many")
        self.refused("boolean", f"set={set_file}", "resync=maybe")
        self.refused(r"force=maybe: not a boolean \(use true or false\)", f"set={set_file}", "force=maybe")
        self.refused(r"set=: value missing \(use set=VALUE\)", "set=")
        self.refused(r"second set file \(start one nbdkit for each set\)", f"set={set_file}", f"set={set_file}")
        self.refused("rpma-mirror create", f"set={set_file}")
        self.done("create", set_file)
        server = self.serve(set_file)
        self.refused("in use by another process|in use", f"set={set_file}")
        self.assertEqual(server.end(), 0)
        broken = self.place / "broken"
        broken.write_text("RPMAMIRROR\nlocal zero\n")
        self.refused("broken:2", f"set={broken}")
        target.kill()
        self.refused("is rpmemd --listen running there|does not (answer|respond)", f"set={set_file}")

    def test_a_set_with_other_data_is_left_alone(self):
        set_file = self.created(self.target())
        writer = self.writer(set_file)
        self.assertEqual(self.flush(writer, "other data " * 20), 0)
        self.end(writer)
        before = (set_file.parent / "home").read_bytes()
        self.refused(r"set contains other data, not a disk \(create a new set\)", f"set={set_file}")
        self.assertEqual((set_file.parent / "home").read_bytes(), before)

    def test_nbdkit_in_the_background_checks_first(self):
        set_file = self.host(0, self.target())
        result = execute(["nbdkit", "-U", self.place / "socket", PLUGIN, f"set={set_file}"], timeout=LIMIT_S)
        self.assertEqual(result.returncode, 1)
        self.assertIn("rpma-mirror create", result.stderr)
        self.done("create", set_file)
        pid_file = self.place / "pid"
        self.run_client("nbdkit", "-U", self.place / "socket", "-P", pid_file, PLUGIN, f"set={set_file}")
        wait_until(lambda: pid_file.exists() and pid_file.read_text(), "the daemon", LIMIT_S)
        pid = int(pid_file.read_text())
        try:
            handle = nbd.NBD()
            handle.connect_unix(str(self.place / "socket"))
            handle.pwrite(b"z" * 512, 0, nbd.CMD_FLAG_FUA)
            handle.shutdown()
        finally:
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the daemon", LIMIT_S)


if __name__ == "__main__":
    unittest.main()
