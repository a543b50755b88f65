// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/datagram_qp.hpp"
#include "verbs/number_table.hpp"
#include "verbs/qp.hpp"

#include <cinttypes>
#include <cstdio>

namespace softrdma
{

static const char *name_of(ibv_qp_state state) noexcept
{
    constexpr const char *names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return state <= IBV_QPS_ERR ? names[state] : "unknown";
}

std::string queue_pair::report()
{
    const lock_guard lock(lock_);
    const char *path = ep_.path != nullptr ? ep_.path->name() : "none";
    if (ep_.local != nullptr)
        path = ep_.local->needs_network_for_private_memory() ? "shm-fd" : "shm";
    const posted_total reads = queue_.posted({IBV_WR_RDMA_READ});
    const posted_total writes = queue_.posted({IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM});
    const posted_total atomics =
            queue_.posted({IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, native::wr_atomic_write});
    const posted_total flushes = queue_.posted({native::wr_flush});
    const posted_total sends = queue_.posted({IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV});
    const posted_total windows = queue_.posted({IBV_WR_BIND_MW, IBV_WR_LOCAL_INV});
    const bool has_reason = ep_.local == nullptr && ep_.no_shm_reason != no_shm_reason::none;
    char line[512];
    snprintf(line, sizeof(line),
            "qp number=%" PRIu32 " type=rc state=%s peer=%" PRIu32 " transport=%s%s%s posted=%" PRIu64
            " executed=%" PRIu64 " reads=%" PRIu64 " read_bytes=%" PRIu64 " writes=%" PRIu64 " write_bytes=%" PRIu64
            " atomics=%" PRIu64 " flushes=%" PRIu64 " sends=%" PRIu64 " send_bytes=%" PRIu64 " receives=%" PRIu64
            " windows=%" PRIu64 "\n",
            qp_base.qp_num, name_of(ep_.attr.qp_state), ep_.attr.dest_qp_num, path, has_reason ? " reason=" : "",
            has_reason ? name_of(ep_.no_shm_reason) : "",
            reads.requests + writes.requests + atomics.requests + flushes.requests + sends.requests + windows.requests,
            transport_->executed_count(), reads.requests, reads.bytes, writes.requests, writes.bytes, atomics.requests,
            flushes.requests, sends.requests, sends.bytes, receives_posted_, windows.requests);
    return line;
}

std::string datagram_qp::report()
{
    const lock_guard lock(mutex_);
    if (destroyed_)
        return {};
    const posted_total sends = queue_.posted({IBV_WR_SEND, IBV_WR_SEND_WITH_IMM});
    char line[256];
    snprintf(line, sizeof(line),
            "qp number=%" PRIu32 " type=ud state=%s posted=%" PRIu64 " sends=%" PRIu64 " send_bytes=%" PRIu64
            " received=%" PRIu64 " received_bytes=%" PRIu64 " refused=%" PRIu64 "\n",
            qp_base.qp_num, name_of(state()), sends.requests, sends.requests, sends.bytes, received_.requests,
            received_.bytes, dropped_);
    return line;
}

std::string report_queue_pairs()
{
    std::string lines;
    for (const auto &qp : number_table::instance().all())
        lines += qp->report();
    for (const auto &qp : number_table::instance().all_datagrams())
        lines += qp->report();
    return lines;
}

} // namespace softrdma
