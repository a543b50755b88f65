# SPDX-License-Identifier: BSD-3-Clause
"""Ownership and lifetime of objects of the C library, and waiting for them."""

from __future__ import annotations

import os
import select
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ._error import Error, ErrorCode, check, error_of
from ._rpma import ffi, lib

Self = TypeVar("Self", bound="Closable")

# Fork generation of this process. Objects of an earlier generation belong to the parent process.
_forks = [0]
os.register_at_fork(after_in_child=lambda: _forks.__setitem__(0, _forks[0] + 1))

# Finalizers of the existing objects. They refer to the objects that these depend on. The garbage collector clears a
# cycle in any order, for example a cycle through the traceback of an error. References from this set keep the
# finalizers out of such cycles.
_destructors: set[Callable[[Any], None]] = set()


class Handle:
    """Object of the C library.

    A reference to `pointer` keeps the object alive, for example during a call. The object is freed after it was
    closed and the last reference was released, so a call in another thread never accesses freed memory.
    """

    def __init__(self, kind: str, box: Any, destroy: Callable[[Any], int], keep: tuple[Any, ...] = (),
                 freed: Callable[[bool], None] | None = None):
        """The C function that created the object stored it in box, from which destroy releases it. Objects in keep
        outlive the object. freed is called with the success of destroy as argument."""
        forks = _forks[0]
        failures: list[Error] = []

        def free(_: Any, keep: tuple[Any, ...] = keep) -> None:
            _destructors.discard(free)
            # Freeing an object in a child process must not affect the device of the parent.
            if forks != _forks[0]:
                return
            error = error_of(destroy(box))
            if freed:
                freed(error is None)
            if error:
                failures.append(error)

        self.box = box
        self._kind = kind
        self._forks = forks
        self._failures = failures
        _destructors.add(free)
        self._pointer = ffi.gc(box[0], free)

    @property
    def closed(self) -> bool:
        return self._pointer is None

    @property
    def foreign(self) -> bool:
        """True if the object belongs to the parent process."""
        return self._forks != _forks[0]

    @property
    def pointer(self) -> Any:
        pointer = self._pointer
        if pointer is None:
            raise Error(ErrorCode.INVAL, f"the {self._kind} is closed")
        if self.foreign:
            raise Error(ErrorCode.INVAL, f"the {self._kind} was made before a fork and belongs to the parent process")
        return pointer

    def close(self) -> None:
        """Closes the object and raises the error of freeing it, unless a call in another thread frees it later."""
        self._pointer = None
        if self._failures:
            raise self._failures.pop()

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # The pointer does not exist after a failed constructor.
        if getattr(self, "_pointer", None) is not None and not self.foreign:
            warnings.warn(f"a {self._kind} was not closed", ResourceWarning, stacklevel=2)
            self.close()


class Closable:
    """Object that is closed at the end of a `with` block, by close(), or with its last reference.

    Closing twice is harmless. Using it afterwards raises Error(INVAL). An object from which others were created is
    freed with the last of them: a peer that is closed before its connections only rejects new ones.
    """

    _handle: Handle

    @property
    def closed(self) -> bool:
        return self._handle.closed

    def close(self) -> None:
        """Frees the object immediately, or when calls of other threads that use it return. Error: PROVIDER."""
        self._handle.close()

    def _details(self) -> str:
        """Returns the part of repr that describes an open object."""
        return ""

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ", of the parent process" if self._handle.foreign else ""
        return f"<rpma.{type(self).__name__}{self._details()}{state}>"

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Waitable(Closable):
    """Object with a descriptor that is readable when data is available, for select and asyncio."""

    _wake = -1

    def __init__(self) -> None:
        # Eventfd that is readable after close(), which ends the waits of other threads.
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)  # type: ignore[attr-defined]

    def close(self) -> None:
        try:
            super().close()
        finally:
            if not self._handle.foreign:
                os.eventfd_write(self._wake, 1)  # type: ignore[attr-defined]

    def __del__(self) -> None:
        if self._wake >= 0:
            os.close(self._wake)

    def _take(self, take: Callable[[], int], nothing: int, fd: int, timeout: float | None) -> int:
        """Calls take, and repeats it whenever fd is readable, until the result differs from nothing, or timeout seconds
        have passed (no limit if None). Waits in Python, not in the library: a signal handler can run and raise. If
        another thread closes this object, take raises."""
        deadline = None if timeout is None else time.monotonic() + timeout
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        while True:
            code = take()
            if code != nothing:
                return code
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                return code
            poller.poll(None if remaining is None else int(remaining * 1000) + 1)


def out_descriptor(get: Callable[[Any, Any], int], pointer: Any) -> int:
    """Returns the descriptor of the C function get, and makes it non-blocking, so that the C library never blocks."""
    box = ffi.new("int *")
    check(get(pointer, box))
    os.set_blocking(box[0], False)
    return int(box[0])


def configuration(kind: str, settings: dict[str, Any]) -> Handle:
    """Creates a rpma_KIND_cfg with the settings that are not None."""
    box = ffi.new(f"struct rpma_{kind}_cfg **")
    check(getattr(lib, f"rpma_{kind}_cfg_new")(box))
    handle = Handle("configuration", box, getattr(lib, f"rpma_{kind}_cfg_delete"))
    try:
        for name, value in settings.items():
            if value is not None:
                check(getattr(lib, f"rpma_{kind}_cfg_set_{name}")(handle.pointer, value))
    except BaseException:
        handle.close()
        raise
    return handle


def c_string(text: str | int) -> bytes:
    """Encodes an address or a port."""
    encoded = str(text).encode()
    if b"\0" in encoded:
        raise Error(ErrorCode.INVAL, "an address or port contains a zero byte")
    return encoded


def op_context(number: int) -> Any:
    """Converts a number to the context pointer that the completion contains."""
    if not 0 <= number < 1 << 64:
        raise Error(ErrorCode.INVAL, "op_context must be from 0 to 2**64 - 1")
    return ffi.cast("void *", number)


