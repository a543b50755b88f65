# SPDX-License-Identifier: BSD-3-Clause
"""The commands of docs/debugging.md work as they are written."""

import contextlib
import os
import re
import shutil
import subprocess

import support

TOOLS = ("valgrind", "callgrind_annotate", "gdb", "tshark")
# Part of a command, its output, and its exit status.
CASES = [("--verbose", r"Connection established", 0),
         ("--leak-check", r"ERROR SUMMARY: 0 errors", 0),
         ("--tool=helgrind", r"ERROR SUMMARY: 0 errors", 0),
         ("--tool=drd", r"ERROR SUMMARY: 0 errors", 0),
         ("--tool=callgrind", r"Received a message", 0),
         ("callgrind_annotate", r"events annotated", 0),
         ("softrdma ps", r"PROGRAM", 0),
         ("softrdma ps PID", r"transport=\S+ .*posted=", 0),
         ("gdb -p PID", r"Thread 1 ", 0),
         ("-probe-stap", r"hit Breakpoint[\s\S]*\$1 = 0", 0),
         ("softrdma trace", r"Next value", 0),
         ("tshark", r"RDMA Write", 0),
         ("status=rem_access", r"rpma_write failed: remote access error", 1),
         ("softrdma fault PID", r"\A", 0),
         ("power-cuts --cuts", r"20 cuts, 20 whole logs", 0),
         ("power-cuts no-flush", r"seed \d+: check", 1)]


class DebuggingTest(support.ExamplesTest):
    def setUp(self) -> None:
        self.place = support.directory(self, prefix="rpma-debugging-test-")
        (self.place / "build").mkdir()
        for link, target in (("build/release", support.BUILD), ("src", support.ROOT / "src"),
                             ("examples", support.BUILD / "examples")):
            (self.place / link).symlink_to(target)
        self.environment = {**os.environ, "SOFTRDMA": support.SOFTRDMA[0]}

    def start(self, program: str, *arguments: str) -> subprocess.Popen:
        """Starts a program of an example, and waits until a server listens."""
        running = subprocess.Popen([*support.SOFTRDMA, str(support.BUILD / "examples" / program), *arguments], text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.programs.callback(running.stderr.close)
        self.programs.callback(running.wait)
        self.programs.callback(running.kill)
        if program.endswith("server"):
            next(line for line in running.stderr if "listening on" in line)
        return running

    def check(self, variables: str, command: str, expected: str, status: int) -> None:
        port = support.free_port(support.ADDR)
        if client := re.search(r"\$examples/([^/]+)/client", command):
            self.start(f"{client[1]}/server", support.ADDR, port)
        elif re.search(r"softrdma ps|PID", command):
            self.start("08-messages-ping-pong/server", support.ADDR, port)
            program = self.start("08-messages-ping-pong/client", support.ADDR, port, "7", "2000000")
            listed = [*support.SOFTRDMA[:1], "ps", str(program.pid)]
            support.wait_until(lambda: "posted=" in support.execute(listed).stdout)
            command = command.replace("PID", str(program.pid))
        done = support.execute(["sh", "-euc", f"{variables}\n{command.replace('7204', port)}"], cwd=self.place, env=self.environment)
        self.assertEqual(status, done.returncode, done.stdout + done.stderr)
        self.assertRegex(done.stdout + done.stderr, expected)

    def test_each_command(self) -> None:
        text = (support.ROOT / "docs" / "debugging.md").read_text(encoding="utf-8")
        variables, server, *blocks = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
        self.assertIn("/server 127.0.0.1 7204", server)
        commands = [command for block in blocks for command in re.split(r"(?<!\\)\n", block.strip())]
        self.assertEqual(len(CASES), len(commands))
        for command, (part, expected, status) in zip(commands, CASES):
            with self.subTest(command=command), contextlib.ExitStack() as self.programs:
                self.assertIn(part, command)
                self.check(variables, command, expected, status)


if __name__ == "__main__":
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    support.main(f"not found: {' '.join(missing)}" if missing else None)
