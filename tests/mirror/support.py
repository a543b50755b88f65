# SPDX-License-Identifier: BSD-3-Clause
"""Facilities shared by the tests of rpma-mirror: targets, set files, the tool, and a writer."""

import fcntl
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from common import directory, enter_own_network, execute, listens, skip, stop, wait_until  # noqa: E402,F401

TOOL = os.environ["RPMA_MIRROR"]
DAEMON = os.environ["RPMEMD"]
LIBRARY = os.environ["RPMA_MIRROR_LIBRARY"]
WRITER = os.environ["MIRROR_WRITER"]
LIMIT_S = 200
LENGTH = 8 << 20
KEY = "writer:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
SAMPLE = re.compile(r'(rpm\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\[\\"n])*"(?:,(?!\}))?)+)\})? (\S+)')
PLACE = os.environ.get("MIRROR_TEST_PLACE", "/dev/shm")


def limit_file_size(size):
    """Returns a function that limits the size of the files of a process before it starts a program."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


class Target:
    """rpmemd --listen with a poolset, on a port that it keeps. `at` is the command that starts it on its machine."""

    def __init__(self, place, host, at=(), options=()):
        self.place = place
        self.at = at
        self.options = options
        self.host = host
        self.port = 0
        self.process = None
        place.mkdir()
        self.list_parts(f"8M {place}/part")
        (place / "key").write_text(KEY)
        (place / "key").chmod(0o600)
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [*self.at, DAEMON, "--listen", f"{self.host}:{self.port}", "--key-file", self.place / "key", "--poolset-dir", self.place,
             "--log-file", self.place / "log", *self.options], stdout=subprocess.PIPE, text=True)
        self.port = int(re.fullmatch(r"rpmemd: listening on \S+ port (\d+)\n", self.process.stdout.readline())[1])

    def list_parts(self, *lines):
        """Writes the set file."""
        (self.place / "set").write_text("\n".join(["PMEMPOOLSET", "OPTION NOHDRS", *lines]) + "\n")
        (self.place / "set").chmod(0o600)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    def bytes(self, offset, count):
        with open(self.place / "part", "rb") as part:
            part.seek(offset)
            return part.read(count)

    def damage(self, offset, text):
        with open(self.place / "part", "r+b") as part:
            part.seek(offset)
            part.write(text)


class MirrorTest(unittest.TestCase):
    def setUp(self):
        self.place = directory(self, prefix="mirror-tool-", dir=PLACE)
        self.targets = []

    def target(self, host="127.0.0.1", at=(), options=()):
        target = Target(self.place / f"target{len(self.targets)}", host, at, options)
        self.targets.append(target)
        self.addCleanup(lambda: target.process.poll() is None and target.kill())
        return target

    def host(self, copy, *targets, more=""):
        """The set file of a machine with that local copy; the first target is copy 1."""
        place = self.place / f"host{copy}"
        place.mkdir()
        (place / "key").write_text(KEY)
        (place / "key").chmod(0o600)
        lines = [f"target {number} {t.address} set" for number, t in enumerate(targets, 1)]
        (place / "set").write_text("\n".join(
            ["RPMAMIRROR", f"local {copy} {place}/home 8M", f"key-file {place}/key", "device softrdma",
             *([] if "timeouts" in more else ["timeouts 20000 60000"]), more, *lines]) + "\n")
        return place / "set"

    def tool(self, *words, before=(), **options):
        return execute([*before, TOOL, *words], timeout=LIMIT_S, **options)

    def done(self, *words, status=0, **options):
        result = self.tool(*words, **options)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout

    def created(self, *targets, more=""):
        """Creates a set with a local copy 0. Returns its set file."""
        set_file = self.host(0, *targets, more=more)
        self.done("create", set_file)
        return set_file

    def json(self, command, *words, status=0):
        return json.loads(self.done(command, "--json", *words, status=status))

    def changing(self, host, members, *words):
        """Starts a command while its set file is locked. Returns when the set has the members."""
        command = subprocess.Popen([TOOL, *map(str, words)], stdout=subprocess.DEVNULL)
        self.addCleanup(command.wait)
        self.addCleanup(command.kill)
        wait_until(lambda: json.loads(self.tool("status", "--json", host).stdout)["members"] == members)
        return command

    def add_without_line(self, host, copy, target):
        """Kills the command before it writes the line of the copy that it has added."""
        with open(host, encoding="utf-8") as locked:
            fcntl.flock(locked, fcntl.LOCK_EX)
            command = self.changing(host, list(range(copy + 1)), "add", host, copy, target.address, "set")
            command.kill()
            command.wait()

    def refused(self, status, pattern, *words, **options):
        """One line on standard error that matches, and nothing else."""
        result = self.tool(*words, **options)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertRegex(result.stderr, "^rpma-mirror: .*" + pattern)

    def parsed(self, text):
        """Value of each sample of metrics by name and labels; checks each line of the text format."""
        self.assertTrue(text.endswith("\n"))
        found, families, family, kind = {}, set(), None, None
        for line in text.splitlines():
            if line.startswith("# HELP "):
                family = line.split()[2]
                self.assertNotIn(family, families)
                families.add(family)
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.assertEqual(name, family)
                self.assertEqual(kind == "counter", family.endswith("_total"))
            else:
                sample = SAMPLE.fullmatch(line)
                self.assertIsNotNone(sample, line)
                allowed = [family + suffix for suffix in ("_bucket", "_sum", "_count")] if kind == "histogram" else [family]
                self.assertIn(sample[1], allowed)
                self.assertNotIn((sample[1], sample[2]), found)
                found[sample[1], sample[2]] = float(sample[3])
        return found

    def writer(self, set_file):
        """A program that has the set open: for each line of its input it flushes that text, and prints the code."""
        process = subprocess.Popen([WRITER, set_file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "open\n")
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    @staticmethod
    def flush(writer, text):
        writer.stdin.write(text + "\n")
        return int(writer.stdout.readline())
