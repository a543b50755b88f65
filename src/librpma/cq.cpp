// SPDX-License-Identifier: BSD-3-Clause
#include "cq.hpp"

#include <algorithm>
#include <climits>

#include "boundary.hpp"
#include "log.hpp"
#include "probe.hpp"
#include "rdma/work_request.hpp"

using namespace rpma;

// Arguments of completion queue probes: registers or constants.
#ifdef RPMA_HAVE_SDT
#undef STAP_SDT_ARG_CONSTRAINT
#define STAP_SDT_ARG_CONSTRAINT nr
#endif

result<rpma_cq> rpma_cq::create(ibv_context *context, std::uint32_t entries, ibv_comp_channel *shared_channel)
{
    rpma_cq cq;
    if (shared_channel == nullptr) {
        RPMA_ASSIGN_OR_RETURN(cq.own_channel_, rdma::create_comp_channel(context));
        cq.channel_ = cq.own_channel_.get();
    } else {
        cq.channel_ = shared_channel;
    }
    const int clamped = static_cast<int>(std::min<std::uint32_t>(entries, INT_MAX));
    RPMA_ASSIGN_OR_RETURN(cq.cq_, rdma::create_cq(context, clamped, cq.channel_));
    return cq;
}

errc rpma_cq::close()
{
    first_error failures;
    failures.add(cq_.close());
    failures.add(own_channel_.close());
    return failures.finish();
}

errc rpma_cq::wait() const
{
    if (!own_channel_)
        return errc::shared_channel;
    if (batch_ != nullptr && rdma::submit(*batch_) != 0)
        return errc::provider;
    auto event = rdma::next_completion_event(channel_);
    return event.ok() ? rdma::arm_cq(event.value()) : event.error();
}

namespace
{

[[gnu::cold, gnu::noinline]] int poll_failed(int polled, int requested)
{
    if (polled == 0) {
        RPMA_LOG_DEBUG("no completion in the CQ\n");
        return RPMA_E_NO_COMPLETION;
    }
    if (polled < 0)
        return to_int(log::provider_error(errno, "ibv_poll_cq"));
    RPMA_LOG_ERROR("ibv_poll_cq() returned %d completions, requested %d\n", polled, requested);
    return RPMA_E_UNKNOWN;
}

// The probe is before the call to the device: after it, the address of the completions would have to be saved.
[[gnu::always_inline]] inline int poll(const rpma_cq *cq, int num_entries, ibv_wc *wc)
{
    STATIC_PROBE(librpma, poll, 1, wc);
    return rdma::poll(cq->handle(), num_entries, wc);
}

[[gnu::noinline]] int get_several(rpma_cq *cq, int num_entries, ibv_wc *wc, int *num_entries_got)
{
    if (cq == nullptr || num_entries < 1 || wc == nullptr || (num_entries > 1 && num_entries_got == nullptr))
        return RPMA_E_INVAL;
    const int polled = poll(cq, num_entries, wc);
    if (polled <= 0 || polled > num_entries) [[unlikely]]
        return poll_failed(polled, num_entries);
    STATIC_PROBE(librpma, completions, 1, polled);
    if (num_entries_got != nullptr)
        *num_entries_got = polled;
    return 0;
}

} // namespace

extern "C" {

int rpma_cq_get_fd(const struct rpma_cq *cq, int *fd)
{
    if (cq == nullptr || fd == nullptr)
        return RPMA_E_INVAL;
    *fd = cq->fd();
    return 0;
}

int rpma_cq_wait(struct rpma_cq *cq)
{
    if (cq == nullptr)
        return RPMA_E_INVAL;
    return to_int(cq->wait());
}

int rpma_cq_get_wc(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc, int *num_entries_got)
{
    if (!both_non_null(cq, wc) || num_entries != 1) [[unlikely]]
        return get_several(cq, num_entries, wc, num_entries_got);
    if (const int polled = poll(cq, 1, wc); polled != 1) [[unlikely]]
        return poll_failed(polled, 1);
    constexpr int polled = 1;
    STATIC_PROBE(librpma, completions, 1, polled);
    if (num_entries_got != nullptr)
        *num_entries_got = polled;
    return 0;
}

} // extern "C"
