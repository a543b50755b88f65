# SPDX-License-Identifier: BSD-3-Clause
"""Connection requests, endpoints and connections."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ._enum import IntEnum
from ._error import Error, ErrorCode, check, check_address, error_of
from ._handle import Closable, Handle, Waitable, c_string, configuration, op_context, out_descriptor
from ._memory import MemoryRegion, part_of
from ._operations import Operations
from ._queue import CompletionQueue, SharedReceiveQueue, queue_of
from ._rpma import ffi, lib

if TYPE_CHECKING:
    from ._peer import Peer, PeerConfig


class Counters(NamedTuple):
    """Operations posted on a connection, and their bytes."""

    reads: int
    read_bytes: int
    writes: int
    write_bytes: int
    atomic_writes: int
    flushes: int
    sends: int
    send_bytes: int
    receives: int


class ConnectionEvent(IntEnum):
    """Event of a connection."""

    ESTABLISHED = lib.RPMA_CONN_ESTABLISHED, "The connection is ready for operations."
    CLOSED = lib.RPMA_CONN_CLOSED, "The peer has disconnected, or the local disconnect is complete."
    LOST = lib.RPMA_CONN_LOST, "The peer is gone without disconnecting."
    REJECTED = lib.RPMA_CONN_REJECTED, "The peer rejected the request, or no program listens."
    UNREACHABLE = lib.RPMA_CONN_UNREACHABLE, "The peer did not respond."


class UnexpectedEvent(Error):
    """An event other than the expected one occurred: `event`. code is UNKNOWN."""

    def __init__(self, event: ConnectionEvent, expected: ConnectionEvent):
        self.event = event
        super().__init__(ErrorCode.UNKNOWN, f"the connection is {event.name}, not {expected.name}")


@dataclasses.dataclass(frozen=True)
class ConnectionConfig:
    """Configuration of a connection. An argument of None selects the library's default.

    timeout_ms (1000): limit for the resolution of the address and of the route, each. Sizes in entries: cq_size (10) of the
    main completion queue, rcq_size (0, none) of a separate queue for receives, sq_size (10) posted operations, rq_size (10)
    posted receives. compl_channel: both queues share one channel, see Connection.wait. srq: source of the receives.
    """

    timeout_ms: int | None = None
    cq_size: int | None = None
    rcq_size: int | None = None
    sq_size: int | None = None
    rq_size: int | None = None
    compl_channel: bool = False
    srq: SharedReceiveQueue | None = None

    @contextlib.contextmanager
    def _make(self) -> Iterator[Any]:
        settings = {field.name.removesuffix("_ms"): getattr(self, field.name) for field in dataclasses.fields(self)}
        if self.srq is not None:
            settings["srq"] = self.srq._handle.pointer
        with configuration("conn", settings) as handle:
            yield handle.pointer


def _private_data(get: Any, pointer: Any) -> bytes | None:
    data = ffi.new("struct rpma_conn_private_data *")
    check(get(pointer, data))
    return bytes(ffi.buffer(data.ptr, data.len)) if data.ptr else None


class ConnectionRequest(Closable):
    """Connection request: Peer.create_request creates outgoing ones, Endpoint.next_conn_request returns incoming ones.
    Closing an outgoing request cancels it, closing an incoming one rejects it."""

    def __init__(self, box: Any, config: ConnectionConfig, peer: Handle):
        self._keep = (peer.pointer, config.srq and config.srq._handle.pointer)
        self._handle = Handle("connection request", box, lib.rpma_conn_req_delete, self._keep)
        self._config = config
        self._regions: set[MemoryRegion] = set()
        self._lock = threading.Lock()

    @classmethod
    def _outgoing(cls, peer: Peer, addr: str, port: str | int, config: ConnectionConfig) -> ConnectionRequest:
        box = ffi.new("struct rpma_conn_req **")
        with config._make() as settings:
            check_address(lib.rpma_conn_req_new(peer._handle.pointer, c_string(addr), c_string(port), settings, box),
                          "cannot reach", addr, port)
        return cls(box, config, peer._handle)

    @property
    def private_data(self) -> bytes | None:
        """Private data of the remote request, possibly padded with zeros."""
        with self._lock:
            return _private_data(lib.rpma_conn_req_get_private_data, self._handle.pointer)

    def recv(self, dst: MemoryRegion, offset: int = 0, length: int | None = None, context: int = 0) -> None:
        """Posts a receive before the connection exists, so that the first message finds a buffer. See Connection.recv."""
        with self._lock:
            check(lib.rpma_conn_req_recv(
                self._handle.pointer, *part_of(dst, offset, length, self._regions), op_context(context)))

    def connect(self, private_data: bytes = b"") -> Connection:
        """Starts to establish the connection. Its first event reports the result. The request is closed in any case, and
        an incoming one is rejected if this fails. Error: INVAL, NOMEM, PROVIDER (for example, too much private data)."""
        if len(private_data) > 255:
            raise Error(ErrorCode.INVAL, "more than 255 bytes of private data")
        contents = ffi.from_buffer("char[]", private_data)
        data = ffi.new("struct rpma_conn_private_data *", (contents, len(private_data)))
        box = ffi.new("struct rpma_conn **")
        with self._lock:
            self._handle.pointer  # raises if the request is closed
            error = error_of(lib.rpma_conn_req_connect(self._handle.box, data if private_data else ffi.NULL, box))
            self._handle.close()
        if error:
            raise error
        return Connection(box, self._config, self._keep, self._regions)

    def close(self) -> None:
        with self._lock:
            super().close()


class Endpoint(Waitable):
    """Listening address, created by Peer.listen. Its requests and connections stay valid when it is closed."""

    def __init__(self, peer: Peer, addr: str, port: str | int):
        box = ffi.new("struct rpma_ep **")
        check_address(lib.rpma_ep_listen(peer._handle.pointer, c_string(addr), c_string(port), box), "cannot listen at", addr, port)
        self._handle = Handle("endpoint", box, lib.rpma_ep_shutdown, (peer._handle.pointer,))
        super().__init__()
        self._peer = peer._handle
        self._address = f" at {addr} port {port}"

    def _details(self) -> str:
        return self._address

    def fileno(self) -> int:
        """Returns a descriptor, owned by the endpoint, that is readable when a request is available."""
        return out_descriptor(lib.rpma_ep_get_fd, self._handle.pointer)

    def next_conn_request(self, config: ConnectionConfig = ConnectionConfig(), timeout: float | None = None) -> ConnectionRequest:
        """Waits for the next incoming request for up to timeout seconds, without limit if None.
        Timeout: NO_EVENT. Error: INVAL, NOMEM, PROVIDER."""
        box = ffi.new("struct rpma_conn_req **")
        with config._make() as settings:
            check(self._take(lambda: int(lib.rpma_ep_next_conn_req(self._handle.pointer, settings, box)),
                             lib.RPMA_E_NO_EVENT, self.fileno(), timeout), f"no request within {timeout} s")
        return ConnectionRequest(box, config, self._peer)


class Connection(Waitable, Operations):
    """Connection, created by ConnectionRequest.connect. Closing it aborts the connection and frees its resources without
    waiting for the peer. Inherits the operations of Operations."""

    def __init__(self, box: Any, config: ConnectionConfig, keep: tuple[Any, ...], regions: set[MemoryRegion]):
        self._handle = Handle("connection", box, lib.rpma_conn_delete, keep)
        super().__init__()
        self._config = config
        self._regions = regions

    def close(self) -> None:
        super().close()
        self._regions = set()

    def _details(self) -> str:
        return "" if self.closed or self._handle.foreign else f" {self.qp_num}"

    def fileno(self) -> int:
        """Returns a descriptor, owned by the connection, that is readable when an event is available."""
        return out_descriptor(lib.rpma_conn_get_event_fd, self._handle.pointer)

    def next_event(self, timeout: float | None = None) -> ConnectionEvent:
        """Waits for the next event for up to timeout seconds, without limit if None.
        Timeout: NO_EVENT. Error: UNKNOWN, NOMEM, PROVIDER."""
        event = ffi.new("enum rpma_conn_event *")
        check(self._take(lambda: int(lib.rpma_conn_next_event(self._handle.pointer, event)), lib.RPMA_E_NO_EVENT,
                         self.fileno(), timeout), f"no event within {timeout} s")
        return ConnectionEvent(event[0])

    def expect(self, expected: ConnectionEvent, timeout: float | None = None) -> None:
        """Waits for the next event. Raises UnexpectedEvent if it is not the expected one, or an error of next_event."""
        event = self.next_event(timeout)
        if event != expected:
            raise UnexpectedEvent(event, expected)

    @property
    def private_data(self) -> bytes | None:
        """Private data of the peer, available after ESTABLISHED and possibly padded with zeros."""
        return _private_data(lib.rpma_conn_get_private_data, self._handle.pointer)

    @property
    def qp_num(self) -> int:
        """Number of the local queue pair, as in the completions of its operations."""
        number = ffi.new("uint32_t *")
        check(lib.rpma_conn_get_qp_num(self._handle.pointer, number))
        return int(number[0])

    @property
    def has_native_flush(self) -> bool:
        """True if flushes are native. The device of the peer must then support them, too."""
        native = ffi.new("bool *")
        check(lib.rpma_conn_get_native_flush(self._handle.pointer, native))
        return bool(native[0])

    @property
    def counters(self) -> Counters:
        """Number of operations posted on this connection, and their bytes."""
        counted = ffi.new("struct rpma_conn_counters *")
        check(lib.rpma_conn_get_counters(self._handle.pointer, counted, ffi.sizeof(counted[0])))
        return Counters(*(int(getattr(counted, name)) for name in Counters._fields))

    @property
    def cq(self) -> CompletionQueue:
        """The main completion queue."""
        queue = queue_of(self, lib.rpma_conn_get_cq)
        assert queue is not None
        return queue

    @property
    def rcq(self) -> CompletionQueue | None:
        """The separate completion queue of receives, or None."""
        return queue_of(self, lib.rpma_conn_get_rcq)

    def apply_remote_peer_config(self, config: PeerConfig) -> None:
        """Applies the capabilities of the remote peer, which flush requires. Can be called again. Error: NOMEM."""
        with config._make() as handle:
            check(lib.rpma_conn_apply_remote_peer_cfg(self._handle.pointer, handle.pointer))

    def completion_channel_fileno(self) -> int:
        """The descriptor of the channel that both queues share. Error: NOT_SHARED_CHNL."""
        return out_descriptor(lib.rpma_conn_get_compl_fd, self._handle.pointer)

    def wait(self, timeout: float | None = None) -> CompletionQueue:
        """Waits like CompletionQueue.wait, but on the channel that both queues share. Returns the queue with the event.
        Timeout: NO_COMPLETION. Error: NOT_SHARED_CHNL, UNKNOWN, PROVIDER."""
        box = ffi.new("struct rpma_cq **")
        check(self._take(lambda: int(lib.rpma_conn_wait(self._handle.pointer, 0, box, ffi.NULL)),
                         lib.RPMA_E_NO_COMPLETION, self.completion_channel_fileno(), timeout), f"no completion within {timeout} s")
        return CompletionQueue(self, box[0])

    def disconnect(self) -> None:
        """Starts to disconnect: CLOSED follows, and outstanding operations complete with an error. Error: PROVIDER."""
        check(lib.rpma_conn_disconnect(self._handle.pointer))

    def submit(self) -> None:
        """Posts the queued operations of a batch, if any. Error: PROVIDER."""
        check(lib.rpma_conn_submit(self._handle.pointer))

    def batch(self) -> Batch:
        """Operations that are posted together at the end of a `with` block."""
        return Batch(self)


class Batch(Operations):
    """Operations of one connection that are queued (RPMA_F_MORE) and posted as one chain at the end of the `with` block. More than
    64 operations are posted in several chains. A block that ends with an exception posts the operations added
    before it, because queued operations cannot be removed. Another operation of the connection posts them, too."""

    _more = lib.RPMA_F_MORE

    def __init__(self, connection: Connection):
        self._connection = connection
        self._handle = connection._handle
        self._regions = connection._regions

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.submit()
