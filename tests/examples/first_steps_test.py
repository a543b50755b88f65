# SPDX-License-Identifier: BSD-3-Clause
"""Common mistakes in the first use of the programs and the runner. Each is reported in one line with the cause and the remedy."""

import os
import pathlib
import re
import shutil
import tempfile

import support
from support import ADDR, TOPICS

ROLES = ("server", "client")
# LD_PRELOAD cannot contain a path with a blank, so it contains a link.
LINKS = tempfile.TemporaryDirectory()
NO_MEMLOCK = ""
for library in (pathlib.Path(os.environ["EXAMPLES_NO_MEMLOCK"]), support.BUILD / "lib" / "libsoftrdma.so"):
    link = pathlib.Path(LINKS.name, library.name)
    link.symlink_to(library)
    NO_MEMLOCK += f" {link}"


class FirstStepsTest(support.ExamplesTest):
    def test_every_example_of_the_table_is_known(self) -> None:
        table = (support.ROOT / "examples" / "README.md").read_text(encoding="utf-8")
        names = re.findall(r"^\| \[([^]]+)\]\(", table, flags=re.MULTILINE)
        self.assertGreater(len(names), len(TOPICS))
        for name in names:
            if name in TOPICS.values() or name in ("mirror-failover", "mirror-steps", "disk-failover"):
                continue  # covered by other tests
            with self.subTest(name=name):
                result = support.run_examples(name)
                if name == "20-python":
                    self.assertIn(result.returncode, (0, 77), result.stderr)
                    self.assertIn("durable, by the client's flush" if result.returncode == 0 else "python3-cffi", result.stdout)
                else:
                    self.assert_failure(result, 2, f"'{name}' is not an example with a server and a client (run")

    def test_an_unknown_option_of_try_prints_its_usage(self) -> None:
        result = support.execute([str(support.ROOT / "examples" / "remote-replica" / "try"), "--unknown"])
        self.assert_failure(result, 2, "usage: try [BUILD-DIRECTORY]")

    def test_lines_of_both_outputs_are_in_order(self) -> None:
        port = support.free_port(ADDR)
        merged = ["sh", "-c", 'exec "$@" 2>&1', "sh", *support.SOFTRDMA, support.program("01", "client"), "--verbose", ADDR, port]
        outcome = support.run_pair([*support.SOFTRDMA, support.program("01", "server"), ADDR, port], [merged], support.HERE,
                                   support.HERE, 60)
        self.assert_status(outcome.client, 0)
        output = outcome.client.stdout
        self.assertLess(output.index("Received a message: Hello client!"), output.index("Connection closed"), output)

    def test_tools_print_their_version_and_survive_closed_pipes(self) -> None:
        tools = [name for name in ("rpma-bench", "rpma-conformance", "rpma-ddio", "rpma-doctor", "rpma-mirror", "rpmem-doctor",
                                   "rpmem-ssh", "rpmemd", "softrdma") if (support.BUILD / "bin" / name).exists()]
        for name in tools:
            tool = str(support.BUILD / "bin" / name)
            with self.subTest(tool=name):
                result = support.execute([tool, "--version"])
                self.assert_status(result, 0)
                self.assertRegex(result.stdout + result.stderr, rf"\A{name} \d+\.\d+\.\d+\n\Z")
            if name == "rpmemd":
                continue  # its standard output is the control channel
            for option, end in (("--version", ">/dev/full"), ("--help", ">/dev/full"), ("--help", ">&-")):
                with self.subTest(tool=name, option=option, end=end):
                    result = support.execute(["sh", "-c", f'exec "$0" {option} {end}', tool])
                    self.assert_failure(result, 1, f"{name}: standard output: ")
        for words in (["rpma-doctor"], ["rpmem-doctor", "local:", "none.set"], ["rpma-conformance", "--list"]):
            with self.subTest(words=words):
                reader, writer = os.pipe()
                os.close(reader)
                with os.fdopen(writer) as output:
                    result = support.execute([str(support.BUILD / "bin" / words[0]), *words[1:]], stdout=output)
                self.assertEqual("", result.stderr)

    def test_each_command_of_softrdma_prints_help(self) -> None:
        launcher = str(support.BUILD / "bin" / "softrdma")
        for command in ("run", "trace", "info", "doctor", "ps", "fault", "powercut"):
            for option in ("-h", "--help"):
                with self.subTest(command=command, option=option):
                    result = support.execute([launcher, command, option])
                    self.assert_status(result, 0)
                    self.assertIn(f"softrdma {command}", result.stdout)
        self.assert_failure(support.execute([launcher, "trace", "-w"]), 2, "option '-w' of trace needs a value")

    def test_installing_without_root_and_sudo_prints_the_packages(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            for name, text in (("id", "echo 1000"), ("dpkg-query", "exit 1"), ("apt-get", "exit 9")):
                support.write_script(pathlib.Path(directory) / name, text)
            for name in ("grep", "wc"):
                (pathlib.Path(directory) / name).symlink_to(shutil.which(name))
            result = support.execute(["/bin/sh", str(support.ROOT / "utils" / "install-dependencies")], env={"PATH": directory})
        self.assert_failure(
            result, 77, "(as root, run: apt-get install --no-install-recommends g++ cmake", "libibverbs-dev")

    def test_memory_that_cannot_be_locked(self) -> None:
        environment = {**os.environ, "LD_PRELOAD": NO_MEMLOCK}
        for number, topic in TOPICS.items():
            if topic == "01-connection":
                continue  # registers no memory
            role = "client" if number in ("13", "16", "17", "06", "06scch") else "server"
            with self.subTest(number=number, role=role):
                command = [support.program(number, role), ADDR, support.free_port(ADDR), *support.operands(number, role)]
                result = support.execute([*command, "--timeout", "5"], env=environment)
                self.assert_last_line(result, 1, "cannot lock", "ulimit -l")

    def test_memory_that_cannot_be_locked_for_the_runner(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            build = pathlib.Path(directory)
            (build / "examples").symlink_to(support.BUILD / "examples")
            support.write_script(build / "bin" / "softrdma", f'shift 2\nLD_PRELOAD="{NO_MEMLOCK}" exec "$@"')
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
                self.assert_failure(result, 2, "'[::1]' has brackets")

    def test_ipv6_literal(self) -> None:
        if not pathlib.Path("/proc/net/if_inet6").read_text(encoding="ascii"):
            self.skipTest("this machine lacks an IPv6 address")
        port = support.free_port("::1")
        result = support.on_softrdma("01", "client", "--retry=0", "::1", port)
        self.assert_failure(result, 1, f"::1 port {port}: no server accepts connections", "start the server first")

    def test_wrong_address_for_the_runner(self) -> None:
        for addr, words in (("0.0.0.0", ("wildcard address", "address of one interface")),
                            ("::", ("wildcard address", "address of one interface")),
                            ("[::1]", ("brackets in an IPv6 address", "write ::1")),
                            ("192.0.2.77", ("is it an address of this machine?",))):
            self.assert_failure(support.run_examples("01", "--addr", addr), 2, addr, *words)

    def test_client_on_another_machine_without_servers(self) -> None:
        result = support.run_examples("01", "--server", ADDR, "--port", support.free_port(ADDR), "--timeout", "1")
        self.assert_status(result, 1)
        self.assertIn("start the server first", result.stdout)


if __name__ == "__main__":
    support.main()
