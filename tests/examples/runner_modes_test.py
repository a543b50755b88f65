# SPDX-License-Identifier: BSD-3-Clause
"""Modes of examples/run: another version as the peer, two machines, repetition, and output formats."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest.mock
import xml.etree.ElementTree as ElementTree

import support
from runner import pmem, storage


class ModesTest(support.ExamplesTest):
    def setUp(self) -> None:
        self.directory = support.directory(self, prefix="rpma-modes-test-", dir="/var/tmp")

    def names(self, result: subprocess.CompletedProcess) -> list[str]:
        return [line.split(" - ")[1] for line in result.stdout.splitlines() if line.startswith("ok ")]

    def test_the_default_verb_is_run(self) -> None:
        result = support.execute([str(support.RUNNER), "run", "01", "--build", str(support.BUILD),
                                  "--transport", "softrdma", "--format", "tap"])
        self.assert_status(result, 0)
        self.assertEqual([support.TOPICS["01"]], self.names(result))

    def test_each_result_names_transport_and_level(self) -> None:
        result = support.run_examples("01", "05", "--pmem", str(self.directory))
        self.assert_status(result, 0)
        self.assertRegex(result.stdout, "ok +01-connection +softrdma, volatile: ")
        self.assertRegex(result.stdout, "ok +05-flush-to-persistent +softrdma, durable file: ")
        result = support.run_examples("05", "--pmem", "none")
        self.assertRegex(result.stdout, "ok +05-flush-to-persistent +softrdma, volatile: ")

    def test_missing_shared_memory_is_reported_with_the_reason(self) -> None:
        for setting, said in (("tcp", "the one for programs of one host is not used: SOFTRDMA_TRANSPORT=tcp"), ("auto", None)):
            result = support.run_examples("01", env={**os.environ, "SOFTRDMA_TRANSPORT": setting})
            self.assert_status(result, 0)
            lines = [line.split(maxsplit=1)[1] for line in result.stdout.splitlines() if line.startswith("Path:")]
            self.assertEqual([said] if said else [], lines)

    def test_repetitions_are_distinguishable(self) -> None:
        result = support.run_examples("01", "--repeat", "3", "--format", "tap")
        self.assert_status(result, 0)
        self.assertEqual([f"{support.TOPICS['01']} #{number}" for number in (1, 2, 3)], self.names(result))

    def test_pairs_run_at_the_same_time_only_if_they_may(self) -> None:
        """Each client waits until the other one has started, too."""
        for number in ("01", "02"):
            self.replace_client(number, f": >'{self.directory}/{number}'\n"
                                f"until [ -e '{self.directory}/01' ] && [ -e '{self.directory}/02' ]; do sleep 0.01; done")
        arguments = ("01", "02", "--client-programs", str(self.directory / "programs"))
        self.assert_status(support.run_examples(*arguments, "--jobs", "2", "--timeout", "10"), 0)
        for number in ("01", "02"):
            (self.directory / number).unlink()
        result = support.run_examples(*arguments, "--jobs", "1", "--timeout", "1")
        self.assert_status(result, 1)
        self.assertIn("FAIL  01-connection", result.stdout)

    def replace_client(self, number: str, script: str) -> None:
        path = self.directory / "programs" / support.TOPICS[number] / "client"
        support.write_script(path, f'{script}\nexec "{support.program(number, "client")}" "$@"')

    def test_junit_distinguishes_success_and_failure(self) -> None:
        self.replace_client("02", "printf 'bad <\\033>'\nexit 3")
        result = support.run_examples("02", "--format", "junit", "--client-programs", str(self.directory / "programs"))
        self.assert_status(result, 1)
        suite = ElementTree.fromstring(result.stdout)
        self.assertEqual(("1", "1"), (suite.get("tests"), suite.get("failures")))
        case = suite.find("testcase")
        self.assertEqual("the client exited with status 3", case.find("failure").get("message"))
        self.assertIn("bad <\ufffd>", case.findtext("system-out"))

        result = support.run_examples("05", "--format", "junit", "--pmem", str(self.directory))
        self.assert_status(result, 0)
        properties = {item.get("name"): item.get("value") for item in ElementTree.fromstring(result.stdout).iter("property")}
        self.assertEqual("softrdma", properties["transport"])
        self.assertEqual("durable file", properties["persistence"])

    def test_peer_with_programs_plays_both_sides(self) -> None:
        for topic in (support.TOPICS["01"], support.TOPICS["05"]):
            shutil.copytree(support.BUILD / "examples" / topic, self.directory / "examples" / topic,
                            ignore=shutil.ignore_patterns("CMakeFiles", "*.a"))
        result = support.run_examples("--peer", str(self.directory), "--format", "tap")
        self.assert_status(result, 0)
        self.assertEqual([f"{support.TOPICS[number]} (peer {does})" for number in ("01", "05")
                          for does in ("serves", "connects")], self.names(result))
        self.assertIn("it lacks 02, 03", result.stdout)
        result = support.run_examples("02", "--peer", str(self.directory))
        self.assert_failure(result, 2, "does not contain 02-read-to-volatile", "omit it")

    def test_peer_with_a_library_runs_our_programs_with_it(self) -> None:
        (self.directory / "lib").mkdir()
        shutil.copy(support.BUILD / "lib" / "librpma.so.0", self.directory / "lib")
        result = support.run_examples("01", "--peer", str(self.directory))
        self.assert_status(result, 0)
        self.assertIn(f"librpma from {self.directory}/lib", result.stdout)
        self.assertIn("2 of 2 examples succeeded", result.stdout)

    def test_peer_with_nothing(self) -> None:
        result = support.run_examples("01", "--peer", str(self.directory))
        self.assert_failure(result, 2, "neither librpma.so.0 nor example programs", "prefix")


class TwoMachinesTest(support.ExamplesTest):
    """This machine plays both roles."""

    def start_servers(self, *arguments: str) -> subprocess.Popen:
        servers = subprocess.Popen(
            [str(support.RUNNER), "--build", str(support.BUILD), "--transport", "softrdma", "--role", "server", "--addr",
             support.ADDR, "--format", "tap", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(servers.wait)
        self.addCleanup(servers.stdout.close)
        self.addCleanup(servers.kill)
        return servers

    def test_servers_here_and_clients_there(self) -> None:
        port = support.free_port(support.ADDR)
        numbers = ("01", "05", "06", "08")
        servers = self.start_servers("--port", port, *numbers)
        clients = support.run_examples("--server", support.ADDR, "--port", port, "--format", "tap", *numbers)
        self.assert_status(clients, 0)
        printed, _ = servers.communicate(timeout=support.TIMEOUT_S)
        self.assertEqual(0, servers.returncode, printed)
        for number in numbers:
            self.assertRegex(printed, f"(?m)^ok [0-9] - {support.TOPICS[number]}$")
            self.assertRegex(clients.stdout, f"(?m)^ok [0-9] - {support.TOPICS[number]}$")

    def test_servers_without_clients_fail(self) -> None:
        servers = self.start_servers("--port", support.free_port(support.ADDR), "--timeout", "1", "01")
        printed, _ = servers.communicate(timeout=support.TIMEOUT_S)
        self.assertEqual(1, servers.returncode, printed)
        self.assertIn("no client within 1 s", printed)

    def test_wrong_command_lines(self) -> None:
        for words, arguments in (
                (("--role client needs --server HOST",), ("--role", "client")),
                (("omit --role server and --addr",), ("--role", "server", "--server", "192.0.2.1")),
                (("--role server needs --addr",), ("--role", "server")),
                (("--peer pairs two versions on one machine",), ("--peer", "/", "--server", "192.0.2.1")),
                (("--repeat needs both sides",), ("--repeat", "2", "--server", "192.0.2.1"))):
            with self.subTest(arguments=arguments):
                self.assert_failure(support.run_examples("01", *arguments), 2, *words)


class PmemTest(support.ExamplesTest):
    """Simulates persistent memory: a mount table lists a directory as a DAX file system."""

    def with_mount(self, directory: str, options: str) -> unittest.mock._patch:
        device = pathlib.Path(directory).stat().st_dev
        table = pathlib.Path(directory) / "mountinfo"
        table.write_text(f"36 35 {device >> 8}:{device & 0xff} / {directory.replace('_', chr(92) + '137')} rw - ext4 "
                         f"/dev/pmem0 rw,{options}\n", encoding="utf-8")
        return unittest.mock.patch.object(pmem, "MOUNTINFO", table)

    def test_dax_mount_is_found_and_its_name_unescaped(self) -> None:
        with tempfile.TemporaryDirectory(prefix="rpma_modes_test", dir="/var/tmp") as directory:
            for options, found in (("dax=always", [pathlib.Path(directory)]), ("dax", [pathlib.Path(directory)]),
                                   ("dax=never", []), ("relatime", [])):
                with self.subTest(options=options), self.with_mount(directory, options):
                    self.assertEqual(found, [mount.path for mount in pmem.dax_mounts()])

    def test_auto_selects_a_mount_only_if_map_sync_works(self) -> None:
        with tempfile.TemporaryDirectory(prefix="rpma_modes_test", dir="/var/tmp") as directory:
            self.assertFalse(pmem.has_map_sync(pathlib.Path(directory)))
            self.assertIsNone(pmem.has_map_sync(pathlib.Path("/proc")))
            with self.with_mount(directory, "dax"):
                self.assertEqual(pathlib.Path("/var/tmp"), storage.best_directory())
                with unittest.mock.patch.object(pmem, "has_map_sync", return_value=True):
                    self.assertEqual(pathlib.Path(directory), storage.best_directory())


if __name__ == "__main__":
    support.main()
