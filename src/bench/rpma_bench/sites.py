# SPDX-License-Identifier: BSD-3-Clause
"""The machines of a campaign: this one, and one that ssh reaches. `rpma-bench site` executes the calls on the
latter."""

import contextlib
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from .common import CANNOT_RUN, FAILED, Failure
from .ends import START_S, read_line

GREETING = "rpma-bench site"
COMMAND_S = 600
OUTPUT_BYTES = 4 << 20


def numa(node):
    """Returns the command that binds a program to a NUMA node."""
    if node is None:
        return []
    if not shutil.which("numactl"):
        raise Failure(f"{socket.gethostname()}: numactl: command not found (install numactl, or leave numa_node out)", CANNOT_RUN)
    return ["numactl", f"--cpunodebind={node}", f"--membind={node}"]


class Site:
    """Runs programs on this machine, and ends them with this object or this process."""

    def __init__(self, programs):
        self.programs, self.running, self.ddio_before = programs, {}, None

    def spawn(self, command, environment, **pipes):
        words = ["sh", "-c", command] if isinstance(command, str) else command
        try:
            # The kernel kills the program when this process ends for any reason.
            return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], stdin=subprocess.DEVNULL, start_new_session=True,
                                    env=self.programs.environment() | environment, **pipes)
        except OSError as error:
            raise Failure(f"cannot start {words[0]}: {error.strerror}") from error

    def run(self, command, environment, timeout_s=COMMAND_S):
        """Returns exit status and output of a command: a string for the shell, or a list of words."""
        identity = self.start(command, environment)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.running[identity][0].wait(timeout_s)
        return self.stop(identity)

    def start(self, command, environment, node=None):
        output = tempfile.TemporaryFile()
        process = self.spawn([*numa(node), *command] if isinstance(command, list) else command, environment, stdout=output,
                             stderr=subprocess.STDOUT)
        self.running[process.pid] = process, output
        return process.pid

    def stop(self, identity, wait_s=0):
        """Waits wait_s for a program, then kills it and its children. Returns its output, and its exit status or null
        if it was killed."""
        process, output = self.running.pop(identity)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
        status = process.returncode if process.poll() is not None else None
        for number, limit_s in (signal.SIGINT, 2), (signal.SIGTERM, 2), (signal.SIGKILL, 10):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(limit_s)
                break
        with output:
            size = output.seek(0, os.SEEK_END)
            output.seek(max(size - OUTPUT_BYTES, 0))
            return {"status": status, "output": output.read().decode(errors="replace")}

    def serve(self, words, softrdma, node):
        """Starts `rpma-bench server`. Returns its port."""
        reading, writing = os.pipe()
        with open(reading, "rb") as lines, tempfile.TemporaryFile() as errors:
            command = [*numa(node), *self.programs.engine_command(softrdma, [*words, "--ready-fd", writing], parent=False)]
            try:
                process = self.spawn(command, {}, pass_fds=[writing], stderr=errors)
            finally:
                os.close(writing)
            line = read_line(lines, START_S)
            self.running[process.pid] = process, tempfile.TemporaryFile()
            if not line.strip():
                errors.seek(0)
                reason = errors.read().decode(errors="replace").strip().removeprefix("rpma-bench: ")
                raise Failure(f"the server on {socket.gethostname()} did not start: {reason or 'it does not listen'}")
        return int(line)

    def ddio(self, requested=None):
        """Returns the state of DDIO, or null if it cannot be queried. A state that is set here is restored at the
        end."""
        tool = str(self.programs.directory / "rpma-ddio")
        tool = tool if os.access(tool, os.X_OK) else shutil.which("rpma-ddio")
        done = self.run([tool], {}, 60) if tool else {"status": CANNOT_RUN, "output": "rpma-ddio: command not found"}
        state = done["output"].strip()
        if requested in (None, state):
            return state if done["status"] == 0 else None
        changed = self.run([tool, requested], {}, 60) if done["status"] == 0 else done
        if changed["status"] != 0:
            raise Failure(f"{socket.gethostname()}: cannot switch DDIO {requested}: {changed['output'].strip()}", CANNOT_RUN)
        self.ddio_before = self.ddio_before or (tool, state)
        return requested

    def close(self):
        for identity in list(self.running):
            self.stop(identity)
        if self.ddio_before:
            tool, state = self.ddio_before
            self.ddio_before = None
            done = self.run([tool, state], {}, 60)
            if done["status"] != 0:
                print(f"rpma-bench: {socket.gethostname()}: cannot switch DDIO {state} again: {done['output'].strip()}", file=sys.stderr)


def serve_site(programs, _):
    """Implements `rpma-bench site` on the remote machine: executes calls, one line of JSON each, until standard input
    ends."""
    site = Site(programs)
    # ssh may hang up while the programs are being ended.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    print(json.dumps({GREETING: programs.version}), flush=True)
    try:
        for line in sys.stdin:
            request = json.loads(line)
            try:
                response = {"result": getattr(site, request["call"])(*request["arguments"])}
            except Failure as failure:
                response = {"failure": str(failure), "status": failure.status}
            print(json.dumps(response), flush=True)
    except (BrokenPipeError, ValueError):
        pass
    finally:
        site.close()
    return 0


class RemoteSite:
    """Forwards the calls of Site to a remote machine over ssh. The end of the connection ends the programs there."""

    def __init__(self, ssh, host, program, version):
        self.host, self.buffer = host, b""
        self.errors = tempfile.TemporaryFile()
        # The remote shell expands a leading tilde, so it must not be quoted.
        program = program if program.startswith("~") else shlex.quote(program)
        command = [*shlex.split(ssh), "-oBatchMode=yes", "-oConnectTimeout=20", "-oServerAliveInterval=15", "-oServerAliveCountMax=4",
                   host, f"exec {program} site"]
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0,
                                            start_new_session=True)
        except OSError as error:
            raise Failure(f"cannot start {command[0]}: {error.strerror}") from error
        try:
            response = {}
            while GREETING not in response:  # output of the remote shell precedes the greeting
                response = self.receive(60)
            if response[GREETING] != version:
                raise Failure(f"{host}: rpma-bench {response[GREETING]} there, {version} here (install the same on both machines)")
        except BaseException:
            self.close()
            raise

    def receive(self, timeout_s):
        end = time.monotonic() + timeout_s
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(end - time.monotonic(), 0))
            part = self.process.stdout.read(65536) if ready else b""
            if not part:
                self.errors.seek(0)
                words = self.errors.read().decode(errors="replace").strip().splitlines()
                raise Failure(f"{self.host}: " + ("no response" if not ready else "ssh ended") + (f": {words[-1]}" if words else "")
                              + " (is rpma-bench installed there, and does ssh work without a password?)", FAILED)
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\n")
        try:
            response = json.loads(line)
        except ValueError:
            return {}
        return response if isinstance(response, dict) else {}

    def call(self, name, *arguments, limit_s=COMMAND_S + 60):
        try:
            self.process.stdin.write(json.dumps({"call": name, "arguments": arguments}).encode() + b"\n")
        except OSError as error:
            raise Failure(f"{self.host}: ssh ended: {error.strerror}") from error
        response = self.receive(limit_s)
        if "failure" in response:
            raise Failure(response["failure"], response["status"])
        if "result" not in response:
            raise Failure(f"{self.host}: invalid response of rpma-bench site")
        return response["result"]

    def __getattr__(self, name):
        if name not in ("run", "start", "stop", "serve", "ddio"):
            raise AttributeError(name)
        return lambda *arguments: self.call(name, *arguments)

    def close(self):
        """ssh returns after the remote side has ended its programs."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()
