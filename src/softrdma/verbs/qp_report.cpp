// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/number_table.hpp"
#include "verbs/qp.hpp"

#include <cinttypes>
#include <cstdio>

namespace softrdma
{

namespace
{

const char *name_of(ibv_qp_state state) noexcept
{
    constexpr const char *names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return state <= IBV_QPS_ERR ? names[state] : "unknown";
}

} // namespace

std::string queue_pair::report()
{
    const std::lock_guard lock(lock_);
    const char *path = ep_.path != nullptr ? "tcp" : "none";
    if (ep_.local != nullptr)
        path = ep_.local->leaves_private_memory() ? "descriptors" : "local";
    char line[160];
    snprintf(line, sizeof(line),
            "qp number=%" PRIu32 " state=%s peer=%" PRIu32 " path=%s posted=%" PRIu64 " executed=%" PRIu64 "\n",
            qp_base.qp_num, name_of(ep_.attr.qp_state), ep_.attr.dest_qp_num, path, queue_.posted_count(),
            transport_->executed_count());
    return line;
}

std::string report_queue_pairs()
{
    std::string lines;
    for (const auto &qp : number_table::instance().all())
        lines += qp->report();
    return lines;
}

} // namespace softrdma
