# SPDX-License-Identifier: BSD-3-Clause
"""The two processes of a measurement and the control channels to them.

Requests and responses are lines of JSON. A request has "do"; a response has "ok", and if that is false "error" and "status".
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

from .common import CANNOT_RUN, FAILED, USAGE, Failure, PeerGone
from .plan import REPLICAS

PROTOCOL = 2
RESPONSE_TIMEOUT_S, START_S, GRACE_S = 60, 20, 2
HANDSHAKE_TIMEOUT_S = 20  # a server that has another client does not respond
DEVICES = pathlib.Path("/sys/class/infiniband")


class Programs:
    """Paths of the programs of rpma-bench."""

    def __init__(self, engine, directory, version):
        self.engine, self.directory, self.version = engine, directory, version

    def softrdma(self):
        beside = self.directory / "softrdma"
        found = str(beside) if os.access(beside, os.X_OK) else shutil.which("softrdma")
        if not found:
            raise Failure("neither an active RDMA device nor softrdma found (install softrdma)", CANNOT_RUN)
        return found

    def engine_command(self, on_softrdma, words, parent=True):
        start = [self.softrdma(), "run", "--"] if on_softrdma else []
        return [*start, str(self.engine), *(["--parent", str(os.getpid())] if parent else []), *map(str, words)]

    def environment(self, library_directory=""):
        """Environment of the two processes: the rpmemd of this installation and the chosen library come first."""
        first = {"PATH": str(self.directory), "LD_LIBRARY_PATH": library_directory}
        values = dict(os.environ)
        for name, directory in first.items():
            if directory:
                values[name] = directory + (":" + values[name] if values.get(name) else "")
        return values

    def shm_unavailable_reason(self):
        """Returns why the transport shm of softrdma is unavailable; empty if it is available."""
        done = subprocess.run([self.softrdma(), "info"], capture_output=True, text=True, check=False, timeout=RESPONSE_TIMEOUT_S)
        for line in done.stdout.splitlines():
            if line.startswith("path shm:"):
                text = line.partition(":")[2].strip()
                return text if text.startswith("not ") else ""
        return ""


def find_library_directory(path):
    """Returns the directory of librpma.so.0. path is the library, its directory, or the root of an unpacked package."""
    given = pathlib.Path(path).absolute()
    candidates = [given, *([given.parent] if given.is_file() else []), given / "lib", given / "usr/lib", given / "usr/local/lib"]
    for libraries in given / "usr/lib", given / "lib":
        with contextlib.suppress(OSError):
            candidates += sorted(libraries.iterdir())
    for candidate in candidates:
        if (candidate / "librpma.so.0").exists():
            return str(candidate)
    raise Failure(f"{path}: librpma.so.0 not found (specify the library or its directory)", USAGE)


def hardware_address():
    """Returns the IPv4 address of a kernel device with an active port. RoCE devices have it in their GID table, mapped
    into IPv6."""
    for port in sorted(DEVICES.glob("*/ports/*")):
        with contextlib.suppress(OSError):
            if "ACTIVE" not in (port / "state").read_text(encoding="ascii"):
                continue
            for gid in sorted((port / "gids").iterdir()):
                value = gid.read_text(encoding="ascii").strip()
                if value.startswith("0000:0000:0000:0000:0000:ffff:"):
                    return socket.inet_ntoa(bytes.fromhex(value[30:].replace(":", "")))
    return ""


class Process:
    """Child process that is killed with this object. It also ends when this program ends for any reason."""

    def __init__(self, command, **more):
        try:
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, **more)
        except OSError as error:
            raise Failure(f"cannot start {command[0]}: {error.strerror}") from error

    def has_ended(self):
        """The kernel closes the descriptors of an exiting process shortly before the process can be reaped."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(0.5)
        return self.child.returncode is not None

    def fate(self):
        if not self.has_ended():
            return "still runs"
        code = self.child.returncode
        return f"was killed by {signal.strsignal(-code)}" if code < 0 else f"exited with status {code}"

    def stop(self):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


class Channel:
    def __init__(self, connection, peer, process=None):
        self.socket, self.peer, self.process, self.buffer = connection, peer, process, b""

    def gone(self, request, reason):
        if self.process is not None:
            if self.process.has_ended():
                return PeerGone(f"{self.peer} {self.process.fate()}")
            return PeerGone(f"{self.peer}: no response to the request to {request['do']}")
        hint = " (a server has one client at a time)" if request["do"] == "hello" else ""
        return PeerGone(f"{self.peer} {reason}{hint}")

    def call(self, request, timeout_s=RESPONSE_TIMEOUT_S):
        end = time.monotonic() + timeout_s
        try:
            self.socket.settimeout(timeout_s)
            self.socket.sendall(json.dumps(request).encode() + b"\n")
            while b"\n" not in self.buffer:
                self.socket.settimeout(max(end - time.monotonic(), 0.001))
                received = self.socket.recv(65536)
                if not received:
                    raise self.gone(request, "has ended" + (" in the middle of a response" if self.buffer else ""))
                self.buffer += received
        except TimeoutError:
            raise self.gone(request, "does not respond") from None
        except OSError as error:
            raise self.gone(request, f"broke the connection: {error.strerror}") from error
        line, _, self.buffer = self.buffer.partition(b"\n")
        try:
            response = json.loads(line)
        except ValueError:
            response = None
        if isinstance(response, dict) and response.get("ok") is True:
            return response
        if isinstance(response, dict) and isinstance(response.get("error"), str):
            status = response.get("status")
            raise Failure(response["error"], status if status in (USAGE, CANNOT_RUN) else FAILED)
        raise Failure(f"{self.peer} is not rpma-bench: unexpected data")


class Ends:
    """A client process on this machine and a server, which may run elsewhere. A point is opened, warmed up, run any
    number of times and closed. The methods raise Failure, or PeerGone if a process has ended."""

    def __init__(self, programs, *, server="", port=0, softrdma=False, host="127.0.0.1", target="", library="", prefix=()):
        self.programs, self.softrdma, self.target_path, self.prefix = programs, softrdma, target, list(prefix)
        self.library = find_library_directory(library) if library else ""
        self.processes, self.seed, self.has_server = contextlib.ExitStack(), 1, False
        self.same_host = not server
        try:
            server_process = None
            if not server:
                server, server_process = host, None
                port, server_process = self.start_server(host)
            try:
                connection = socket.create_connection((server, port), timeout=START_S)
            except OSError as error:
                raise Failure(f"cannot connect to {server} port {port}: {error.strerror or error} (start `rpma-bench server` "
                              "there, or specify its port with --port)") from error
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.processes.callback(connection.close)
            name = "the server process" if server_process else f"the server at {server}"
            self.server = Channel(connection, name, server_process)
            self.client = self.start_client(server)
            self.greet()
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.processes.close()

    def start(self, words, keep):
        command = [*self.prefix, *self.programs.engine_command(self.softrdma, words)]
        target = ["--target", self.target_path] if self.target_path else []
        process = Process([*command, *target], pass_fds=[keep], env=self.programs.environment(self.library))
        self.processes.callback(process.stop)
        return process

    def start_server(self, host):
        reading, writing = os.pipe()
        with open(reading, "rb") as lines:
            try:
                process = self.start(["server", "--address", host, "--port", 0, "--once", "--ready-fd", writing,
                                      "--idle-limit", 60], writing)
            finally:
                os.close(writing)
            line = read_line(lines, START_S)
        if not line.strip():
            if process.has_ended() and process.child.returncode > 0:
                raise Failure("", process.child.returncode)  # the process has reported the reason
            raise Failure(f"the server did not start: it {process.fate()}")
        return int(line), process

    def start_client(self, server):
        local_end, remote_end = socket.socketpair()
        self.processes.callback(local_end.close)
        with remote_end:
            process = self.start(["agent", "--fd", remote_end.fileno(), "--server", server], remote_end.fileno())
        return Channel(local_end, "the client process", process)

    def greet(self):
        hello = {"do": "hello", "protocol": PROTOCOL}
        server = self.server.call(hello, HANDSHAKE_TIMEOUT_S)
        if server.get("protocol") != PROTOCOL:
            raise Failure(f"{self.server.peer} uses version {server.get('protocol')} of the control protocol, this rpma-bench "
                          f"version {PROTOCOL} (install the same on both ends)")
        client = self.client.call(hello)["facts"]
        self.target = server["target"] | {"direct_write": server["direct_write"], "here": self.same_host}
        self.library_facts = client["library"]
        self.environment = {
            "client": client["host"], "server": server["facts"]["host"], "same_host": self.same_host,
            "device": client["device"], "transport": client["transport"], "persistence_level": self.target["persistence"],
            "target_memory": self.target["description"], "rdma_core": client["rdma_core"], "tool": client["tool"], "notes": []}
        if self.library and not os.path.samefile(client["library"]["file"], pathlib.Path(self.library, "librpma.so.0")):
            raise Failure(f"{client['library']['file']} was loaded instead of the library in {self.library}")

    def open(self, setup):
        request = {"do": "open", "setup": setup}
        self.has_server = setup["api"] != "memcpy" and setup["workload"] not in REPLICAS
        self.memory = None
        if self.has_server:
            request["port"] = self.server.call(request)["port"]
        self.client.call(request)
        if self.has_server and setup["workload"] != "connect":
            self.memory = self.server.call({"do": "connected"})["memory"]

    def begin(self, for_s):
        self.seed += 1
        request = {"do": "begin", "seed": self.seed, "for_s": for_s}
        if self.has_server:
            self.server.call(request)
        self.client.call(request)

    def warm_up(self, limit_s):
        self.begin(limit_s)
        self.client.call({"do": "warm_up", "limit_s": limit_s}, limit_s + RESPONSE_TIMEOUT_S)
        if self.has_server:
            self.server.call({"do": "end"})

    def run(self, duration_s):
        self.begin(duration_s)
        response = self.client.call({"do": "measure", "duration_s": duration_s}, duration_s + RESPONSE_TIMEOUT_S)
        run = response["run"]
        if self.has_server:
            sample = self.server.call({"do": "end"})
            run["cpu_s"]["server"] = sample["cpu_s"]
            run["memory_per_connection_bytes"]["server"] = self.memory
            if "hash" in response:
                run["verified"] = run["verified"] is not False and response["hash"] == sample["hash"]
        return run

    def close(self):
        self.client.call({"do": "close"})
        if self.has_server:
            self.server.call({"do": "close"})


def read_line(file, timeout_s):
    """Returns the first line of a pipe; empty after the timeout."""
    line, end = b"", time.monotonic() + timeout_s
    os.set_blocking(file.fileno(), False)
    while not line.endswith(b"\n") and time.monotonic() < end:
        part = file.read(4096)
        if part == b"":
            break
        line += part or b""
        if part is None:
            time.sleep(0.005)
    return line.decode(errors="replace")
