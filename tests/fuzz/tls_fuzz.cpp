// SPDX-License-Identifier: BSD-3-Clause
// The handshake of a target with an unauthenticated peer, and the parser of key files. A peer that sends arbitrary
// bytes does not authenticate.
#include "channel/tls_stream.hpp"

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <sys/socket.h>

using namespace replica;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::string input(reinterpret_cast<const char *>(data), size);
    try {
        parse_keys(input);
    } catch (const std::invalid_argument &) {
    }
    static const tls_keys keys = parse_keys("writer:000102030405060708090a0b0c0d0e0f");
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        abort();
    const fd_owner peer(pair[0]);
    const auto server = tls_stream::accept(fd_owner(pair[1]), keys);
    (void)send(peer.get(), input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (server->shake_hands() == handshake::complete)
        abort();
    (void)server->failure();
    return 0;
}
