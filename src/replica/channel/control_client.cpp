// SPDX-License-Identifier: BSD-3-Clause
#include "channel/control_client.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/socket.h>

namespace replica
{

namespace
{

// In the order of enum received.
constexpr struct {
    int os_errno;
    const char *text;
} failures[] = {
        {0, "responded"},
        {ECONNRESET, "closed the connection"},
        {ECONNRESET, "closed the connection"},
        {EPROTO, "does not use the protocol of rpmemd"},
        {EPROTONOSUPPORT, "uses another version of the protocol (install the same version on both sides)"},
        {ETIMEDOUT, "did not respond in time"},
};

} // namespace

control_error::control_error(received failed)
    : std::runtime_error(failures[static_cast<int>(failed)].text),
      os_errno(failures[static_cast<int>(failed)].os_errno), is_rejection(false)
{
}

control_error::control_error(int error, const std::string &reason)
    : std::runtime_error(reason.empty() ? std::strerror(error) : reason), os_errno(error), is_rejection(true)
{
}

std::exception_ptr control_client::exception_of(const control_error &error) const
{
    return std::make_exception_ptr(error);
}

void control_client::fail(received failed)
{
    const std::lock_guard guard(lock_);
    if (failed_ == received::message)
        failed_ = failed;
    changed_.notify_all();
}

// Closes the connection, because a late response would block all later ones. A receiver ends without this.
void control_client::fail_call(unique_lock &lock, received failed)
{
    const bool has_receiver = has_receiver_;
    lock.unlock();
    fail(failed);
    if (!has_receiver)
        shutdown(fd(), SHUT_RDWR);
    std::rethrow_exception(exception_of(control_error(failed_)));
}

void control_client::set_receiver()
{
    const std::lock_guard guard(lock_);
    has_receiver_ = receiving_ = true;
}

template<class F>
void control_client::wait(unique_lock &lock, const deadline &until, F condition)
{
    const int left = until.left_ms();
    if (left < 0)
        changed_.wait(lock, condition);
    else if (!changed_.wait_for(lock, std::chrono::milliseconds(left), condition))
        fail_call(lock, received::timed_out);
}

std::uint64_t control_client::greet(const deadline &until)
{
    greeting g;
    if (const received got = receive(*socket_, until, g); got != received::message) {
        unique_lock lock(lock_);
        fail_call(lock, got);
    }
    const auto error = static_cast<int>(g.error());
    if (error != 0)
        std::rethrow_exception(exception_of({is_local_shortage(error) ? EREMOTEIO : error, g.text()}));
    return g.features();
}

response control_client::call(request r, const deadline &until)
{
    return finish_call(start_call(std::move(r), until), until);
}

// Keep-alive messages have the number 0.
control_client::pending_call control_client::start_call(request r, const deadline &until)
{
    unique_lock lock(lock_);
    wait(lock, until, [this] { return !sending_; });
    r.set_number(r.has_keep_alive() ? 0 : ++number_);
    const std::string frame = encode(r);
    pending_call created(new expected{r.number(), r.body_case(), std::nullopt});
    expected_.push(created);
    sending_ = true;
    lock.unlock();
    const bool sent = send_message(*socket_, until, frame);
    lock.lock();
    sending_ = false;
    changed_.notify_all();
    if (!sent)
        fail_call(lock, received::broken);
    return created;
}

void control_client::receive_response(const deadline &until)
{
    response r;
    const received got = receive(*socket_, until, r);
    unique_lock lock(lock_);
    if (got != received::message)
        fail_call(lock, got);
    if (expected_.empty() || !answers(r, expected_.front()->number, expected_.front()->kind))
        fail_call(lock, received::malformed);
    expected_.front()->response = std::move(r);
    expected_.pop();
    changed_.notify_all();
}

response control_client::finish_call(const pending_call &pending, const deadline &until)
{
    unique_lock lock(lock_);
    while (!pending->response) {
        if (failed_ != received::message)
            fail_call(lock, failed_);
        if (receiving_) {
            wait(lock, until, [&] { return pending->response || !receiving_ || failed_ != received::message; });
            continue;
        }
        receiving_ = true;
        lock.unlock();
        receive_response(until);
        lock.lock();
        receiving_ = false;
        changed_.notify_all();
    }
    response r = std::move(*pending->response);
    lock.unlock();
    if (const auto result = static_cast<status>(r.status()); result != status::success)
        std::rethrow_exception(exception_of({errno_of(result), r.text()}));
    return r;
}

} // namespace replica
