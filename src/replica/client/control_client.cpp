// SPDX-License-Identifier: BSD-3-Clause
#include "client/control_client.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/socket.h>

namespace replica
{

namespace
{

int errno_of(received got)
{
    switch (got) {
    case received::other_version:
        return EPROTONOSUPPORT;
    case received::malformed:
        return EPROTO;
    case received::timed_out:
        return ETIMEDOUT;
    default:
        return ECONNRESET;
    }
}

const char *describe(int os_errno)
{
    switch (os_errno) {
    case EPROTONOSUPPORT:
        return "uses another version of the protocol (install the same version on both sides)";
    case EPROTO:
        return "does not use the protocol of rpmemd";
    case ETIMEDOUT:
        return "did not respond in time";
    default:
        return "closed the connection";
    }
}

} // namespace

control_error::control_error(int os_errno)
    : std::runtime_error(describe(os_errno)), os_errno_(os_errno), is_rejection_(false)
{
}

control_error::control_error(int os_errno, const std::string &text)
    : std::runtime_error(text.empty() ? std::strerror(os_errno) : text), os_errno_(os_errno), is_rejection_(true)
{
}

control_client::pending_call::~pending_call()
{
    if (of_ == nullptr)
        return;
    const std::lock_guard guard(of_->lock_);
    const auto entry = std::ranges::find(of_->expected_, number_, &expected::number);
    if (entry == of_->expected_.end())
        return;
    entry->abandoned = true;
    if (entry->response)
        of_->expected_.erase(entry);
}

std::exception_ptr control_client::exception_of(const control_error &error) const
{
    return std::make_exception_ptr(error);
}

// Closes the connection, because a late response would block all later ones.
void control_client::fail(unique_lock &lock, int os_errno)
{
    if (broken_ == 0)
        broken_ = os_errno;
    const control_error error(broken_);
    shutdown(fd(), SHUT_RDWR);
    changed_.notify_all();
    lock.unlock();
    std::rethrow_exception(exception_of(error));
}

template<class F>
void control_client::wait(unique_lock &lock, const deadline &until, F condition)
{
    const int left = until.left_ms();
    if (left < 0)
        changed_.wait(lock, condition);
    else if (!changed_.wait_for(lock, std::chrono::milliseconds(left), condition))
        fail(lock, ETIMEDOUT);
}

std::uint64_t control_client::greet(const deadline &until)
{
    greeting g;
    const received got = receive(*socket_, until, g);
    if (got != received::message) {
        unique_lock lock(lock_);
        fail(lock, errno_of(got));
    }
    if (g.error() != 0)
        std::rethrow_exception(exception_of({static_cast<int>(g.error()), g.text()}));
    return g.features();
}

response control_client::call(request r, const deadline &until)
{
    return finish_call(start_call(std::move(r), until), until);
}

control_client::pending_call control_client::start_call(request r, const deadline &until)
{
    pending_call created;
    unique_lock lock(lock_);
    wait(lock, until, [this] { return !sending_ || broken_ != 0; });
    if (broken_ != 0)
        fail(lock, broken_);
    r.set_number(number_ + 1);
    const std::string frame = encode(r);
    created.of_ = this;
    created.number_ = ++number_;
    expected_.push_back({number_, r.body_case(), false, std::nullopt});
    sending_ = true;
    lock.unlock();
    const bool sent = send_message(*socket_, until, frame);
    lock.lock();
    sending_ = false;
    changed_.notify_all();
    if (!sent)
        fail(lock, ECONNRESET);
    return created;
}

// Receives the next response, for any of the threads.
void control_client::receive_response(const deadline &until)
{
    response r;
    const received got = receive(*socket_, until, r);
    unique_lock lock(lock_);
    if (got != received::message)
        fail(lock, errno_of(got));
    const auto next = std::ranges::find_if(expected_, [](const expected &e) { return !e.response; });
    if (next == expected_.end() || !answers(r, next->number, next->kind))
        fail(lock, EPROTO);
    if (next->abandoned)
        expected_.erase(next);
    else
        next->response = std::move(r);
    changed_.notify_all();
}

response control_client::finish_call(pending_call pending, const deadline &until)
{
    unique_lock lock(lock_);
    const auto entry = std::ranges::find(expected_, pending.number_, &expected::number);
    while (!entry->response) {
        if (broken_ != 0)
            fail(lock, broken_);
        if (receiving_) {
            wait(lock, until, [&] { return entry->response || !receiving_ || broken_ != 0; });
            continue;
        }
        receiving_ = true;
        lock.unlock();
        receive_response(until);
        lock.lock();
        receiving_ = false;
        changed_.notify_all();
    }
    response r = std::move(*entry->response);
    expected_.erase(entry);
    pending.of_ = nullptr;
    lock.unlock();
    if (const auto received = static_cast<status>(r.status()); received != status::success)
        std::rethrow_exception(exception_of({replica::errno_of(received), r.text()}));
    return r;
}

} // namespace replica
