#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bpftrace observes the probes of a running program with the arguments that the program prints, and the installed scripts
report its operations."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import support

TIME_LIMIT_S = 150
STATE_ERR = 6
INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of the kernel


def watched(script):
    """Returns the output of bpftrace and of the program, and its pid, because other processes may use the libraries."""
    # Probes are attached one by one, in the order of the script or in reverse.
    script = f'interval:ms:100 {{ printf("READY 1\\n"); }}\n{script}\ninterval:ms:100 {{ printf("READY 2\\n"); }}\n'
    with tempfile.NamedTemporaryFile("w", suffix=".bt") as file, tempfile.TemporaryFile("w+") as complaints:
        file.write(script)
        file.flush()
        with subprocess.Popen(["bpftrace", "-B", "line", file.name], text=True, stdout=subprocess.PIPE,
                              stderr=complaints) as bpftrace:
            giving_up = threading.Timer(TIME_LIMIT_S, bpftrace.kill)
            giving_up.start()
            said = []

            def wait_until_ready():
                """Waits for new READY lines. A second wait ensures that all probes were attached when a round began."""
                missing = {"READY 1", "READY 2"}
                for line in bpftrace.stdout:
                    said.append(line)
                    missing.discard(line.strip())
                    if not missing:
                        break
                return missing

            missing, program, pid = wait_until_ready(), "", 0
            if not missing:
                with subprocess.Popen([support.TRACED], text=True, stdout=subprocess.PIPE) as traced:
                    pid, program = traced.pid, traced.communicate(timeout=60)[0]
                assert traced.returncode == 0, f"{support.TRACED} ends with {traced.returncode}"
                # bpftrace exits without reading pending events.
                for _ in range(3):
                    wait_until_ready()
                bpftrace.send_signal(signal.SIGINT)
            said += bpftrace.stdout
            giving_up.cancel()
        complaints.seek(0)
        if missing:
            raise AssertionError("bpftrace does not begin: " + complaints.read())
        return "".join(said), program, pid


def program():
    """Runs a program that prints its librpma probes, and the probes of the device."""
    forms = {"%u": "(uint32)arg{}", "%d": "(int32)arg{}", "%s": "str(arg{})"}
    completion = ["*(uint64 *)@polled_to[tid]", "*(uint32 *)(@polled_to[tid] + 8)", "*(uint32 *)(@polled_to[tid] + 28)"]
    for name, formats, values in support.arguments(lambda number, form: forms.get(form, "arg{}").format(number), completion):
        if name == "poll":
            yield f'usdt:"{support.LIBRPMA}":librpma:poll {{ @polled_to[tid] = (uint64)arg0; }}'
            continue
        yield (f'usdt:"{support.LIBRPMA}":librpma:{name} {{ printf("%d PROBE {name} {formats}\\n", '
               f'{", ".join(["pid", *values])}); }}')
    yield (f'usdt:"{support.LIBSOFTRDMA}":softrdma:completion {{ printf("%d DEVICE 0x%lx %d %u\\n", pid, arg0, '
           '(uint32)arg1, (uint32)(arg2 >> 32)); }')
    yield f'usdt:"{support.LIBSOFTRDMA}":softrdma:qp_state {{ printf("%d STATE %u %u\\n", pid, (uint32)arg0, (uint32)arg1); }}'


class Probes(unittest.TestCase):
    def test_the_arguments_are_those_of_the_program(self):
        said, of_itself, pid = watched("\n".join(program()))
        lines = [line.removeprefix(f"{pid} ") for line in said.splitlines() if line.startswith(f"{pid} ")]
        seen = sorted(line.partition(" ")[2] for line in lines if line.startswith("PROBE "))
        self.assertEqual(support.of_program(of_itself), seen)
        self.assertGreater(len(seen), 20)

        # The device reads received data directly from the memory of the sender.
        completed = {line.partition(" ")[2] for line in lines if line.startswith("DEVICE ")}
        collected = {line.removeprefix("completions 1 ") for line in seen
                     if line.startswith("completions ") and "0x105" not in line}
        self.assertLessEqual(collected, completed)
        pairs = {line.split()[1] for line in seen if line.startswith(("connect ", "accept "))}
        self.assertEqual(2, len(pairs))
        self.assertEqual(pairs, {line.split()[1] for line in lines if re.fullmatch(rf"STATE \d+ {STATE_ERR}", line)})

    def test_the_script_for_latencies(self):
        said, *_ = watched((support.SCRIPTS / "rpma-latency.bt").read_text())
        for kind in ("write", "send", "atomic write", "flush"):
            self.assertRegex(said, rf"@microseconds\[traced, {kind}\]")
        self.assertRegex(said, r"@failed\[traced\]: 1\b")

    def test_the_script_for_events(self):
        said, *_ = watched((support.SCRIPTS / "rpma-events.bt").read_text())
        for event in ("connecting", "accepting", "established", "disconnecting", "closed", "deleted",
                      "operation 0x108 failed: status 5", "rdma_getaddrinfo failed: errno"):
            self.assertRegex(said, rf"traced +\d+ +(\d+|-)  {event}")
        self.assertRegex(said, r"@posted\[traced, .*post_rdma\]: 3\b")


if __name__ == "__main__":
    if shutil.which("bpftrace") is None:
        support.skip("bpftrace is not installed")
    if os.stat("/proc/self/ns/pid").st_ino != INITIAL_PID_NAMESPACE:
        support.skip("this container has its own PID namespace: bpftrace uses PIDs of the host (run the test on the host)")
    try:
        usable = subprocess.run(["bpftrace", "-e", f'usdt:"{support.LIBRPMA}":librpma:connect {{ }} BEGIN {{ exit(); }}'],
                                capture_output=True, text=True, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        support.skip("bpftrace does not come to an end here")
    if usable.returncode != 0:
        support.skip("this kernel or user cannot have probes: " + usable.stderr.strip().replace("\n", " "))
    sys.exit(unittest.main(verbosity=2))
