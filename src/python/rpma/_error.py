# SPDX-License-Identifier: BSD-3-Clause
"""Failures of the library."""

from __future__ import annotations

import enum
import os

from ._rpma import ffi, lib


class ErrorCode(enum.IntEnum):
    """The error codes of librpma.h, without their prefix RPMA_E_."""

    UNKNOWN = lib.RPMA_E_UNKNOWN
    NOSUPP = lib.RPMA_E_NOSUPP
    PROVIDER = lib.RPMA_E_PROVIDER
    NOMEM = lib.RPMA_E_NOMEM
    INVAL = lib.RPMA_E_INVAL
    NO_COMPLETION = lib.RPMA_E_NO_COMPLETION
    NO_EVENT = lib.RPMA_E_NO_EVENT
    AGAIN = lib.RPMA_E_AGAIN
    SHARED_CHANNEL = lib.RPMA_E_SHARED_CHANNEL
    NOT_SHARED_CHNL = lib.RPMA_E_NOT_SHARED_CHNL


class Error(Exception):
    """A call failed.

    code is the code that the C function returned, name its name in librpma.h ("RPMA_E_INVAL"), and errno the cause where
    the code is PROVIDER, otherwise 0. An object that is closed already, or was made before a fork of this process, gives
    INVAL.
    """

    def __init__(self, code: int, detail: str = "", errno: int = 0):
        try:
            self.code = ErrorCode(code)
        except ValueError:
            self.code = ErrorCode.UNKNOWN
        self.name = f"RPMA_E_{self.code.name}"
        self.errno = errno
        detail = detail or ffi.string(lib.rpma_err_2str(code)).decode()
        super().__init__(f"{self.name}: {detail}" + (f": {os.strerror(errno)}" if errno else ""))


def error_of(code: int) -> Error | None:
    """Returns the error of the call that has just returned code on this thread, or None."""
    if code == 0:
        return None
    return Error(code, errno=ffi.errno if code == lib.RPMA_E_PROVIDER else 0)


def check(code: int) -> None:
    """Raises what the call that has just returned code on this thread failed with."""
    error = error_of(code)
    if error:
        raise error


def version() -> tuple[int, int, int]:
    """The version of the librpma that runs."""
    number = lib.rpma_version()
    return number >> 16, number >> 8 & 0xFF, number & 0xFF
