# SPDX-License-Identifier: BSD-3-Clause
"""usage: migration_test.py SOFTRDMA PATH [ADDRESS AT_TARGET]: QEMU migrates a running guest, which writes memory,
over RDMA. The command AT_TARGET runs its arguments on the host that has the address; the default is this host.

The guest itself checks all that it has written, before, while and after it moves (migrating_guest.s).
"""

import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile

from support import free_port, skip, wait_until

HANG_S = 300
PASSES = 20
GUEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "migrating_guest.s")


class Machine:
    def __init__(self, command, directory, name, *options):
        self.console = os.path.join(directory, name + ".console")
        self.log = os.path.join(directory, name + ".log")
        monitor = os.path.join(directory, name + ".qmp")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*command, "run", "--", "qemu-system-x86_64", "-machine", "pc,accel=tcg", "-m", "64", "-nodefaults",
                 "-display", "none", "-drive", f"if=floppy,format=raw,readonly=on,file={directory}/guest",
                 "-chardev", f"file,id=console,path={self.console}",
                 "-device", "isa-debugcon,iobase=0xe9,chardev=console",
                 "-qmp", f"unix:{monitor},server=on,wait=off", *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: os.path.exists(monitor) or self.process.poll() is not None, f"the start of the {name}")
        self.monitor = socket.socket(socket.AF_UNIX)
        self.monitor.settimeout(HANG_S)
        wait_until(lambda: self.monitor.connect_ex(monitor) == 0, f"the start of the {name}")
        self.answers = self.monitor.makefile("r")
        self.answers.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self.monitor.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        for line in self.answers:
            answer = json.loads(line)
            if "error" in answer:
                raise RuntimeError(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
        raise RuntimeError(f"{command}: QEMU has ended")

    def passes(self):
        with open(self.console, "rb") as console:
            said = console.read()
        if b"F" in said:
            raise RuntimeError("the guest has found memory that is not as it was")
        return said.count(b".")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.monitor.close()


def set_up(machine, pin_all):
    machine.ask("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": pin_all}])


def migrate(softrdma, directory, pin_all, address, at_target):
    uri = f"rdma:{address}:{free_port('')}"
    with contextlib.ExitStack() as machines:
        source = Machine([softrdma], directory, "source")
        machines.callback(source.end)
        target = Machine([*at_target, softrdma], directory, "target", "-incoming", "defer")
        machines.callback(target.end)
        set_up(source, pin_all)
        set_up(target, pin_all)
        target.ask("migrate-incoming", uri=uri)
        wait_until(lambda: source.passes() >= PASSES, "the first passes of the guest")
        source.ask("migrate-set-parameters", **{"max-bandwidth": 1 << 32, "downtime-limit": 1000})
        source.ask("migrate", uri=uri)
        wait_until(lambda: source.ask("query-migrate").get("status") in ("completed", "failed"), "the migration")
        result = source.ask("query-migrate")
        if result["status"] != "completed":
            raise RuntimeError(f"the migration has failed: {result.get('error-desc')}")
        before = source.passes()
        wait_until(lambda: target.passes() >= PASSES, "passes of the guest on the target")
        if source.ask("query-status")["running"] or source.passes() != before:
            raise RuntimeError("the guest still runs on the source")
        ram = result["ram"]
        print(f"pin-all {pin_all}: {ram['transferred'] >> 20} MiB in {ram['dirty-sync-count']} rounds, "
              f"{before} passes before, {target.passes()} after")


def main():
    softrdma, os.environ["SOFTRDMA_TRANSPORT"] = sys.argv[1:3]
    address, at_target = sys.argv[3:] or ("127.0.0.1", "")
    for program in ("qemu-system-x86_64", "as", "ld"):
        if shutil.which(program) is None:
            skip(f"{program} is not installed")
    with tempfile.TemporaryDirectory() as directory:
        guest = os.path.join(directory, "guest")
        subprocess.run(["as", "--32", "-o", guest + ".o", GUEST], check=True)
        subprocess.run(["ld", "-m", "elf_i386", "-Ttext", "0x7c00", "--oformat", "binary", "-o", guest, guest + ".o"],
                       check=True)
        try:
            for pin_all in (False, True):
                migrate(softrdma, directory, pin_all, address, shlex.split(at_target))
        except (AssertionError, RuntimeError, OSError) as problem:
            print(f"FAILED: {problem}")
            for name in ("source", "target"):
                with contextlib.suppress(OSError), open(os.path.join(directory, name + ".log")) as log:
                    print(f"{name}: {log.read()}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
