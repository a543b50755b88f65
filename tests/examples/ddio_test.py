# SPDX-License-Identifier: BSD-3-Clause
"""pma-ddio in a mount namespace with simulated /sys and /proc/cpuinfo, and a setpci that stores one byte."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import support

TOOL = support.BUILD / "bin" / "rpma-ddio"
DOCTOR = support.BUILD / "bin" / "rpma-doctor"
CASCADE_LAKE_PORT = "0x2030"
# Script that enters the namespace. $1 is the directory of the simulated machine; the other arguments are the command.
ENTER = """mount --bind "$1/sys" /sys && mount --bind "$1/cpuinfo" /proc/cpuinfo && shift && exec "$@" """
SETPCI = """# usage: setpci -s PORT 180.b[=VALUE:MASK]
[ "$1" = -s ] && [ "$2" = 0000:16:00.0 ] || { echo "setpci: no device $2" >&2; exit 1; }
cd "$MACHINE" || exit 1
echo "$3" >> calls
case $3 in
180.b) cat register ;;
180.b=??:88)
    value=${3#180.b=}
    printf '%02x\\n' $(( (0x$(cat register) & ~0x88) | (0x${value%:88} & 0x88) )) > new
    if [ -e locked ]; then rm new; else mv new register; fi ;;
*) echo "setpci: bad operation $3" >&2; exit 1 ;;
esac
"""


def namespace(*command: str) -> list[str]:
    return ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", *command]


class Ddio(support.ExamplesTest):
    def setUp(self) -> None:
        super().setUp()
        if subprocess.run(namespace("true"), capture_output=True, check=False).returncode != 0:
            self.skipTest("mount namespaces cannot be created here")
        self.machine = support.directory(self)
        self.write("cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu sse2\n")
        port = self.machine / "sys/devices/pci0000:16/0000:16:00.0"
        for directory in (port / "0000:17:00.0/infiniband/mlx5_0", port / "0000:17:00.0/net/eth7",
                          self.machine / "sys/devices/virtual/net/rxe-eth/infiniband/rxe0", self.machine / "bin"):
            directory.mkdir(parents=True)
        self.write("sys/devices/pci0000:16/0000:16:00.0/vendor", "0x8086\n")
        self.write("sys/devices/pci0000:16/0000:16:00.0/device", f"{CASCADE_LAKE_PORT}\n")
        function = port / "0000:17:00.0"
        for device in ("infiniband/mlx5_0", "net/eth7"):
            (function / device / "device").symlink_to("../..")
        self.link("class/infiniband/mlx5_0", "devices/pci0000:16/0000:16:00.0/0000:17:00.0/infiniband/mlx5_0")
        self.link("class/infiniband/rxe0", "devices/virtual/net/rxe-eth/infiniband/rxe0")
        self.link("class/net/eth7", "devices/pci0000:16/0000:16:00.0/0000:17:00.0/net/eth7")
        self.link("bus/pci/devices/0000:17:00.0", "devices/pci0000:16/0000:16:00.0/0000:17:00.0")
        self.link("bus/pci/devices/0000:16:00.0", "devices/pci0000:16/0000:16:00.0")
        support.write_script(self.machine / "bin/setpci", SETPCI)

    def write(self, name: str, text: str) -> None:
        (self.machine / name).write_text(text, encoding="utf-8")

    def link(self, name: str, target: str) -> None:
        path = self.machine / "sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(self.machine / "sys" / target, path.parent))

    def set_register(self, value: int) -> None:
        self.write("register", f"{value:02x}\n")

    def register(self) -> int:
        return int((self.machine / "register").read_text(encoding="utf-8"), 16)

    def environment(self) -> dict[str, str]:
        return os.environ | {"PATH": f"{self.machine / 'bin'}:{os.environ['PATH']}", "MACHINE": str(self.machine)}

    def entered(self, *command: str | pathlib.Path) -> list[str]:
        return namespace("sh", "-c", ENTER, "sh", str(self.machine), *map(str, command))

    def run_tool(self, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
        return support.execute(self.entered(*before, TOOL, *arguments), env=self.environment(), timeout=60)

    def assert_refused(self, status: int, words: str, *arguments: str, before: tuple[str, ...] = ()) -> None:
        result = self.run_tool(*arguments, before=before)
        self.assertEqual((status, ""), (result.returncode, result.stdout), result.stderr)
        self.assertRegex(result.stderr, r"\Arpma-ddio: .*\n\Z")
        self.assertIn(words, result.stderr)

    def test_the_state_is_bit_7(self) -> None:
        for value, state in ((0x80, "on"), (0x88, "on"), (0x08, "off"), (0x41, "off"), (0xf7, "on")):
            self.set_register(value)
            names = ("mlx5_0", "eth7", "17:00.0", "0000:17:00.0") if value == 0x80 else ()
            for arguments in ((), *(("--device", name) for name in names)):
                result = self.run_tool(*arguments)
                self.assertEqual((0, f"{state}\n", ""), (result.returncode, result.stdout, result.stderr))
            self.assertEqual(value, self.register())

    def test_only_two_bits_change(self) -> None:
        for state, before, after in (("off", 0xd7, 0x5f), ("on", 0x2d, 0xa5), ("on", 0x80, 0x80), ("off", 0x88, 0x08)):
            self.set_register(before)
            self.assertEqual(0, self.run_tool(state).returncode)
            self.assertEqual(after, self.register())

    def test_a_command_runs_with_the_state_and_the_register_is_restored(self) -> None:
        for before in (0x80, 0x88, 0x41):
            self.set_register(before)
            result = self.run_tool("off", "--", "sh", "-c", "cat $MACHINE/register; exit 7")
            self.assertEqual((7, ""), (result.returncode, result.stderr))
            self.assertEqual(0x08, int(result.stdout, 16) & 0x88)
            self.assertEqual(before, self.register())
        self.assert_refused(1, "/nonexistent", "off", "--", "/nonexistent")
        self.assertEqual(before, self.register())

    def test_a_signal_reaches_the_command_and_the_register_is_restored(self) -> None:
        self.set_register(0x80)
        for number in (signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen(self.entered(TOOL, "off", "--", "sh", "-c", "echo runs; exec sleep 100"), env=self.environment(),
                                  stdout=subprocess.PIPE, text=True) as tool:
                self.assertEqual("runs\n", tool.stdout.readline())
                self.assertEqual(0x08, self.register())
                tool.send_signal(number)
                self.assertEqual(128 + number, tool.wait(60))
            self.assertEqual(0x80, self.register())

    def test_a_register_that_keeps_its_value_is_a_failure(self) -> None:
        self.set_register(0x80)
        self.write("locked", "")
        self.assert_refused(1, "did not take the value", "off")
        result = self.run_tool("off", "--", "touch", str(self.machine / "ran"))
        self.assertEqual(1, result.returncode)
        self.assertFalse((self.machine / "ran").exists())

    def test_other_machines_are_refused(self) -> None:
        self.set_register(0x80)
        self.assert_refused(77, "root", before=("unshare", "--user"))
        self.assert_refused(1, "nosuch: not found", "--device", "nosuch")
        self.assert_refused(1, "not found", "--device", "../17:00.0")
        self.assert_refused(77, "not below a PCIe root port", "--device", "16:00.0")
        (self.machine / "bin/setpci").unlink()
        real = shutil.which("setpci")
        if real is None:
            self.assert_refused(77, "install the package pciutils")
        self.write("sys/devices/pci0000:16/0000:16:00.0/device", "0x347a\n")
        self.assert_refused(77, "0x8086:0x347a")
        self.write("sys/devices/pci0000:16/0000:16:00.0/device", f"{CASCADE_LAKE_PORT}\n")
        self.write("sys/devices/pci0000:16/0000:16:00.0/vendor", "0x1022\n")
        self.assert_refused(77, "0x1022")
        self.write("cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor sse2\n")
        self.assert_refused(77, "virtual machine")
        self.write("cpuinfo", "vendor_id\t: AuthenticAMD\nflags\t\t: fpu sse2\n")
        self.assert_refused(77, "AuthenticAMD", "off")
        self.assertFalse((self.machine / "calls").exists())

    def test_the_device_is_named_where_it_is_not_the_only_one(self) -> None:
        (self.machine / "sys/class/infiniband/mlx5_0").unlink()
        self.assert_refused(77, "none (name one with --device)")
        for name in ("mlx5_0", "mlx5_1"):
            self.link(f"class/infiniband/{name}", "devices/pci0000:16/0000:16:00.0/0000:17:00.0/infiniband/mlx5_0")
        self.assert_refused(77, "mlx5_0, mlx5_1 (name one with --device)")

    def test_wrong_usage(self) -> None:
        for arguments in (["half"], ["off", "on"], ["--", "true"], ["off", "--"], ["--nosuch"]):
            self.assert_refused(2, "see rpma-ddio --help", *arguments)

    def findings(self) -> dict[str, tuple[str, str]]:
        result = support.execute(self.entered(DOCTOR, "--format", "json"), env=self.environment(), timeout=60)
        return {finding["topic"]: (finding["state"], finding["text"]) for finding in json.loads(result.stdout)["findings"]}

    def test_the_doctor_reports_settings_that_slow_a_device_down(self) -> None:
        self.set_register(0x08)
        function = "sys/devices/pci0000:16/0000:16:00.0/0000:17:00.0"
        (self.machine / "sys/devices/system/cpu/cpu0/cpufreq").mkdir(parents=True)
        for name, text in (("current_link_width", "8"), ("max_link_width", "16"), ("current_link_speed", "8.0 GT/s PCIe"),
                           ("max_link_speed", "8.0 GT/s PCIe"), ("numa_node", "1")):
            self.write(f"{function}/{name}", f"{text}\n")
        self.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
        found = self.findings()
        self.assertEqual(("fail", "mlx5_0: x8, 8.0 GT/s PCIe of x16, 8.0 GT/s PCIe"), found["PCIe link"])
        self.assertEqual(("ok", "mlx5_0: 1"), found["NUMA node"])
        self.assertEqual(("fail", "powersave"), found["CPU governor"])
        self.write(f"{function}/current_link_width", "16\n")
        self.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
        found = self.findings()
        self.assertEqual(("ok", "ok"), (found["PCIe link"][0], found["CPU governor"][0]))

    def test_the_doctor_reports_it(self) -> None:
        for value, state, word in ((0x80, "fail", "on"), (0x08, "ok", "off")):
            self.set_register(value)
            found = self.findings()["DDIO"]
            self.assertEqual(state, found[0])
            self.assertIn(f"mlx5_0: {word}", found[1])


if __name__ == "__main__":
    support.main()
