// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/tcp/requester.hpp"
#include "transport/tcp/responder.hpp"
#include "verbs/qp.hpp"

#include <functional>

namespace softrdma
{

// The protocol of a reliable connection, in packets: a requester and a responder.
class rc_transport final : public transport
{
public:
    explicit rc_transport(queue_pair &qp)
        : qp_(qp), ep_(qp.end()), requester_(ep_, qp.sends()), responder_(ep_, qp.receives(), *qp.verbs())
    {
    }
    // All queue pairs that are on the network have one.
    static transport_maker &maker() noexcept;
    static rc_transport &of(queue_pair &qp) noexcept { return static_cast<rc_transport &>(qp.network()); }

    void start_answering(std::uint32_t psn) noexcept override REQUIRES(qp_.lock()) { responder_.start(psn); }
    void start_sending(std::uint32_t psn) noexcept override REQUIRES(qp_.lock()) { requester_.start(psn); }
    outcome execute() override REQUIRES(qp_.lock()) { return requester_.pump(); }
    outcome resume() override REQUIRES(qp_.lock()) { return requester_.resume(); }
    bool busy() const noexcept override REQUIRES(qp_.lock()) { return requester_.busy(); }
    bool fail_first(ibv_wc_status status) override REQUIRES(qp_.lock()) { return requester_.fail_first(status); }
    void flush_sends() override REQUIRES(qp_.lock()) { requester_.flush(); }
    void receive_is_posted() override REQUIRES(qp_.lock()) { responder_.announce_receive(); }
    void abandon_answers() override REQUIRES(qp_.lock()) { responder_.abandon(); }
    void flush_receives() override REQUIRES(qp_.lock()) { responder_.flush(); }
    void drop_message() override REQUIRES(qp_.lock())
    {
        if (!carries_out_) // the request in progress may be the end of the message
            responder_.drop_message();
    }
    bool carries_out() const noexcept override REQUIRES(qp_.lock()) { return carries_out_; }
    std::uint64_t executed_count() const noexcept override REQUIRES(qp_.lock()) { return responder_.executed_count(); }
    bool reset() override REQUIRES(qp_.lock())
    {
        responder_.reset();
        return requester_.reset();
    }

    // Upcalls of the packet path, which take the queue pair's lock. A packet of a path that the queue pair has no more
    // is ignored: of an earlier connection, whose numbers may be those of this one. False if the peer broke the
    // protocol.
    bool receive(const packet_path &from, const packet &p);
    // Calls `fill` with the memory where the next bytes of a segment have to go, of which something has been received:
    // as many of the `bytes` as lie in one piece. What it puts there is received like everything else, but not copied.
    // It is not called where words have to be stored whole, or the place is not certain.
    void fill_place(const packet_path &from, const packet &begun, std::size_t bytes,
            const std::function<void(std::span<std::byte>)> &fill);
    void received_all();
    void path_writable();
    void timer_expired();
    void answer_timer_expired();

private:
    bool receive_request(const packet_path &from, const packet &p);
    // Only the thread that reads the connection executes requests: it holds no lock of the queue pair meanwhile.
    std::uint8_t execute(const packet &p) NO_THREAD_SAFETY_ANALYSIS { return responder_.execute(p); }
    // Returns whether packets of that path belong to the connection of the queue pair.
    bool is_current(const packet_path &from) const noexcept REQUIRES(qp_.lock())
    {
        return ep_.path.get() == &from && !ep_.path_lost;
    }
    // The queue pair does not execute the request: it has left the states in which it answers.
    void drop(const packet &p) REQUIRES(qp_.lock());

    queue_pair &qp_;
    endpoint &ep_ GUARDED_BY(qp_.lock());
    requester requester_ GUARDED_BY(qp_.lock());
    responder responder_ GUARDED_BY(qp_.lock());
    bool carries_out_ GUARDED_BY(qp_.lock()) = false;
};

} // namespace softrdma
