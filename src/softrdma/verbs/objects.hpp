// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/process.hpp"
#include "base/unique_fd.hpp"
#include "transport/progress.hpp"
#include "transport/shared_memory.hpp"
#include "transport/transport.hpp"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <infiniband/verbs.h>
#include <unordered_map>

namespace softrdma
{

// Limits of the device. ibv_query_device reports them and the object constructors enforce them.
namespace limits
{
inline constexpr int max_qp_wr = 16384;
inline constexpr int max_sge = 16;
inline constexpr int max_cqe = 1 << 22;
inline constexpr int max_inline = 256;
inline constexpr int max_reads = 128; // per queue pair and direction
inline constexpr std::uint32_t max_message = 1u << 30;
inline constexpr int max_ah = 1 << 20;
} // namespace limits

// A counting descriptor: readable while tokens are in it, one read takes one, O_NONBLOCK as the program sets it.
class event_fd
{
public:
    event_fd();

    int fd() const noexcept { return fd_.get(); }
    void put() const noexcept;
    // 0, or -1 with errno: EAGAIN, EINTR. Whoever moves the network, if anybody does, is told if it may take long.
    int take(progress *mover) const noexcept;
    // Takes back the tokens of events that have gone another way, as far as nobody has taken them; never waits.
    void withdraw(std::size_t tokens) const noexcept;

private:
    const local::unique_fd fd_;
};

// Asynchronous events of one open device.
class async_queue
{
public:
    int fd() const noexcept { return ready_.fd(); }
    // An event for which there is no memory is lost.
    void push(const ibv_async_event &event) noexcept;
    int take(ibv_async_event *event, progress &mover);
    // Forgets the queued events of an object that is going away, and returns how many take() has handed out. A take()
    // that is under way may then find nothing and go on waiting.
    unsigned forget(const void *element);

private:
    event_fd ready_;
    ordered_mutex mutex_{lock_level::events};
    std::deque<ibv_async_event> queue_ GUARDED_BY(mutex_);
    std::unordered_map<const void *, unsigned> handed_out_ GUARDED_BY(mutex_);
};

// One open device: what programs see, of which they use the last member, and what is ours.
struct device_context {
    device_context(progress &p, local::shared_memory &m, transport_maker &t) : mover(p), memory(m), transports(t) {}

    verbs_context verbs{};
    progress &mover; // of the network
    local::shared_memory &memory;
    transport_maker &transports;
    process::birth birth;
    async_queue async;
    // Stands for the descriptor of the device's file, which programs set flags of; it takes no commands.
    event_fd command;
    std::atomic<int> children{0};
};

inline device_context &context_of(ibv_context *context) noexcept
{
    return *reinterpret_cast<device_context *>(reinterpret_cast<char *>(context) - offsetof(verbs_context, context));
}

struct protection_domain : ibv_pd {
    protection_domain() noexcept : ibv_pd{}, number(next_number()) {}
    // A parent domain: keys are valid in both.
    protection_domain(protection_domain &of, ibv_td *td) noexcept
        : ibv_pd{}, number(of.number), stands_for(&of), thread(td)
    {
    }

    std::atomic<int> children{0};
    const std::uint64_t number; // known to peers of this host
    protection_domain *const stands_for = nullptr;
    ibv_td *const thread = nullptr;

    bool is_parent() const noexcept { return stands_for != nullptr; }
    // Never 0, and never the same twice.
    static std::uint64_t next_number() noexcept;
};

inline protection_domain &pd_of(ibv_pd *pd) noexcept
{
    return *static_cast<protection_domain *>(pd);
}

// What keys are compared with.
inline std::uint64_t domain_of(const ibv_pd *pd) noexcept
{
    return static_cast<const protection_domain *>(pd)->number;
}

} // namespace softrdma
