// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <utility>

#include "handles.hpp"

namespace
{

constexpr program server{
        .purpose = "Lets one client write a text to this server's memory.",
        .operands = "",
        .operands_help = "",
        .min_operands = 0,
        .max_operands = 0,
        .timeout_s = 0,
        .retry_s = RETRY_NOT_OFFERED,
        .has_many_clients = false,
};

conn_handle accept_client(const arguments &args, const peer_handle &peer, const rpma_conn_private_data &pdata)
{
    const auto ep = own<ep_handle>([&](auto **object) { return listen_for_clients(&args, peer.get(), object); });
    auto request = own<conn_req_handle>([&](auto **object) { return take_request(&args, ep.get(), nullptr, object); });
    auto conn = connect(std::move(request), pdata);
    require(wait_until_established(&args, conn.get()));
    return conn;
}

void serve(const arguments &args)
{
    // Each is destroyed before what is declared above it: connection, registration, memory, peer.
    const auto peer = find_peer(args, RPMA_UTIL_IBV_CONTEXT_LOCAL);
    std::array<char, TEXT_SIZE> text{};
    const auto mr = register_memory(peer, text, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);

    handshake description;
    require(handshake_make(&description, mr.get(), 0, nullptr));
    const auto conn = accept_client(args, peer, handshake_private_data(&description));
    require(wait_for_disconnect(&args, conn.get()));
    require(print_text("Received a text", text.data(), text.size()));
}

} // namespace

int main(int argc, char **argv)
{
    const auto args = arguments_parse(argc, argv, &server);
    return run([&] { serve(args); });
}
