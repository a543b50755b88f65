// SPDX-License-Identifier: BSD-3-Clause
#include "conn_parts.hpp"

#include <bit>
#include <cstdlib>

#include "log.hpp"

namespace rpma
{

conn_settings::conn_settings(const rpma_conn_cfg &cfg)
    : timeout_ms(cfg.timeout_ms.load()), cq_size(cfg.cq_size.load()), rcq_size(cfg.rcq_size.load()),
      sq_size(cfg.sq_size.load()), rq_size(cfg.rq_size.load()), share_channel(cfg.shared_channel.load()),
      srq(cfg.srq.load())
{
}

errc conn_settings::check() const
{
    if (!share_channel || srq == nullptr || srq->rcq() == nullptr)
        return errc::ok;
    RPMA_LOG_ERROR("connection configuration: a shared completion channel excludes a shared receive queue with its own "
                   "receive CQ\n");
    return errc::inval;
}

result<retry_limits> retry_limits::from_environment()
{
    const char *const text = std::getenv("RPMA_PEER_TIMEOUT_MS");
    if (text == nullptr)
        return retry_limits{};
    constexpr long max_ms = 3600000;
    char *end = nullptr;
    const errno_guard keep_errno;
    const long timeout_ms = std::strtol(text, &end, 10);
    if (end == text || *end != '\0' || timeout_ms < 1 || timeout_ms > max_ms) {
        RPMA_LOG_ERROR("RPMA_PEER_TIMEOUT_MS: invalid value \"%s\" (use 1 to %ld milliseconds)\n", text, max_ms);
        return errc::inval;
    }
    // A packet is sent once and repeated 6 times. Each wait is the shortest for which the sum reaches the timeout.
    constexpr std::uint8_t retries = 6;
    constexpr std::uint64_t min_wait_ns = 4096;
    const auto min_waits = static_cast<std::uint64_t>(timeout_ms) * 1000000 / (min_wait_ns * (retries + 1));
    return retry_limits{retries, static_cast<std::uint8_t>(std::bit_width(min_waits))};
}

errc conn_parts::create_queues(const rpma_peer &peer, const conn_settings &settings)
{
    if (settings.share_channel) {
        RPMA_ASSIGN_OR_RETURN(shared_channel, rdma::create_comp_channel(id->verbs));
    }
    RPMA_ASSIGN_OR_RETURN(cq, rpma_cq::create(id->verbs, settings.cq_size, shared_channel.get()));

    rpma_cq *const srq_rcq = settings.srq != nullptr ? settings.srq->rcq() : nullptr;
    if (srq_rcq == nullptr && settings.rcq_size != 0) {
        RPMA_ASSIGN_OR_RETURN(rcq, rpma_cq::create(id->verbs, settings.rcq_size, shared_channel.get()));
    }
    const rpma_cq &recv_cq = srq_rcq != nullptr ? *srq_rcq : rcq ? rcq : cq;

    const rdma::qp_settings qp_settings{
            .pd = peer.pd(),
            .send_cq = cq.handle(),
            .recv_cq = recv_cq.handle(),
            .srq = settings.srq != nullptr ? settings.srq->handle() : nullptr,
            .max_sends = settings.sq_size,
            .max_receives = settings.rq_size,
            .send_ops = peer.native_send_ops(),
    };
    RPMA_ASSIGN_OR_RETURN(native_ops, rdma::create_qp(id, qp_settings, qp));
    return errc::ok;
}

errc conn_parts::move_to_own_channel()
{
    RPMA_ASSIGN_OR_RETURN(rdma::event_channel_handle channel, rdma::create_event_channel(id.library()));
    RPMA_RETURN_IF_ERROR(rdma::migrate(id, channel));
    event_channel = std::move(channel);
    return errc::ok;
}

errc conn_parts::limit(const retry_limits &limits)
{
    retries = limits.retries;
    return limits.ack_timeout_exponent != 0 ? rdma::set_ack_timeout(id, limits.ack_timeout_exponent) : errc::ok;
}

errc conn_parts::close()
{
    first_error failures;
    failures.add(qp.close());
    failures.add(rcq.close());
    failures.add(cq.close());
    if (id && reject_on_close)
        failures.add(rdma::reject(id));
    failures.add(id.close());
    failures.add(shared_channel.close());
    failures.add(event_channel.close());
    return failures.finish();
}

conn_parts::~conn_parts()
{
    const errno_guard keep_errno;
    (void)close();
}

} // namespace rpma
