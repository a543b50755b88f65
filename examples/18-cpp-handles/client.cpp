// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cstdio>
#include <poll.h>
#include <string_view>

#include "example.hpp"
#include "task.hpp"

namespace
{

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

rpma::remote_region find_memory(const rpma::connection &conn, std::size_t &offset)
{
    rpma_conn_private_data pdata{};
    require(check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn.get(), &pdata)));
    return own<rpma::remote_region>(
            [&](auto **mr) { return handshake_parse(&pdata, TEXT_SIZE, mr, &offset, nullptr); });
}

// Checks the completion of an awaited operation.
bool succeeded(const char *name, rpma::result<ibv_wc> done)
{
    if (!done)
        return check(name, done.error().code()) == STATUS_OK;
    if (done->status != IBV_WC_SUCCESS)
        std::fprintf(stderr, "%s failed: %s\n", name, ibv_wc_status_str(done->status));
    return done->status == IBV_WC_SUCCESS;
}

task store(const rpma::connection &conn, rpma::remote_slice to, rpma::local_slice from)
{
    const auto written = co_await conn.async_write(to, from);
    if (!succeeded("rpma_write", written))
        co_return STATUS_FAILED;
    const auto flushed = co_await conn.async_flush(to, RPMA_FLUSH_TYPE_VISIBILITY);
    co_return succeeded("rpma_flush", flushed) ? STATUS_OK : STATUS_FAILED;
}

// Event loop of this program, which waits for one descriptor.
int finish(const task &work, const rpma::completion_queue &cq, int timeout_s)
{
    while (!work.is_done()) {
        pollfd waiting{cq.fd(), POLLIN, 0};
        if (poll(&waiting, 1, timeout_s == 0 ? -1 : 1000 * timeout_s) != 1) {
            std::fprintf(stderr, "no completion within %d s\n", timeout_s);
            return STATUS_FAILED;
        }
        require(check("rpma_cq_wait", cq.wait().code()));
        require(check("rpma_cq_get_wc", cq.dispatch_completions().error().code()));
    }
    return work.status();
}

void write_text(const arguments &args, std::string_view text)
{
    // Objects are destroyed in reverse order of declaration, also by an exception.
    const auto peer = find_peer(args, RPMA_UTIL_IBV_CONTEXT_REMOTE);
    std::array<char, TEXT_SIZE> memory{};
    std::ranges::copy(text, memory.begin());
    const auto src = register_all(peer, memory, rpma::usage::write_src);
    const auto conn = own<rpma::connection>(
            [&](auto **object) { return connect_to_server(&args, peer.get(), nullptr, nullptr, object); });
    std::size_t offset = 0;
    const auto dst = find_memory(conn, offset);

    const task storing = store(conn, dst.slice(offset, TEXT_SIZE), src.slice(0, TEXT_SIZE));
    require(finish(storing, conn.cq(), args.timeout_s));
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
