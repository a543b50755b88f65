// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/rc/requester.hpp"
#include "transport/rc/responder.hpp"
#include "verbs/qp.hpp"

namespace softrdma
{

// Packet protocol of a reliable connection: a requester and a responder.
class rc_transport final : public transport, public packet_receiver
{
public:
    explicit rc_transport(queue_pair &qp)
        : qp_(qp), ep_(qp.end()), requester_(ep_, qp.sends()), responder_(ep_, qp.receives(), *qp.verbs())
    {
    }
    static std::unique_ptr<transport> make(queue_pair &qp) { return std::make_unique<rc_transport>(qp); }

    void start_responding(std::uint32_t psn) noexcept override REQUIRES(qp_.lock()) { responder_.start(psn); }
    void start_sending(std::uint32_t psn) noexcept override REQUIRES(qp_.lock()) { requester_.start(psn); }
    outcome execute() override REQUIRES(qp_.lock()) { return requester_.pump(); }
    bool awaits_memory() const noexcept override REQUIRES(qp_.lock()) { return requester_.awaits_memory(); }
    outcome tried_in_memory(post_result result) override REQUIRES(qp_.lock())
    {
        return requester_.tried_in_memory(result);
    }
    outcome resume() override REQUIRES(qp_.lock()) { return requester_.resume(); }
    bool busy() const noexcept override REQUIRES(qp_.lock()) { return requester_.busy(); }
    bool fail_first(ibv_wc_status status) override REQUIRES(qp_.lock())
    {
        return requester_.fail_first(status) || responder_.rejects();
    }
    void flush_sends() override REQUIRES(qp_.lock()) { requester_.flush(); }
    void on_receive_posted() override REQUIRES(qp_.lock()) { responder_.announce_receive(); }
    void abandon_responses() override REQUIRES(qp_.lock()) { responder_.abandon(); }
    void flush_receives() override REQUIRES(qp_.lock()) { responder_.flush(); }
    void drop_message() override REQUIRES(qp_.lock())
    {
        if (!is_executing_) // the request in progress may be the end of the message
            responder_.drop_message();
    }
    bool is_executing() const noexcept override REQUIRES(qp_.lock()) { return is_executing_; }
    std::uint64_t executed_count() const noexcept override REQUIRES(qp_.lock()) { return responder_.executed_count(); }
    bool reset() override REQUIRES(qp_.lock())
    {
        responder_.reset();
        return requester_.reset();
    }
    packet_receiver *receiver() noexcept override { return this; }

    bool receive(packet_path &from, const packet &p) override;
    void fill_destination(const packet_path &from, const packet &partial, std::size_t bytes,
            const std::function<void(std::span<std::byte>)> &fill) override;
    void received_all() override;
    void path_writable() override;
    void timer_expired() override;
    void response_timer_expired() override;
    void path_lost(const packet_path &path) override { qp_.path_lost(&path); }

private:
    bool receive_request(const packet_path &from, const packet &p);
    // Only the thread that reads the connection executes requests, without the lock of the queue pair.
    std::uint8_t execute(const packet &p) NO_THREAD_SAFETY_ANALYSIS { return responder_.execute(p); }
    // Returns whether packets of that path belong to the connection of the queue pair.
    bool is_current(const packet_path &from) const noexcept REQUIRES(qp_.lock())
    {
        return ep_.path.get() == &from && !ep_.path_lost;
    }
    // Drops a request because the queue pair is no longer in a state in which it responds.
    void drop(const packet &p) REQUIRES(qp_.lock())
    {
        if (is_last(p.op) || is_round_trip(p.op))
            responder_.reject_rest();
    }

    queue_pair &qp_;
    endpoint &ep_ GUARDED_BY(qp_.lock());
    requester requester_ GUARDED_BY(qp_.lock());
    responder responder_ GUARDED_BY(qp_.lock());
    bool is_executing_ GUARDED_BY(qp_.lock()) = false;
};

} // namespace softrdma
