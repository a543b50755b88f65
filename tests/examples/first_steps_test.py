# SPDX-License-Identifier: BSD-3-Clause
"""What a newcomer gets wrong first, with the programs and with the runner: one line with the cause and the remedy."""

import os
import pathlib
import tempfile

import support
from support import ADDR, TOPICS

ROLES = ("server", "client")
NO_MEMLOCK = " ".join([os.environ["EXAMPLES_NO_MEMLOCK"], str(support.BUILD / "lib" / "libsoftrdma.so")])


class FirstStepsTest(support.ExamplesTest):
    def test_memory_that_cannot_be_locked(self) -> None:
        environment = {**os.environ, "LD_PRELOAD": NO_MEMLOCK}
        for number, topic in TOPICS.items():
            if topic == "01-connection":
                continue  # registers nothing
            role = "client" if number in ("13", "16", "17", "06", "06scch") else "server"
            with self.subTest(number=number, role=role):
                command = [support.program(number, role), ADDR, support.free_port(ADDR), *support.operands(number, role)]
                result = support.execute([*command, "--timeout", "5"], env=environment)
                self.assert_status(result, 1)
                self.assert_one_line(result.stderr.splitlines()[-1], "cannot lock", "ulimit -l")

    def test_memory_that_cannot_be_locked_for_the_runner(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            build = pathlib.Path(directory)
            (build / "examples").symlink_to(support.BUILD / "examples")
            launcher = build / "bin" / "softrdma"
            launcher.parent.mkdir()
            launcher.write_text(f'#!/bin/sh\nshift 2\nLD_PRELOAD="{NO_MEMLOCK}" exec "$@"\n', encoding="utf-8")
            launcher.chmod(0o755)
            result = support.execute([str(support.RUNNER), "--build", str(build), "--transport", "softrdma", "05"])
        self.assert_status(result, 1)
        [line] = [line for line in result.stdout.splitlines() if "cannot lock" in line]
        self.assertIn("server: ", line)
        self.assertIn("ulimit -l", line)

    def test_ipv6_literal_in_brackets(self) -> None:
        for number in TOPICS:
            for role in ROLES:
                result = support.execute(
                    [support.program(number, role), "[::1]", "7204", *support.operands(number, role)])
                self.assert_status(result, 2)
                self.assert_one_line(result.stderr, "'[::1]': write an IPv6 address without brackets")

    def test_ipv6_literal(self) -> None:
        if not pathlib.Path("/proc/net/if_inet6").read_text(encoding="ascii"):
            self.skipTest("this machine has no IPv6 address")
        port = support.free_port("::1")
        result = support.on_softrdma("01", "client", "--retry=0", "::1", port)
        self.assert_status(result, 1)
        self.assert_one_line(result.stderr, f"no server accepts connections at ::1 port {port}", "start the server first")

    def test_wrong_address_for_the_runner(self) -> None:
        for addr, words in (("0.0.0.0", ("stands for every interface", "give its address")),
                            ("::", ("stands for every interface", "give its address")),
                            ("[::1]", ("without brackets", "as in ::1")),
                            ("192.0.2.77", ("is that an address of this machine?",))):
            result = support.run_examples("01", "--addr", addr)
            self.assert_status(result, 2)
            self.assert_one_line(result.stderr, addr, *words)

    def test_client_on_another_machine_without_servers(self) -> None:
        result = support.run_examples("01", "--server", ADDR, "--port", support.free_port(ADDR), "--timeout", "1")
        self.assert_status(result, 1)
        self.assertIn("start the server first", result.stdout)


if __name__ == "__main__":
    support.main()
