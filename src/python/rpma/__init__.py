# SPDX-License-Identifier: BSD-3-Clause
"""Persistent memory of another machine over RDMA, and messages: librpma for Python.

A Device creates a Peer, and a Peer creates all other objects. The header librpma.h describes the functions of the library; this package adds
objects, exceptions and buffers. rpma.aio waits in coroutines. Each call releases the global interpreter lock. After a fork, the child must not
use objects created before: methods raise Error(INVAL), and closing has no effect.
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
