# SPDX-License-Identifier: BSD-3-Clause
"""Operations of a connection."""

from __future__ import annotations


from ._enum import IntEnum
from ._error import Error, ErrorCode, check
from ._handle import Handle, op_context
from ._memory import MemoryRegion, RemoteMemory, part_of
from ._rpma import lib

ATOMIC_WRITE_ALIGNMENT: int = lib.RPMA_ATOMIC_WRITE_ALIGNMENT


class FlushType(IntEnum):
    """PERSISTENT: earlier writes survive a power failure of the remote. VISIBILITY: every thread of the remote sees them."""

    PERSISTENT = lib.RPMA_FLUSH_TYPE_PERSISTENT, "Earlier writes survive a power failure of the remote."
    VISIBILITY = lib.RPMA_FLUSH_TYPE_VISIBILITY, "Each thread of the remote sees earlier writes."


class Completions(IntEnum):
    """Selects whether a successful operation generates a completion; a failed one always does. Every sq_size-th
    operation at least
    must be one with ALWAYS."""

    ALWAYS = lib.RPMA_F_COMPLETION_ALWAYS, "Each operation generates a completion."
    ON_ERROR = lib.RPMA_F_COMPLETION_ON_ERROR, "Only a failed operation generates a completion."


class Operations:
    """The operations of an established connection, or of a batch.

    Offsets and lengths are in bytes; length None is all from the offset on, of the local region where there is one. They
    are posted, and end with a completion on the connection's queues, whose op_context is `context`, 0 to 2**64 - 1. They are
    performed in the order of RDMA: a read or flush after the writes before it. Until then neither the local memory
    may change nor its region be closed. All: Error INVAL (outside of a region), PROVIDER (as with ENOMEM when the queue is
    full).
    """

    _handle: Handle
    _regions: set[MemoryRegion]
    _more = 0

    def read(self, dst: MemoryRegion | None, dst_offset: int, src: RemoteMemory | None, src_offset: int,
             length: int | None = None, completions: Completions = Completions.ALWAYS, context: int = 0) -> None:
        """From remote src to local dst. Without both and with length 0: an empty read."""
        local, offset, size = part_of(dst, dst_offset, length, self._regions)
        remote, _, _ = part_of(src, src_offset, size)
        check(lib.rpma_read(self._handle.pointer, local, offset, remote, src_offset, size, completions | self._more,
                            op_context(context)))

    def write(self, dst: RemoteMemory | None, dst_offset: int, src: MemoryRegion | None, src_offset: int,
              length: int | None = None, completions: Completions = Completions.ALWAYS, context: int = 0,
              imm: int | None = None) -> None:
        """From local src to remote dst. Without both and with length 0: an empty write. With imm, 0 to 2**32 - 1, a
        receive of the peer completes with this number."""
        local, offset, size = part_of(src, src_offset, length, self._regions)
        remote, _, _ = part_of(dst, dst_offset, size)
        flags = completions | self._more
        if imm is None:
            check(lib.rpma_write(self._handle.pointer, remote, dst_offset, local, offset, size, flags,
                                 op_context(context)))
        else:
            check(lib.rpma_write_with_imm(self._handle.pointer, remote, dst_offset, local, offset, size, flags, imm,
                                          op_context(context)))

    def atomic_write(self, dst: RemoteMemory, dst_offset: int, data: bytes | bytearray | memoryview,
                     completions: Completions = Completions.ALWAYS, context: int = 0) -> None:
        """Writes the 8 bytes of data, which are taken during the call, so that a remote reader sees all or none. The
        remote address must be a multiple of ATOMIC_WRITE_ALIGNMENT. It takes effect after earlier flushes."""
        data = bytes(data)
        if len(data) != 8:
            raise Error(ErrorCode.INVAL, "an atomic write takes exactly 8 bytes")
        check(lib.rpma_atomic_write(self._handle.pointer, dst._handle.pointer, dst_offset, data,
                                    completions | self._more, op_context(context)))

    def flush(self, dst: RemoteMemory, offset: int = 0, length: int | None = None,
              type: FlushType = FlushType.PERSISTENT, completions: Completions = Completions.ALWAYS,
              context: int = 0) -> None:
        """When it has completed, all that was written to the range before has reached the level of type.
        Error: also NOSUPP, if dst is not registered for it, or PERSISTENT lacks a PeerConfig of the remote."""
        check(lib.rpma_flush(self._handle.pointer, *part_of(dst, offset, length), type, completions | self._more,
                             op_context(context)))

    def send(self, src: MemoryRegion | None, offset: int = 0, length: int | None = None,
             completions: Completions = Completions.ALWAYS, context: int = 0, imm: int | None = None) -> None:
        """Sends a message, an empty one without src. With imm, 0 to 2**32 - 1, the receive contains this number."""
        part = part_of(src, offset, length, self._regions)
        flags = completions | self._more
        if imm is None:
            check(lib.rpma_send(self._handle.pointer, *part, flags, op_context(context)))
        else:
            check(lib.rpma_send_with_imm(self._handle.pointer, *part, flags, imm, op_context(context)))

    def recv(self, dst: MemoryRegion | None, offset: int = 0, length: int | None = None, context: int = 0) -> None:
        """Posts a buffer for one incoming message, which must not be longer, or without dst for one number of a send or
        write with imm. Always completes. Never part of a batch."""
        check(lib.rpma_recv(self._handle.pointer, *part_of(dst, offset, length, self._regions), op_context(context)))
