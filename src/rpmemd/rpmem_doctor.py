#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Says whether a remote replica can be used, and what to do where it cannot."""

import argparse
import os
import pathlib
import re
import resource
import shlex
import socket
import subprocess
import sys
import time

LIMIT_S = 30
ROUNDS = 100
# How many lanes of librpmem a program gets that wants many, what each takes, and what else a program holds.
LANES, MOST_LANES = 64, 1024
LANE_DESCRIPTORS, OTHER_DESCRIPTORS = 6, 64
LANE_KIB = 32
VERSION = re.compile(r"rpmemd (\d+)\.(\d+)")


class Report:
    """The lines on standard output."""

    def __init__(self):
        self.gaps = 0
        self.about = ""  # the target, where there are several

    def tell(self, topic, good, text, fix=""):
        print(f"{'ok' if good else 'gap':<4} {self.about}{topic}: {text}")
        if not good:
            self.gaps += 1
            if fix:
                print(f"     fix: {fix}")
        return good


class Target:
    """[user@]host[:port], or local: for this machine."""

    def __init__(self, text):
        self.text = text
        self.local = text == "local:" or os.environ.get("RPMEM_TRANSPORT") == "exec"
        user, at, rest = text.rpartition("@")
        self.login = user + at
        self.host, self.port = rest, None
        bracketed = re.fullmatch(r"\[([^]]+)](?::(\d+))?", rest)
        if bracketed:
            self.host, self.port = bracketed.groups()
        elif rest.count(":") == 1 and not self.local:
            self.host, self.port = rest.split(":")

    def fault(self):
        if self.local:
            return None
        if not self.host or self.login == "@" or "@" in self.login[:-1] or self.host.startswith("-") or self.login.startswith("-"):
            return f"{self.text!r} is no target: write [user@]host[:port], or local:"
        if self.port is not None and not (self.port.isdigit() and 0 < int(self.port) < 65536):
            return f"{self.port!r} is no port of ssh"
        return None

    def removal(self, name):
        """What removes a replica on this machine."""
        return f"{self.daemon()} --remove {shlex.quote(name)}"

    def daemon(self):
        return (os.environ.get("RPMEM_CMD") or "rpmemd").split("|")[0]

    def command(self, *arguments):
        daemon = self.daemon()
        if self.local:
            return [*daemon.split(), *arguments]
        port = ["-p", self.port] if self.port else []
        quoted = " ".join([daemon, *map(shlex.quote, arguments)])
        return [os.environ.get("RPMEM_SSH", "ssh"), *port, "-T", "-oBatchMode=yes", self.login + self.host, quoted]


def check_name(report, target):
    if target.local:
        return True
    try:
        addresses = sorted({found[4][0] for found in socket.getaddrinfo(target.host, None)})
    except OSError as error:
        return report.tell("name", False, f"{target.host}: {error.strerror}", "use the address, or add it to /etc/hosts")
    return report.tell("name", True, f"{target.host} is {', '.join(addresses)}")


def check_daemon(report, target):
    command = target.command("--version")
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=LIMIT_S)
    except OSError as error:
        return report.tell("login", False, f"{command[0]}: {error.strerror}", f"install {command[0]}")
    except subprocess.TimeoutExpired:
        return report.tell("login", False, f"no answer in {LIMIT_S} s", f"try {shlex.join(command)}")
    if done.returncode == 255 and not target.local and "rpmemd:" not in done.stderr:
        return report.tell("login", False, (done.stderr.strip().splitlines() or ["ssh failed"])[-1],
                           f"make ssh work without a password: ssh-copy-id {target.login}{target.host}")
    report.tell("login", True, "this machine" if target.local else "ssh works without a password")
    found = VERSION.search(done.stderr)
    if done.returncode != 0 or not found:
        return report.tell("daemon", False, (done.stderr.strip().splitlines() or ["it says nothing"])[-1],
                           "install the package rpmemd at the target, or name the program in RPMEM_CMD")
    return report.tell("daemon", True, found[0])


def check_port(report, target, text):
    address, port = text.split(" ")
    host = address if target.local else target.host
    try:
        with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            times = []
            for _ in range(ROUNDS):
                start = time.perf_counter()
                connection.sendall(b"x")
                if connection.recv(1) != b"x":
                    raise OSError(0, "the target closed the connection")
                times.append(time.perf_counter() - start)
    except OSError as error:
        return report.tell("data port", False, f"{host} port {port}: {error.strerror or error}",
                           "let the firewalls pass TCP between the two machines: the port is another one each time")
    report.tell("data port", True, f"{host} port {port} is reached")
    return report.tell("round trip", True, f"{sorted(times)[ROUNDS // 2] * 1e6:.0f} us over plain TCP, median of {ROUNDS}")


def check_state(report, target, name, several):
    """A replica that a program went on without looks whole at the target."""
    home = os.environ.get("XDG_STATE_HOME") or os.environ.get("HOME", "") + "/.local/state"
    path = pathlib.Path(os.environ.get("RPMEM_STATE_FILE") or f"{home}/librpmem/lost")
    replica = f"replica {name} on {'this machine' if target.text == 'local:' else target.text}: "
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    about = [line for line in lines if line.partition(": ")[2].startswith(replica)]
    when, _, what = about[-1].partition(": ") if about else ("", "", "")
    what = what.removeprefix(replica)
    if not what or what in ("made again", "removed"):
        return report.tell("state", True, "no program went on without it")
    if several:
        return report.tell("state", True, f"a program went on without it since {when.split()[0]} ({what}): the next one brings it level")
    remove = f"{target.removal(name)} && " if target.local else ""
    return report.tell("state", False, f"a program went on without it since {when.split()[0]} ({what}): it is out of date",
                       f"make it again from the other copies: {remove}pmempool sync POOLSET, with that of the program")


def lanes():
    """As librpmem reads it: what is no number from 1 on does not count."""
    text = os.environ.get("RPMEM_MAX_NLANES", "")
    return min(int(text), MOST_LANES) if re.fullmatch(r"0*[1-9]\d*", text) else LANES


def raising(kind, option, wanted, hard):
    """What raises a limit of this machine: everybody may raise the soft one as far as the hard one goes."""
    if hard >= wanted or hard == resource.RLIM_INFINITY:
        return f"ulimit -{option} {wanted}, in the shell that starts the program"
    return f"raise {kind} in /etc/security/limits.conf here to {wanted}, or Limit{kind.upper()}= of the program's service"


def check_own_limits(report, size, pinned):
    (memory, most_memory), (files, most_files) = map(resource.getrlimit, (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE))
    unlimited = memory == resource.RLIM_INFINITY
    wanted = -(-size // 1024) + lanes() * LANE_KIB
    report.tell("memlock here", unlimited or not pinned or memory >= wanted * 1024,
                "unlimited" if unlimited else f"{memory // 1024} KiB",
                raising("memlock", "l", wanted, most_memory if most_memory == resource.RLIM_INFINITY else most_memory // 1024)
                + ": the device pins the whole pool and the memory of the lanes")
    wanted = lanes() * LANE_DESCRIPTORS + OTHER_DESCRIPTORS
    enough = max(1, (files - OTHER_DESCRIPTORS) // LANE_DESCRIPTORS)
    report.tell("nofile here", files >= wanted,
                f"{files} open files" + (f", enough for {enough} of {lanes()} lanes" if files < wanted else ""),
                raising("nofile", "n", wanted, most_files) + f"; or RPMEM_MAX_NLANES={enough}, for as many threads")


def check_set(report, target, name):
    size, pinned = 0, False
    with subprocess.Popen(target.command("--check", name), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as daemon:
        for line in daemon.stdout:
            topic, state, text, fix = line.rstrip("\n").split("\t")
            if topic == "data port" and state == "ok":
                check_port(report, target, text)
                continue
            report.tell(topic, state == "ok", text, fix)
            if topic == "size":
                size = int(text.split()[0])
            elif topic == "device":
                pinned = text.startswith("RDMA")
        errors = daemon.stderr.read().strip().splitlines()
    if daemon.returncode != 0:
        report.tell("set", False, errors[-1] if errors else f"rpmemd ended with {daemon.returncode}")
    check_own_limits(report, size, pinned)


def main():
    parser = argparse.ArgumentParser(
        prog="rpmem-doctor", description="Says whether a remote replica can be used, and what to do where it cannot.")
    parser.add_argument("targets", metavar="TARGET[,TARGET...]", help="[user@]host[:port], or local:")
    parser.add_argument("set", metavar="SET", help="set file, relative to the poolset directory of the target")
    arguments = parser.parse_args()
    targets = [Target(text) for text in arguments.targets.split(",")]
    for target in targets:
        if target.fault():
            parser.error(target.fault())
    report = Report()
    for target in targets:
        several = len(targets) > 1
        report.about = f"{target.text} " if several else ""
        check_state(report, target, arguments.set, several)
        if check_name(report, target) and check_daemon(report, target):
            check_set(report, target, arguments.set)
    print("ready" if report.gaps == 0 else f"not ready: {report.gaps} to mend")
    return 0 if report.gaps == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
