# SPDX-License-Identifier: BSD-3-Clause
"""Debian's libpmemobj and pmempool, unchanged, with a pool that has a local part and two remote replicas."""

import os
import pathlib
import shlex
import shutil
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from common import directory, execute, is_alive, skip, wait_until  # noqa: E402

LIMIT_S = 120
RPMEMD = shlex.quote(os.environ["RPMEMD"])
LOG_IN_POOL = os.environ["LOG_IN_POOL"]
LIBRARIES = os.environ["LIBRARIES"]
TRANSACTIONS = 2000
HEADER_SIZE, DESCRIPTOR_END = 4096, 8192
# libpmempool starts ssh. This script replaces it, and runs the command on this machine.
SSH = """#!/bin/sh
for last; do :; done
SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" exec sh -c "$last"
"""


class TwoReplicas(unittest.TestCase):
    def setUp(self):
        self.place = directory(self, prefix="rpmem-two-", dir="/dev/shm")
        self.target, self.pids = self.place / "target", self.place / "pids"
        self.target.mkdir()
        ssh = self.write("ssh", SSH)
        ssh.chmod(0o700)
        self.parts = {"local": self.place / "local.part"}
        for name in "ab":
            self.parts[name] = self.target / f"{name}.part"
            self.write(f"target/{name}.set", f"PMEMPOOLSET\n32M {self.parts[name]}\n")
        self.pool = self.write_pool("pool.set", "ab")
        self.state = self.place / "lost"
        self.environment = os.environ | {
            "LD_LIBRARY_PATH": LIBRARIES, "PMEMOBJ_NLANES": "8", "RPMEM_SSH": str(ssh), "RPMEM_STATE_FILE": str(self.state),
            "RPMEM_OP_TIMEOUT_MS": "5000",
            "RPMEM_CMD": f"echo $$ >>{self.pids}; exec {RPMEMD} --max-sessions 1000 --poolset-dir {self.target} --log-file {self.place}/log"}

    def write(self, name, text):
        path = self.place / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    def write_pool(self, name, replicas):
        lines = "".join(f"REPLICA 127.0.0.1 {replica}.set\n" for replica in replicas)
        return self.write(name, f"PMEMPOOLSET\n32M {self.parts['local']}\n{lines}")

    def run_program(self, *words, **variables):
        return execute(words, env=self.environment | variables, timeout=LIMIT_S)

    def succeeds(self, *words, **variables):
        done = self.run_program(*words, **variables)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}{self.log()}")
        return done.stdout

    def log(self):
        log = self.place / "log"
        return log.read_text() if log.exists() else ""

    def append(self, count=0, pool=None, **variables):
        """Checks all records; returns how many were ever appended."""
        return int(self.succeeds(LOG_IN_POOL, pool or self.pool, count, **variables))

    def sync_after_loss_of(self, *names):
        for name in names:
            self.parts[name].unlink()
        self.succeeds("pmempool", "sync", self.pool)

    def expect_no_daemon(self):
        pids = self.pids.read_text().split() if self.pids.exists() else []
        wait_until(lambda: not any(map(is_alive, pids)), f"the end of the daemons {pids}", LIMIT_S)
        self.pids.write_text("")


class Pmempool(TwoReplicas):
    def test_any_copy_can_be_lost_and_is_rebuilt(self):
        self.append(TRANSACTIONS)
        self.assertEqual(self.append(TRANSACTIONS), 2 * TRANSACTIONS)
        for lost in (["local"], ["a"], ["local", "a"], ["local", "b"], ["a", "b"]):
            self.sync_after_loss_of(*lost)
            self.assertEqual(self.append(), 2 * TRANSACTIONS, lost)
        self.expect_no_daemon()

    def test_damaged_parts_are_rebuilt(self):
        """Damages the header page of a part, or its size; pmempool removes the rest of a replica before it rebuilds it."""
        self.append(10)
        for count, damaged in enumerate((["local"], ["a"], ["local", "b"]), 10):
            for name in damaged:
                with self.parts[name].open("r+b") as part:
                    part.write(os.urandom(HEADER_SIZE))
            self.assertEqual(self.run_program(LOG_IN_POOL, self.pool, 0).returncode, 1, damaged)
            self.succeeds("pmempool", "sync", "--dry-run", self.pool)
            self.sync_after_loss_of()
            self.assertEqual(self.append(1), count + 1, damaged)
        for name, size in (("a", 16 << 20), ("b", 0)):
            os.truncate(self.parts[name], size)
            self.assertEqual(self.run_program(LOG_IN_POOL, self.pool, 0).returncode, 1, name)
            self.sync_after_loss_of()
            self.assertEqual(self.append(), 13, name)
        self.sync_after_loss_of("local")
        self.assertEqual(self.append(), 13)
        self.expect_no_daemon()

    def test_replicas_of_several_parts_are_equal(self):
        sets = {"local": ("pool.set", (20, 12)), "a": ("target/a.set", (8, 26)), "b": ("target/b.set", (32,))}
        files = {}
        for name, (path, sizes) in sets.items():
            files[name] = [self.parts[name].with_name(f"{name}.{number}") for number in range(len(sizes))]
            lines = "".join(f"{size}M {file}\n" for size, file in zip(sizes, files[name]))
            remotes = "REPLICA 127.0.0.1 a.set\nREPLICA 127.0.0.1 b.set\n" if name == "local" else ""
            self.write(path, "PMEMPOOLSET\n" + lines + remotes)

        def lines_of(name):
            """The cache lines of the pool, without the header of each further part."""
            parts = [file.read_bytes() for file in files[name]]
            data = b"".join([parts[0], *(part[HEADER_SIZE:] for part in parts[1:])])
            return [data[at:at + 64] for at in range(0, len(data), 64)]

        self.append(TRANSACTIONS)
        local = lines_of("local")
        for name in "ab":
            replica = lines_of(name)
            different = [number for number, (one, other) in enumerate(zip(local, replica)) if one != other]
            # Descriptors contain the name of their copy. Data that the program keeps in free memory is never persisted.
            unwritten = [number for number in different if number * 64 >= DESCRIPTOR_END]
            self.assertLessEqual(len(unwritten), 8, name)
            self.assertEqual([number for number in unwritten if any(replica[number])], [], name)
        count = TRANSACTIONS
        for lost in (*files["local"], *files["a"], files["b"][0]):
            lost.unlink()
            self.succeeds("pmempool", "sync", self.pool)
            self.assertTrue(lost.exists())
            count += 10
            self.assertEqual(self.append(10), count, lost)

    def test_a_replica_has_no_replicas(self):
        for line in (f"32M {self.target}/more.part", "127.0.0.1 b.set"):
            keyword = "REPLICA\n" if line.startswith("32M") else "REPLICA "
            self.write("target/a.set", f"PMEMPOOLSET\n32M {self.parts['a']}\n{keyword}{line}\n")
            done = self.run_program(LOG_IN_POOL, self.pool, 1)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn("remote replica #1", done.stderr)
            self.assertEqual(sorted(path.name for path in self.target.iterdir()), ["a.set", "b.set"])
            self.assertFalse(self.parts["local"].exists())

    def test_replicas_are_dropped_and_added(self):
        for count, left, lost in ((10, "", ["local"]), (30, "a", ["local", "a"])):
            fewer = self.write_pool("fewer.set", left)
            self.append(10)
            self.succeeds("pmempool", "transform", "--dry-run", self.pool, fewer)
            self.assertTrue(self.parts["b"].exists())
            self.succeeds("pmempool", "transform", self.pool, fewer)
            self.assertEqual([name for name in "ab" if self.parts[name].exists()], list(left))
            if not left:
                self.assertEqual(self.succeeds("pmempool", "check", fewer), "")
            self.assertEqual(self.append(10, fewer), count + 10)
            self.succeeds("pmempool", "transform", fewer, self.pool)
            self.sync_after_loss_of(*lost)
            self.assertEqual(self.append(), count + 10)
        self.expect_no_daemon()

    def test_info_names_the_replicas_and_features_are_those_of_the_part(self):
        self.append(10)
        info = self.succeeds("pmempool", "info", self.pool)
        self.assertRegex(info, r"Replica 2 - remote:\s+node +: 127.0.0.1\s+pool set +: b.set")
        self.assertEqual(self.succeeds("pmempool", "feature", "--query", "CKSUM_2K", self.parts["local"]), "1")
        # pmempool 1.12.1 does not support these commands for a set with remote replicas. They do no harm.
        for words in (["feature", "--disable", "SHUTDOWN_STATE"], ["check"]):
            self.assertEqual(self.run_program("pmempool", *words, self.pool).returncode, 1)
        self.assertEqual(self.append(1), 11)

    def test_removal_takes_the_parts_at_the_target(self):
        for words, sets in ((["-f"], ["a.set", "b.set"]), (["-r", "-f"], [])):
            self.append(10)
            self.succeeds("pmempool", "rm", *words, self.pool)
            self.assertEqual([name for name, part in self.parts.items() if part.exists()], [], words)
            self.assertEqual(sorted(path.name for path in self.target.iterdir()), sets, words)
        self.expect_no_daemon()


if __name__ == "__main__":
    if not shutil.which("pmempool"):
        skip("pmempool is not installed (install the package pmdk-tools)")
    unittest.main(verbosity=2)
