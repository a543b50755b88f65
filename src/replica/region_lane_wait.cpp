// SPDX-License-Identifier: BSD-3-Clause
// Waiting for completions of a lane.
#include "region_lane.hpp"

#include <poll.h>

namespace replica
{

namespace
{

// Number of unsuccessful polls of the completion queue before a waiting lane sleeps.
constexpr int polls_before_sleep = 4000;

} // namespace

int region_lane::wait_below(std::uint64_t requests, std::uint32_t operations)
{
    const std::uint64_t open = requests > submitted_ ? 0 : submitted_ - requests + 1;
    const int error = wait_until(open, operations, deadline(path_->timeout_ms));
    return error == ETIMEDOUT ? fail_lane(error) : error;
}

int region_lane::wait(std::uint64_t ticket, deadline until)
{
    return wait_until(ticket, ~0U, until);
}

int region_lane::wait_until(std::uint64_t finished, std::uint32_t operations, deadline until)
{
    for (int polls = 0; finished_ < finished || operations_ >= operations; ++polls) {
        bool progress = false;
        if (const int error = collect(&progress); error != 0)
            return error;
        if (progress) {
            polls = 0;
            until = deadline(path_->timeout_ms);
        } else if (path_->lost.error() != 0) {
            return path_->lost.error();
        } else if (polls >= polls_before_sleep) {
            polls = 0;
            if (const int error = sleep(until); error != 0)
                return error;
        }
    }
    return 0;
}

int region_lane::sleep(const deadline &until)
{
    if (until.passed())
        return ETIMEDOUT;
    pollfd pollers[] = {{cq_fd_, POLLIN, 0}, {path_->lost.fd(), POLLIN, 0}, {event_fd_, POLLIN, 0}};
    const int ready = poll(pollers, 3, until.left_ms());
    if (ready <= 0)
        return 0;
    if (pollers[0].revents != 0) {
        const int waited = rpma_cq_wait(cq_);
        return waited == 0 || waited == RPMA_E_NO_COMPLETION ? 0 : fail_lane_rpma(waited);
    }
    // Polls for failed completions first, which give the reason. The connection has failed in any case.
    bool progress = false;
    if (pollers[2].revents != 0 && collect(&progress) == 0 && !progress)
        return fail_lane(ECONNRESET);
    return 0;
}

int region_lane::poll_completions(bool *progress)
{
    *progress = false;
    for (;;) {
        bool collected = false;
        if (const int error = collect(&collected); error != 0)
            return error;
        *progress |= collected;
        if (collected)
            continue;
        pollfd pollers[] = {{cq_fd_, POLLIN, 0}, {event_fd_, POLLIN, 0}};
        if (poll(pollers, 2, 0) <= 0)
            return 0;
        if (pollers[0].revents == 0)
            return fail_lane(ECONNRESET);
        // Completions can precede the new notification, so they are collected once more.
        if (const int waited = rpma_cq_wait(cq_); waited != 0 && waited != RPMA_E_NO_COMPLETION)
            return fail_lane_rpma(waited);
    }
}

int region_lane::collect(bool *progress)
{
    ibv_wc completions[16];
    int count = 0;
    const int got = rpma_cq_get_wc(cq_, 16, completions, &count);
    if (got == RPMA_E_NO_COMPLETION)
        return 0;
    if (got != 0)
        return fail_lane_rpma(got);
    for (int i = 0; i < count; ++i) {
        if (const int error = complete(completions[i]); error != 0)
            return error;
    }
    *progress = count > 0;
    return 0;
}

int region_lane::complete(const ibv_wc &wc)
{
    if (wc.status != IBV_WC_SUCCESS)
        return fail_lane(wc.status == IBV_WC_LOC_PROT_ERR ? EFAULT : ECONNRESET);
    const auto kind = static_cast<posted>(wc.wr_id & ((1U << kind_bits) - 1));
    if (kind == posted::answer)
        return answer_arrived(wc.byte_len);
    operations_ -= static_cast<std::uint32_t>(wc.wr_id >> kind_bits);
    if (kind == posted::request)
        ++finished_;
    return 0;
}

int region_lane::answer_arrived(std::uint32_t length)
{
    const std::uint32_t slot = next_receive_;
    next_receive_ = (slot + 1) % path_->window;
    lane_answer a;
    if (length != lane_answer_size || !decode({memory_ + answer_at(slot), lane_answer_size}, a) ||
            a.sequence != answered_ + 1 || a.sequence > sequence_)
        return fail_lane(EPROTO);
    answered_ = a.sequence;
    ++finished_;
    if (a.error != 0)
        return fail_lane(a.error == EFAULT ? EIO : a.error); // EFAULT means local memory
    return post_receive(slot);
}

int region_lane::post_receive(std::uint32_t slot)
{
    const int result = rpma_recv(
            conn_, registered_, answer_at(slot), lane_answer_size, reinterpret_cast<const void *>(posted::answer));
    return result == 0 ? 0 : fail_lane_rpma(result);
}

} // namespace replica
