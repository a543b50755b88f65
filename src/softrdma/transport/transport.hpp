// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>

namespace softrdma
{

class queue_pair;

// What an event did to the queue pair.
enum class outcome {
    proceed,
    broken,    // the queue pair has to go to the error state
    violation, // the peer breaks the protocol: cut the path
};

// Executes the requests of one queue pair and answers those of its peer. How requests are numbered, cut into segments,
// acknowledged and tried again is its own affair. Every call is made with the queue pair's lock held, returns without
// waiting for the peer and never calls back into the queue pair.
class transport
{
public:
    virtual ~transport() = default;

    // From now on the peer's requests are answered, or those of this side are executed; the first has that number.
    virtual void start_answering(std::uint32_t psn) noexcept = 0;
    virtual void start_sending(std::uint32_t psn) noexcept = 0;

    // Executes what may be executed now of the send queue, in its order, and completes it there.
    virtual outcome execute() = 0;
    // What the first request has been waiting for may be over.
    virtual outcome resume() = 0;
    // Whether something that has been started is not complete.
    virtual bool busy() const noexcept = 0;
    // Completes the first request with an error of the path; false if there is none, or nothing is sent for it.
    virtual bool fail_first(ibv_wc_status status) = 0;
    virtual void flush_sends() = 0;

    // The program has posted a receive, which the peer may be waiting for.
    virtual void receive_is_posted() = 0;
    // Gives the answers that are due; those that take longer become refusals.
    virtual void abandon_answers() = 0;
    virtual void flush_receives() = 0;
    // Called when no more data arrives: returns the receive of a partial message to its shared queue.
    virtual void drop_message() = 0;
    // Whether a thread is carrying out a request of the peer, without the queue pair's lock.
    virtual bool carries_out() const noexcept = 0;
    // Requests of the peer that this side has carried out.
    virtual std::uint64_t executed_count() const noexcept = 0;

    // Forgets everything; nothing completes. False if the peer may still answer what was forgotten: then the path must
    // not carry other requests.
    virtual bool reset() = 0;
};

// Makes the transport of each queue pair of a device, which is given one when it is opened.
class transport_maker
{
public:
    virtual ~transport_maker() = default;
    virtual std::unique_ptr<transport> make(queue_pair &qp) = 0;
};

} // namespace softrdma
