# SPDX-License-Identifier: BSD-3-Clause
"""Error codes and exceptions of the library."""

from __future__ import annotations

import errno as system
import os
import socket

from ._enum import IntEnum
from ._rpma import ffi, lib


# Reasons for which the text of the system names no remedy.
REASONS = {
    system.ENODEV: "no RDMA device found (use DeviceKind.ANY with the package softrdma, or start the program with `softrdma run`)",
    system.ELIBACC: "softrdma not found (install the package softrdma, or start the program with `softrdma run`)",
}


class ErrorCode(IntEnum):
    """The error codes of librpma.h, without their prefix RPMA_E_."""

    UNKNOWN = lib.RPMA_E_UNKNOWN, "Unknown error, or an event that was not expected."
    NOSUPP = lib.RPMA_E_NOSUPP, "The device, the region or the peer does not support the operation."
    PROVIDER = lib.RPMA_E_PROVIDER, "libibverbs, librdmacm or the system failed; Error.errno contains the reason."
    NOMEM = lib.RPMA_E_NOMEM, "Out of memory."
    INVAL = lib.RPMA_E_INVAL, "Invalid argument, or an object that is closed or belongs to the parent process."
    NO_COMPLETION = lib.RPMA_E_NO_COMPLETION, "No completion is available; a wait raises Timeout."
    NO_EVENT = lib.RPMA_E_NO_EVENT, "No event or request is available; a wait raises Timeout."
    AGAIN = lib.RPMA_E_AGAIN, "Temporary failure (repeat the call)."
    SHARED_CHANNEL = lib.RPMA_E_SHARED_CHANNEL, "The queues share a completion channel (use Connection.wait)."
    NOT_SHARED_CHNL = lib.RPMA_E_NOT_SHARED_CHNL, "The queues do not share a completion channel (use CompletionQueue.wait)."


class Error(Exception):
    """A call failed.

    code is the error code of the C function, name its name in librpma.h ("RPMA_E_INVAL"), and errno the reason if code
    is PROVIDER, otherwise 0. A method of an object that is closed or was created before a fork fails with INVAL.
    """

    def __init__(self, code: int, detail: str = "", errno: int = 0):
        try:
            self.code = ErrorCode(code)
        except ValueError:
            self.code = ErrorCode.UNKNOWN
        self.name = f"RPMA_E_{self.code.name}"
        self.errno = errno
        reason = REASONS.get(errno, os.strerror(errno)) if errno else ""
        if not detail and not reason:
            detail = ffi.string(lib.rpma_err_2str(code)).decode()
        super().__init__(": ".join(part for part in (self.name, detail, reason) if part))


class Timeout(Error, TimeoutError):
    """A wait ended without an event (code NO_EVENT) or completion (NO_COMPLETION)."""


def error_of(code: int, what: str = "") -> Error | None:
    """Returns the error of the call that has just returned code on this thread, or None. what describes the call."""
    if code == 0:
        return None
    if code in (lib.RPMA_E_NO_EVENT, lib.RPMA_E_NO_COMPLETION):
        return Timeout(code, what)
    if code == lib.RPMA_E_PROVIDER:
        return Error(code, what, ffi.errno)
    return Error(code, what and f"{what}: {ffi.string(lib.rpma_err_2str(code)).decode()}")


def check(code: int, what: str = "") -> None:
    """Raises the error of the call that has just returned code on this thread."""
    error = error_of(code, what)
    if error:
        raise error


def check_address(code: int, what: str, addr: str, port: str | int | None = None) -> None:
    """Like check, for a call that resolves a name. If the name is unknown, the error contains the resolver's reason."""
    what = f"{what} {addr}" + ("" if port is None else f" port {port}")
    error = error_of(code, what)
    if error and error.code == ErrorCode.PROVIDER:
        try:
            socket.getaddrinfo(addr, port)
        except (OSError, UnicodeError) as unknown:
            raise Error(code, f"{what}: {getattr(unknown, 'strerror', None) or unknown}") from None
    if error:
        raise error


def version() -> tuple[int, int, int]:
    """Returns the version of the loaded librpma."""
    number = lib.rpma_version()
    return number >> 16, number >> 8 & 0xFF, number & 0xFF
