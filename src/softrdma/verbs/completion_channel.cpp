// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/completion_channel.hpp"
#include "base/or_no_memory.hpp"
#include "base/assert.hpp"
#include "errno_guard.hpp"
#include "verbs/cq.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace softrdma
{

static bool is_raised_by_an_instruction(int number) noexcept
{
    return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE || number == SIGTRAP ||
           number == SIGSYS;
}

// Returns whether read(2), as in rdma-core, would continue: no handler of this thread lacks SA_RESTART.
static bool handlers_restart_calls() noexcept
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    for (int number = 1; number < NSIG; ++number) {
        struct sigaction action = {};
        if (is_raised_by_an_instruction(number) || sigismember(&blocked, number) == 1 ||
                sigaction(number, nullptr, &action) != 0)
            continue;
        const bool has_handler = action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
        if (has_handler && (action.sa_flags & SA_RESTART) == 0)
            return false;
    }
    return true;
}

completion_channel::completion_channel(ibv_context *owner) : ibv_comp_channel{}, set_(epoll_create1(EPOLL_CLOEXEC))
{
    context = owner;
    fd = set_.get();
}

bool completion_channel::attach(completion_queue &cq)
{
    const lock_guard lock(mutex_);
    requests_.try_emplace(&cq);
    epoll_event disabled{.events = EPOLLONESHOT, .data = {.ptr = &cq}};
    if (epoll_ctl(set_.get(), EPOLL_CTL_ADD, cq.event_descriptor(), &disabled) != 0) {
        requests_.erase(&cq);
        return false;
    }
    return true;
}

void completion_channel::detach(completion_queue &cq) noexcept
{
    forget(cq);
    const lock_guard lock(mutex_);
    requests_.erase(&cq);
}

// Peers and child processes have the eventfd too, so closing it does not remove it from the set.
unsigned completion_channel::forget(completion_queue &cq) noexcept
{
    const errno_guard keep_errno; // errors of these calls are harmless
    const lock_guard lock(mutex_);
    epoll_ctl(set_.get(), EPOLL_CTL_DEL, cq.event_descriptor(), nullptr);
    const std::size_t dropped = std::erase(earlier_, &cq);
    if (any_earlier_)
        any_earlier_->withdraw(dropped);
    request &r = requests_.at(&cq);
    r.in = interest::nothing; // another thread may have received its event, and be waiting for the lock
    return r.delivered;
}

void completion_channel::publish(completion_queue &cq, const request &latest) noexcept
{
    SOFTRDMA_ASSERT(latest.number != 0); // 0 means that no event is due
    cq.shared().armed.store(arming_word(latest.number, latest.in), std::memory_order_seq_cst);
}

// Makes the set readable once the queue's eventfd is, without the events of earlier armings.
void completion_channel::enable_event(completion_queue &cq) noexcept
{
    const errno_guard keep_errno; // errors of these calls are harmless
    std::uint64_t written = 0;
    [[maybe_unused]] const ssize_t size = read(cq.event_descriptor(), &written, sizeof(written));
    epoll_event once{.events = EPOLLIN | EPOLLONESHOT, .data = {.ptr = &cq}};
    epoll_ctl(set_.get(), EPOLL_CTL_MOD, cq.event_descriptor(), &once);
}

// Disarms the queue of an event that has left the kernel's list. Returns NULL if the queue has been destroyed.
completion_queue *completion_channel::accept(void *arrived) noexcept
{
    const auto found = requests_.find(static_cast<completion_queue *>(arrived));
    if (found == requests_.end() || found->second.in == interest::nothing)
        return nullptr;
    auto &[cq, r] = *found;
    r.in = interest::nothing;
    publish(*cq, r);
    return cq;
}

// The kernel returns the oldest event first, and moves any_earlier_ to the end of its list after returning it.
completion_queue *completion_channel::next_arrived() noexcept
{
    epoll_event arrived{};
    for (int attempt = 0; attempt < 2 && arrived.data.ptr == nullptr; ++attempt) {
        if (epoll_wait(set_.get(), &arrived, 1, 0) != 1)
            return nullptr;
    }
    return accept(arrived.data.ptr);
}

// Moves arrived events to `earlier_`, so that their queues can be armed again; without a descriptor they stay.
void completion_channel::save_arrived_events()
{
    if (!any_earlier_) {
        any_earlier_.emplace();
        epoll_event readable{.events = EPOLLIN, .data = {.ptr = nullptr}};
        if (epoll_ctl(set_.get(), EPOLL_CTL_ADD, any_earlier_->fd(), &readable) != 0)
            return any_earlier_.reset();
    }
    for (std::size_t left = requests_.size(); left > 0; --left) {
        earlier_.push_back(nullptr); // allocated now, because no step may fail after the event left the kernel's list
        completion_queue *cq = next_arrived();
        if (cq == nullptr)
            return earlier_.pop_back();
        earlier_.back() = cq;
        any_earlier_->put();
    }
}

void completion_channel::arm(completion_queue &cq, interest in)
{
    SOFTRDMA_ASSERT(in != interest::nothing);
    const lock_guard lock(mutex_);
    request &r = requests_.at(&cq);
    if (r.in != interest::nothing && cq.shared().signaled.load(std::memory_order_acquire) == r.number)
        save_arrived_events();
    if (r.in != interest::nothing) {
        r.in = std::max(r.in, in);
    } else {
        enable_event(cq);
        ++r.number;
        r.in = in;
    }
    publish(cq, r);
}

completion_queue *completion_channel::deliver(completion_queue *cq) noexcept
{
    if (cq != nullptr)
        ++requests_.at(cq).delivered;
    return cq;
}

completion_queue *completion_channel::next_earlier() noexcept
{
    const lock_guard lock(mutex_);
    if (earlier_.empty())
        return nullptr;
    completion_queue *cq = earlier_.front();
    earlier_.pop_front();
    any_earlier_->withdraw(1);
    return deliver(cq);
}

int completion_channel::take(completion_queue **cq)
{
    const bool waits = (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
    if (waits)
        context_of(context).engine.about_to_wait();
    for (*cq = next_earlier(); *cq == nullptr; *cq = next_earlier()) {
        epoll_event arrived{};
        const int count = epoll_wait(set_.get(), &arrived, 1, waits ? -1 : 0);
        if (count == 0)
            return fail_with(-1, EAGAIN);
        if (count < 0) {
            if (errno != EINTR || !handlers_restart_calls())
                return -1;
            continue;
        }
        const lock_guard lock(mutex_);
        *cq = deliver(accept(arrived.data.ptr));
        if (*cq != nullptr)
            break;
    }
    return 0;
}

} // namespace softrdma
