# SPDX-License-Identifier: BSD-3-Clause
"""Functions that tests of several suites share. A test or its support.py adds this directory to sys.path."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

OWN_NETWORK = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


def skip(reason):
    """Ends the test as skipped."""
    print(f"skipped: {reason}")
    sys.exit(77)


def fail(reason):
    print(f"failed: {reason}")
    sys.exit(1)


def execute(words, **options):
    """Runs a program until it exits. Returns its exit status and its output as text. The options are those of subprocess.run()."""
    defaults = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 300}
    return subprocess.run([*map(str, words)], check=False, **defaults | options)


def free_port(address="127.0.0.1"):
    """Returns a TCP port that is free at the moment."""
    with socket.create_server((address, 0)) as probe:
        return probe.getsockname()[1]


def wait_until(condition, what="the condition", limit_s=300):
    """Polls the condition. Raises AssertionError after the limit."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {limit_s} s")
        time.sleep(0.02)


def listens(port):
    """Returns whether a process in this network namespace listens on the TCP port."""
    return any(f":{port:04X} " in line and " 0A " in line
               for table in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines())


def is_alive(pid):
    """Returns whether the process exists and is not a zombie."""
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def processes_naming(text):
    """Returns the command lines of all other processes that contain the text."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in words and int(path.parent.name) != os.getpid():
            found.append(words)
    return found


def stop(process):
    """Returns after all threads of the child process have stopped."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


def directory(test, **options):
    """Creates a directory, with options of TemporaryDirectory, that is removed at the end of the test or test class."""
    created = tempfile.TemporaryDirectory(**options)
    (test.addClassCleanup if isinstance(test, type) else test.addCleanup)(created.cleanup)
    return pathlib.Path(created.name)


def enter_own_network():
    """Runs this test again in its own network namespace. Returns true there, and false if none can be created."""
    if "TEST_OWN_NETWORK" in os.environ:
        return True
    if subprocess.run([*OWN_NETWORK, "true"], check=False, capture_output=True).returncode != 0:
        return False
    os.environ["TEST_OWN_NETWORK"] = "1"
    os.execvp(OWN_NETWORK[0], [*OWN_NETWORK, sys.executable, *sys.argv])
