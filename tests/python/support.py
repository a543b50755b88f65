# SPDX-License-Identifier: BSD-3-Clause
"""Two connected peers in one process, on the software device."""

import contextlib
import pathlib
import sys
import unittest

import rpma
from rpma import ConnectionConfig, ConnectionEvent, Usage

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from common import execute, free_port  # noqa: E402,F401

ADDR = "127.0.0.1"
# Detects a hang; every test takes much less.
LIMIT_S = 60
SIZE = 4096
ALL = Usage(0xFF)


class Pair:
    """`client` and `server`, each with memory (`client_memory`) and its region (`client_region`), and the client's descriptor of
    the server's region (`remote`). All are closed at the end."""

    def __init__(self, client_config: ConnectionConfig | None = None, server_config: ConnectionConfig | None = None,
                 prepare=lambda request, region: None, peers: tuple[rpma.Peer, rpma.Peer] | None = None):
        self.owned = contextlib.ExitStack()
        self.close = self.owned.close
        device = rpma.Device(ADDR)
        self.client_peer, self.server_peer = peers or [self.owned.enter_context(rpma.Peer(device)) for _ in range(2)]
        self.client_memory, self.server_memory = bytearray(SIZE), bytearray(SIZE)
        self.client_region = self.owned.enter_context(self.client_peer.register_memory(self.client_memory, ALL))
        self.server_region = self.owned.enter_context(self.server_peer.register_memory(self.server_memory, ALL))
        port = free_port()
        with self.server_peer.listen(ADDR, port) as endpoint:
            outgoing = self.client_peer.create_request(ADDR, port, client_config or ConnectionConfig())
            self.client = self.owned.enter_context(outgoing.connect(b"from the client"))
            request = endpoint.next_conn_request(server_config or ConnectionConfig(), LIMIT_S)
        self.request_data = request.private_data
        prepare(request, self.server_region)
        answer = self.server_region.descriptor + rpma.PeerConfig(direct_write_to_pmem=True).descriptor
        self.server = self.owned.enter_context(request.connect(answer))
        self.client.expect(ConnectionEvent.ESTABLISHED, LIMIT_S)
        self.server.expect(ConnectionEvent.ESTABLISHED, LIMIT_S)
        data = self.client.private_data
        self.remote = self.owned.enter_context(rpma.RemoteMemory(data))
        self.client.apply_remote_peer_config(rpma.PeerConfig.from_descriptor(data[len(self.server_region.descriptor):]))


class Test(unittest.TestCase):
    @contextlib.contextmanager
    def assert_fails(self, code: rpma.ErrorCode, *words: str):
        with self.assertRaises(rpma.Error) as caught:
            yield caught
        self.assertEqual(code, caught.exception.code, caught.exception)
        self.assertEqual(f"RPMA_E_{code.name}", caught.exception.name)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def pair(self, *args, **kwargs) -> Pair:
        pair = Pair(*args, **kwargs)
        self.addCleanup(pair.close)
        return pair

    def completed(self, connection: rpma.Connection) -> rpma.Completion:
        return connection.cq.next(LIMIT_S).check()
