# SPDX-License-Identifier: BSD-3-Clause
"""Findings of rpma-doctor on this machine and on simulated ones."""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest.mock

import support

sys.path.insert(0, str(support.ROOT / "src" / "doctor"))

import doctor  # noqa: E402
from runner import pmem, transport  # noqa: E402

TOOL = support.BUILD / "bin" / "rpma-doctor"
FACTS = support.BUILD / "libexec" / "librpma-tools" / "device-facts"


def device(name: str = "up0", active: bool = True, odp: bool = False, flush: bool = False) -> dict:
    return {"name": name, "odp": odp, "flush_visibility": flush, "flush_persistent": flush, "atomic_write": flush,
            "ports": [{"number": 1, "active": active, "link": "Ethernet", "gids": ["::ffff:192.168.1.7"]}]}


class DoctorTest(support.ExamplesTest):
    def examine(self, *arguments: str, **options: object) -> subprocess.CompletedProcess:
        return support.execute([str(TOOL), *arguments], **options)

    def test_this_machine_is_ready_over_softrdma(self) -> None:
        result = self.examine("--format", "json")
        self.assert_status(result, 0)
        report = json.loads(result.stdout)
        self.assertTrue(report["ready"])
        self.assertIn("softrdma", report["transports"])
        texts = {finding["topic"]: finding["text"] for finding in report["findings"]}
        self.assertIn("softrdma0: port 1 active", texts["softrdma"])
        self.assertIn("::ffff:127.0.0.1", texts["softrdma"])
        for topic in ("softrdma0, on-demand paging", "softrdma0, native flush", "softrdma0, native atomic write",
                      "SoftRoCE (rxe)", "SoftiWARP (siw)", "memlock limit", "open files limit", "persistent memory"):
            self.assertIn(topic, texts)

    def test_closed_devices_are_opened_for_a_group(self) -> None:
        """The advice must not be chmod, which lasts only until the device is created again."""
        with (tempfile.TemporaryDirectory() as directory, unittest.mock.patch.object(transport, "SYSFS", pathlib.Path(directory)),
              unittest.mock.patch.object(doctor, "DEVICES", pathlib.Path(directory)),
              unittest.mock.patch.object(doctor, "query_devices", return_value=([], "")),
              unittest.mock.patch.object(doctor.os, "access", return_value=False)):
            closed = pathlib.Path(directory) / "uverbs0"
            closed.touch()
            findings, _ = doctor.kernel_devices(pathlib.Path("none"))
            fix = next(finding.fix for finding in findings if "no permission" in finding.text)
        self.assertIn("adduser $USER rdma", fix)
        self.assertIn('GROUP="rdma", MODE="0660"', fix)
        self.assertNotIn("chmod g", fix)

    def test_every_failure_has_its_fix(self) -> None:
        result = self.examine()
        self.assert_status(result, 0)
        lines = result.stdout.splitlines()
        self.assertIn("ready: programs run over", lines[-1])
        for line, following in zip(lines, lines[1:]):
            if line.startswith("fail "):
                self.assertIn("fix: ", following)

    def test_without_softrdma_nothing_is_ready(self) -> None:
        with tempfile.TemporaryDirectory() as prefix:
            for part in ("bin/rpma-doctor", "libexec", "share"):
                copy = shutil.copytree if (support.BUILD / part).is_dir() else shutil.copy2
                target = pathlib.Path(prefix) / part
                target.parent.mkdir(exist_ok=True)
                copy(support.BUILD / part, target)
            result = support.execute([f"{prefix}/bin/rpma-doctor"], env={**os.environ, "PATH": "/usr/bin:/bin"})
        self.assert_status(result, 1)
        self.assertRegex(result.stdout, r"(?m)^fail +softrdma +not found in .*/bin and PATH\n +fix: install the package softrdma")
        self.assertIn("not ready", result.stdout.splitlines()[-1])

    def test_wrong_command_line(self) -> None:
        result = self.examine("--format", "tap")
        self.assert_failure(
            result, 2, "rpma-doctor: argument --format: invalid choice: 'tap'", "see rpma-doctor --help")

    def test_the_runner_calls_it(self) -> None:
        result = support.execute([str(support.RUNNER), "doctor", "--build", str(support.BUILD), "--format", "json"])
        self.assert_status(result, 0)
        self.assertTrue(json.loads(result.stdout)["ready"])

    def test_the_runner_reports_where_to_get_it(self) -> None:
        with tempfile.TemporaryDirectory() as empty:
            result = support.execute([str(support.RUNNER), "doctor", "--build", empty],
                                     env={**os.environ, "PATH": "/usr/bin:/bin"})
        self.assert_status(result, 77)
        self.assertIn("install the package librpma-tools", result.stderr)

    def test_limit_of_open_files_that_is_too_low(self) -> None:
        def lower() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2000))

        result = self.examine(preexec_fn=lower)
        self.assertRegex(result.stdout, r"(?m)^fail +open files limit +256: .*\n +fix: `ulimit -n 1024`$")

    @unittest.skipIf("ASAN_OPTIONS" in os.environ, "UBSan needs descriptors")
    def test_lack_of_descriptors_is_no_missing_package(self) -> None:
        for limit in range(8, 24):
            result = self.examine(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))  # noqa: B023
            self.assertNotIn("install the package softrdma", result.stdout)
            self.assertNotIn("Traceback", result.stderr)


class MachineTest(support.ExamplesTest):
    """Simulates RDMA hardware: the /sys tree and the results of verbs."""

    def setUp(self) -> None:
        self.sysfs = support.directory(self)
        self.enterContext(unittest.mock.patch.object(transport, "SYSFS", self.sysfs))

    def kernel_has(self, name: str, state: str = "4: ACTIVE") -> None:
        port = self.sysfs / name / "ports" / "1"
        (port / "gids").mkdir(parents=True)
        (port / "state").write_text(f"{state}\n", encoding="ascii")
        (port / "gids" / "0").write_text("0000:0000:0000:0000:0000:ffff:c0a8:0107\n", encoding="ascii")

    def findings(self, devices: list[dict], reason: str | None = None) -> tuple[dict[str, doctor.Finding], bool]:
        with unittest.mock.patch.object(doctor, "query_devices", return_value=(devices, reason)):
            found, is_ready = doctor.kernel_devices(FACTS)
        return {finding.topic: finding for finding in found}, is_ready

    def test_active_device_is_ready(self) -> None:
        self.kernel_has("up0")
        found, is_ready = self.findings([device(odp=True, flush=True)])
        self.assertTrue(is_ready)
        self.assertEqual("up0: port 1 active, Ethernet, GIDs ::ffff:192.168.1.7", found["RDMA device"].text)
        for topic in ("on-demand paging", "native flush", "native atomic write"):
            self.assertEqual("supported", found[f"up0, {topic}"].text)

    def test_device_that_is_down(self) -> None:
        self.kernel_has("up0", "1: DOWN")
        found, is_ready = self.findings([device(active=False)])
        self.assertFalse(is_ready)
        self.assertIn("ip link set", found["RDMA device"].fix)
        self.assertIn("not supported: librpma flushes by reading", found["up0, native flush"].text)

    def test_device_that_no_program_sees(self) -> None:
        self.kernel_has("up0")
        found, is_ready = self.findings([], "no provider")
        self.assertFalse(is_ready)
        self.assertIn("not visible to libibverbs: up0: no provider", found["RDMA devices"].text)
        self.assertIn("ibverbs-providers", found["RDMA devices"].fix)

    def test_machine_without_devices(self) -> None:
        found, is_ready = self.findings([])
        self.assertFalse(is_ready)
        self.assertIn("modprobe rdma_rxe", found["RDMA devices"].fix)

    def test_memlock_matters_to_hardware_only(self) -> None:
        with unittest.mock.patch.object(resource, "getrlimit", return_value=(65536, 65536)):
            memlock, _ = doctor.limits(has_hardware=True)
            self.assertEqual(("fail", "64 KiB"), (memlock.state, memlock.text.split(":")[0]))
            self.assertIn("ulimit -l unlimited", memlock.fix)
            self.assertEqual("none", doctor.limits(has_hardware=False)[0].state)

    def test_modules_that_wait_to_be_loaded(self) -> None:
        path = self.sysfs / "kernel" / "drivers" / "infiniband" / "sw" / "rxe" / "rdma_rxe.ko.xz"
        path.parent.mkdir(parents=True)
        path.touch()
        with unittest.mock.patch.object(doctor, "MODULES", self.sysfs):
            rxe, siw = doctor.software_devices()
        if rxe.state == "ok":
            self.skipTest("rdma_rxe is loaded here")
        self.assertIn("`modprobe rdma_rxe`, then `rdma link add rxe0", rxe.fix)
        if siw.state != "ok":
            self.assertIn("module siw not found", siw.text)

    def test_persistent_memory_with_and_without_map_sync(self) -> None:
        mount = pmem.Mount("259:0", "/dev/pmem0", pathlib.Path("/mnt/pmem"), "ext4", frozenset({"dax=always"}))
        for works, state, words in ((True, "ok", "MAP_SYNC works"), (False, "fail", "MAP_SYNC does not work"),
                                    (None, "fail", "not writable")):
            with (self.subTest(works=works), unittest.mock.patch.object(pmem, "mounts", return_value=[mount]),
                  unittest.mock.patch.object(pmem, "has_map_sync", return_value=works)):
                found = doctor.persistent_memory()[0]
                self.assertEqual(state, found.state)
                self.assertIn(words, found.text)
                self.assertEqual(state == "ok", found.fix is None)


class FactsTest(support.ExamplesTest):
    """The helper program that queries verbs."""

    def test_softrdma_is_the_only_device_under_it(self) -> None:
        result = support.execute([*support.SOFTRDMA, str(FACTS)])
        self.assert_status(result, 0)
        [found] = json.loads(result.stdout)
        self.assertEqual("softrdma0", found["name"])
        self.assertTrue(found["ports"][0]["active"])
        self.assertTrue(found["flush_persistent"])

    def test_kernel_without_devices_gives_an_empty_list(self) -> None:
        if os.path.exists("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
            self.skipTest("this machine has RDMA devices")
        result = support.execute([str(FACTS)])
        self.assert_status(result, 0)
        self.assertEqual([], json.loads(result.stdout))


if __name__ == "__main__":
    support.main()
