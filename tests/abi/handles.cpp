// SPDX-License-Identifier: BSD-3-Clause
// A program that includes rpma.hpp and uses no function newer than librpma 1.2, on a device without effects.
#include <rpma.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace
{

template<class Outcome>
void require(const Outcome &outcome, const char *what)
{
    if (!outcome.ok()) {
        std::fprintf(stderr, "%s failed\n", what);
        std::exit(EXIT_FAILURE);
    }
}

void connect(const rpma::peer &peer, std::span<char> memory)
{
    constexpr auto uses = rpma::usage::read_dst | rpma::usage::read_src | rpma::usage::write_src |
                          rpma::usage::write_dst | rpma::usage::send | rpma::usage::recv |
                          rpma::usage::flush_visibility;
    auto local = peer.register_memory(memory, uses);
    require(local, "reg");
    std::array<std::byte, 64> desc{};
    require(local->get_descriptor(desc), "describe");
    auto remote = rpma::remote_region::from_descriptor(std::span(desc).first(local->descriptor_size()));
    require(remote, "from");
    auto cfg = rpma::conn_cfg::create();
    require(cfg, "create");
    require(cfg->set_sq_size(16), "set_sq_size");
    auto req = peer.create_request("127.0.0.1", "1234", cfg->get());
    require(req, "request_to");
    auto conn = std::move(*req).connect();
    require(conn, "connect");
    require(conn->recv(local->slice(0, 64)), "recv");
    require(conn->write(remote->slice(0, 64), local->slice(64, 64), rpma::completion_flags::always), "write");
    require(conn->read(local->slice(0, 64), remote->slice(64, 64), rpma::completion_flags::always), "read");
    require(conn->send(local->slice(0, 64), rpma::completion_flags::always), "send");
    require(conn->flush(remote->slice(0, 64), RPMA_FLUSH_TYPE_VISIBILITY, rpma::completion_flags::always), "flush");
    require(conn->atomic_write(
                    remote->get(), 8, std::span<const char, 8>("atomic!", 8), rpma::completion_flags::always),
            "atomic_write");
    ibv_wc wc{};
    require(conn->cq().poll(wc), "poll");
}

} // namespace

int main()
{
    alignas(8) static std::array<char, 4096> memory{};
    auto peer = rpma::peer::create_for_address("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_REMOTE);
    require(peer, "at");
    connect(*peer, memory);
    require(peer->reset(), "reset");
    return 0;
}
