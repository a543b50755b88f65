// SPDX-License-Identifier: BSD-3-Clause
#include "rpma.hpp"

#include "descriptor.hpp"

namespace bench::rpma
{

namespace
{

int usage_of(region_use use)
{
    constexpr int target = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
    switch (use) {
    case region_use::local_data:
        return RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC;
    case region_use::target_data:
        return target;
    case region_use::target_pmem:
        return target | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
    case region_use::messages:
        break;
    }
    return RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;
}

owner<rpma_conn_cfg, rpma_conn_cfg_delete> configure(const queue_sizes &sizes)
{
    rpma_conn_cfg *cfg = nullptr;
    check(rpma_conn_cfg_new(&cfg), "rpma_conn_cfg_new");
    owner<rpma_conn_cfg, rpma_conn_cfg_delete> owned(cfg);
    check(rpma_conn_cfg_set_sq_size(cfg, sizes.sends), "rpma_conn_cfg_set_sq_size");
    check(rpma_conn_cfg_set_rq_size(cfg, sizes.receives), "rpma_conn_cfg_set_rq_size");
    check(rpma_conn_cfg_set_cq_size(cfg, sizes.completions()), "rpma_conn_cfg_set_cq_size");
    check(rpma_conn_cfg_set_timeout(cfg, handshake_timeout_ms), "rpma_conn_cfg_set_timeout");
    return owned;
}

std::uint8_t peer_cfg_descriptor(bool direct_write)
{
    rpma_peer_cfg *cfg = nullptr;
    check(rpma_peer_cfg_new(&cfg), "rpma_peer_cfg_new");
    const owner<rpma_peer_cfg, rpma_peer_cfg_delete> owned(cfg);
    check(rpma_peer_cfg_set_direct_write_to_pmem(cfg, direct_write), "rpma_peer_cfg_set_direct_write_to_pmem");
    std::uint8_t descriptor = 0;
    check(rpma_peer_cfg_get_descriptor(cfg, &descriptor), "rpma_peer_cfg_get_descriptor");
    return descriptor;
}

// Returns whether no event is pending. A descriptor can be readable because of an event that has moved to another
// channel. Up to 1.3.0, librpma then returns RPMA_E_PROVIDER for a non-blocking descriptor.
bool nothing_waits(int returned)
{
    return returned == RPMA_E_NO_EVENT || (returned == RPMA_E_PROVIDER && errno == EAGAIN);
}

using request_owner = owner<rpma_conn_req, rpma_conn_req_delete>;

// rpma_conn_req_connect consumes the request, also on error.
rpma_conn *connect_request(request_owner &request, const void *data, std::size_t len)
{
    rpma_conn_req *req = request.release();
    const rpma_conn_private_data pdata{const_cast<void *>(data), static_cast<std::uint8_t>(len)};
    rpma_conn *conn = nullptr;
    check(rpma_conn_req_connect(&req, &pdata, &conn), "rpma_conn_req_connect");
    return conn;
}

} // namespace

void fail(int error, const char *call)
{
    const int cause = errno;
    std::string line = std::string(call) + " failed: " + rpma_err_2str(error);
    if (error == RPMA_E_PROVIDER && cause != 0)
        line += std::string(": ") + std::strerror(cause);
    if (error == RPMA_E_PROVIDER && cause == ENOMEM && std::strcmp(call, "rpma_mr_reg") == 0)
        line += " (raise the limit of locked memory, see ulimit -l)";
    throw failure(line);
}

device::device(const std::string &host, end which)
{
    const int found = rpma_utils_get_ibv_context(
            host.c_str(), which == end::client ? RPMA_UTIL_IBV_CONTEXT_REMOTE : RPMA_UTIL_IBV_CONTEXT_LOCAL, &context_);
    if (found != 0)
        throw failure("no RDMA device for the address " + host +
                              " (use the address of one, see `rdma link show`, or --transport softrdma at both ends)",
                exit_cannot_run);
    rpma_peer *peer = nullptr;
    check(rpma_peer_new(context_, &peer), "rpma_peer_new");
    peer_.reset(peer);
}

region::region(const device &on, void *data, std::size_t size, region_use use)
{
    rpma_mr_local *mr = nullptr;
    check(rpma_mr_reg(on.peer(), data, size, usage_of(use), &mr), "rpma_mr_reg");
    mr_.reset(mr);
}

region_descriptor region::descriptor() const
{
    region_descriptor descriptor;
    static_assert(sizeof descriptor == 21);
    check(rpma_mr_get_descriptor(mr_.get(), &descriptor), "rpma_mr_get_descriptor");
    return descriptor;
}

connection::connection(rpma_conn *conn, const region *data, const region *messages)
    : conn_(conn), data_(data->get()), messages_(messages == nullptr ? nullptr : messages->get())
{
    check(rpma_conn_get_cq(conn, &cq_), "rpma_conn_get_cq");
}

std::unique_ptr<connection> connection::connect(const device &on, const address &to, const queue_sizes &sizes,
        const region *data, const region *messages, const greeting &handshake)
{
    rpma_conn_req *req = nullptr;
    check(rpma_conn_req_new(on.peer(), to.host.c_str(), to.port.c_str(), configure(sizes).get(), &req),
            "rpma_conn_req_new");
    request_owner request(req);
    std::unique_ptr<connection> created(
            new connection(connect_request(request, &handshake, sizeof handshake), data, messages));
    created->wait_until_established();

    rpma_conn_private_data pdata{};
    check(rpma_conn_get_private_data(created->conn_.get(), &pdata), "rpma_conn_get_private_data");
    connect_response response;
    if (!read_private_data(pdata.ptr, pdata.len, response))
        throw failure(to.host + " port " + to.port + ": not an rpma-bench server");
    created->use_response(response);
    return created;
}

void connection::wait_until_established()
{
    make_nonblocking(event_fd());
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int returned = RPMA_E_NO_EVENT;
    while (nothing_waits(returned)) {
        if (!wait_readable(event_fd(), handshake_timeout_ms))
            throw failure("no response to the connection request");
        returned = rpma_conn_next_event(conn_.get(), &event);
    }
    check(returned, "rpma_conn_next_event");
    if (event != RPMA_CONN_ESTABLISHED)
        throw failure(std::string("cannot connect: ") + rpma_utils_conn_event_2str(event));
}

void connection::use_response(const connect_response &got)
{
    rpma_mr_remote *remote = nullptr;
    check(rpma_mr_remote_from_descriptor(&got.region, sizeof got.region, &remote), "rpma_mr_remote_from_descriptor");
    remote_.reset(remote);
    rpma_peer_cfg *cfg = nullptr;
    check(rpma_peer_cfg_from_descriptor(&got.peer_cfg, sizeof got.peer_cfg, &cfg), "rpma_peer_cfg_from_descriptor");
    const owner<rpma_peer_cfg, rpma_peer_cfg_delete> owned(cfg);
    check(rpma_conn_apply_remote_peer_cfg(conn_.get(), cfg), "rpma_conn_apply_remote_peer_cfg");
}

int connection::completion_fd() const
{
    int fd = -1;
    check(rpma_cq_get_fd(cq_, &fd), "rpma_cq_get_fd");
    return fd;
}

void connection::acknowledge_event()
{
    const int returned = rpma_cq_wait(cq_);
    if (returned != RPMA_E_NO_COMPLETION)
        check(returned, "rpma_cq_wait");
}

int connection::event_fd() const
{
    int fd = -1;
    check(rpma_conn_get_event_fd(conn_.get(), &fd), "rpma_conn_get_event_fd");
    return fd;
}

bool connection::has_ended()
{
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    const int returned = rpma_conn_next_event(conn_.get(), &event);
    if (nothing_waits(returned))
        return false;
    check(returned, "rpma_conn_next_event");
    return event != RPMA_CONN_ESTABLISHED;
}

listener::listener(const device &on, const address &at)
{
    rpma_ep *ep = nullptr;
    check(rpma_ep_listen(on.peer(), at.host.c_str(), at.port.c_str(), &ep), "rpma_ep_listen");
    ep_.reset(ep);
    make_nonblocking(fd());
}

int listener::fd() const
{
    int fd = -1;
    check(rpma_ep_get_fd(ep_.get(), &fd), "rpma_ep_get_fd");
    return fd;
}

accepted<connection> listener::accept(const acceptance<region> &how)
{
    rpma_conn_req *req = nullptr;
    const int returned = rpma_ep_next_conn_req(ep_.get(), configure(how.sizes).get(), &req);
    if (nothing_waits(returned))
        return {};
    check(returned, "rpma_ep_next_conn_req");
    request_owner request(req);

    rpma_conn_private_data pdata{};
    check(rpma_conn_req_get_private_data(req, &pdata), "rpma_conn_req_get_private_data");
    greeting handshake;
    if (!read_private_data(pdata.ptr, pdata.len, handshake) || handshake.connection >= how.connections)
        return {};
    for (std::size_t i = 0; i < how.receives; ++i)
        check(rpma_conn_req_recv(req, how.messages->get(), handshake.connection * how.messages_of_one + i * how.slot,
                      how.slot, connection::as_context(receive_mark | i)),
                "rpma_conn_req_recv");

    connect_response response;
    response.region = how.data->descriptor();
    response.peer_cfg = peer_cfg_descriptor(how.direct_write);
    std::unique_ptr<connection> created(
            new connection(connect_request(request, &response, sizeof response), how.data, how.messages));
    created->wait_until_established();
    return {std::move(created), handshake.connection};
}

} // namespace bench::rpma
