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
    """Level that a flush reaches."""

    PERSISTENT = lib.RPMA_FLUSH_TYPE_PERSISTENT, "Earlier writes survive a power failure of the remote."
    VISIBILITY = lib.RPMA_FLUSH_TYPE_VISIBILITY, "Each thread of the remote sees earlier writes."


class Completions(IntEnum):
    """Selects whether a successful operation generates a completion; a failed one always does. At least every sq_size-th
    operation must use ALWAYS."""

    ALWAYS = lib.RPMA_F_COMPLETION_ALWAYS, "Each operation generates a completion."
    ON_ERROR = lib.RPMA_F_COMPLETION_ON_ERROR, "Only a failed operation generates a completion."


class Operations:
    """Operations of an established connection, or of a batch.

    Offsets and lengths are in bytes. A length of None means the rest of the region, the local one if there is one. An
    operation is posted, and completes on the queues of the connection with op_context set to `context`, 0 to 2**64 - 1.
    Operations are ordered as in RDMA: a read or flush follows earlier writes. Until the completion, the local memory must
    not be changed and its region must not be closed. Errors of all operations: INVAL (outside of a region), PROVIDER (for
    example, ENOMEM if the queue is full).
    """

    _handle: Handle
    _regions: set[MemoryRegion]
    _more = 0

    def read(self, dst: MemoryRegion | None, dst_offset: int, src: RemoteMemory | None, src_offset: int,
             length: int | None = None, completions: Completions = Completions.ALWAYS, context: int = 0) -> None:
        """Reads from remote src to local dst. An empty read has neither of them and a length of 0."""
        local, offset, size = part_of(dst, dst_offset, length, self._regions)
        remote, _, _ = part_of(src, src_offset, size)
        check(lib.rpma_read(self._handle.pointer, local, offset, remote, src_offset, size, completions | self._more,
                            op_context(context)))

    def write(self, dst: RemoteMemory | None, dst_offset: int, src: MemoryRegion | None, src_offset: int,
              length: int | None = None, completions: Completions = Completions.ALWAYS, context: int = 0,
              imm: int | None = None) -> None:
        """Writes from local src to remote dst. An empty write has neither of them and a length of 0. With imm, 0 to
        2**32 - 1, a receive of the peer completes with this number."""
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
        """Atomically writes the 8 bytes of data, which are copied during the call. The remote address must be a multiple
        of ATOMIC_WRITE_ALIGNMENT. The write takes effect after earlier flushes."""
        data = bytes(data)
        if len(data) != 8:
            raise Error(ErrorCode.INVAL, "an atomic write takes exactly 8 bytes")
        check(lib.rpma_atomic_write(self._handle.pointer, dst._handle.pointer, dst_offset, data,
                                    completions | self._more, op_context(context)))

    def flush(self, dst: RemoteMemory, offset: int = 0, length: int | None = None,
              type: FlushType = FlushType.PERSISTENT, completions: Completions = Completions.ALWAYS,
              context: int = 0) -> None:
        """Flushes a range. On completion, earlier writes to the range have reached the level of type.
        Error: also NOSUPP, if dst is not registered for it, or PERSISTENT lacks a PeerConfig of the remote."""
        check(lib.rpma_flush(self._handle.pointer, *part_of(dst, offset, length), type, completions | self._more,
                             op_context(context)))

    def send(self, src: MemoryRegion | None, offset: int = 0, length: int | None = None,
             completions: Completions = Completions.ALWAYS, context: int = 0, imm: int | None = None) -> None:
        """Sends a message, or an empty one if src is None. With imm, 0 to 2**32 - 1, the receive contains this number."""
        part = part_of(src, offset, length, self._regions)
        flags = completions | self._more
        if imm is None:
            check(lib.rpma_send(self._handle.pointer, *part, flags, op_context(context)))
        else:
            check(lib.rpma_send_with_imm(self._handle.pointer, *part, flags, imm, op_context(context)))

    def recv(self, dst: MemoryRegion | None, offset: int = 0, length: int | None = None, context: int = 0) -> None:
        """Posts a buffer for one incoming message, which must not be longer. Without dst, receives only the number of a
        send or write with imm. Always generates a completion. Never part of a batch."""
        check(lib.rpma_recv(self._handle.pointer, *part_of(dst, offset, length, self._regions), op_context(context)))
