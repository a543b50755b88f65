# SPDX-License-Identifier: BSD-3-Clause
"""For an invalid job file, the engine prints one line with cause and remedy, and fio exits with status 1."""

import pathlib
import re
import socket
import tempfile
import unittest

from support import ADDRESS, ENGINES, EXTERNAL, SERVER, SHORT, FioTest, Job, free_port, report_of, run

START_S = 20


class Mistakes(FioTest):
    def alone(self, method: str, side: str, values: dict, failures: int = 1) -> str:
        """Returns stderr of one side, which must exit. The exit status of fio is the number of failed threads."""
        standard = {"serverip": ADDRESS, "port": free_port(ADDRESS), **(SHORT if side == "client" else SERVER)}
        with tempfile.TemporaryDirectory() as directory:
            with Job(EXTERNAL, method, side, standard | values, pathlib.Path(directory)) as job:
                result = job.result(START_S)
        self.assertEqual(failures, result.status, result.stderr)
        return result.stderr

    def check(self, method: str, side: str, values: dict, *words: str) -> None:
        with self.subTest(method=method, side=side, values=values):
            self.assert_one_line(self.alone(method, side, values), f"librpma_{method}_{side}", *words)

    def test_a_port_without_a_server(self) -> None:
        port = free_port(ADDRESS)
        for method in ("apm", "gpspm"):
            self.check(method, "client", {"port": port, "connect_timeout": 1}, f"{ADDRESS} port {port}: connection refused",
                       "start the server")

    def test_busy_port(self) -> None:
        with socket.create_server((ADDRESS, 0)) as listener:
            port = listener.getsockname()[1]
            self.check("apm", "server", {"port": port}, f"cannot listen on {ADDRESS} port {port}", "in use")

    def test_address_and_port(self) -> None:
        for side in ("client", "server"):
            self.check("apm", side, {"serverip": None}, "serverip= is missing")
            for port in ("0", "70000", "rpma", "-1"):
                self.check("apm", side, {"port": port}, f"port={port}")
        self.check("apm", "client", {"serverip": "no.such.host.invalid"}, "serverip=no.such.host.invalid", "softrdma")

    def test_time_outs_are_limited(self) -> None:
        for side, option in (("client", "connect_timeout"), ("server", "idle_timeout")):
            for value in (-1, 4294967295, 31622401):
                with self.subTest(side=side, value=value), tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
                    values = {"port": 7204, option: value}
                    with Job(EXTERNAL, "apm", side, values, pathlib.Path(directory)) as job:
                        result = job.result(START_S)
                    self.assertNotEqual(0, result.status)
                    self.assertRegex(result.stderr, "max value out of range|exceeds 31622400 seconds")

    def test_ports_of_threads_beyond_the_last(self) -> None:
        values = {"port": 65535, "numjobs": 2, "idle_timeout": 1}
        self.assertIn("port=65535 plus 1", self.alone("apm", "server", values, failures=2))

    def test_files_set_up_before_connecting(self) -> None:
        self.check("apm", "client", {"create_serialize": None}, "create_serialize=0 is missing")

    def test_workloads(self) -> None:
        self.check("apm", "client", {"rw": "trim"}, "rw=")
        self.check("gpspm", "client", {"rw": "read"}, "rw=", "librpma_apm_client")
        self.check("gpspm", "client", {"rw": "randrw"}, "rw=")
        for rw in ("read", "rw", "randwrite", "write:4k"):
            self.check("aof", "client", {"rw": rw}, "rw= must be write")

    def test_workspace(self) -> None:
        self.check("apm", "server", {"size": None}, "size= is missing")
        self.check("apm", "server", {"filename": "/nonexistent/file"}, "filename=/nonexistent/file", "No such file")
        self.check("apm", "server", {"filename": "/tmp"}, "filename=/tmp")
        self.check("apm", "server", {"filename": "malloc:other"}, "filename= must name one")
        self.check("gpspm", "server", {"iodepth": 70000}, "iodepth=70000")
        for size in ("4098", "8196"):
            self.check("aof", "server", {"size": size}, f"size={size}", "multiple of 8")
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            self.check("apm", "server", {"filename": f"{directory}/file", "size": "4000t"}, "cannot grow to size=")

    def test_no_client_connects(self) -> None:
        self.check("apm", "server", {"idle_timeout": 1}, "no client connected", "idle_timeout=1")


class Combinations(FioTest):
    def test_pmem_that_is_not_written_directly(self) -> None:
        for method, mode, remedy in (("apm", None, "librpma_gpspm_client"), ("aof", "hw", "mode=sw on both sides")):
            with self.subTest(method=method), tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
                done = run(method, client_values={"mode": mode}, server_values={"mode": mode, "filename": f"{directory}/file"})
                self.assertEqual(1, done.client.status)
                self.assert_one_line(done.client.stderr, f"librpma_{method}_client", "direct_write_to_pmem=1", remedy)
                named = re.findall(r"librpma_\w+", done.client.stderr)
                self.assertLessEqual(set(named), set(ENGINES))
                self.assertEqual(0, done.server.status, done.server.stderr)

    def test_more_requests_than_the_server_takes(self) -> None:
        for method in ("gpspm", "aof"):
            with self.subTest(method=method):
                done = run(method, client_values={"sync": None, "iodepth": 16}, server_values={"iodepth": 4})
                self.assertEqual(1, done.client.status)
                self.assert_one_line(done.client.stderr, f"librpma_{method}_client", "16 outstanding requests", "iodepth=4")

    def test_append_only_files_of_different_modes(self) -> None:
        done = run("aof", client_values={"mode": "sw"}, server_values={"mode": "hw"})
        self.assertEqual(1, done.client.status)
        self.assert_one_line(done.client.stderr, "librpma_aof_client", "accepts no messages", "mode=sw")

    def test_server_of_the_other_method(self) -> None:
        done = run("gpspm", server_values={"ioengine": EXTERNAL.engine("librpma_apm_server")})
        self.assertEqual(1, done.client.status)
        self.assert_one_line(done.client.stderr, "librpma_gpspm_client", "librpma_apm_server")

    def test_a_deep_server_is_not_advised_that_depth_is_useless(self) -> None:
        done = run("gpspm", server_values={"iodepth": 64})
        self.assert_succeeds(done)
        self.assertIn("fio version", done.server_log)
        self.assertNotIn("capped", done.server_log)

    def test_notes_stay_out_of_the_report(self) -> None:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
            directory = pathlib.Path(name)
            values = SERVER | {"serverip": ADDRESS, "port": free_port(ADDRESS), "filename": f"{name}/file"}
            with Job(EXTERNAL, "gpspm", "server", values, directory) as server:
                server.wait_until_listening()
                with Job(EXTERNAL, "gpspm", "client", SHORT | {key: values[key] for key in ("serverip", "port")},
                         directory) as client:
                    self.assertEqual(0, client.result(START_S).status)
                self.assertEqual(0, server.result(START_S).status)
            for side in ("server", "client"):
                self.assertEqual("{", (directory / f"{side}.json").read_text()[:1])
                self.assertEqual(0, report_of(directory, side)["error"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
