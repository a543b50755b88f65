// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>

namespace softrdma
{

class packet_receiver;
class queue_pair;
enum class post_result;

// Effect of an event on the queue pair.
enum class outcome {
    proceed,
    broken,    // the queue pair must enter the error state
    violation, // the peer broke the protocol: cut the path
};

// Interface that executes the requests of one queue pair and responds to those of its peer, including sequence numbers
// and retries. Calls need the lock of the queue pair; they neither wait for the peer nor call back. verbs/ is below its
// implementation, transport/rc.
class transport
{
public:
    virtual ~transport() = default;

    // After these calls, requests of the peer are executed, and those of the local side; the first has that PSN.
    virtual void start_responding(std::uint32_t psn) noexcept = 0;
    virtual void start_sending(std::uint32_t psn) noexcept = 0;

    // Executes the requests at the head of the send queue that may be executed now, in order, and completes them.
    virtual outcome execute() = 0;
    // Returns true if the first request must be tried in the memory of its peer, for tried_in_memory().
    virtual bool awaits_memory() const noexcept = 0;
    virtual outcome tried_in_memory(post_result result) = 0;
    virtual outcome resume() = 0;           // call when the first request need no longer wait
    virtual bool busy() const noexcept = 0; // whether a started request is not complete
    // Completes the first request with an error of the path. Returns true if one was sent, or one of the peer rejected.
    virtual bool fail_first(ibv_wc_status status) = 0;
    virtual void flush_sends() = 0;

    virtual void on_receive_posted() = 0; // called when the program has posted a receive that the peer may wait for
    // Sends the responses that are due, and rejects requests whose responses take longer.
    virtual void abandon_responses() = 0;
    virtual void flush_receives() = 0;
    // Called when no more data arrives: returns the receive of a partial message to its shared queue.
    virtual void drop_message() = 0;
    // Returns whether a thread is executing a request of the peer, without the lock of the queue pair.
    virtual bool is_executing() const noexcept = 0;
    virtual std::uint64_t executed_count() const noexcept = 0; // requests of the peer that were executed

    // Discards all state. Returns false if the peer may still respond: the path must then carry no other requests.
    virtual bool reset() = 0;

    // Receiver for the path of the queue pair; NULL if the transport uses no packets. Callable without the lock.
    virtual packet_receiver *receiver() noexcept = 0;
};

// Creates the transports of the queue pairs of a device. A device gets one when it is opened.
using transport_maker = std::unique_ptr<transport> (*)(queue_pair &qp);

} // namespace softrdma
