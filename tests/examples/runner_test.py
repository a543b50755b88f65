# SPDX-License-Identifier: BSD-3-Clause
"""The behavior of examples/run that users see."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest.mock

import support
from runner import CannotRun, transport

SIGNATURE = b"RPMA_EXAMPLE_SIG\0"


class PortTest(support.ExamplesTest):
    def test_a_free_port_is_reserved_for_its_server(self) -> None:
        place = (support.ADDR, int(support.free_port(support.ADDR)))
        with socket.socket() as other, self.assertRaises(OSError):
            other.bind(place)
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(place)
            server.listen()


class RunnerTest(support.ExamplesTest):
    def setUp(self) -> None:
        self.directory = support.directory(self, prefix="rpma-runner-test-", dir="/var/tmp")

    def test_all_examples_succeed_with_files(self) -> None:
        result = support.run_examples("--pmem", str(self.directory))
        self.assert_status(result, 0)
        self.assertIn("{0} of {0} examples succeeded".format(len(support.TOPICS)), result.stdout)
        self.assertIn("softrdma, a software device (", result.stdout)
        self.assertIn("Flush:    to persistence", result.stdout)
        flush_line = next(line for line in result.stdout.splitlines() if "05-flush-to-persistent" in line)
        self.assertIn("durable, by the client's flush to persistence", flush_line)
        self.assertEqual([], list(self.directory.iterdir()))

    def test_all_examples_succeed_in_dram(self) -> None:
        result = support.run_examples("--pmem", "none")
        self.assert_status(result, 0)
        self.assertIn("DRAM: nothing is persistent", result.stdout)
        self.assertIn("Flush:    to visibility only", result.stdout)
        self.assertNotIn("durable", result.stdout)

    def test_flush_to_visibility_leaves_persisting_to_the_server(self) -> None:
        result = support.run_examples("05", "--direct-write", "off", "--pmem", str(self.directory))
        self.assert_status(result, 0)
        self.assertIn("persisted by the server, after a flush to visibility", result.stdout)

    def test_file_of_the_user_keeps_texts_of_both_sides(self) -> None:
        path = self.directory / "shared"
        path.write_bytes(bytes(8192))
        for expected in ("Hello world!", "¡Hola Mundo!"):
            result = support.run_examples("05", "--pmem", str(path))
            self.assert_status(result, 0)
            self.assertIn(f'"{expected}" re-read from', result.stdout)
            content = path.read_bytes()
            self.assertEqual(SIGNATURE, content[:17])
            self.assertEqual(expected.encode(), content[17:1041].rstrip(b"\0"))
            self.assertEqual(SIGNATURE, content[4096:4113])

    def test_list_names_the_examples(self) -> None:
        result = support.execute([str(support.RUNNER), "list"])
        self.assert_status(result, 0)
        self.assertEqual([*support.TOPICS.values(), "20-python"], [line.split()[0] for line in result.stdout.splitlines()])

    def test_numbers_need_no_leading_zero(self) -> None:
        result = support.run_examples("--format", "tap", "1", "8srq", "08-messages-ping-pong")
        self.assert_status(result, 0)
        lines = [line for line in result.stdout.splitlines() if not line.startswith("#")]
        self.assertEqual(["1..3", "ok 1 - 01-connection", "ok 2 - 08-messages-ping-pong",
                          "ok 3 - 08srq-simple-messages-ping-pong-with-srq"], lines)

    def test_all_is_every_example(self) -> None:
        result = support.run_examples("--format", "tap", "all", "--build", str(self.empty_build()))
        self.assertIn(f"1..{len(support.TOPICS)}\n", result.stdout)

    def empty_build(self) -> pathlib.Path:
        """Creates a build tree without examples, so that each one is skipped immediately."""
        build = self.directory / "empty"
        (build / "examples" / support.TOPICS["01"]).mkdir(parents=True)
        (build / "bin").symlink_to(support.BUILD / "bin")
        return build

    def test_shown_commands_can_be_repeated_by_hand(self) -> None:
        for example, options in (("5", ""), ("20", "'Hello world!'")):
            with self.subTest(example=example):
                self.check_commands_by_hand(example, options)

    def check_commands_by_hand(self, example: str, options: str) -> None:
        result = support.run_examples(example, "--pmem", str(self.directory))
        if example == "20" and result.returncode == 77:
            self.skipTest(result.stdout)
        self.assert_status(result, 0)
        prepare, server, client = [line.strip() for line in result.stdout.partition("By hand, ")[2].splitlines()[1:]]
        files = pathlib.Path("/var/tmp/rpma-by-hand")
        self.addCleanup(shutil.rmtree, files, ignore_errors=True)
        self.assert_status(support.execute(["sh", "-c", prepare]), 0)
        with subprocess.Popen(["sh", "-c", f"exec {server}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
            self.addCleanup(running.kill)
            next(line for line in running.stdout if "listening on" in line)
            self.assert_status(support.execute(["sh", "-c", f"{client} {options}"]), 0)
            running.wait(support.TIMEOUT_S)
            output = running.stdout.read()
        self.assertIn("New value: Hello world!", output)
        self.assertEqual(b"Hello world!", (files / "server.pmem").read_bytes()[17:29])

    def test_a_misspelled_variable_of_the_device_is_reported_once(self) -> None:
        result = support.run_examples("1", env=os.environ | {"SOFTRDMA_FUALT": "1"})
        self.assert_status(result, 0)
        self.assert_one_line(result.stderr, "SOFTRDMA_FUALT: unknown variable")

    def test_commands_are_for_people_who_named_an_example(self) -> None:
        for arguments in (("1", "--format", "tap"), ("1", "--format", "junit")):
            self.assertNotIn("By hand", support.run_examples(*arguments).stdout)

    def assert_built(self, programs: str, build: pathlib.Path, result: subprocess.CompletedProcess[str]) -> None:
        first, *progress = result.stderr.splitlines()
        self.assertEqual(f"run: building {programs} in {build}", first)
        self.assertEqual([], [line for line in progress if not line.startswith("run: building: [")])

    def test_missing_programs_are_built(self) -> None:
        build = self.directory / "fresh"
        support.execute(["cmake", "-G", "Ninja", "-S", str(support.ROOT), "-B", str(build), "-DRPMA_BUILD_SOFTRDMA=OFF",
                         "-DRPMA_BUILD_BENCH=OFF", "-DRPMA_BUILD_TESTS=OFF", "-DRPMA_BUILD_MAN=OFF"])
        path = f"{support.BUILD / 'bin'}:{os.environ['PATH']}"
        command = [str(support.RUNNER), "1", "--build", str(build), "--transport", "softrdma"]
        result = support.execute(command, env={**os.environ, "PATH": path})
        self.assert_status(result, 0)
        self.assert_built("2 programs", build, result)
        self.assertFalse((build / "examples" / support.TOPICS["02"] / "client").exists())
        self.assertEqual("", support.execute(command, env={**os.environ, "PATH": path}).stderr)
        doctor = support.execute([str(support.RUNNER), "doctor", "--build", str(build)], env={**os.environ, "PATH": path})
        self.assert_built("1 program", build, doctor)
        self.assertRegex(doctor.stdout, r"(?m)^ok +softrdma ")

    def test_ipv6(self) -> None:
        if not pathlib.Path("/proc/net/if_inet6").read_text(encoding="ascii"):
            self.skipTest("this machine lacks an IPv6 address")
        self.assert_status(support.run_examples("01", "05", "--addr", "::1"), 0)

    def test_failures_of_programs_are_reported(self) -> None:
        received = "Received a message: Hello client!"
        for number, role, script, options, *words in (
                ("01", "client", "exit 3", (),
                 "FAIL  01-connection", "the client exited with status 3", "0 of 1 examples succeeded"),
                ("01", "client", "exec PROGRAM >/dev/null", (), f"did not print '{received}'"),
                ("01", "server", "PROGRAM; exit 4", (), "the server exited with status 4", received),
                ("01", "server", 'PROGRAM; exec tail -f /dev/null "$0"', ("--timeout", "2"),
                 "the server did not exit in time"),
                ("04", "client", 'PROGRAM | sed "s/Next value: .*/Next value: forged/"', ("--pmem", "none"),
                 "the client had 'forged', the server received 'Hello world!'"),
                ("05", "server", 'PROGRAM && printf J | dd of="$3" bs=1 seek=17 conv=notrunc',
                 ("--pmem", str(self.directory)), "the client had 'Hello world!'", "server.pmem holds 'Jello world!'")):
            with self.subTest(script=script):
                program = f'"{support.program(number, role)}" "$@"'
                programs = self.fake_programs(script.replace("PROGRAM", program), number, role)
                result = support.run_examples(number, f"--{role}-programs", str(programs), *options)
                self.assert_status(result, 1)
                for word in words:
                    self.assertIn(word, result.stdout)
                self.assertEqual([], support.processes_naming(str(self.directory)))
                shutil.rmtree(programs)

    def test_clients_may_retry_only_where_the_server_listens_again(self) -> None:
        for number, status in (("15", 0), ("02", 1)):
            client = pathlib.Path(support.program(number, "client"))
            build = self.directory / number
            shutil.copytree(support.BUILD / "bin", build / "bin", copy_function=os.symlink)
            for topic in {support.TOPICS["01"], support.TOPICS[number]}:
                (build / "examples" / topic).mkdir(parents=True)
                (build / "examples" / topic / "server").symlink_to(support.BUILD / "examples" / topic / "server")
            support.write_script(build / "examples" / support.TOPICS[number] / "client",
                                 f'case "$*" in *"--retry 0"*) exit 5;; esac\nexec "{client}" "$@"')
            result = support.execute([str(support.RUNNER), number, "--build", str(build), "--transport", "softrdma"])
            self.assert_status(result, status)

    def fake_programs(self, script: str, number: str = "01", role: str = "client") -> pathlib.Path:
        """Returns a directory for --client-programs or --server-programs in which a shell script replaces the program."""
        return support.write_script(self.directory / "programs" / support.TOPICS[number] / role, script).parents[1]

    def start_and_wait_for_a_client(self) -> subprocess.Popen:
        """Starts a run whose client never exits, so that the run can be interrupted."""
        programs = self.fake_programs(
            f": >'{self.directory}/halfway'\nexec tail -f '{self.directory}/halfway'", number="05")
        runner = subprocess.Popen(
            [str(support.RUNNER), "05", "--build", str(support.BUILD), "--transport", "softrdma",
             "--pmem", str(self.directory), "--client-programs", str(programs)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(runner.wait)
        self.addCleanup(runner.kill)
        support.wait_until((self.directory / "halfway").exists)
        return runner

    def test_run_that_is_interrupted_leaves_nothing(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                runner = self.start_and_wait_for_a_client()
                runner.send_signal(number)
                self.assertEqual(128 + number, runner.wait(support.TIMEOUT_S))
                self.assertEqual([], support.processes_naming(str(self.directory)))
                self.assertEqual([], list(self.directory.glob("rpma-examples-*")))
                subprocess.run(["rm", "-r", self.directory / "programs", self.directory / "halfway"], check=True)

    def test_a_killed_run_ends_its_programs(self) -> None:
        runner = self.start_and_wait_for_a_client()
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait(support.TIMEOUT_S)
        support.wait_until(lambda: not support.processes_naming(str(self.directory)))


class TransportTest(support.ExamplesTest):
    """Simulates hardware with a tree like /sys/class/infiniband."""

    def choose(self, states: dict[str, str], gids: list[str], kind: str = "auto",
               addr: str | None = None) -> transport.Transport:
        with tempfile.TemporaryDirectory() as directory:
            for device, state in states.items():
                port = pathlib.Path(directory) / device / "ports" / "1"
                (port / "gids").mkdir(parents=True)
                (port / "state").write_text(f"{state}\n", encoding="ascii")
                for index, gid in enumerate(gids):
                    (port / "gids" / str(index)).write_text(f"{gid}\n", encoding="ascii")
            with unittest.mock.patch.object(transport, "SYSFS", pathlib.Path(directory)):
                return transport.choose(kind, addr, support.BUILD)

    LINK_LOCAL = "fe80:0000:0000:0000:0a00:27ff:fe4e:66a1"
    MAPPED = "0000:0000:0000:0000:0000:ffff:c0a8:0107"

    def test_active_port_is_preferred_with_the_address_of_its_gid(self) -> None:
        chosen = self.choose({"down0": "1: DOWN", "up0": "4: ACTIVE"}, [self.LINK_LOCAL, self.MAPPED])
        self.assertEqual("RDMA device up0 of the kernel", chosen.description)
        self.assertEqual("192.168.1.7", chosen.addr)
        self.assertEqual((), chosen.prefix)
        self.assertFalse(chosen.makes_files_durable)

    def test_address_of_the_user_is_enough(self) -> None:
        chosen = self.choose({"up0": "4: ACTIVE"}, [self.LINK_LOCAL], addr="10.0.0.1")
        self.assertEqual(("RDMA device up0 of the kernel", "10.0.0.1"), (chosen.description, chosen.addr))

    def test_softrdma_is_used_if_no_port_is_usable(self) -> None:
        for states in ({}, {"down0": "1: DOWN"}, {"up0": "4: ACTIVE"}):
            chosen = self.choose(states, [self.LINK_LOCAL])
            self.assertIn("softrdma", chosen.description)
            self.assertEqual("127.0.0.1", chosen.addr)
            self.assertTrue(chosen.makes_files_durable)

    def test_missing_hardware_cannot_be_requested(self) -> None:
        with self.assertRaisesRegex(CannotRun, "no RDMA device has an active port"):
            self.choose({"down0": "1: DOWN"}, [self.MAPPED], kind="kernel")


class MisuseTest(support.ExamplesTest):
    def check(self, status: int, words: tuple[str, ...], *arguments: str) -> None:
        with self.subTest(arguments=arguments):
            result = support.execute([str(support.RUNNER), *arguments])
            self.assert_failure(result, status, *words)
            self.assertEqual("", result.stdout)

    def test_wrong_command_lines(self) -> None:
        build = ("--build", str(support.BUILD), "--transport", "softrdma")
        self.check(2, ("example '99' not found", "list"), "99")
        self.check(2, ("'list' is a verb", "must be the first argument"), "--jobs", "1", "list")
        self.check(2, ("/nonexistent: not a build directory", "cmake --preset release"), "--build", "/nonexistent")
        self.check(2, ("--format",), "--format", "xml")
        self.check(2, ("not a positive number", "--help"), "--timeout", "0")
        self.check(2, ("unrecognized", "--no-such-option", "--help"), "--no-such-option")
        self.check(2, ("--port", "65535 is the last one"), "--server", "192.0.2.1", "--port", "65530")
        self.check(2, ("exclude each other",), "--server-programs", "/a", "--client-programs", "/b")
        self.check(2, ("/nonexistent/file: not found", "truncate"), *build, "--pmem", "/nonexistent/file")
        self.check(2, ("neither a file, a directory nor a PMem device",), *build, "--pmem", self.fifo())

    def test_file_that_is_too_small(self) -> None:
        with support.pmem_file(4096) as path:
            self.check(2, ("4096 bytes, the examples need", "8192"), "--build", str(support.BUILD), "--transport", "softrdma",
                "--pmem", str(path))

    def fifo(self) -> str:
        path = support.directory(self) / "fifo"
        os.mkfifo(path)
        return str(path)

    def test_missing_softrdma_and_hardware_cannot_run(self) -> None:
        with tempfile.TemporaryDirectory() as build:
            server = pathlib.Path(build) / "examples" / support.TOPICS["01"] / "server"
            server.parent.mkdir(parents=True)
            server.touch()
            result = support.execute(
                [sys.executable, str(support.RUNNER), "--build", build, "--transport", "softrdma"],
                env={**os.environ, "PATH": "/nonexistent"})
            self.assert_failure(result, 77, "nor softrdma found in", "build the target softrdma")

    def test_library_that_would_not_be_used(self) -> None:
        with tempfile.TemporaryDirectory() as empty:
            result = support.run_examples("01", "--client-lib", empty)
            self.assert_failure(result, 2, "does not load librpma.so.0 from", empty)


if __name__ == "__main__":
    support.main()
