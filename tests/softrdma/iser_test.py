# SPDX-License-Identifier: BSD-3-Clause
"""usage: iser_test.py SOFTRDMA PATH [ADDRESS AT_TARGET]: tgtd offers a disk by iSER, libiscsi writes and reads it, and
logs in again. The command AT_TARGET runs its arguments on the host that has the address; the default is this host.

The written data is compared with the file behind the disk, and with the data read back.
"""

import contextlib
import ctypes
import ctypes.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from support import enter_own_network, skip

HANG_S = 120
TARGET = "iqn.2026-01.test:disk"
INITIATOR = "iqn.2026-01.test:initiator"
PORT = 3260
BLOCK = 512
DISK = 4 << 20
SIZES = (BLOCK, 4096, 65536, 128 << 10, 256 << 10)
LOGINS = 2
# libiscsi 1.19 walks a list of buffers whose head lies in memory of malloc() that it has not set: this value clears it.
CLEARED = {"MALLOC_PERTURB_": "255"}


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Initiator:
    """A session. All calls of libiscsi that return a task return NULL without one, and begin a task with its status."""

    ISER, NORMAL_SESSION, LUN = 1, 2, 1

    def __init__(self, portal):
        self.library = ctypes.CDLL(ctypes.util.find_library("iscsi"))
        for function in ("iscsi_create_context", "iscsi_write10_sync", "iscsi_read10_iov_sync"):
            getattr(self.library, function).restype = ctypes.c_void_p
        self.library.iscsi_get_error.restype = ctypes.c_char_p
        self.session = ctypes.c_void_p(self.library.iscsi_create_context(INITIATOR.encode()))
        self.succeed("iscsi_init_transport", self.ISER)
        self.succeed("iscsi_set_targetname", TARGET.encode())
        self.succeed("iscsi_set_session_type", self.NORMAL_SESSION)
        self.succeed("iscsi_full_connect_sync", portal.encode(), self.LUN)

    def fail(self, what):
        raise RuntimeError(f"{what}: {self.library.iscsi_get_error(self.session).decode()}")

    def succeed(self, function, *arguments):
        if getattr(self.library, function)(self.session, *arguments) != 0:
            self.fail(function)

    def command(self, function, *arguments):
        task = getattr(self.library, function)(self.session, self.LUN, *arguments)
        if task is None or ctypes.c_int.from_address(task).value != 0:
            self.fail(function)
        self.library.scsi_free_scsi_task(ctypes.c_void_p(task))

    def write(self, block, data):
        self.command("iscsi_write10_sync", block, data, len(data), BLOCK, 0, 0, 0, 0, 0)

    def read(self, block, length):
        buffer = ctypes.create_string_buffer(length)
        vector = Vector(ctypes.addressof(buffer), length)
        self.command("iscsi_read10_iov_sync", block, length, BLOCK, 0, 0, 0, 0, 0, ctypes.byref(vector), 1)
        return buffer.raw

    def log_out(self):
        self.succeed("iscsi_logout_sync")
        self.library.iscsi_destroy_context(self.session)


def initiate(portal, path):
    """The part of the test on the device, in a separate process."""
    with open(path, "rb") as disk:
        for login in range(LOGINS):
            session = Initiator(portal)
            for turn, size in enumerate(SIZES):
                block = (login * 37 + turn * 1000) % ((DISK - size) // BLOCK)
                data = os.urandom(size)
                session.write(block, data)
                disk.seek(block * BLOCK)
                if disk.read(size) != data:
                    raise RuntimeError(f"{size} bytes at block {block} in the file differ from the data written")
                if session.read(block, size) != data:
                    raise RuntimeError(f"{size} bytes at block {block} differ from the data read")
            session.log_out()
    print(f"{LOGINS} logins, {len(SIZES)} sizes")


def administer(*arguments, check=True):
    return subprocess.run(["tgtadm", "--lld", "iser", *arguments], check=check, timeout=HANG_S, capture_output=True)


def offer(target, path):
    deadline = time.monotonic() + HANG_S
    while administer("--mode", "target", "--op", "show", check=False).returncode != 0:
        if target.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("tgtd does not answer")
        time.sleep(0.1)
    administer("--mode", "target", "--op", "new", "--tid", "1", "--targetname", TARGET)
    administer("--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "--backing-store", path)
    # tgtd requires both an address and a name for iSER.
    for who in ("--initiator-address=ALL", "--initiator-name=" + INITIATOR):
        administer("--mode", "target", "--op", "bind", "--tid", "1", who)


def run(softrdma, directory, address, at_target):
    path = os.path.join(directory, "disk")
    with open(path, "wb") as disk:
        disk.truncate(DISK)
    os.environ["TGT_IPC_SOCKET"] = os.path.join(directory, "control")
    # It listens for iSCSI and for iSER on the same port number, and here both are TCP ports.
    os.environ["SOFTRDMA_PORT_OFFSET"] = "1000"
    with open(os.path.join(directory, "log"), "wb") as log:
        target = subprocess.Popen([*at_target, softrdma, "run", "--", "tgtd", "-f"], stdout=log, stderr=log)
    try:
        offer(target, path)
        subprocess.run([softrdma, "run", "--", sys.executable, __file__, "initiate", f"{address}:{PORT}", path],
                       check=True, timeout=HANG_S, env={**os.environ, **CLEARED})
        if target.poll() is not None:
            raise RuntimeError("tgtd has ended")
    finally:
        target.kill()
        target.wait()


def main():
    if sys.argv[1] == "initiate":
        initiate(*sys.argv[2:])
        return 0
    softrdma, os.environ["SOFTRDMA_TRANSPORT"] = sys.argv[1:3]
    if len(sys.argv) == 3:  # tgtd listens on all addresses, at a fixed port
        if not enter_own_network():
            skip("no network namespace can be created here")
        sys.argv += ["127.0.0.1", ""]
    for found, package in ((shutil.which("tgtd"), "tgt"), (ctypes.util.find_library("iscsi"), "libiscsi-bin")):
        if found is None:
            skip(f"{package} is not installed")
    with tempfile.TemporaryDirectory() as directory:
        try:
            run(softrdma, directory, sys.argv[3], shlex.split(sys.argv[4]))
        except (RuntimeError, OSError, subprocess.SubprocessError) as problem:
            print(f"FAILED: {problem}")
            with contextlib.suppress(OSError), open(os.path.join(directory, "log")) as log:
                print(f"tgtd: {log.read()}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
