// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shared_memory.hpp"
#include "transport/transport.hpp"
#include "verbs/qp.hpp"
#include "verbs/remote_access.hpp"

namespace softrdma
{

// Private memory: not shared with another process.
class private_memory final : public shared_memory
{
public:
    std::shared_ptr<block> allocate(std::size_t size) override;
    std::uint64_t next_serial() noexcept override { return serial_.fetch_add(1) + 1; }
    void publish(const published_region &) noexcept override {}
    void withdraw(std::uint32_t) noexcept override {}
    bool has_unsynced(std::uint32_t) const noexcept override { return false; }
    std::atomic<std::uint32_t> &uses_flush() noexcept override { return uses_flush_; }

private:
    std::atomic<std::uint64_t> serial_{0};
    std::atomic<std::uint32_t> uses_flush_{0};
};

// Connects queue pairs of one process without a network: the posting thread executes each request, if the receives of
// the peer allow it. A message without a receive is retried by polls that find nothing; each counts as one retry. Only
// lock-free members of the peer are used, or those under the lock of its completion queue: two threads may use the two
// queue pairs.
class loopback final : public transport
{
public:
    explicit loopback(queue_pair &qp) : qp_(qp), memory_(*qp.verbs()) {}
    static std::unique_ptr<transport> make(queue_pair &qp) { return std::make_unique<loopback>(qp); }
    // Both queue pairs must use this transport. Call before they enter RTR.
    static void connect(const std::shared_ptr<queue_pair> &a, const std::shared_ptr<queue_pair> &b);

    void start_responding(std::uint32_t) noexcept override {}
    void start_sending(std::uint32_t) noexcept override {}
    outcome execute() override;
    bool awaits_memory() const noexcept override { return false; }
    outcome tried_in_memory(post_result) override { return outcome::proceed; }
    outcome resume() override { return execute(); }
    bool busy() const noexcept override { return tries_ > 0; }
    bool fail_first(ibv_wc_status status) override;
    void flush_sends() override;
    void on_receive_posted() override {}
    void abandon_responses() override {}
    bool is_executing() const noexcept override { return false; }
    void flush_receives() override { qp_.receives().flush(); }
    void drop_message() override {} // messages arrive whole
    std::uint64_t executed_count() const noexcept override { return executed_.load(); }
    bool reset() override;
    packet_receiver *receiver() noexcept override { return nullptr; }

private:
    std::optional<ibv_wc_status> execute_request(const wqe &w); // std::nullopt: it must wait for a receive
    ibv_wc_status act_on(loopback &peer, const wqe &w, std::span<const std::byte> data);
    std::optional<ibv_wc_status> deliver(loopback &peer, const wqe &w, std::span<const std::byte> data);
    void complete_first(ibv_wc_status status);

    queue_pair &qp_;
    remote_access memory_; // used by the peer, under its lock
    std::weak_ptr<queue_pair> peer_;
    int tries_ = 0; // attempts for the first request
    std::atomic<std::uint64_t> executed_{0};
};

} // namespace softrdma
