# SPDX-License-Identifier: BSD-3-Clause
"""Devices and peers, which create all other objects."""

from __future__ import annotations

import dataclasses

from ._connection import ConnectionConfig, ConnectionRequest, Endpoint
from ._enum import IntEnum
from ._error import check, check_address
from ._handle import Closable, Handle, c_string, configuration
from ._memory import Buffer, MemoryRegion, Usage
from ._queue import SharedReceiveQueue, SrqConfig
from ._rpma import ffi, lib


class Side(IntEnum):
    """Kind of the address that selects a device: its own address, or one that is reached through it."""

    LOCAL = lib.RPMA_UTIL_IBV_CONTEXT_LOCAL, "The device that owns a local address."
    REMOTE = lib.RPMA_UTIL_IBV_CONTEXT_REMOTE, "The device through which a remote address is reached."


class DeviceKind(IntEnum):
    """Kind of an RDMA device."""

    ANY = lib.RPMA_DEVICE_ANY, "A device of the kernel if there is one, otherwise softrdma."
    KERNEL = lib.RPMA_DEVICE_KERNEL, "An RDMA device of the kernel, SoftRoCE included."
    SOFTRDMA = lib.RPMA_DEVICE_SOFTRDMA, "The software device softrdma."


class Device:
    """Device for an address, which is a host name or numeric. It need not be closed.

    A kind of None selects the device by the environment variable RPMA_DEVICE, or by librdmacm if it is unset. Blocks while names
    and addresses are resolved, for at most one second per address. Error: INVAL, PROVIDER.
    """

    def __init__(self, addr: str, side: Side = Side.LOCAL, kind: DeviceKind | None = None):
        box = ffi.new("struct ibv_context **")
        if kind is None:
            code = lib.rpma_utils_get_ibv_context(c_string(addr), side, box)
        else:
            code = lib.rpma_utils_get_ibv_context_by_kind(c_string(addr), side, kind, box)
        check_address(code, "device for", addr)
        self._context = box[0]
        self._addr = addr

    def __repr__(self) -> str:
        return f"<rpma.Device {self.kind.name} for {self._addr}>"

    @property
    def kind(self) -> DeviceKind:
        """KERNEL or SOFTRDMA."""
        kind = ffi.new("enum rpma_device_kind *")
        check(lib.rpma_utils_ibv_context_get_kind(self._context, kind))
        return DeviceKind(kind[0])

    @property
    def is_odp_capable(self) -> bool:
        """True if it can register memory that cannot be pinned, such as files on DAX file systems. Error: PROVIDER."""
        capable = ffi.new("int *")
        check(lib.rpma_utils_ibv_context_is_odp_capable(self._context, capable))
        return bool(capable[0])


@dataclasses.dataclass(frozen=True)
class PeerConfig:
    """Capabilities that a peer sends to the remote peer: whether data is persistent as soon as it is visible, which
    FlushType.PERSISTENT requires. They are sent as `descriptor`."""

    direct_write_to_pmem: bool = False

    @property
    def descriptor(self) -> bytes:
        """Descriptor for the remote peer. It can be sent over any channel. Error: NOMEM."""
        with self._make() as handle:
            size = ffi.new("size_t *")
            check(lib.rpma_peer_cfg_get_descriptor_size(handle.pointer, size))
            descriptor = ffi.new("char[]", size[0])
            check(lib.rpma_peer_cfg_get_descriptor(handle.pointer, descriptor))
        return bytes(ffi.buffer(descriptor))

    @classmethod
    def from_descriptor(cls, descriptor: bytes | bytearray | memoryview) -> PeerConfig:
        """Creates the configuration from the descriptor of the peer; surplus bytes are ignored. Error: INVAL (empty),
        NOMEM."""
        descriptor = bytes(descriptor)
        box = ffi.new("struct rpma_peer_cfg **")
        check(lib.rpma_peer_cfg_from_descriptor(descriptor, len(descriptor), box))
        with Handle("peer configuration", box, lib.rpma_peer_cfg_delete) as handle:
            supported = ffi.new("bool *")
            check(lib.rpma_peer_cfg_get_direct_write_to_pmem(handle.pointer, supported))
        return cls(bool(supported[0]))

    def _make(self) -> Handle:
        return configuration("peer", {"direct_write_to_pmem": self.direct_write_to_pmem})


class Peer(Closable):
    """A protection domain on a device. Error: INVAL (a setting in the environment), NOSUPP, PROVIDER, NOMEM."""

    def __init__(self, device: Device):
        box = ffi.new("struct rpma_peer **")
        check(lib.rpma_peer_new(device._context, box), "cannot create a peer")
        self._handle = Handle("peer", box, lib.rpma_peer_delete)

    def register_memory(self, buffer: Buffer, usage: Usage | int) -> MemoryRegion:
        """Registers the memory of a contiguous buffer, which must be writable if usage has READ_DST, WRITE_DST or RECV.
        Error: INVAL (empty buffer or usage), NOMEM, PROVIDER; BufferError."""
        return MemoryRegion(self, buffer, usage)

    def listen(self, addr: str, port: str | int) -> Endpoint:
        """Creates an endpoint that listens. Blocks while the name is resolved. Error: NOMEM, PROVIDER."""
        return Endpoint(self, addr, port)

    def create_request(self, addr: str, port: str | int, config: ConnectionConfig = ConnectionConfig()) -> ConnectionRequest:
        """Prepares a connection to the server at addr and port. Blocks while name, address and route are resolved.
        Error: INVAL, NOMEM, PROVIDER."""
        return ConnectionRequest._outgoing(self, addr, port, config)

    def create_srq(self, config: SrqConfig = SrqConfig()) -> SharedReceiveQueue:
        """Creates a shared receive queue. Error: NOMEM, PROVIDER."""
        return SharedReceiveQueue(self, config)
