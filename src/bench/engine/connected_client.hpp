// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include "api/apis.hpp"
#include "process.hpp"
#include "timed_client.hpp"
#include "workload.hpp"

namespace bench
{

// Calls `use` with the loop of the setup's workload over Connection.
template<class Connection, class Use>
void with_loop(workload kind, const parameters &p, Use use)
{
    switch (kind) {
    case workload::read:
        return use(std::make_unique<loop<Connection, workloads::read<Connection>>>(p));
    case workload::write_flush:
        return use(std::make_unique<loop<Connection, workloads::write_flush<Connection>>>(p));
    case workload::atomic_write:
        return use(std::make_unique<loop<Connection, workloads::atomic_write<Connection>>>(p));
    case workload::log_append:
        return use(std::make_unique<loop<Connection, workloads::log_append<Connection>>>(p));
    case workload::mix:
        return use(std::make_unique<loop<Connection, workloads::mix<Connection>>>(p));
    default:
        break;
    }
    if constexpr (requires(Connection & c) { c.receive(0, 0, 0); }) {
        switch (kind) {
        case workload::gpspm:
            return use(std::make_unique<loop<Connection, workloads::gpspm<Connection>>>(p));
        case workload::aof:
            return use(std::make_unique<loop<Connection, workloads::aof<Connection>>>(p));
        case workload::send_recv:
            return use(std::make_unique<loop<Connection, workloads::send_recv<Connection>>>(p));
        case workload::write_with_imm:
            return use(std::make_unique<loop<Connection, workloads::write_with_imm<Connection>>>(p));
        default:
            break;
        }
    }
    throw failure("the API does not support the workload", exit_usage);
}

// Returns a loop over the connections first, first + threads, first + 2 * threads, …
template<class Connection>
std::unique_ptr<runner> make_runner(workload kind, const parameters &p, std::deque<lane> &lanes,
        const std::vector<Connection *> &connections, std::size_t first)
{
    std::unique_ptr<runner> created;
    with_loop<Connection>(kind, p, [&](auto work) {
        for (std::size_t c = first; c < connections.size(); c += p.threads)
            work->add(*connections[c], lanes[c], p);
        created = std::move(work);
    });
    return created;
}

template<class Api>
class connect_runner final : public runner
{
public:
    using connect = std::function<std::unique_ptr<typename Api::connection>()>;
    explicit connect_runner(connect function) : connect_(std::move(function)) {}

    void run(control_block &control, run_counts &result) override
    {
        result.begin_ns = now_ns();
        // Runs at least once: on a busy machine this thread may start after the end of the measurement.
        do {
            const std::uint64_t started = now_ns();
            const auto created = connect_();
            result.all.record(now_ns() - started);
            control.operations.store(++result.operations, std::memory_order_relaxed);
            created->disconnect();
        } while (!control.stop.load(std::memory_order_relaxed));
        result.end_ns = now_ns();
    }

private:
    connect connect_;
};

template<class Api>
class connected_client final : public timed_client
{
public:
    connected_client(const setup &point_setup, const address &to)
        : timed_client(point_setup), device_(to.host, end::client),
          data_region_(device_, data_.data(), data_.size(), region_use::local_data),
          message_region_(device_, messages_.data(), messages_.size(), region_use::messages), to_(to)
    {
        if (shape_.kind() == workload::connect)
            open_connectors();
        else
            open_connections();
    }

private:
    std::unique_ptr<typename Api::connection> connect(std::uint32_t number)
    {
        const queue_sizes sizes{shape_.client_sends(), static_cast<std::uint32_t>(shape_.client_receives()) + 1};
        return Api::connection::connect(device_, to_, sizes, &data_region_, &message_region_, {greeting_magic, number});
    }

    void open_connectors()
    {
        for (std::uint32_t t = 0; t < params().threads; ++t)
            runners_.push_back(std::make_unique<connect_runner<Api>>([this, t] { return connect(t); }));
    }

    void open_connections()
    {
        const std::size_t before = resident_bytes();
        std::vector<typename Api::connection *> all;
        for (std::uint32_t c = 0; c < params().connections; ++c) {
            connections_.push_back(connect(c));
            all.push_back(connections_.back().get());
        }
        memory_per_connection_ = static_cast<double>(resident_bytes() - before) / params().connections;
        for (std::uint32_t t = 0; t < params().threads; ++t)
            runners_.push_back(make_runner(shape_.kind(), params(), lanes_, all, t));
    }

    typename Api::device device_;
    typename Api::region data_region_, message_region_;
    address to_;
    std::vector<std::unique_ptr<typename Api::connection>> connections_;
};

// Each API is instantiated in its own source file, because its loops take several seconds to compile.
extern template class connected_client<rpma_api>;
extern template class connected_client<verbs_api>;
extern template class connected_client<tcp_api>;

} // namespace bench
