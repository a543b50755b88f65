# SPDX-License-Identifier: BSD-3-Clause
"""Memory that is accessed over RDMA: local regions and memory of remote peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

from ._enum import IntEnum, IntFlag
from ._error import check, error_of
from ._handle import Closable, Handle
from ._rpma import ffi, lib

if TYPE_CHECKING:
    from ._peer import Peer

# Object with the buffer protocol: bytearray, mmap.mmap, array.array, a NumPy array, a ctypes array, memoryview, bytes.
Buffer = Any


class Usage(IntFlag):
    """Usage of a region (RPMA_MR_USAGE_*)."""

    READ_SRC = lib.RPMA_MR_USAGE_READ_SRC, "Remote peers read from it."
    READ_DST = lib.RPMA_MR_USAGE_READ_DST, "Local destination of reads."
    WRITE_SRC = lib.RPMA_MR_USAGE_WRITE_SRC, "Local source of writes."
    WRITE_DST = lib.RPMA_MR_USAGE_WRITE_DST, "Remote peers write to it."
    FLUSH_TYPE_VISIBILITY = lib.RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, "Remote peers flush it to visibility."
    FLUSH_TYPE_PERSISTENT = lib.RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, "Remote peers flush it to persistence."
    SEND = lib.RPMA_MR_USAGE_SEND, "Source of sends."
    RECV = lib.RPMA_MR_USAGE_RECV, "Destination of receives."


class Advice(IntEnum):
    """Advice of MemoryRegion.advise for the device."""

    PREFETCH = lib.IBV_ADVISE_MR_ADVICE_PREFETCH, "Prepare the pages for reading."
    PREFETCH_WRITE = lib.IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, "Prepare the pages for writing."
    PREFETCH_NO_FAULT = lib.IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, "Prepare only pages that are in memory."


# Usages by which the device or a peer writes to the memory.
_WRITTEN = Usage.READ_DST | Usage.WRITE_DST | Usage.RECV

# Exports of buffers that could not be deregistered: the device can still write to them.
_stuck: list[Any] = []


class MemoryRegion(Closable):
    """Registered memory of this process, created by Peer.register_memory.

    The buffer is exported while it is registered: it is kept alive, and cannot be resized or unmapped (BufferError).
    A connection keeps references to the regions of its operations until it is closed. Closing a region ends its
    registration immediately: close it only after the operations that use it have completed.
    """

    def __init__(self, peer: Peer, buffer: Buffer, usage: Usage | int):
        export = ffi.from_buffer("char[]", buffer, require_writable=bool(usage & _WRITTEN))
        box = ffi.new("struct rpma_mr_local **")
        error = error_of(lib.rpma_mr_reg(peer._handle.pointer, export, len(export), usage, box),
                         f"cannot register {len(export)} bytes for {usage!r}")
        if error:
            ffi.release(export)
            raise error

        def freed(succeeded: bool) -> None:
            if succeeded:
                ffi.release(export)
            else:
                _stuck.append(export)

        self._handle = Handle("memory region", box, lib.rpma_mr_dereg, (peer._handle.pointer,), freed)
        self._buffer: Buffer = buffer
        self._size = len(export)

    def close(self) -> None:
        """Deregisters the memory and releases the buffer. Error: PROVIDER."""
        super().close()
        self._buffer = None

    def __len__(self) -> int:
        """Size in bytes."""
        return self._size

    def _details(self) -> str:
        return f" of {self._size} bytes"

    @property
    def memory(self) -> memoryview:
        """View of the bytes of the region. It must be released before the buffer can be resized."""
        self._handle.pointer  # raises if the region is closed
        return memoryview(self._buffer).cast("B")

    @property
    def native_flush_type(self) -> Usage:
        """The FLUSH_TYPE_* that a native flush of a remote peer reaches here, Usage(0) for none."""
        usage = ffi.new("int *")
        check(lib.rpma_mr_get_native_flush_type(self._handle.pointer, usage))
        return Usage(usage[0])

    @property
    def descriptor(self) -> bytes:
        """Descriptor from which a remote peer creates a RemoteMemory. It grants access to the region: keep it
        confidential."""
        size = ffi.new("size_t *")
        check(lib.rpma_mr_get_descriptor_size(self._handle.pointer, size))
        descriptor = ffi.new("char[]", size[0])
        check(lib.rpma_mr_get_descriptor(self._handle.pointer, descriptor))
        return bytes(ffi.buffer(descriptor))

    def advise(self, offset: int, length: int, advice: Advice, flush: bool = False) -> None:
        """Passes advice about length bytes at offset to the device. With flush, waits until it is complete.
        Error: INVAL, NOSUPP, PROVIDER."""
        flags = lib.IBV_ADVISE_MR_FLAG_FLUSH if flush else 0
        check(lib.rpma_mr_advise(self._handle.pointer, offset, length, advice, flags))


class RemoteMemory(Closable):
    """Memory of a remote peer, created from its MemoryRegion.descriptor. Surplus bytes are ignored.
    Error: INVAL, NOMEM."""

    def __init__(self, descriptor: bytes | bytearray | memoryview):
        descriptor = bytes(descriptor)
        box = ffi.new("struct rpma_mr_remote **")
        check(lib.rpma_mr_remote_from_descriptor(descriptor, len(descriptor), box))
        self._handle = Handle("remote memory", box, lib.rpma_mr_remote_delete)

    def _details(self) -> str:
        return "" if self.closed or self._handle.foreign else f" of {len(self)} bytes"

    def __len__(self) -> int:
        """Size in bytes."""
        size = ffi.new("size_t *")
        check(lib.rpma_mr_remote_get_size(self._handle.pointer, size))
        return int(size[0])

    @property
    def flush_type(self) -> Usage:
        """The FLUSH_TYPE_* that the region is registered for, Usage(0) for none."""
        usage = ffi.new("int *")
        check(lib.rpma_mr_remote_get_flush_type(self._handle.pointer, usage))
        return Usage(usage[0])


def part_of(region: Union[MemoryRegion, RemoteMemory, None], offset: int, length: int | None,
            regions: set[MemoryRegion] | None = None) -> tuple[Any, int, int]:
    """Returns the arguments of an operation: pointer, offset and length. A length of None means the rest of the region. Adds a
    local region to regions, which keeps it registered."""
    if region is None:
        return ffi.NULL, offset, length or 0
    if regions is not None and isinstance(region, MemoryRegion):
        regions.add(region)
    return region._handle.pointer, offset, max(len(region) - offset, 0) if length is None else length
