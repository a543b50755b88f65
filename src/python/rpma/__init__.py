# SPDX-License-Identifier: BSD-3-Clause
"""Persistent memory of another machine over RDMA, and messages: librpma for Python.

A Device makes a Peer, and a Peer makes everything else. The header librpma.h describes the calls of the library; this package adds
objects, exceptions and buffers. rpma.aio waits in coroutines. The global lock of the interpreter is free during every call. After a fork the
child must not use what was made before: it gets Error(INVAL), and closing does nothing there.
"""

from ._connection import (
    Batch, Connection, ConnectionConfig, ConnectionEvent, ConnectionRequest, Counters, Endpoint, UnexpectedEvent)
from ._error import Error, ErrorCode, Timeout, version
from ._log import (
    LogFunction, LogLevel, LogThreshold, get_log_threshold, log_to, set_log_function, set_log_threshold)
from ._memory import Advice, Buffer, MemoryRegion, RemoteMemory, Usage
from ._operations import ATOMIC_WRITE_ALIGNMENT, Completions, FlushType, Operations
from ._peer import Device, DeviceKind, Peer, PeerConfig, Side
from ._queue import Completion, CompletionQueue, Opcode, SharedReceiveQueue, SrqConfig, WorkError

__all__ = [
    "ATOMIC_WRITE_ALIGNMENT", "Advice", "Batch", "Buffer", "Completion", "CompletionQueue", "Completions", "Connection",
    "ConnectionConfig", "ConnectionEvent", "ConnectionRequest", "Counters", "Device", "DeviceKind", "Endpoint", "Error",
    "ErrorCode", "FlushType", "LogFunction", "LogLevel", "LogThreshold", "MemoryRegion", "Opcode", "Operations", "Peer", "PeerConfig",
    "RemoteMemory", "SharedReceiveQueue", "Side", "SrqConfig", "Timeout", "UnexpectedEvent", "Usage", "WorkError", "get_log_threshold",
    "log_to", "set_log_function", "set_log_threshold", "version",
]
