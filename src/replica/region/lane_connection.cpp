// SPDX-License-Identifier: BSD-3-Clause
#include "region/lane_connection.hpp"

#include <cstring>
#include <poll.h>

#include "message/status.hpp"

namespace replica
{

namespace
{

// Number of unsuccessful polls of the completion queue before a waiting lane sleeps.
constexpr int polls_before_sleep = 4000;
constexpr std::size_t memory_alignment = 4096;

} // namespace

int shortage_or(int other, int result)
{
    const int error = result == RPMA_E_NOMEM ? ENOMEM : result == RPMA_E_PROVIDER ? errno : 0;
    return is_local_shortage(error) ? error : other;
}

int lane_memory::allocate(rpma_peer *peer, std::uint32_t window)
{
    window_ = window;
    const std::size_t size = (bounce_at() + bounce_size + memory_alignment - 1) / memory_alignment * memory_alignment;
    void *memory = nullptr;
    if (const int error = posix_memalign(&memory, memory_alignment, size); error != 0)
        return error;
    memory_.reset(static_cast<std::byte *>(memory));
    std::memset(memory, 0, size);
    const int usage = RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV | RPMA_MR_USAGE_READ_DST;
    const int result = rpma_mr_reg(peer, memory, size, usage, &registered_);
    return result == 0 ? 0 : shortage_or(EIO, result);
}

int lane_connection::connect(data_path &path, const char *address, const char *port, std::span<const std::byte> proof)
{
    path_ = &path;
    if (const int error = memory_.allocate(path.peer, path.window); error != 0)
        return error;
    rpma_conn_cfg *cfg = nullptr;
    if (rpma_conn_cfg_new(&cfg) != 0)
        return ENOMEM;
    rpma_conn_cfg_set_sq_size(cfg, path.depth);
    rpma_conn_cfg_set_rq_size(cfg, path.window);
    rpma_conn_cfg_set_cq_size(cfg, path.depth + path.window);
    if (path.timeout_ms != 0)
        rpma_conn_cfg_set_timeout(cfg, path.timeout_ms);
    rpma_conn_req *request = nullptr;
    const int result = rpma_conn_req_new(path.peer, address, port, cfg, &request);
    rpma_conn_cfg_delete(&cfg);
    if (result != 0)
        return shortage_or(ECONNREFUSED, result);
    for (std::uint32_t slot = 0; slot < path.window; ++slot) {
        const int posting = rpma_conn_req_recv(request, memory_.registered(), memory_.response_at(slot),
                lane_response_size, reinterpret_cast<const void *>(posted::response));
        if (posting != 0) {
            const int error = shortage_or(EIO, posting);
            rpma_conn_req_delete(&request);
            return error;
        }
    }
    const rpma_conn_private_data data{const_cast<std::byte *>(proof.data()), static_cast<std::uint8_t>(proof.size())};
    const int connecting = rpma_conn_req_connect(&request, &data, &conn_);
    return connecting == 0 ? 0 : shortage_or(ECONNREFUSED, connecting);
}

int lane_connection::connected(const deadline &until)
{
    rpma_conn_get_event_fd(conn_, &event_fd_);
    for (;;) {
        pollfd pollers[] = {{event_fd_, POLLIN, 0}, {path_->lost.fd(), POLLIN, 0}, {until.interrupt_fd(), POLLIN, 0}};
        const int ready = poll(pollers, 3, until.left_ms());
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready > 0 && pollers[0].revents != 0)
            break;
        return ready > 0 && pollers[1].revents != 0 ? path_->lost.error() : ETIMEDOUT;
    }
    rpma_conn_event event = RPMA_CONN_UNDEFINED;
    if (rpma_conn_next_event(conn_, &event) != 0 || event != RPMA_CONN_ESTABLISHED)
        return event == RPMA_CONN_UNREACHABLE ? EHOSTUNREACH : ECONNREFUSED;
    if (path_->peer_cfg != nullptr && rpma_conn_apply_remote_peer_cfg(conn_, path_->peer_cfg) != 0)
        return EPROTO;
    if (rpma_conn_get_cq(conn_, &cq_) != 0 || rpma_cq_get_fd(cq_, &cq_fd_) != 0)
        return EIO;
    return 0;
}

bool lane_connection::flushes_natively() const
{
    bool natively = false;
    return rpma_conn_get_native_flush(conn_, &natively) == 0 && natively;
}

lane_connection::~lane_connection()
{
    if (conn_ != nullptr) {
        if (cq_ != nullptr)
            rpma_conn_disconnect(conn_);
        rpma_conn_delete(&conn_);
    }
}

const void *lane_connection::count_operation(posted kind, bool signaled)
{
    ++operations_;
    const std::uintptr_t complete = ++unsignaled_;
    if (signaled)
        unsignaled_ = 0;
    return reinterpret_cast<const void *>(complete << kind_bits | static_cast<std::uintptr_t>(kind));
}

const void *lane_connection::count_request(posted kind)
{
    ++submitted_;
    return count_operation(kind, true);
}

int lane_connection::wait_below(std::uint64_t requests, std::uint32_t operations)
{
    const std::uint64_t open = requests > submitted_ ? 0 : submitted_ - requests + 1;
    const int error = wait_until(open, operations, std::nullopt, true);
    return error == ETIMEDOUT ? path_->fail(error) : error;
}

int lane_connection::wait_until(
        std::uint64_t finished, std::uint32_t operations, std::optional<deadline> until, bool extends)
{
    for (int polls = 0; finished_ < finished || operations_ >= operations; ++polls) {
        bool progress = false;
        if (const int error = collect(&progress); error != 0)
            return error;
        if (progress) {
            polls = 0;
            if (extends)
                until.reset();
        } else if (path_->lost.error() != 0) {
            return path_->lost.error();
        } else if (polls >= polls_before_sleep) {
            polls = 0;
            if (!until)
                until.emplace(path_->timeout_ms);
            if (const int error = sleep(*until); error != 0)
                return error;
        }
    }
    return 0;
}

int lane_connection::sleep(const deadline &until)
{
    if (until.passed())
        return ETIMEDOUT;
    pollfd pollers[] = {{cq_fd_, POLLIN, 0}, {path_->lost.fd(), POLLIN, 0}, {event_fd_, POLLIN, 0}};
    const int ready = poll(pollers, 3, until.left_ms());
    if (ready <= 0)
        return 0;
    if (pollers[0].revents != 0) {
        const int waited = rpma_cq_wait(cq_);
        return waited == 0 || waited == RPMA_E_NO_COMPLETION ? 0 : path_->fail_rpma(waited);
    }
    // Polls first: a failed completion gives the reason. The connection has failed in any case.
    bool progress = false;
    if (pollers[2].revents != 0 && collect(&progress) == 0 && !progress)
        return path_->fail(ECONNRESET);
    return 0;
}

int lane_connection::poll_completions(bool *progress)
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
            return path_->fail(ECONNRESET);
        // Completions can arrive before the new notification request, so the queue is polled once more.
        if (const int waited = rpma_cq_wait(cq_); waited != 0 && waited != RPMA_E_NO_COMPLETION)
            return path_->fail_rpma(waited);
    }
}

bool lane_connection::has_capacity(std::uint32_t operations)
{
    while (submitted_ - finished_ >= path_->window || !has_space_for(operations)) {
        bool progress = false;
        if (collect(&progress) != 0 || !progress)
            return false;
    }
    return true;
}

int lane_connection::collect(bool *progress)
{
    ibv_wc completions[16];
    int count = 0;
    const int got = rpma_cq_get_wc(cq_, 16, completions, &count);
    if (got == RPMA_E_NO_COMPLETION)
        return 0;
    if (got != 0)
        return path_->fail_rpma(got);
    for (int i = 0; i < count; ++i) {
        if (const int error = complete(completions[i]); error != 0)
            return error;
    }
    *progress = count > 0;
    return 0;
}

int lane_connection::complete(const ibv_wc &wc)
{
    if (wc.status != IBV_WC_SUCCESS)
        return path_->fail(wc.status == IBV_WC_LOC_PROT_ERR ? EFAULT : ECONNRESET);
    const auto kind = static_cast<posted>(wc.wr_id & ((1U << kind_bits) - 1));
    if (kind == posted::response)
        return on_response(wc.byte_len);
    operations_ -= static_cast<std::uint32_t>(wc.wr_id >> kind_bits);
    if (kind == posted::request)
        ++finished_;
    return 0;
}

int lane_connection::on_response(std::uint32_t length)
{
    const std::uint32_t slot = next_receive_;
    next_receive_ = (slot + 1) % path_->window;
    lane_response a;
    if (length != lane_response_size || !decode({memory_.at(memory_.response_at(slot)), lane_response_size}, a) ||
            a.sequence != last_response_ + 1 || a.sequence > sequence_)
        return path_->fail(EPROTO);
    last_response_ = a.sequence;
    ++finished_;
    // Other errno values have a meaning for this process, for example EFAULT, ENOMEM and ESTALE.
    if (a.error != 0)
        return path_->fail(a.error == ENOSPC ? ENOSPC : EIO);
    const int result = rpma_recv(conn_, memory_.registered(), memory_.response_at(slot), lane_response_size,
            reinterpret_cast<const void *>(posted::response));
    return result == 0 ? 0 : path_->fail_rpma(result);
}

} // namespace replica
