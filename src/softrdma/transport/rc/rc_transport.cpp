// SPDX-License-Identifier: BSD-3-Clause
#include "transport/rc/rc_transport.hpp"
#include "pmem/power_cut.hpp"

namespace softrdma
{

bool rc_transport::receive(packet_path &from, const packet &p)
{
    if (tap *t = tap::current(); t != nullptr) [[unlikely]]
        t->received(from, p);
    if (is_request(p.op))
        return receive_request(from, p);
    const lock_guard lock(qp_.lock());
    if (!is_current(from))
        return true;
    if (p.op == opcode::ack_request) {
        if (qp_.responds()) // otherwise all executed requests have been acknowledged, and the rest is rejected
            responder_.acknowledge_executed();
        return true;
    }
    if (!qp_.sends_requests())
        return true;
    return qp_.apply_outcome(p.op == opcode::receive_posted ? requester_.resume() : requester_.receive_response(p));
}

void rc_transport::fill_destination(const packet_path &from, const packet &partial, std::size_t bytes,
        const std::function<void(std::span<std::byte>)> &fill)
{
    const lock_guard lock(qp_.lock());
    gathered destination;
    if (!is_current(from) || !qp_.responds() || pmem::power_cut::armed())
        return;
    if (is_send(partial.op) ? responder_.find_destination(partial, bytes, destination)
                            : requester_.find_destination(partial, bytes, destination))
        fill({static_cast<std::byte *>(destination.segments[0].iov_base), destination.segments[0].iov_len});
}

bool rc_transport::receive_request(const packet_path &from, const packet &p)
{
    {
        const lock_guard lock(qp_.lock());
        if (!is_current(from))
            return true;
        if (!qp_.responds())
            return drop(p), true;
        if (p.is_invalid && !responder_.rejects())
            return qp_.apply_outcome(responder_.reject_invalid(p));
        const auto admitted = responder_.admit(p, qp_.weak_from_this());
        if (admitted != responder::admission::execute)
            return admitted == responder::admission::ignore;
        is_executing_ = true;
    }
    const std::uint8_t code = execute(p);
    const lock_guard lock(qp_.lock());
    is_executing_ = false;
    if (!qp_.responds())
        return drop(p), true;
    return qp_.apply_outcome(responder_.finish(p, code));
}

void rc_transport::received_all()
{
    const lock_guard lock(qp_.lock());
    if (qp_.responds())
        qp_.apply_outcome(responder_.release());
}

void rc_transport::path_writable()
{
    const lock_guard lock(qp_.lock());
    if (qp_.responds())
        qp_.apply_outcome(responder_.release());
    if (qp_.responds())
        qp_.apply_outcome(requester_.pump());
}

void rc_transport::timer_expired()
{
    const lock_guard lock(qp_.lock());
    if (qp_.sends_requests())
        qp_.apply_outcome(requester_.timed_out());
}

void rc_transport::response_timer_expired()
{
    const lock_guard lock(qp_.lock());
    if (qp_.sends_requests())
        qp_.apply_outcome(requester_.response_timer_expired());
}

} // namespace softrdma
