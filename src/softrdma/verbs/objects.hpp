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
#include <optional>

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

// A counting descriptor: readable while it contains tokens. A read takes one token; the program sets O_NONBLOCK.
class event_fd
{
public:
    event_fd();

    int fd() const noexcept { return fd_.get(); }
    void put() const noexcept { put_event(fd_.get()); }
    // Takes one token. Returns 0, or -1 with errno: EAGAIN, EINTR. Calls engine->about_to_wait() before it blocks.
    int take(progress *engine) const noexcept;
    // Removes tokens of events that were delivered in another way, except those already taken; never waits.
    void withdraw(std::size_t tokens) const noexcept;

private:
    const unique_fd fd_;
};

// Asynchronous events of one object: the part that must exist when no memory is left. Guarded by the lock of the queue.
struct object_events {
    explicit object_events(void *object) noexcept : element(object) {}

    void *const element;    // structure for programs
    unsigned delivered = 0; // number of events that take() has returned
    unsigned unqueued = 0;  // bit mask: types of events that are pending without an entry in the queue
    object_events *next_unqueued = nullptr;
};

template<typename Object>
void acknowledge_events(Object &object, std::uint32_t &acknowledged, unsigned events) noexcept
{
    pthread_mutex_lock(&object.mutex);
    acknowledged += events;
    pthread_cond_signal(&object.cond);
    pthread_mutex_unlock(&object.mutex);
}

template<typename Object>
void wait_for_acknowledgments(Object &object, const std::uint32_t &acknowledged, unsigned events) noexcept
{
    pthread_mutex_lock(&object.mutex);
    while (acknowledged != events)
        pthread_cond_wait(&object.cond, &object.mutex);
    pthread_mutex_unlock(&object.mutex);
}

class async_queue
{
public:
    int fd() const noexcept { return ready_.fd(); }
    void push(object_events &object, ibv_event_type type) noexcept; // if memory is exhausted, equal events become one
    int take(ibv_async_event *event, progress &engine);
    // Removes the queued events of an object that is being destroyed. Returns the number that take() has returned.
    unsigned forget(object_events &object);

private:
    struct entry {
        object_events *object = nullptr;
        ibv_event_type type{};
    };
    entry take_unqueued() noexcept REQUIRES(mutex_);
    std::optional<entry> next() noexcept REQUIRES(mutex_);

    event_fd ready_;
    ordered_mutex mutex_{lock_level::events};
    std::deque<entry> queue_ GUARDED_BY(mutex_);
    object_events *unqueued_ GUARDED_BY(mutex_) = nullptr; // objects with events that are not in the queue
};

// An open device: its private state, and the verbs_context, of which programs get the last member.
struct device_context {
    device_context(progress &p, shared_memory &m, transport_maker t) : engine(p), memory(m), make_transport(t) {}

    verbs_context verbs{};
    progress &engine; // progress engine of the network
    shared_memory &memory;
    const transport_maker make_transport;
    process::birth birth;
    async_queue async;
    // Substitute for the descriptor of the device file. Programs set its flags; it accepts no commands.
    event_fd command;
    std::atomic<int> children{0};
};

inline device_context &context_of(ibv_context *context) noexcept
{
    return *reinterpret_cast<device_context *>(reinterpret_cast<char *>(context) - offsetof(verbs_context, context));
}

struct protection_domain : ibv_pd {
    protection_domain() noexcept : ibv_pd{}, number(next_number()) {}
    // Constructor of a parent domain: keys are valid in both.
    protection_domain(protection_domain &parent, ibv_td *td) noexcept
        : ibv_pd{}, number(parent.number), extends(&parent), thread(td)
    {
    }

    std::atomic<int> children{0};
    const std::uint64_t number; // known to peers on this host
    protection_domain *const extends = nullptr;
    ibv_td *const thread = nullptr;

    bool is_parent() const noexcept { return extends != nullptr; }
    static std::uint64_t next_number() noexcept;
};

inline protection_domain &pd_of(ibv_pd *pd) noexcept
{
    return *static_cast<protection_domain *>(pd);
}

inline std::uint64_t domain_of(const ibv_pd *pd) noexcept
{
    return static_cast<const protection_domain *>(pd)->number;
}

} // namespace softrdma
