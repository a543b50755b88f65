# SPDX-License-Identifier: BSD-3-Clause
"""Completion queues and shared receive queues."""

from __future__ import annotations

import dataclasses
import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ._enum import IntEnum
from ._error import Error, ErrorCode, Timeout, check
from ._handle import Handle, Waitable, configuration, op_context, out_descriptor
from ._memory import MemoryRegion, part_of
from ._rpma import ffi, lib

if TYPE_CHECKING:
    from ._peer import Peer


class Opcode(IntEnum):
    """Kind of the completed operation (enum ibv_wc_opcode). A flush is FLUSH on a device that supports it, otherwise
    RDMA_READ."""

    SEND = 0, "Send."
    RDMA_WRITE = 1, "Write."
    RDMA_READ = 2, "Read, or a flush that is executed as a read."
    FLUSH = 8, "Native flush."
    ATOMIC_WRITE = 9, "Native atomic write."
    RECV = 128, "Receive of a message."
    RECV_RDMA_WITH_IMM = 129, "Receive that a write with immediate data consumed."


class WorkError(Error):
    """An operation completed with an error: completion is its completion. code is PROVIDER."""

    def __init__(self, completion: Completion):
        self.completion = completion
        super().__init__(ErrorCode.PROVIDER, f"operation {completion.op_context} failed: {completion.status_message}")


class Completion(NamedTuple):
    """Completion of an operation. If status is not 0, opcode and imm are None and byte_len is 0."""

    op_context: int
    status: int  # enum ibv_wc_status, 0 is success
    opcode: Opcode | None
    byte_len: int
    imm: int | None  # immediate data of the peer
    qp_num: int
    vendor_err: int

    def __repr__(self) -> str:
        operation = self.opcode.name if self.opcode is not None else self.status_message
        numbers = "" if self.imm is None else f", imm {self.imm}"
        return f"<rpma.Completion {self.op_context}: {operation}, {self.byte_len} bytes{numbers}, connection {self.qp_num}>"

    @property
    def status_message(self) -> str:
        """Description of status, in English, from libibverbs."""
        return str(ffi.string(lib.ibv_wc_status_str(self.status)).decode())

    def check(self) -> Completion:
        """Returns self, or raises WorkError if the operation failed."""
        if self.status != 0:
            raise WorkError(self)
        return self


def _completion(entry: Any) -> Completion:
    if entry.status != 0:
        return Completion(entry.wr_id, entry.status, None, 0, None, entry.qp_num, entry.vendor_err)
    imm = socket.ntohl(entry.imm_data) if entry.wc_flags & lib.IBV_WC_WITH_IMM else None
    return Completion(entry.wr_id, 0, Opcode(entry.opcode), entry.byte_len, imm, entry.qp_num, 0)


class CompletionQueue:
    """Completion queue. It belongs to a connection or shared receive queue, and is closed with it."""

    def __init__(self, owner: Waitable, queue: Any):
        self._owner = owner
        self._queue = queue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompletionQueue) and self._queue == other._queue

    def __hash__(self) -> int:
        return hash(self._queue)

    def __repr__(self) -> str:
        return f"<rpma.CompletionQueue of {self._owner!r}>"

    def _call(self, function: Any, *arguments: Any) -> int:
        # A reference to the owner's pointer keeps the queue alive.
        owner = self._owner._handle.pointer
        try:
            return int(function(self._queue, *arguments))
        finally:
            del owner

    def fileno(self) -> int:
        """Returns a descriptor, owned by the queue, that is readable when wait() does not block, or Connection.wait() if the
        queues share a channel."""
        return out_descriptor(lambda _, fd: self._call(lib.rpma_cq_get_fd, fd), self._queue)

    def wait(self, timeout: float | None = None) -> None:
        """Waits for a completion event for up to timeout seconds, without limit if None, and re-arms the queue. The caller must
        then call poll() until it returns none. An event without completions is normal. Timeout: NO_COMPLETION. Error: SHARED_CHANNEL,
        PROVIDER."""
        fd = self.fileno()
        check(self._owner._take(lambda: self._call(lib.rpma_cq_wait), lib.RPMA_E_NO_COMPLETION, fd, timeout),
              f"no completion within {timeout} s")

    def poll(self, limit: int = 1) -> list[Completion]:
        """Returns up to limit completions, possibly none. Never blocks. Error: INVAL, PROVIDER."""
        entries = ffi.new("struct ibv_wc[]", max(limit, 0))
        got = ffi.new("int *")
        code = self._call(lib.rpma_cq_get_wc, limit, entries, got)
        if code == lib.RPMA_E_NO_COMPLETION:
            return []
        check(code)
        return [_completion(entries[i]) for i in range(got[0])]

    def next(self, timeout: float | None = None) -> Completion:
        """Waits for the next completion and returns it. Errors like wait()."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self.poll()
            if found:
                return found[0]
            try:
                self.wait(None if deadline is None else max(deadline - time.monotonic(), 0))
            except Timeout:
                raise Timeout(ErrorCode.NO_COMPLETION, f"no completion within {timeout} s") from None


def queue_of(owner: Waitable, get: Any) -> CompletionQueue | None:
    """Returns the queue of the C function get, or None."""
    box = ffi.new("struct rpma_cq **")
    check(get(owner._handle.pointer, box))
    return CompletionQueue(owner, box[0]) if box[0] else None


@dataclasses.dataclass(frozen=True)
class SrqConfig:
    """Sizes of a shared receive queue. Without a value, the library uses 20. With an rcq_size of 0, receives complete on
    the queues of each connection."""

    rq_size: int | None = None
    rcq_size: int | None = None


class SharedReceiveQueue(Waitable):
    """Pool of receive buffers for several connections, created by Peer.create_srq."""

    def __init__(self, peer: Peer, config: SrqConfig):
        box = ffi.new("struct rpma_srq **")
        with configuration("srq", dataclasses.asdict(config)) as settings:
            check(lib.rpma_srq_new(peer._handle.pointer, settings.pointer, box))
        self._handle = Handle("shared receive queue", box, lib.rpma_srq_delete, (peer._handle.pointer,))
        super().__init__()
        self._regions: set[MemoryRegion] = set()

    @property
    def rcq(self) -> CompletionQueue | None:
        """The completion queue of its receives, or None if they complete on the queues of each connection."""
        return queue_of(self, lib.rpma_srq_get_rcq)

    def recv(self, dst: MemoryRegion | None, offset: int = 0, length: int | None = None, context: int = 0) -> None:
        """Posts a receive like Connection.recv, for the connection that receives the next message."""
        check(lib.rpma_srq_recv(self._handle.pointer, *part_of(dst, offset, length, self._regions), op_context(context)))
