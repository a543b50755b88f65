// SPDX-License-Identifier: BSD-3-Clause
#include "ep.hpp"

#include "boundary.hpp"
#include "log.hpp"

using namespace rpma;

result<rpma_ep *> rpma_ep::create(const rpma_peer &peer, const char *addr, const char *port)
{
    RPMA_ASSIGN_OR_RETURN(rdma::event_channel_handle channel, rdma::create_event_channel(peer.library()));
    RPMA_ASSIGN_OR_RETURN(rdma::id_handle id, rdma::create_id(channel));
    RPMA_ASSIGN_OR_RETURN(
            const rdma::addrinfo_handle names, rdma::resolve_name(peer.library(), addr, port, rdma::side::passive));
    RPMA_ASSIGN_OR_RETURN(const rdma_addrinfo *const bound, rdma::bind_first(id, names.get()));
    RPMA_RETURN_IF_ERROR(rdma::listen(id));

    auto *const ep = new rpma_ep(peer, std::move(channel), std::move(id));
    if (ep == nullptr)
        return errc::nomem;
    RPMA_LOG_NOTICE("listening on %s\n", rdma::address_text(bound->ai_src_addr).c_str());
    return ep;
}

errc rpma_ep::close()
{
    first_error failures;
    failures.add(id_.close());
    failures.add(channel_.close());
    return failures.finish();
}

result<rpma_conn_req *> rpma_ep::next_conn_req(const rpma_conn_cfg &cfg)
{
    RPMA_ASSIGN_OR_RETURN(rdma_cm_event *const event, rdma::next_event(channel_));
    if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
        RPMA_LOG_ERROR("endpoint: unexpected event %s\n", rdma::event_name(event->event));
        (void)rdma::acknowledge(channel_, event);
        return errc::inval;
    }
    auto req = rpma_conn_req::create_incoming(peer_, *event, cfg);
    if (!req.ok()) {
        const errno_guard keep_errno;
        (void)rdma::acknowledge(channel_, event);
        return req;
    }
    if (const errc acknowledged = rdma::acknowledge(channel_, event); acknowledged != errc::ok) {
        delete req.value();
        return acknowledged;
    }
    return req;
}

extern "C" {

int rpma_ep_listen(struct rpma_peer *peer, const char *addr, const char *port, struct rpma_ep **ep_ptr)
{
    if (peer == nullptr || addr == nullptr || port == nullptr || ep_ptr == nullptr)
        return RPMA_E_INVAL;
    return return_handle(rpma_ep::create(*peer, addr, port), ep_ptr);
}

int rpma_ep_shutdown(struct rpma_ep **ep_ptr)
{
    return close_and_delete(ep_ptr);
}

int rpma_ep_get_fd(const struct rpma_ep *ep, int *fd)
{
    if (ep == nullptr || fd == nullptr)
        return RPMA_E_INVAL;
    *fd = ep->fd();
    return 0;
}

int rpma_ep_next_conn_req(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req_ptr)
{
    if (ep == nullptr || req_ptr == nullptr)
        return RPMA_E_INVAL;
    return return_handle(ep->next_conn_req(cfg != nullptr ? *cfg : default_conn_cfg), req_ptr);
}

} // extern "C"
