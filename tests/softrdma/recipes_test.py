# SPDX-License-Identifier: BSD-3-Clause
"""Runs the recipes of softrdma(1) as written. usage: recipes_test.py SOFTRDMA MANUAL-PAGE SUPPRESSIONS PROGRAM

PROGRAM is a verbs program without leaks. SUPPRESSIONS is the installed file for valgrind."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import unittest

from support import directory, enter_own_network, listens, skip, wait_until

SOFTRDMA, PAGE, SUPPRESSIONS, PROGRAM = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
INSTALLED_SUPPRESSIONS = "/usr/share/softrdma/valgrind.supp"
HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 300  # limit of each program
ENVIRONMENT = {
    **os.environ, "PATH": f"{SOFTRDMA.parent}:/usr/bin:{os.environ['PATH']}",
    # Debian builds pyverbs for /usr/bin. Open MPI needs the other settings for root, and on machines with fewer CPUs
    # than ranks.
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def recipes() -> list[str]:
    section = PAGE.read_text().split("\n# RECIPES\n")[1].split("\n# ")[0]
    section = re.sub(r" \\\n +", " ", section)  # a continued line
    return [line.strip() for line in section.splitlines() if line.startswith("    ")]


class RecipesTest(unittest.TestCase):
    left = recipes()

    def setUp(self) -> None:
        self.work = directory(self)

    def take(self, pattern: str) -> str:
        """Removes and returns the only recipe that matches. A test calls this first, so that a skipped test counts too."""
        found = [line for line in recipes() if re.search(pattern, line)]
        self.assertEqual(1, len(found), pattern)
        self.left.remove(found[0])
        return found[0]

    def need(self, *programs: str) -> None:
        for program in programs:
            if shutil.which(program) is None:
                self.skipTest(f"{program} is not installed")

    def start(self, command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(["sh", "-c", "exec env " + command], cwd=self.work, env=ENVIRONMENT, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def run_one(self, command: str) -> str:
        done = subprocess.run(["sh", "-c", command], cwd=self.work, env=ENVIRONMENT, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False)
        self.assertEqual(0, done.returncode, f"{command}:\n{done.stdout}")
        return done.stdout

    def test_ucx(self) -> None:
        server_command = self.take(r"^softrdma run ucx_perftest -p \d+$")
        client = self.take(r"ucx_perftest .* 127\.0\.0\.1$")
        self.need("ucx_perftest")
        server = self.start(server_command)
        wait_until(lambda: listens(13337), "ucx_perftest")
        self.assertIn("Final:", self.run_one(client))
        self.assertEqual(0, server.wait(LIMIT_S))

    def test_message_passing(self) -> None:
        for starter, compiler, source in (
                ("mpirun.openmpi", "mpicc.openmpi", "message_passing.c"), ("mpiexec.mpich", "mpicc.mpich", "message_passing.c"),
                ("oshrun", "oshcc", "openshmem.c")):
            with self.subTest(starter):
                command = self.take(f"softrdma run {re.escape(starter)} ")
                self.need(starter, compiler)
                subprocess.run([compiler, "-O1", "-o", self.work / "program", HERE / source], check=True)
                self.assertIn("2 ranks have agreed\n", self.run_one(command))

    def test_qemu(self) -> None:
        target_command = self.take("-incoming rdma:")
        source_command = self.take("qemu-system-x86_64 .*-monitor stdio$")
        migrate = self.take("^migrate ")
        self.need("qemu-system-x86_64")
        target = self.start(target_command)
        wait_until(lambda: listens(14444), "QEMU")
        source = self.start(source_command)
        source.stdin.write(f"{migrate}\ninfo migrate\nquit\n")
        source.stdin.flush()
        said = source.communicate(timeout=LIMIT_S)[0]
        self.assertRegex(said, "Migration status: completed|status: completed", said)
        said = target.communicate("info status\nquit\n", timeout=LIMIT_S)[0]
        self.assertRegex(said, "VM status: running", said)

    def test_pyverbs(self) -> None:
        command = self.take("python3 -c ")
        if subprocess.run(["/usr/bin/python3", "-c", "import pyverbs"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("pyverbs is not installed")
        self.assertEqual("1\n", self.run_one(command))

    def test_valgrind(self) -> None:
        command = self.take("softrdma run valgrind ")
        self.need("valgrind")
        self.assertIn(INSTALLED_SUPPRESSIONS, command)
        (self.work / "program").symlink_to(PROGRAM)
        (self.work / "suppressions").symlink_to(SUPPRESSIONS)
        # With --leak-check, valgrind counts an unsuppressed leak as an error.
        self.assertIn("ERROR SUMMARY: 0 errors", self.run_one(command.replace(INSTALLED_SUPPRESSIONS, "./suppressions")))

    def test_zz_each_recipe_has_been_run(self) -> None:
        self.assertEqual([], self.left)


if __name__ == "__main__":
    # The page fixes the ports. In a network namespace no other process uses them.
    enter_own_network()
    for port in (13337, 14444):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                skip(f"port {port} is taken, and no network namespace can be created here")
    unittest.main(argv=sys.argv[:1], verbosity=2)
