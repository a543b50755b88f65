# SPDX-License-Identifier: BSD-3-Clause
"""Invalid command lines of each program: exit status, and one line with the cause and the remedy."""

import concurrent.futures
import os
import pathlib
import socket
import subprocess
import tempfile
import threading

import support
from support import ADDR, TOPICS

ROLES = ("server", "client")
WITH_FILES = ("03", "04", "05", "09", "09scch")
NEEDED = {"client": 17 + 1028, "server": 17 + 1024}


def complaints(stderr: str) -> str:
    """Removes the warning of programs that could use a file and have none."""
    return "\n".join(line for line in stderr.splitlines() if "using DRAM" not in line)


class CommandLineTest(support.ExamplesTest):
    def check(self, status: int, words: tuple[str, ...], command: list[str], **options: object) -> None:
        with self.subTest(command=command):
            result = support.execute(command, **options)
            self.assert_status(result, status)
            # A server of persistent data may have printed its content already.
            self.assertEqual([], [line for line in result.stdout.splitlines() if not line.startswith("Records in")])
            self.assert_one_line(complaints(result.stderr), *words)

    def check_everywhere(self, status: int, words: tuple[str, ...], *arguments: str, prefix: tuple[str, ...] = (),
                         roles: tuple[str, ...] = ROLES, **options: object) -> None:
        for number in TOPICS:
            for role in roles:
                command = [*prefix, support.program(number, role), *arguments, *support.operands(number, role)]
                self.check(status, words, command, **options)

    def test_help_is_printed_by_every_program(self) -> None:
        for number in TOPICS:
            for role in ROLES:
                result = support.execute([support.program(number, role), "--help"])
                self.assert_status(result, 0)
                self.assertEqual("", result.stderr)
                self.assertTrue(result.stdout.startswith(f"Usage: {role} [options] <addr> <port>"), result.stdout)
                self.assertIn("--timeout S", result.stdout)
                self.assertIn("--ready-fd N" if role == "server" else "--retry S", result.stdout)

    def test_missing_operands(self) -> None:
        for number in TOPICS:
            for role in ROLES:
                for operands in ([], [ADDR]):
                    self.check(2, ("expected <addr> <port>", "--help"), [support.program(number, role), *operands])
        self.check(2, ("<seed> <rounds>",), [support.program("08", "client"), ADDR, "7204", "7"])

    def test_values_that_are_no_numbers_or_out_of_range(self) -> None:
        self.check_everywhere(2, ("<port>", "65535"), ADDR, "65536")
        self.check_everywhere(2, ("<port>", "0 is invalid"), ADDR, "0")
        self.check_everywhere(2, ("<port>", "'72o4' is not a decimal number"), ADDR, "72o4")
        self.check_everywhere(2, ("--timeout", "'soon'"), "--timeout", "soon", ADDR, "7204")
        self.check_everywhere(2, ("--timeout", "86400"), "--timeout=86401", ADDR, "7204")
        self.check_everywhere(2, ("--ready-fd", "'-1'"), "--ready-fd=-1", ADDR, "7204", roles=("server",))
        self.check_everywhere(2, ("--ready-fd", "9 is not open"), "--ready-fd=9", ADDR, "7204", roles=("server",))
        self.check_everywhere(2, ("unrecognized option '--retry=1'",), "--retry=1", ADDR, "7204", roles=("server",))
        self.check_everywhere(2, ("unrecognized option '--ready-fd=1'",), "--ready-fd=1", ADDR, "7204",
            roles=("client",))
        for number in WITH_FILES:
            client = support.program(number, "client")
            self.check(2, ("<pmem-offset>", "'1k'"), [*support.SOFTRDMA, client, ADDR, "7204", "/dev/null", "1k"])
        self.check(2, ("on or off", "'yes'"), [support.program("05", "server"), ADDR, "7204", "/dev/null", "yes"])

    def check_operands(self, number: str, role: str, words: tuple[str, ...], *operands: str) -> None:
        self.check(2, words, [support.program(number, role), ADDR, "7204", *operands])

    def test_values_of_the_games(self) -> None:
        for number in ("08", "08srq", "12", "12scch", "13"):
            self.check_operands(number, "client", ("<seed>", "'x'"), "x", "3")
            self.check_operands(number, "client", ("<rounds>", "'-1'"), "--", "7", "-1")
            self.check_operands(number, "client", ("<seed>", "too large"), str(2**64 - 1), "1")
            self.check_operands(number, "client", ("<seed>", str(2**64 - 1)), str(2**64), "1")
        for number in ("08srq", "13"):
            self.check_operands(number, "client", ("<rounds>", "at least 1"), "7", "0")
        self.check_operands("08srq", "server", ("m or r", "'x'"), "x")
        self.check_operands("13", "server", ("<timeout-s>", "0 is out of range"), "0")

    def test_values_of_the_others(self) -> None:
        for number in ("06", "06scch"):
            self.check_operands(number, "client", ("<seed>", "'x'"), "x")
            self.check_operands(number, "server", ("--clients", "'x'"), "--clients=x")
        for number in ("10", "11"):
            self.check_operands(number, "client", ("<imm>", "4294967296 exceeds 4294967295"), "4294967296")
            self.check_operands(number, "client", ("<imm>", "'-1'"), "--", "-1")
        self.check_operands("10", "client", ("<word>", "more than 1023"), "1", "x" * 1024)
        self.check_operands("01", "server", ("unrecognized option '--clients=1'",), "--clients=1")
        for operands, words in ((("0",), "<blocks>: 0"), (("1025",), "<blocks>: 1025"), (("1", "1"), "<sq-size>: 1"),
                                (("1", "1025"), "<sq-size>: 1025")):
            self.check_operands("14", "client", (words, "--help"), *operands)
        for number in ("16", "17"):
            for role, operands, words in (("server", ("11",), "<players>"), ("server", ("0",), "<players>"),
                                          ("client", ("7", "3", "0", "11"), "<players>"), ("client", ("7", "0"), "<rounds>"),
                                          ("client", (str(2**64 - 100), "3"), "<seed>")):
                self.check_operands(number, role, (words, "--help"), *operands)
        for text in ("", "y" * 1024):
            self.check_operands("18", "client", ("<text>", "1023"), text)

    def test_log_takes_no_arguments(self) -> None:
        self.check(2, ("unknown argument '-x'", "--help"), [support.LOG, "-x"])
        self.assert_status(support.execute([support.LOG, "--help"]), 0)

    def test_no_rdma_device(self) -> None:
        self.check_everywhere(77, ("127.0.0.1: no RDMA device found", "softrdma run --"), ADDR, "7204")

    def test_wildcard_address(self) -> None:
        for addr in ("0.0.0.0", "::"):
            self.check_everywhere(1, (f"{addr}: wildcard address", "address of one interface"), addr, "7204")

    def test_server_not_started_or_wrong_port(self) -> None:
        port = support.free_port(ADDR)
        self.check_clients(("no server accepts connections", f"port {port}", "start the server first"), port)

    def test_port_that_is_no_service(self) -> None:
        self.check_everywhere(2, ("<port>: 'no-such-service' is neither a port nor a service",), ADDR, "no-such-service")

    def test_port_of_another_service(self) -> None:
        """The service accepts connections and sends no response, or an invalid one."""
        for answer in (b"", b"SSH-2.0-Example\r\n"):
            with socket.create_server((ADDR, 0)) as foreign, concurrent.futures.ThreadPoolExecutor() as pool:
                foreign.settimeout(120)
                end = threading.Event()

                def serve() -> None:
                    while not end.is_set():
                        connection, _ = foreign.accept()
                        connection.sendall(answer)
                        kept.append(connection)

                kept: list[socket.socket] = []
                serving = pool.submit(serve)
                port = foreign.getsockname()[1]
                result = support.execute([*support.SOFTRDMA, support.program("01", "client"), "--retry=0", ADDR, str(port)],
                    env={**os.environ, "SOFTRDMA_CM_TIMEOUT_MS": "1000"})
                end.set()
                socket.create_connection((ADDR, port)).close()
                serving.exception()
                for connection in kept:
                    connection.close()
            self.assert_failure(
                result, 1, f"port {port}: no server accepts connections, but a program listens", "another service")

    def check_clients(self, words: tuple[str, ...], port: str) -> None:
        """The clients of 03 to 05 print their text before they connect."""
        for number in TOPICS:
            with self.subTest(number=number):
                operands = support.operands(number, "client")
                result = support.on_softrdma(number, "client", "--retry=0", ADDR, port, *operands)
                self.assert_status(result, 1)
                self.assert_one_line(complaints(result.stderr), *words)
                self.reports_no_success(result.stdout)

    def reports_no_success(self, output: str) -> None:
        self.assertNotRegex(output, "Received|Read a message|translating|Translation|is supported")

    def test_unknown_host(self) -> None:
        self.check_everywhere(2, ("cannot find the host 'host.invalid'", "--help"), "host.invalid", "7204")

    def test_port_in_use(self) -> None:
        with socket.create_server((ADDR, 0)) as occupied:
            port = str(occupied.getsockname()[1])
            for number in TOPICS:
                result = support.on_softrdma(number, "server", ADDR, port)
                self.assert_last_line(result, 1, f"cannot listen on 127.0.0.1 port {port}", "Address already in use", "free port")

    def check_path(self, words: tuple[str, ...], path: str) -> None:
        for number in WITH_FILES:
            for role in ROLES:
                self.check(1, words, [*support.SOFTRDMA, support.program(number, role), ADDR, "7204", path])

    def test_unusable_paths(self) -> None:
        self.check_path(("/nonexistent/file: not found", "truncate -s 64K"), "/nonexistent/file")
        with support.pmem_file(0) as path:
            self.check_path((f"{path}: the file is empty", "truncate"), str(path))
            self.check_path(("Is a directory",), str(path.parent))
            fifo = path.parent / "fifo"
            os.mkfifo(fifo)
            self.check_path(("neither a file nor a PMem device",), str(fifo))

    def test_file_with_holes_on_a_full_disk(self) -> None:
        with tempfile.TemporaryDirectory(prefix="rpma-full-disk-test-", dir="/var/tmp") as directory:
            full = ["unshare", "--mount", "sh", "-ec",
                f"mount -t tmpfs -o size=64k none {directory}; truncate -s 1M {directory}/sparse; exec \"$@\"", "sh"]
            if support.execute([*full, "true"]).returncode != 0:
                self.skipTest("mounting a small disk needs root and mount namespaces")
            server = [*support.SOFTRDMA, support.program("05", "server"), ADDR, support.free_port(ADDR)]
            self.check(1, ("sparse", "no space left for 1048576 bytes"), [*full, *server, f"{directory}/sparse"])

    def test_file_that_is_one_byte_too_small(self) -> None:
        for role in ROLES:
            with support.pmem_file(NEEDED[role] - 1) as path:
                for number in WITH_FILES:
                    self.check(1, (f"{NEEDED[role] - 1} bytes are too small for {NEEDED[role]}", "enlarge"),
                        [*support.SOFTRDMA, support.program(number, role), ADDR, "7204", str(path)])
                    self.assertEqual(bytes(NEEDED[role] - 1), path.read_bytes())

    def test_offset_that_does_not_fit_into_the_private_data(self) -> None:
        with support.pmem_file(128 * 1024) as path:
            result = support.on_softrdma("03", "client", ADDR, "7204", str(path), "65536")
            self.assert_last_line(result, 1, "data at offset 65557", "smaller <pmem-offset>")

    def test_ready_fd_that_cannot_be_written(self) -> None:
        with open("/dev/full", "wb") as full:
            command = [*support.SOFTRDMA, support.program("01", "server"), f"--ready-fd={full.fileno()}", ADDR,
                       support.free_port(ADDR)]
            result = support.execute(command, pass_fds=(full.fileno(),))
        self.assert_last_line(result, 1, "--ready-fd", "No space left on device")

    def test_server_without_a_client_exits_at_its_time_limit(self) -> None:
        def wait(number: str) -> subprocess.CompletedProcess:
            return support.on_softrdma(number, "server", "--timeout=1", ADDR, support.free_port(ADDR))

        with concurrent.futures.ThreadPoolExecutor(len(TOPICS)) as executor:
            results = list(executor.map(wait, TOPICS))
        for result in results:
            self.assert_last_line(result, 1, "no client within 1 s", "--timeout")

    def test_surplus_operands_are_reported_and_ignored(self) -> None:
        result = support.on_softrdma("01", "client", "--retry=0", ADDR, support.free_port(ADDR), "/x", "1024")
        self.assert_status(result, 1)
        self.assertEqual(["'/x'", "'1024'"],
            [line.split()[3] for line in result.stderr.splitlines() if "surplus operand" in line])

    def test_output_that_cannot_be_written_is_a_failure(self) -> None:
        """A program that lost received data on a full disk must not exit with 0."""
        examples = support.BUILD / "examples"
        with tempfile.TemporaryDirectory() as directory, open("/dev/full", "wb") as full:
            files = pathlib.Path(directory)
            (files / "pool.set").write_text(f"PMEMPOOLSET\n8M {files}/part\n", encoding="utf-8")
            (files / "log").write_bytes(bytes(1 << 16))
            for command in ([examples / "01-connection/client", "--help"], [examples / "log/log"],
                            [examples / "19-power-cut/check", files / "log", "0"],
                            [examples / "19-power-cut/power-cuts", "--cuts", "1"],
                            [examples / "mirror-failover/kv-log", "--help"],
                            [examples / "remote-replica/counter", files / "pool.set", "1"]):
                with self.subTest(command=command):
                    if not command[0].exists():
                        self.skipTest(f"{command[0]} is not built")
                    result = support.execute(command, stdout=full)
                    self.assert_last_line(result, 1, "standard output", "No space left on device")


if __name__ == "__main__":
    support.main()
