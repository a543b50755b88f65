// SPDX-License-Identifier: BSD-3-Clause
#include "rdma/cm.hpp"

#include "log.hpp"
#include "rdma/capabilities.hpp"

namespace rpma::rdma
{

namespace
{

constexpr std::uint32_t max_inline_data = 8;

errc check(int returned, const char *call, const char *detail = "", const char *function_name = __builtin_FUNCTION())
{
    if (returned == 0) [[likely]]
        return errc::ok;
    return log::provider_error(errno, call, detail, __FILE__, __LINE__, function_name);
}

rdma_conn_param connection_parameters(const rpma_conn_private_data *pdata, std::uint8_t retries)
{
    rdma_conn_param parameters{};
    if (pdata != nullptr) {
        parameters.private_data = pdata->ptr;
        parameters.private_data_len = pdata->len;
    }
    parameters.responder_resources = RDMA_MAX_RESP_RES;
    parameters.initiator_depth = RDMA_MAX_INIT_DEPTH;
    parameters.flow_control = 1;
    parameters.retry_count = retries;
    parameters.rnr_retry_count = 7;
    return parameters;
}

result<id_handle> create_id_on(const library &lib, rdma_event_channel *channel)
{
    rdma_cm_id *id = nullptr;
    RPMA_RETURN_IF_ERROR(
            check(lib.rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), "rdma_create_id", "", "create_id"));
    return id_handle(lib, id);
}

result<id_handle> resolve(const addrinfo_handle &candidates, int timeout_ms, bool with_route)
{
    first_error failures;
    const library &by = candidates.library();
    for (const rdma_addrinfo *candidate = candidates.get(); candidate != nullptr; candidate = candidate->ai_next) {
        // A failed resolution leaves the identifier bound to its address family, so each candidate needs a new one.
        auto created = create_synchronous_id(by);
        if (!created.ok()) {
            failures.add(created.error());
            break;
        }
        rdma_cm_id *const id = created.value().get();
        const address_text text(candidate->ai_dst_addr);
        errc outcome = check(by.rdma_resolve_addr(id, candidate->ai_src_addr, candidate->ai_dst_addr, timeout_ms),
                "rdma_resolve_addr", text.c_str());
        if (outcome == errc::ok && with_route)
            outcome = check(by.rdma_resolve_route(id, timeout_ms), "rdma_resolve_route", text.c_str());
        if (outcome == errc::ok) {
            failures.forget();
            return created;
        }
        failures.add(outcome);
    }
    return failures.finish();
}

} // namespace

errc destroy_event_channel(const library &lib, rdma_event_channel *channel)
{
    lib.rdma_destroy_event_channel(channel);
    return errc::ok;
}

errc destroy_id(const library &lib, rdma_cm_id *id)
{
    return check(lib.rdma_destroy_id(id), "rdma_destroy_id");
}

errc destroy_qp(const library &lib, rdma_cm_id *id)
{
    lib.rdma_destroy_qp(id);
    return errc::ok;
}

result<event_channel_handle> create_event_channel(const library &lib)
{
    rdma_event_channel *const channel = lib.rdma_create_event_channel();
    if (channel == nullptr)
        return log::provider_error(errno, "rdma_create_event_channel");
    return event_channel_handle(lib, channel);
}

result<id_handle> create_id(const event_channel_handle &channel)
{
    return create_id_on(channel.library(), channel.get());
}

result<id_handle> create_synchronous_id(const library &lib)
{
    return create_id_on(lib, nullptr);
}

result<id_handle> resolve_address(const addrinfo_handle &candidates, int timeout_ms)
{
    return resolve(candidates, timeout_ms, false);
}

result<id_handle> resolve_route(const addrinfo_handle &candidates, int timeout_ms)
{
    return resolve(candidates, timeout_ms, true);
}

result<const rdma_addrinfo *> bind_first(const id_handle &id, const rdma_addrinfo *candidates)
{
    first_error failures;
    for (const rdma_addrinfo *candidate = candidates; candidate != nullptr; candidate = candidate->ai_next) {
        const errc outcome = check(id.library().rdma_bind_addr(id.get(), candidate->ai_src_addr), "rdma_bind_addr",
                address_text(candidate->ai_src_addr).c_str());
        if (outcome == errc::ok) {
            failures.forget();
            return candidate;
        }
        failures.add(outcome);
    }
    return failures.finish();
}

errc listen(const id_handle &id)
{
    return check(id.library().rdma_listen(id.get(), 0), "rdma_listen");
}

result<std::uint64_t> create_qp(const id_handle &id, const qp_settings &settings, qp_handle &qp)
{
    ibv_qp_init_attr_ex attributes{};
    attributes.send_cq = settings.send_cq;
    attributes.recv_cq = settings.recv_cq;
    attributes.srq = settings.srq;
    attributes.cap.max_send_wr = settings.max_sends;
    attributes.cap.max_recv_wr = settings.max_receives;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = max_inline_data;
    attributes.qp_type = IBV_QPT_RC;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
    attributes.pd = settings.pd;

    const auto create = id.library().rdma_create_qp_ex;
    // Providers without extended queue pairs reject the mask itself: it is set only for operations that need it.
    const int before = errno;
    if (settings.send_ops != 0) {
        ibv_qp_init_attr_ex extended = attributes;
        extended.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        extended.send_ops_flags = settings.send_ops | send_ops_classic;
        if (create(id.get(), &extended) == 0) {
            qp = qp_handle(id.library(), id.get());
            return settings.send_ops;
        }
        if (errno != EOPNOTSUPP && errno != ENOTSUP)
            return log::provider_error(errno, "rdma_create_qp_ex");
        RPMA_LOG_NOTICE("queue pair: native flush and atomic write rejected by the device: emulated\n");
    }
    RPMA_RETURN_IF_ERROR(check(create(id.get(), &attributes), "rdma_create_qp_ex"));
    errno = before;
    qp = qp_handle(id.library(), id.get());
    return std::uint64_t{0};
}

errc migrate(const id_handle &id, const event_channel_handle &channel)
{
    return check(id.library().rdma_migrate_id(id.get(), channel.get()), "rdma_migrate_id");
}

errc set_ack_timeout(const id_handle &id, std::uint8_t exponent)
{
    return check(id.library().rdma_set_option(
                         id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, sizeof(exponent)),
            "rdma_set_option", "RDMA_OPTION_ID_ACK_TIMEOUT");
}

errc connect(const id_handle &id, const rpma_conn_private_data *pdata, std::uint8_t retries)
{
    rdma_conn_param parameters = connection_parameters(pdata, retries);
    return check(id.library().rdma_connect(id.get(), &parameters), "rdma_connect");
}

errc accept(const id_handle &id, const rpma_conn_private_data *pdata)
{
    rdma_conn_param parameters = connection_parameters(pdata, default_retries);
    return check(id.library().rdma_accept(id.get(), &parameters), "rdma_accept");
}

errc reject(const id_handle &id)
{
    return check(id.library().rdma_reject(id.get(), nullptr, 0), "rdma_reject");
}
errc disconnect(const id_handle &id)
{
    return check(id.library().rdma_disconnect(id.get()), "rdma_disconnect");
}

result<rdma_cm_event *> next_event(const event_channel_handle &channel)
{
    rdma_cm_event *event = nullptr;
    const int before = errno;
    while (channel.library().rdma_get_cm_event(channel.get(), &event) != 0) {
        if (errno == EINTR) {
            errno = before;
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENODATA)
            return errc::no_event;
        return log::provider_error(errno, "rdma_get_cm_event");
    }
    return event;
}

const char *event_name(rdma_cm_event_type type)
{
    return rdma_event_str(type);
}

errc acknowledge(const event_channel_handle &channel, rdma_cm_event *event)
{
    return check(channel.library().rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

} // namespace rpma::rdma
