# SPDX-License-Identifier: BSD-3-Clause
"""Completion queues, and receive queues that connections share."""

from __future__ import annotations

import dataclasses
import enum
import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ._error import Error, ErrorCode, check
from ._handle import Handle, Waitable, configuration, op_context, out_descriptor
from ._memory import MemoryRegion, part_of
from ._rpma import ffi, lib

if TYPE_CHECKING:
    from ._peer import Peer


class Opcode(enum.IntEnum):
    """Kind of the completed operation (enum ibv_wc_opcode). A flush is FLUSH on a device that has it, otherwise
    RDMA_READ."""

    SEND = 0
    RDMA_WRITE = 1
    RDMA_READ = 2
    FLUSH = 8
    ATOMIC_WRITE = 9
    RECV = 128
    RECV_RDMA_WITH_IMM = 129


class WorkError(Error):
    """An operation completed with an error: completion is its completion. code is PROVIDER."""

    def __init__(self, completion: Completion):
        self.completion = completion
        super().__init__(ErrorCode.PROVIDER, f"operation {completion.op_context} failed: {completion.status_text}")


class Completion(NamedTuple):
    """The end of an operation. Where status is not 0, opcode and imm are None and byte_len is 0."""

    op_context: int
    status: int  # enum ibv_wc_status, 0 is success
    opcode: Opcode | None
    byte_len: int
    imm: int | None  # the number that the other side gave
    qp_num: int
    vendor_err: int

    @property
    def status_text(self) -> str:
        """English, from libibverbs."""
        return str(ffi.string(lib.ibv_wc_status_str(self.status)).decode())

    def check(self) -> Completion:
        """This, or WorkError if the operation failed."""
        if self.status != 0:
            raise WorkError(self)
        return self


def _completion(entry: Any) -> Completion:
    if entry.status != 0:
        return Completion(entry.wr_id, entry.status, None, 0, None, entry.qp_num, entry.vendor_err)
    imm = socket.ntohl(entry.imm_data) if entry.wc_flags & lib.IBV_WC_WITH_IMM else None
    return Completion(entry.wr_id, 0, Opcode(entry.opcode), entry.byte_len, imm, entry.qp_num, 0)


class CompletionQueue:
    """Where operations complete. It belongs to a connection or shared receive queue, and is closed with it."""

    def __init__(self, owner: Waitable, queue: Any):
        self._owner = owner
        self._queue = queue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompletionQueue) and self._queue == other._queue

    def __hash__(self) -> int:
        return hash(self._queue)

    def _call(self, function: Any, *arguments: Any) -> int:
        # The queue lives as long as its owner is in use.
        owner = self._owner._handle.pointer
        try:
            return int(function(self._queue, *arguments))
        finally:
            del owner

    def fileno(self) -> int:
        """A descriptor of the queue's, readable when wait() has something to take, or where queues share a channel
        Connection.wait()."""
        return out_descriptor(lambda _, fd: self._call(lib.rpma_cq_get_fd, fd), self._queue)

    def wait(self, timeout: float | None = None) -> None:
        """Waits for a completion event for up to timeout seconds, None without limit, and re-arms the queue. Then poll()
        until there is nothing; an event without completions is normal. Error: NO_COMPLETION when the time is over,
        SHARED_CHANNEL, PROVIDER."""
        fd = self.fileno()
        check(self._owner._take(lambda: self._call(lib.rpma_cq_wait), lib.RPMA_E_NO_COMPLETION, fd, timeout))

    def poll(self, limit: int = 1) -> list[Completion]:
        """Up to limit completions, and none if there are none; never waits. Error: INVAL, PROVIDER."""
        entries = ffi.new("struct ibv_wc[]", max(limit, 0))
        got = ffi.new("int *")
        code = self._call(lib.rpma_cq_get_wc, limit, entries, got)
        if code == lib.RPMA_E_NO_COMPLETION:
            return []
        check(code)
        return [_completion(entries[i]) for i in range(got[0])]

    def next(self, timeout: float | None = None) -> Completion:
        """The next completion, waited for as wait() does."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self.poll()
            if found:
                return found[0]
            self.wait(None if deadline is None else max(deadline - time.monotonic(), 0))


def queue_of(owner: Waitable, get: Any) -> CompletionQueue | None:
    """Queue returned by the C function get."""
    box = ffi.new("struct rpma_cq **")
    check(get(owner._handle.pointer, box))
    return CompletionQueue(owner, box[0]) if box[0] else None


@dataclasses.dataclass(frozen=True)
class SrqConfig:
    """Sizes of a shared receive queue; Without a value, the library uses 20. rcq_size 0: receives complete on the
    queues of each connection."""

    rq_size: int | None = None
    rcq_size: int | None = None


class SharedReceiveQueue(Waitable):
    """One pool of receive buffers for many connections, made by Peer.shared_receive_queue."""

    def __init__(self, peer: Peer, config: SrqConfig):
        box = ffi.new("struct rpma_srq **")
        with configuration("srq", dataclasses.asdict(config)) as settings:
            check(lib.rpma_srq_new(peer._handle.pointer, settings.pointer, box))
        self._handle = Handle("shared receive queue", box, lib.rpma_srq_delete, (peer._handle.pointer,))
        super().__init__()
        self._regions: set[MemoryRegion] = set()

    @property
    def rcq(self) -> CompletionQueue | None:
        """Where its receives complete; None: on the queues of each connection."""
        return queue_of(self, lib.rpma_srq_get_rcq)

    def recv(self, dst: MemoryRegion | None, offset: int = 0, length: int | None = None, context: int = 0) -> None:
        """Posts a receive as Connection.recv does, for whichever connection gets the next message."""
        check(lib.rpma_srq_recv(self._handle.pointer, *part_of(dst, offset, length, self._regions), op_context(context)))
