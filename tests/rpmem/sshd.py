# SPDX-License-Identifier: BSD-3-Clause
"""A real sshd for the test, with its own keys, for the user that runs the test."""

import getpass
import os
import pathlib
import pwd
import shlex
import shutil
import socket
import subprocess
import time

SSHD = "/usr/sbin/sshd"
LIMIT_S = 60
# Maximum number of starts: another program may take the port before sshd binds it.
STARTS = 5
# Environment variables that a session at the target gets in addition to those of sshd.
PASSED_ON = ("ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "SOFTRDMA_TRANSPORT")


def lacking():
    """Returns the reason why sshd cannot run here; empty if it can."""
    if not pathlib.Path(SSHD).is_file() or not shutil.which("ssh") or not shutil.which("ssh-keygen"):
        return "ssh or sshd is missing: install openssh-client and openssh-server"
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return "ssh needs a name for this user in /etc/passwd"
    return ""


class Sshd:
    """Listens on one port of each address. `home` is the home directory of a user that logs in, and `path` is added to PATH."""

    def __init__(self, place, addresses, home, path, prefix=()):
        self.place, self.addresses, self.prefix = place, addresses, list(prefix)
        self.home, self.path = home, path
        for name in ("host", "client", "forced"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
        self.allow()
        if os.geteuid() == 0:
            pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # like the service of Debian
        self.messages = open(place / "sshd.log", "wb")
        self.start()
        self.starts = 1

    def start(self):
        self.port = self.free_port()
        self.write_configurations()
        self.process = subprocess.Popen([*self.prefix, SSHD, "-D", "-e", "-f", self.place / "sshd_config"],
                                        stdin=subprocess.DEVNULL, stdout=self.messages, stderr=self.messages)

    def allow(self, forced=None):
        """The first key may run any command; the second one only the forced command."""
        lines = [(self.place / "client.pub").read_text()]
        if forced:
            lines.append(f'restrict,command="{forced}" ' + (self.place / "forced.pub").read_text())
        (self.place / "authorized_keys").write_text("".join(lines))
        (self.place / "authorized_keys").chmod(0o600)

    def free_port(self):
        """Returns a port that is free on this host for IPv4 and IPv6. The networks of the test have no other servers."""
        with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as free:
            return free.getsockname()[1]

    def write_configurations(self):
        passed = [f"{name}={os.environ[name]}" for name in PASSED_ON if name in os.environ]
        environment = " ".join(f'"{word}"' for word in [f"HOME={self.home}", f"PATH={self.path}", *passed])
        listen = "".join(f"ListenAddress {address}\n" for address in self.addresses)
        (self.place / "sshd_config").write_text(
            f"Port {self.port}\n{listen}HostKey {self.place}/host\nAuthorizedKeysFile {self.place}/authorized_keys\n"
            f"LogLevel ERROR\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            f"PermitRootLogin yes\nMaxStartups 100\nSetEnv {environment}\n")
        host_key = (self.place / "host.pub").read_text()
        hosts = ",".join(f"[{address}]:{self.port}" for address in self.addresses)
        (self.place / "known_hosts").write_text(f"{hosts} {host_key}")
        for name in ("client", "forced"):
            (self.place / f"{name}_config").write_text(
                f"IdentityFile {self.place}/{name}\nIdentitiesOnly yes\nUserKnownHostsFile {self.place}/known_hosts\n"
                "GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n")
            script = self.place / f"ssh-{name}"
            script.write_text(f'#!/bin/sh\nexec ssh -F {shlex.quote(str(self.place))}/{name}_config "$@"\n')
            script.chmod(0o755)

    def client(self, key="client"):
        """Returns the path of a program that runs ssh with that key."""
        return str(self.place / f"ssh-{key}")

    def target(self, address):
        host = f"[{address}]" if ":" in address else address
        return f"{getpass.getuser()}@{host}:{self.port}"

    def wait(self):
        """Waits until a user can log in."""
        address, deadline = self.addresses[0], time.monotonic() + LIMIT_S
        while True:
            command = [self.client(), "-p", str(self.port), "-oBatchMode=yes", "-oConnectTimeout=10",
                       f"{getpass.getuser()}@{address}", "true"]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
                                  check=False)
            if done.returncode == 0:
                return
            ended = self.process.poll() is not None
            if time.monotonic() > deadline or (ended and self.starts == STARTS):
                raise AssertionError(f"cannot log in: {done.stderr}\n{self.log()}")
            if ended:
                self.start()
                self.starts += 1
            time.sleep(0.1)

    def log(self):
        return (self.place / "sshd.log").read_text(errors="replace")

    def stop(self):
        self.process.terminate()
        self.process.wait(LIMIT_S)
        self.messages.close()
