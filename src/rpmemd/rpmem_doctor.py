#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks whether a remote replica can be used, and prints the remedy for each failure."""

import argparse
import os
import pathlib
import re
import resource
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

LIMIT_S = 30
ROUNDS = 100
# Default and maximum number of lanes of librpmem, descriptors and memory of a lane, and other descriptors of a program.
LANES, MAX_LANES = 64, 1024
LANE_DESCRIPTORS, OTHER_DESCRIPTORS = 6, 64
LANE_KIB = 32
CHECK_LIMIT_S = 60
MAX_LEVEL = 4
# Topics of the lines of rpmemd --check.
TOPICS = ("daemon", "set", "part", "size", "pool", "device", "level", "memlock", "nofile", "data port")


class Report:
    """Prints the findings to standard output and counts those that need a correction."""

    def __init__(self):
        self.failures = 0
        self.about = ""  # prefix of the findings: the target, if several are checked

    def add(self, topic, valid, text, fix=""):
        print(f"{'ok' if valid else 'fail':<4} {self.about}{topic}: {text}")
        if not valid:
            self.failures += 1
            if fix:
                print(f"     fix: {fix}")
        return valid


class Target:
    """[user@]host[:port], or local: for this machine."""

    def __init__(self, text, index):
        self.text = text
        self.index = index
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
            return f"{self.text!r} is not a target (expected [user@]host[:port] or local:)"
        if self.port is not None and not (self.port.isdigit() and 0 < int(self.port) < 65536):
            return f"{self.port!r} is not a port number"
        return None

    def removal(self, name):
        """Returns the command that removes the replica."""
        return f"{self.daemon()} --remove {shlex.quote(name)}"

    def daemon(self):
        commands = (os.environ.get("RPMEM_CMD") or "rpmemd").split("|")
        return commands[self.index % len(commands)]

    def command(self, *arguments):
        """Returns the command line, like that of librpmem: a shell runs it, locally or over ssh."""
        line = " ".join([self.daemon(), *map(shlex.quote, arguments)])
        if self.local:
            return ["/bin/sh", "-c", line]
        port = ["-p", self.port] if self.port else []
        return [os.environ.get("RPMEM_SSH") or "ssh", *port, "-T", "-oBatchMode=yes", self.login + self.host, line]


def number(name, fallback):
    """Reads a number like librpmem. Returns None for an invalid value."""
    text = os.environ.get(name) or str(fallback)
    return int(text) if re.fullmatch(r"\s*[+-]?\d+", text) else None


def check_environment(report):
    """Checks the variables that make each call fail if they are invalid."""
    def check(name, valid, expected):
        if not valid:
            report.add("environment", False, f"{name}={os.environ.get(name)}: every call fails (EINVAL)", f"set it to {expected}")

    check("RPMEM_TRANSPORT", os.environ.get("RPMEM_TRANSPORT") in (None, "", "ssh", "exec"), "ssh or exec, or unset it")
    check("RPMEM_ON_LOSS", os.environ.get("RPMEM_ON_LOSS") in (None, "", "error", "degrade"), "error or degrade, or unset it")
    timeout, level = number("RPMEM_OP_TIMEOUT_MS", 10000), number("RPMEM_MIN_LEVEL", 0)
    check("RPMEM_OP_TIMEOUT_MS", timeout is not None and 0 <= timeout < 1 << 31, "a number of milliseconds, or unset it")
    check("RPMEM_MIN_LEVEL", level in range(MAX_LEVEL + 1), "a level from 0 to 4, or unset it")
    if number("RPMEM_ENABLE_VERBS", 1) == 0 and not software_allowed():
        report.add("environment", False, "RPMEM_ENABLE_VERBS and RPMEM_ENABLE_SOCKETS are both 0: all devices are disabled (ENOMEDIUM)",
                    "unset one of them")


def software_allowed():
    return number("RPMEM_ENABLE_SOCKETS", 1) != 0


class Daemon:
    """rpmemd --check at the target, through the same shells as the session of a program."""

    def __init__(self, target, name):
        self.errors = tempfile.TemporaryFile()
        self.late = False
        self.process = subprocess.Popen(target.command("--check", name), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors, start_new_session=True)
        self.timer = threading.Timer(CHECK_LIMIT_S, self.kill)
        self.timer.start()

    def kill(self):
        self.late = True
        os.killpg(self.process.pid, signal.SIGKILL)

    def lines(self):
        for line in self.process.stdout:
            yield line.decode(errors="replace").rstrip("\n")
        self.process.wait()
        self.timer.cancel()

    def last_error(self):
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def how_it_ended(self):
        if self.late:
            return f"no response within {CHECK_LIMIT_S} s"
        status = self.process.returncode
        number_of_signal = -status if status < 0 else status - 128
        if number_of_signal > 0 and number_of_signal in list(signal.Signals):
            return f"killed by signal {number_of_signal} ({signal.strsignal(number_of_signal)})"
        return f"exit status {status}"

    def reason(self):
        """The last error message, if any, and how the daemon ended."""
        return ": ".join(filter(None, (self.last_error(), self.how_it_ended())))


def check_silent_daemon(report, target, daemon):
    """Reports why no finding arrived: ssh, or the program that it started, failed."""
    last, reason = daemon.last_error(), daemon.reason()
    if daemon.process.returncode == 255 and not target.local and "rpmemd:" not in last:
        try:
            socket.getaddrinfo(target.host, None)
            fix = f"make ssh work without a password: ssh-copy-id {target.login}{target.host}"
        except OSError:
            fix = "use the address, or add the name to /etc/hosts or ~/.ssh/config"
        return report.add("login", False, reason, fix)
    if "rpmemd:" in last and daemon.process.returncode not in (126, 127):
        return report.add("daemon", False, reason, "correct the configuration or the options of rpmemd at the target")
    return report.add("daemon", False, reason, "install the package rpmemd at the target, or name the program in RPMEM_CMD")


def check_port(report, text):
    host, port = text.split(" ")
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
        return report.add("data port", False, f"{host} port {port}: {error.strerror or error}",
                           "permit TCP between the two machines in each firewall: the port changes with each session")
    report.add("data port", True, f"{host} port {port} is reachable")
    return report.add("round trip", True, f"{sorted(times)[ROUNDS // 2] * 1e6:.0f} us over plain TCP, median of {ROUNDS}")


def check_state(report, target, name, several):
    """Reads the state file of librpmem: the target cannot detect that a program continued without the replica."""
    state_dir = os.environ.get("XDG_STATE_HOME") or os.environ.get("HOME", "") + "/.local/state"
    path = pathlib.Path(os.environ.get("RPMEM_STATE_FILE") or f"{state_dir}/librpmem/lost")
    replica = f"replica {name} on {'this machine' if target.text == 'local:' else target.text}: "
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    records = [line for line in lines if line.partition(": ")[2].startswith(replica)]
    when, _, event = records[-1].partition(": ") if records else ("", "", "")
    event = event.removeprefix(replica)
    if not event or event in ("rebuilt", "removed"):
        return report.add("state", True, "no program continued without it")
    if several:
        return report.add("state", True, f"a program continued without it since {when.split()[0]} ({event}): the next open resynchronizes it")
    remove = f"{target.removal(name)} && " if target.local else ""
    return report.add("state", False, f"replica out of date since {when.split()[0]}: a program continued without it: {event}",
                       f"recreate it from the other copies: {remove}pmempool sync POOLSET, with that of the program")


def lanes():
    """Returns the number of lanes like librpmem: a value that is not a positive number is ignored."""
    text = os.environ.get("RPMEM_MAX_NLANES", "")
    return min(int(text), MAX_LANES) if re.fullmatch(r"0*[1-9]\d*", text) else LANES


def raising(kind, option, wanted, hard):
    """Returns how to raise a limit of this machine. Any user may raise the soft limit up to the hard limit."""
    if hard >= wanted or hard == resource.RLIM_INFINITY:
        return f"ulimit -{option} {wanted}, in the shell that starts the program"
    return f"raise {kind} in /etc/security/limits.conf here to {wanted}, or Limit{kind.upper()}= of the program's service"


def usable_lanes():
    """Returns the number of lanes that librpmem gives a program with the current limit of open files."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return min(lanes(), max(1, (files - OTHER_DESCRIPTORS) // LANE_DESCRIPTORS))


def check_own_limits(report, size, pinned):
    (memory, max_memory_bytes), (files, max_files) = map(resource.getrlimit, (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE))
    unlimited = memory == resource.RLIM_INFINITY
    wanted = -(-size // 1024) + lanes() * LANE_KIB
    report.add("memlock here", unlimited or not pinned or memory >= wanted * 1024,
                "unlimited" if unlimited else f"{memory // 1024} KiB",
                raising("memlock", "l", wanted, max_memory_bytes if max_memory_bytes == resource.RLIM_INFINITY else max_memory_bytes // 1024)
                + ": the device pins the whole pool and the memory of the lanes")
    wanted = lanes() * LANE_DESCRIPTORS + OTHER_DESCRIPTORS
    more = f", enough for {usable_lanes()} of {lanes()} lanes; for all: {raising('nofile', 'n', wanted, max_files)}"
    report.add("nofile here", True, f"{files} open files" + (more if files < wanted else ""))


def check_finding(report, topic, valid, text, fix):
    """Adds one finding of the daemon, evaluated with the settings of this machine."""
    if topic == "nofile":
        wanted = usable_lanes() * LANE_DESCRIPTORS + OTHER_DESCRIPTORS
        valid = int(text.split()[0]) >= wanted
        fix = f"raise nofile in /etc/security/limits.conf of the target to {wanted}; or RPMEM_MAX_NLANES, for fewer lanes"
    elif topic == "device" and valid and text.startswith("softrdma") and not software_allowed():
        valid, fix = False, "unset RPMEM_ENABLE_SOCKETS, or use a target with an RDMA device at the address of the connection"
        text += ", which RPMEM_ENABLE_SOCKETS=0 forbids (EMEDIUMTYPE)"
    elif topic == "level":
        highest = MAX_LEVEL if "4 where" in text else int(text[0])
        wanted = number("RPMEM_MIN_LEVEL", 0)
        valid = wanted not in range(highest + 1, MAX_LEVEL + 1)
        text += "" if valid else f", below RPMEM_MIN_LEVEL={os.environ['RPMEM_MIN_LEVEL']} (ENOTSUP)"
        fix = "put the parts on other media, or lower RPMEM_MIN_LEVEL"
    if topic == "data port" and valid:
        return check_port(report, text)
    return report.add(topic, valid, text, fix)


def check_set(report, target, name):
    try:
        daemon = Daemon(target, name)
    except OSError as error:
        program = target.command()[0]
        return report.add("login", False, f"{program}: {error.strerror}", f"install {program}, or correct RPMEM_SSH")
    size, pinned, found = 0, False, False
    for line in daemon.lines():
        topic, *rest = line.split("\t")
        if topic not in TOPICS or len(rest) != 3:
            if not found:
                report.add("shell", False, f"the shell of the target prints {line!r} before the daemon starts (EPROTO)",
                            "make startup files at the target, such as ~/.bashrc, print only to terminals: test -t 1")
            found = True
            continue
        state, text, fix = rest
        if topic == "daemon" and state == "ok":
            report.add("login", True, "this machine" if target.local else "ssh works without a password")
        check_finding(report, topic, state == "ok", text, fix)
        found = True
        if topic == "size":
            size = int(text.split()[0])
        elif topic == "device":
            pinned = pinned or text.startswith("RDMA")
    if not found:
        return check_silent_daemon(report, target, daemon)
    if daemon.process.returncode != 0:
        report.add("daemon", False, daemon.reason())
    return check_own_limits(report, size, pinned)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main():
    parser = Parser(
        prog="rpmem-doctor", description="Checks whether a remote replica can be used, and prints the remedy for each failure.")
    parser.add_argument("targets", metavar="TARGET[,TARGET...]", help="[user@]host[:port], or local:")
    parser.add_argument("set", metavar="SET", help="set file, relative to the poolset directory of the target")
    parser.add_argument("--version", action="version", version="rpmem-doctor @PROJECT_VERSION@")
    arguments = parser.parse_args()
    targets = [Target(text, index) for index, text in enumerate(arguments.targets.split(","))]
    for target in targets:
        if target.fault():
            parser.error(target.fault())
    report = Report()
    check_environment(report)
    for target in targets:
        several = len(targets) > 1
        report.about = f"{target.text} " if several else ""
        check_state(report, target, arguments.set, several)
        check_set(report, target, arguments.set)
    print("ready" if report.failures == 0 else f"not ready: {report.failures} to correct")
    return 0 if report.failures == 0 else 1


if __name__ == "__main__":
    if sys.stdout is None:
        sys.exit("rpmem-doctor: standard output: closed")
    sys.stdout.reconfigure(line_buffering=True)
    try:
        sys.exit(main())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # The reader, such as head, closed the pipe early.
        sys.exit(128 + signal.SIGPIPE if isinstance(error, BrokenPipeError)
                 else f"rpmem-doctor: {error.filename or 'standard output'}: {error.strerror}")
