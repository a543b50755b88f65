// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <infiniband/verbs.h>
#include <memory>
#include <sys/epoll.h>
#include <unistd.h>
#include <vector>

#include "clock.hpp"
#include "failure.hpp"
#include "histogram.hpp"
#include "lane.hpp"

namespace bench
{

struct run_counts {
    histogram all, reads, writes;
    std::uint64_t operations = 0;
    std::uint64_t read_operations = 0;
    std::uint64_t begin_ns = 0, end_ns = 0;
};

struct control_block {
    std::atomic<bool> stop{false};
    alignas(64) std::atomic<std::uint64_t> operations{0}; // completed operations, for progress
};

// Connections of one thread, for any api and workload.
class runner
{
public:
    virtual ~runner() = default;
    // Keeps every connection busy until control.stop, then waits for outstanding operations.
    virtual void run(control_block &control, run_counts &result) = 0;
};

// Epoll set of the completion descriptors of a thread's connections.
class waiter
{
public:
    waiter() : epoll_(epoll_create1(EPOLL_CLOEXEC))
    {
        if (epoll_ < 0)
            throw system_failure("epoll_create1() failed");
    }
    ~waiter() { close(epoll_); }
    waiter(const waiter &) = delete;
    waiter &operator=(const waiter &) = delete;

    void add(int fd, std::uint32_t events, std::size_t index)
    {
        epoll_event event{};
        event.events = events;
        event.data.u64 = index;
        if (fd >= 0 && epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
            throw system_failure("epoll_ctl() failed");
    }
    // Calls ready(index) for each readable descriptor. Returns after at most 100 ms.
    template<class Ready>
    void wait(Ready ready)
    {
        epoll_event events[64];
        const int count = epoll_wait(epoll_, events, 64, 100);
        for (int i = 0; i < count; ++i)
            ready(static_cast<std::size_t>(events[i].data.u64));
    }

private:
    int epoll_;
};

[[noreturn, gnu::cold]] inline void fail_completion(const ibv_wc &wc)
{
    throw failure(std::string("an operation failed: ") + ibv_wc_status_str(wc.status));
}

template<class Connection, class Workload>
class loop final : public runner
{
public:
    explicit loop(const parameters &p)
        : depth_(p.depth), sleeps_(p.polling == polling::event),
          batch_(static_cast<int>(p.depth < batch_limit ? p.depth : batch_limit))
    {
    }
    // Both must outlive the loop.
    void add(Connection &connection, lane &share, const parameters &p)
    {
        if (sleeps_)
            waiter_.add(connection.completion_fd(), Connection::epoll_events, connection_states_.size());
        connection_states_.push_back(std::make_unique<connection_state>(connection, share, p));
        connection_states_.back()->work.prepare(depth_);
    }

    void run(control_block &control, run_counts &result) override
    {
        for (const auto &one : connection_states_) {
            for (std::uint32_t slot = 0; slot < depth_; ++slot)
                begin(*one, slot, now_ns());
        }
        in_flight_ = static_cast<std::uint64_t>(connection_states_.size()) * depth_;
        result.begin_ns = now_ns();
        while (in_flight_ != 0) {
            const std::uint64_t before = result.operations;
            bool idle = true;
            for (const auto &one : connection_states_)
                idle &= !serve(*one, control, result);
            if (result.operations != before)
                control.operations.store(result.operations, std::memory_order_relaxed);
            if (idle && sleeps_)
                waiter_.wait([&](std::size_t index) { connection_states_[index]->connection.acknowledge_event(); });
        }
        result.end_ns = now_ns();
    }

private:
    static constexpr std::uint32_t batch_limit = 16;

    struct connection_state {
        connection_state(Connection &on, lane &share, const parameters &p)
            : connection(on), work(on, share, p), started(p.depth)
        {
        }
        Connection &connection;
        Workload work;
        std::vector<std::uint64_t> started; // post time of each slot's operation
    };

    void begin(connection_state &at, std::uint32_t slot, std::uint64_t now)
    {
        at.started[slot] = now;
        at.work.post(slot);
    }

    // Polls the completions of a connection and posts the next operations. Returns false without completions.
    bool serve(connection_state &at, const control_block &control, run_counts &result)
    {
        std::array<ibv_wc, batch_limit> completions;
        const int count = at.connection.poll(completions.data(), batch_);
        if (count == 0)
            return false;
        const std::uint64_t now = now_ns();
        const bool stopping = control.stop.load(std::memory_order_relaxed);
        for (int i = 0; i < count; ++i) {
            const ibv_wc &wc = completions[static_cast<std::size_t>(i)];
            if (wc.status != IBV_WC_SUCCESS) [[unlikely]]
                fail_completion(wc);
            const std::uint32_t slot = at.work.collect(wc);
            if (slot >= depth_)
                continue;
            record(at, slot, now, result);
            if (stopping)
                --in_flight_;
            else
                begin(at, slot, now);
        }
        return true;
    }

    void record(connection_state &at, std::uint32_t slot, std::uint64_t now, run_counts &result)
    {
        const std::uint64_t took = now - at.started[slot];
        result.all.record(took);
        result.operations += at.work.weight();
        if constexpr (requires { Workload::has_halves; }) {
            const bool was_read = at.work.is_read(slot);
            (was_read ? result.reads : result.writes).record(took);
            result.read_operations += was_read;
        }
    }

    std::uint32_t depth_;
    bool sleeps_;
    int batch_;
    std::uint64_t in_flight_ = 0;
    std::vector<std::unique_ptr<connection_state>> connection_states_;
    waiter waiter_;
};

} // namespace bench
