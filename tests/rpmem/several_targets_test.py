# SPDX-License-Identifier: BSD-3-Clause
"""Debian's libpmemobj and pmempool, unchanged, with a pool of which one line REPLICA names several targets.

RPMEM_KILL_ROUNDS is the number of kills (default 8), RPMEM_SEED the seed of the moments.
"""

import mmap
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

import two_replicas_test
from common import wait_until
from two_replicas_test import HEADER_SIZE, LIMIT_S, LOG_IN_POOL, RPMEMD, TRANSACTIONS, is_alive

ROUNDS = int(os.environ.get("RPMEM_KILL_ROUNDS", "8"))
SEED = int(os.environ.get("RPMEM_SEED", time.time_ns() % 2**32))
CALL, RELAY = os.environ["RPMEM_CALL"], pathlib.Path(__file__).with_name("relay.py")
RPMEM_SSH = os.environ["RPMEM_SSH_OF_SEVERAL"]
# Each host has its own directory. A host whose directory contains a file `away` is unreachable; with a file `stopped`
# it never responds.
SSH = """#!/bin/sh
for last; do host=${{before-}} before=$last; done
[ ! -e {place}/$host/away ] || exit 255
[ ! -e {place}/$host/stopped ] || {{ echo $$ >>{place}/$host/stopped; kill -STOP $$; }}
export SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" TARGET=$host
exec sh -c "$last"
"""


class Worker:
    """Appends 2,000 records, each of which is reported as soon as it is committed. The block begins after the first ones."""

    def __init__(self, test, first=100, **variables):
        self.test = test
        self.before = struct.unpack("Q", test.report.read_bytes())[0] or test.append()
        test.report.write_bytes(struct.pack("Q", self.before))
        test.pids.write_text("")
        with open(test.report, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 8)
        self.process = subprocess.Popen([LOG_IN_POOL, test.pool, str(TRANSACTIONS), test.report],
                                        env=test.environment | variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.errors = b""
        self.first = first

    def __enter__(self):
        self.wait_until(self.before + self.first)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def reported(self):
        return struct.unpack("Q", self.memory)[0]

    def wait_until(self, count):
        end = time.monotonic() + LIMIT_S
        while self.reported() < count and self.process.poll() is None and time.monotonic() < end:
            pass

    def end(self):
        self.errors = self.process.communicate(timeout=LIMIT_S)[1]
        return self.process.returncode


class SeveralTargets(two_replicas_test.TwoReplicas):
    names = "abc"

    def setUp(self):
        super().setUp()
        self.report = self.place / "report"
        self.report.write_bytes(bytes(8))
        self.write("ssh", SSH.format(place=self.place)).chmod(0o700)
        for name in self.names:
            (self.place / name).mkdir()
            self.parts[name] = self.place / name / "part"
            self.write(f"{name}/pool.set", f"PMEMPOOLSET\n32M {self.parts[name]}\n")
        self.pool = self.write_pool("pool.set", "abc")
        self.library_log = self.place / "library.log"
        self.environment |= {
            "RPMEM_SSH": RPMEM_SSH, "SSH_PROGRAM": str(self.place / "ssh"),
            "RPMEM_LOG_LEVEL": "2", "RPMEM_LOG_FILE": str(self.library_log),
            "RPMEM_CMD": f"echo $$ $TARGET >>{self.pids}.$TARGET; echo $$ >>{self.pids};"
                         f"exec {RPMEMD} --max-sessions 1000 --poolset-dir {self.place}/$TARGET --log-file {self.place}/log"}

    def write_pool(self, name, *replicas):
        """Each replica is on several targets."""
        lines = "".join(f"REPLICA {','.join(targets)} pool.set\n" for targets in replicas)
        return self.write(name, f"PMEMPOOLSET\n32M {self.parts['local']}\n{lines}")

    def pid_of(self, name):
        """The daemon that was started last at the target."""
        return int((self.place / f"pids.{name}").read_text().split()[-2])

    def set_away(self, *names):
        for name in self.names:
            (self.place / name / "away").unlink(missing_ok=True)
        for name in names:
            (self.place / name / "away").touch()

    def expect_equal(self, *names):
        """Compares without the header pages, which contain the time of their creation."""
        first, *others = [self.parts[name].read_bytes()[HEADER_SIZE:] for name in names]
        for name, other in zip(names[1:], others):
            self.assertTrue(first == other, f"{names[0]} and {name} differ")

    def lose_during_work(self, *names, with_signal=signal.SIGKILL, **variables):
        """Returns the count that the program prints. The program must succeed."""
        with Worker(self, **variables) as worker:
            for name in names:
                os.kill(self.pid_of(name), with_signal)
            self.assertEqual(worker.end(), 0, worker.errors)
            self.assertEqual(worker.reported(), worker.before + TRANSACTIONS)
            return worker.reported()

    def hold(self):
        """Starts a program that creates a pool. Waiting for a silent target would exceed the time limit."""
        program = subprocess.Popen([CALL, "hold", ",".join(self.names), "pool.set"], text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, env=self.environment | {"RPMEM_OP_TIMEOUT_MS": "200000"})
        self.assertEqual(program.stdout.readline(), "open\n")
        return program

    def lines_about_loss_of(self, name):
        return [line for line in self.state.read_text().splitlines() if f" on {name}: " in line]

    def refused(self, expected):
        done = self.run_program(LOG_IN_POOL, self.pool, 0)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(expected, self.library_log.read_text())


class OneLost(SeveralTargets):
    def test_each_target_has_everything(self):
        count = 2 * TRANSACTIONS
        self.append(TRANSACTIONS)
        self.assertEqual(self.append(TRANSACTIONS), count)
        self.expect_equal(*self.names)
        for left in self.names:
            self.sync_after_loss_of("local", *self.names.replace(left, ""))
            self.assertEqual(self.append(), count, left)
            self.expect_equal(*self.names)
        self.expect_no_daemon()

    def test_the_program_continues_and_the_remaining_copies_are_complete(self):
        self.append(10)
        count = self.lose_during_work("a")
        self.assertEqual(len(self.lines_about_loss_of("a")), 1)
        self.assertEqual(self.library_log.read_text().count("on a: replica lost"), 1)
        self.expect_equal("b", "c")
        # The first program that opens the pool resynchronizes the lost copy.
        self.sync_after_loss_of("local")
        self.expect_equal(*self.names)
        self.assertRegex(self.state.read_text(), "on a: rebuilt\n$")
        self.sync_after_loss_of("local", "b", "c")
        self.assertEqual(self.append(), count)
        self.expect_no_daemon()

    def test_a_stopped_target_times_out(self):
        self.append(10)
        count = self.lose_during_work("b", with_signal=signal.SIGSTOP, RPMEM_OP_TIMEOUT_MS="1000")
        self.assertIn("timed out", self.lines_about_loss_of("b")[0])
        self.assertEqual(self.append(), count)
        self.expect_equal(*self.names)
        self.expect_no_daemon()

    def test_a_silent_target_does_not_delay_the_record_of_the_others(self):
        """The daemon at a serves the data path, but its responses do not arrive while its pipe is stopped."""
        self.append(10)
        ssh, forwarder = self.place / "ssh", self.place / "forwarder"
        forward = f'[ $host != a ] || {{ sh -c "$last" | sh -c "echo \\$\\$ >{forwarder}; exec cat"; exit; }}'
        ssh.write_text(ssh.read_text().replace("exec sh", f"{forward}\nexec sh"))
        record = self.place / "b" / "pool.set.record"
        with Worker(self, RPMEM_OP_TIMEOUT_MS="200000") as worker:
            before = record.read_bytes()
            os.kill(int(forwarder.read_text()), signal.SIGSTOP)
            try:
                os.kill(self.pid_of("c"), signal.SIGKILL)
                # Waiting for a would exceed the time limit.
                wait_until(lambda: record.read_bytes() != before, "the record at b", LIMIT_S)
            finally:
                os.kill(int(forwarder.read_text()), signal.SIGCONT)
            self.assertEqual(worker.end(), 0, worker.errors)
        self.assertEqual([self.lines_about_loss_of(name) != [] for name in "abc"], [False, False, True])
        self.expect_equal("a", "b")
        self.expect_no_daemon()

    def test_a_silent_target_does_not_delay_the_attributes_of_the_others(self):
        def header_of(name):
            return self.parts[name].read_bytes()[:HEADER_SIZE]

        with self.hold() as program:
            before = {name: header_of(name) for name in "bc"}
            os.kill(self.pid_of("a"), signal.SIGSTOP)
            try:
                program.stdin.write("attributes\n")
                program.stdin.flush()
                for name in before:
                    wait_until(lambda name=name: header_of(name) != before[name], f"the header at {name}", LIMIT_S)
            finally:
                os.kill(self.pid_of("a"), signal.SIGCONT)
            self.assertEqual(program.communicate(timeout=LIMIT_S)[0], "attributes: 0, \nclosed: 0, \n")
        self.expect_no_daemon()

    def test_a_silent_target_does_not_delay_the_end_of_the_others(self):
        """The response of target a to the request to close does not arrive."""
        relay = self.place / "relay"
        relay.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(RELAY), str(self.place)])} "$@"\n')
        relay.chmod(0o755)
        command = self.environment["RPMEM_CMD"]
        self.environment["RPMEM_CMD"] = command.replace("exec", f"if [ $TARGET = a ]; then relay={relay}; fi; exec $relay")
        (self.place / "answer-7").write_text("nothing")
        with self.hold() as program:
            others = [self.pid_of(name) for name in "bc"]
            program.stdin.close()
            try:
                wait_until(lambda: not any(map(is_alive, others)), f"the end of the daemons {others}", LIMIT_S)
            finally:
                os.kill(self.pid_of("a"), signal.SIGKILL)
            self.assertEqual(program.stdout.read(), "closed: 0, \n")
        self.expect_no_daemon()

    def stop(self, *names):
        for name in names:
            (self.place / name / "stopped").touch()

    def expect_stopped_programs_to_end(self, *names):
        for name in names:
            for pid in (self.place / name / "stopped").read_text().split():
                self.assertFalse(is_alive(int(pid)), name)

    def test_targets_are_contacted_while_others_are_silent(self):
        self.append(10)
        self.pids.with_name("pids.c").write_text("")
        self.stop("a", "b")
        with subprocess.Popen([LOG_IN_POOL, self.pool, "0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=self.environment | {"RPMEM_OP_TIMEOUT_MS": "1000"}) as program:
            while not self.pids.with_name("pids.c").read_text() and program.poll() is None:
                time.sleep(0.01)
            self.assertNotIn("did not respond", self.library_log.read_text() if self.library_log.exists() else "")
            self.assertEqual(program.wait(LIMIT_S), 1)
        log = self.library_log.read_text()
        for name in "ab":
            self.assertIn(f"replica pool.set on {name}: the target did not respond in time", log)
        self.assertIn("target in sync is unreachable", log)
        self.expect_stopped_programs_to_end("a", "b")

    def test_silent_targets_that_were_lost_before_delay_nothing(self):
        self.append(10)
        count = self.lose_during_work("a", "b")
        self.stop("a", "b")
        # Waiting for one of them would exceed the time limit of the test.
        self.assertEqual(self.append(RPMEM_OP_TIMEOUT_MS="100000"), count)
        self.expect_stopped_programs_to_end("a", "b")
        for name in "ab":
            (self.place / name / "stopped").unlink()
        self.assertEqual(self.append(), count)
        self.expect_equal(*self.names)

    def test_a_stale_copy_is_never_taken_for_a_whole_one(self):
        self.append(10)
        count = self.lose_during_work("a")
        for away in ("bc", "b"):
            self.set_away(*away)
            self.refused("ended with exit status 255 (restore it")
        # On another machine, only the targets know about the loss.
        self.state.unlink()
        self.refused("target in sync is unreachable")
        self.set_away()
        self.sync_after_loss_of("local")
        self.assertEqual(self.append(), count)
        self.expect_equal(*self.names)

    def test_the_targets_record_the_loss_before_the_program_continues(self):
        self.append(10)
        with Worker(self) as worker:
            os.kill(self.pid_of("a"), signal.SIGKILL)
            worker.wait_until(worker.before + TRANSACTIONS // 2)
            worker.process.kill()
            worker.end()
            committed = worker.reported()
        self.state.unlink()
        self.sync_after_loss_of("local")
        self.assertIn(self.append(), (committed, committed + 1))
        self.expect_equal(*self.names)

    def spoil(self):
        """Simulates a write that has not arrived at all targets."""
        with self.parts["b"].open("r+b") as part:
            part.seek(-HEADER_SIZE, os.SEEK_END)
            part.write(os.urandom(100))

    def kill_during_work(self):
        self.append(10)
        with Worker(self) as worker:
            worker.process.kill()
            worker.end()
        self.expect_no_daemon()

    def test_segments_that_are_equal_are_not_read(self):
        in_own_network = ("unshare", "-rn", "sh", "-c", 'ip link set lo up && "$@" && cat /proc/net/dev', "sh")
        if self.run_program(*in_own_network, "true").returncode != 0:
            self.skipTest("no network namespace can be created here")
        self.kill_during_work()
        self.spoil()
        printed = self.succeeds(*in_own_network, LOG_IN_POOL, self.pool, 0, SOFTRDMA_TRANSPORT="tcp")
        self.assertLess(int(re.search(r"\blo: *(\d+)", printed)[1]), self.parts["b"].stat().st_size)
        self.expect_equal(*self.names)

    def test_copies_are_compared_unless_they_were_closed(self):
        self.kill_during_work()
        self.spoil()
        self.append(1)
        self.expect_equal(*self.names)
        self.spoil()
        self.append(1)
        self.assertFalse(self.parts["b"].read_bytes()[HEADER_SIZE:] == self.parts["a"].read_bytes()[HEADER_SIZE:])

    def test_a_target_that_was_lost_before_is_optional(self):
        self.append(10)
        self.lose_during_work("b")
        self.set_away("b")
        self.append(10)
        self.assertEqual(len(self.lines_about_loss_of("b")), 1)
        self.set_away()
        self.append(10)
        self.assertRegex(self.state.read_text(), "on b: rebuilt\n$")
        self.expect_equal(*self.names)

    def test_the_last_one_is_lost_as_any_replica(self):
        self.append(10)
        with Worker(self) as worker:
            for name in self.names:
                os.kill(self.pid_of(name), signal.SIGKILL)
            self.assertNotEqual(worker.end(), 0)
            committed = worker.reported()
        now = self.append()
        self.assertIn(now, (committed, committed + 1))
        self.report.write_bytes(now.to_bytes(8, "little"))
        count = self.lose_during_work(*self.names, RPMEM_ON_LOSS="degrade")
        self.assertEqual([name for name in self.names if not self.lines_about_loss_of(name)], [])
        self.refused("no target is in sync")
        self.succeeds("pmempool", "sync", self.pool)
        self.assertEqual(self.append(), count)
        self.expect_equal(*self.names)
        self.sync_after_loss_of("local")
        self.assertEqual(self.append(), count)


class Changed(SeveralTargets):
    def test_targets_come_and_go(self):
        self.write_pool("pool.set", "a")
        self.append(10)
        self.assertEqual([path.name for path in self.parts["a"].parent.glob("*.record")], [])
        self.write_pool("pool.set", "ab")
        self.assertEqual(self.append(10), 20)
        self.expect_equal("a", "b")
        self.write_pool("pool.set", "bc")
        self.assertEqual(self.append(10), 30)
        # Target a alone has a complete pool. b and c lack data.
        self.write_pool("pool.set", "cb")
        self.sync_after_loss_of("local")
        self.write_pool("pool.set", "abc")
        self.assertEqual(self.append(10), 40)
        self.expect_equal(*self.names)
        self.write_pool("pool.set", "c")
        self.assertEqual(self.append(10), 50)
        self.write_pool("pool.set", "abc")
        self.sync_after_loss_of("local")
        self.assertEqual(self.append(), 50)
        self.expect_equal(*self.names)

    def test_another_pool_is_not_written_over(self):
        self.write_pool("pool.set", "a")
        self.append(10)
        self.parts["local"].rename(self.place / "kept")
        self.write_pool("pool.set", "b")
        self.append(7)
        other = self.parts["b"].read_bytes()
        (self.place / "kept").rename(self.parts["local"])
        self.write_pool("pool.set", "ab")
        self.refused("pool differs from the other targets")
        self.assertTrue(other == self.parts["b"].read_bytes())
        self.write_pool("pool.set", "aa")
        self.refused("duplicate target")

    def test_pmempool_removes_the_parts_of_each_target(self):
        self.append(10)
        self.succeeds("pmempool", "rm", "-f", self.pool)
        for name in self.names:
            self.assertEqual([path.name for path in self.parts[name].parent.iterdir()], ["pool.set"])
        self.append(10)
        alone = self.write("alone.set", f"PMEMPOOLSET\n32M {self.parts['local']}\n")
        self.succeeds("pmempool", "transform", self.pool, alone)
        self.assertEqual([name for name in self.names if self.parts[name].exists()], [])
        self.succeeds("pmempool", "transform", alone, self.pool)
        self.assertEqual(self.append(10), 20)
        self.expect_equal(*self.names)
        self.expect_no_daemon()


class Fenced(SeveralTargets):
    """A client that does not respond, while another one on another machine opens the pool."""

    def setUp(self):
        super().setUp()
        ssh = self.write("other-ssh", SSH.format(place=self.place).replace('"127.0.0.1 1', '"127.0.0.2 1'))
        ssh.chmod(0o700)
        self.other = self.write("other.set", f"PMEMPOOLSET\n32M {self.place / 'other.part'}\nREPLICA {','.join(self.names)} pool.set\n")
        self.others = {"SSH_PROGRAM": str(ssh), "RPMEM_STATE_FILE": str(self.place / "others-lost")}

    def append_elsewhere(self, count):
        """Runs the program on the other machine, with a copy of the local part."""
        shutil.copyfile(self.parts["local"], self.place / "other.part")
        return self.append(count, self.other, **self.others)

    def end_daemons(self, *names):
        """Ends the sessions of the client at these targets, as after a timeout."""
        for name in names:
            pid = self.pid_of(name)
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: not is_alive(pid), f"the end of the daemon {pid}", LIMIT_S)

    def fence_stopped_client(self, *ended):
        """Opens the pool elsewhere while the client is stopped. The daemons that are left wait for it and use the parts."""
        self.append(10)
        with Worker(self) as worker:
            worker.process.send_signal(signal.SIGSTOP)
            self.end_daemons(*ended)
            committed = worker.reported()
            now = self.append_elsewhere(10)
            self.assertIn(now, (committed + 10, committed + 11))
            worker.process.send_signal(signal.SIGCONT)
            self.assertNotEqual(worker.end(), 0)
            self.assertLessEqual(worker.reported(), committed + 1)
        self.expect_no_daemon()
        self.assertEqual(self.append(0, self.other, **self.others), now)
        self.expect_equal(*self.names)

    def test_a_stopped_client_cannot_continue_with_the_target_that_is_left(self):
        self.fence_stopped_client("a", "b")
        self.assertIn("another client has opened the pool", self.library_log.read_text())

    def test_a_stopped_client_cannot_continue_with_most_targets(self):
        self.fence_stopped_client("a")

    def test_a_pool_without_a_record_is_not_opened_beside_its_client(self):
        self.write_pool("pool.set", "a")
        self.append(10)
        shutil.copyfile(self.parts["a"], self.parts["b"])
        self.write("other.set", f"PMEMPOOLSET\n32M {self.place / 'other.part'}\nREPLICA a,b pool.set\n")
        with Worker(self) as worker:
            worker.process.send_signal(signal.SIGSTOP)
            shutil.copyfile(self.parts["local"], self.place / "other.part")
            done = self.run_program(LOG_IN_POOL, self.other, 1, **self.others)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(self.library_log.read_text(), "on a: .* use")
            worker.process.send_signal(signal.SIGCONT)
            self.assertEqual(worker.end(), 0, worker.errors)
            self.assertEqual(worker.reported(), worker.before + TRANSACTIONS)


class Killed(SeveralTargets):
    def test_nothing_committed_is_lost_whoever_is_killed(self):
        self.kill_at_random("abc")

    def test_nothing_committed_is_lost_with_two_replicas(self):
        self.names = "ab"
        self.kill_at_random("a", "b")

    def kill_at_random(self, *replicas):
        print(f"RPMEM_SEED={SEED}", flush=True)
        chance = random.Random(SEED)
        self.write_pool("pool.set", *replicas)
        self.append(1)
        for _ in range(ROUNDS):
            killed = chance.sample(self.names, min(chance.choice((0, 1, 1, 2, 3)), len(self.names)))
            at = chance.choice((None, *[chance.randrange(TRANSACTIONS)] * 3))
            also_program = at is None or not killed or chance.random() < 0.5
            is_replica_lost = any(set(targets) <= set(killed) for targets in replicas)
            on_loss = chance.choice(("error", "degrade"))
            with Worker(self, first=0, RPMEM_ON_LOSS=on_loss) as worker:
                if at is None:
                    time.sleep(chance.random() / 10)  # the pool may still be opening
                else:
                    worker.wait_until(worker.before + at)
                for name in killed:
                    pid = self.pid_of(name)
                    try:
                        if str(pid) in self.pids.read_text().split():
                            os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass  # the program had finished
                    time.sleep(chance.random() / 100)
                if also_program:
                    worker.process.kill()
                status = worker.end()
                committed = worker.reported()
            what = (killed, also_program, at, on_loss)
            if not also_program and (on_loss == "degrade" or not is_replica_lost):
                self.assertEqual((status, committed), (0, worker.before + TRANSACTIONS), (what, worker.errors))
            self.expect_no_daemon()
            if is_replica_lost and on_loss == "degrade":
                self.sync_after_loss_of()
            # In some rounds a copy is lost before the others have been recovered.
            if chance.random() < 0.5:
                self.assertIn(self.append(), (committed, committed + 1), what)
            # At least one of the complete copies remains. One of several targets that were killed may have left before the others.
            spare = chance.choice((list(self.names), ["local", *killed])) if not is_replica_lost else list(self.names)
            if is_replica_lost and (on_loss == "degrade" or len(replicas) > 1):
                spare = chance.sample(["local", *self.names], len(self.names))
            lost = chance.sample(spare, chance.randrange(len(spare) + 1))
            if lost:
                self.sync_after_loss_of(*lost)
            now = self.append()
            self.assertIn(now, (committed, committed + 1), (what, lost))
            for targets in replicas:
                self.expect_equal(*targets)
            self.report.write_bytes(now.to_bytes(8, "little"))
        print(f"{ROUNDS} rounds; {now} records, none missing", flush=True)


if __name__ == "__main__":
    if not shutil.which("pmempool"):
        two_replicas_test.skip("pmempool is not installed (install the package pmdk-tools)")
    unittest.main(verbosity=2)
