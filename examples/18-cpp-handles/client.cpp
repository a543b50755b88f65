// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <string_view>

#include "handles.hpp"

namespace
{

constexpr char write_name[] = "rpma_write";
constexpr char flush_name[] = "rpma_flush";

constexpr program client{
        .purpose = "Writes a text to the server's memory and flushes it.",
        .operands = "[<text>]",
        .operands_help = "  <text>           1 to 1023 bytes (default \"Hello from C++\")\n",
        .min_operands = 0,
        .max_operands = 1,
        .timeout_s = 30,
        .retry_s = 0,
        .has_many_clients = false,
};

std::string_view parse_text(const arguments &args)
{
    const char *operand = arguments_operand(&args, 0);
    const std::string_view text = operand ? operand : "Hello from C++";
    if (text.empty() || text.size() >= TEXT_SIZE)
        usage_error("<text>: %zu bytes are not from 1 to %d", text.size(), TEXT_SIZE - 1);
    return text;
}

mr_remote_handle find_memory(const rpma_conn *conn, std::size_t &offset)
{
    rpma_conn_private_data pdata{};
    require(check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &pdata)));
    return own<mr_remote_handle>([&](auto **mr) { return handshake_parse(&pdata, TEXT_SIZE, mr, &offset, nullptr); });
}

void write_text(const arguments &args, std::string_view text)
{
    // Each is destroyed before what is declared above it; an exception does the same from where it is thrown.
    const auto peer = find_peer(args, RPMA_UTIL_IBV_CONTEXT_REMOTE);
    std::array<char, TEXT_SIZE> memory{};
    std::ranges::copy(text, memory.begin());
    const auto src = register_memory(peer, memory, RPMA_MR_USAGE_WRITE_SRC);
    const auto conn = own<conn_handle>(
            [&](auto **object) { return connect_to_server(&args, peer.get(), nullptr, nullptr, object); });
    std::size_t offset = 0;
    const auto dst = find_memory(conn.get(), offset);

    require(check(write_name, rpma_write(conn.get(), dst.get(), offset, src.get(), 0, TEXT_SIZE,
                                      RPMA_F_COMPLETION_ON_ERROR, write_name)));
    require(check(flush_name, rpma_flush(conn.get(), dst.get(), offset, TEXT_SIZE, RPMA_FLUSH_TYPE_VISIBILITY,
                                      RPMA_F_COMPLETION_ALWAYS, flush_name)));
    require(wait_for_completion(&args, conn.get(), flush_name));
    require(disconnect(&args, conn.get()));
    require(print_text("Wrote a text", memory.data(), memory.size()));
}

} // namespace

int main(int argc, char **argv)
{
    const auto args = arguments_parse(argc, argv, &client);
    const auto text = parse_text(args);
    return run([&] { write_text(args, text); });
}
