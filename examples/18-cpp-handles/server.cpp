// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <utility>

#include "example.hpp"

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

rpma::connection accept_client(const arguments &args, const rpma::peer &peer, std::span<const std::byte> pdata)
{
    const auto ep = own<rpma::endpoint>([&](auto **object) { return listen_for_clients(&args, peer.get(), object); });
    auto request =
            own<rpma::conn_request>([&](auto **object) { return take_request(&args, ep.get(), nullptr, object); });
    auto conn = need("rpma_conn_req_connect", std::move(request).connect(pdata));
    require(wait_until_established(&args, conn.get()));
    return conn;
}

void serve(const arguments &args)
{
    // Objects are destroyed in reverse order of declaration: connection, registration, memory, peer.
    const auto peer = find_peer(args, RPMA_UTIL_IBV_CONTEXT_LOCAL);
    std::array<char, TEXT_SIZE> text{};
    const auto mr = register_all(peer, text, rpma::usage::write_dst | rpma::usage::flush_visibility);

    handshake description;
    require(handshake_make(&description, mr.get(), 0, nullptr));
    const auto pdata = handshake_private_data(&description);
    const auto conn = accept_client(args, peer, {static_cast<const std::byte *>(pdata.ptr), pdata.len});
    require(wait_for_disconnect(&args, conn.get()));
    require(print_text("Received a text", text.data(), text.size()));
}

} // namespace

int main(int argc, char **argv)
{
    const auto args = arguments_parse(argc, argv, &server);
    return run([&] { serve(args); });
}
