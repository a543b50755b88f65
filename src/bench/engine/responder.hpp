// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <vector>

#include "api/sides.hpp"
#include "aof.hpp"
#include "layout.hpp"
#include "loop.hpp"
#include "target_memory.hpp"

namespace bench
{

// Server side of operations with messages: responds to the messages of several connections.
template<class Connection>
class responder
{
public:
    responder(const layout &shape, const parameters &p, const target_memory &target, std::byte *messages)
        : shape_(shape), sleeps_(p.polling == polling::event), persistent_(p.flush == flush_kind::persistent),
          target_(target), messages_(messages)
    {
    }

    void add(Connection &connection, std::uint32_t number)
    {
        if (sleeps_)
            waiter_.add(connection.completion_fd(), Connection::epoll_events, served_.size());
        served_.push_back({&connection, number * shape_.server_messages()});
    }

    void run(const std::atomic<bool> &stop)
    {
        while (!stop.load(std::memory_order_relaxed)) {
            bool idle = true;
            for (const served &one : served_)
                idle &= !serve(one);
            if (idle && sleeps_)
                waiter_.wait([&](std::size_t index) { served_[index].connection->acknowledge_event(); });
        }
    }

private:
    struct served {
        Connection *connection;
        std::size_t messages; // offset of the connection's buffers: receives, then an equal number of responses
    };

    bool serve(const served &at)
    {
        std::array<ibv_wc, 16> completions;
        const int count = at.connection->poll(completions.data(), static_cast<int>(completions.size()));
        for (int i = 0; i < count; ++i) {
            const ibv_wc &wc = completions[static_cast<std::size_t>(i)];
            if (wc.status != IBV_WC_SUCCESS) [[unlikely]]
                fail_completion(wc);
            const auto buffer = static_cast<std::uint32_t>(wc.wr_id);
            // Reposts the receive after its response was sent: until then the response may be in its buffer.
            if ((wc.wr_id & receive_mark) == 0)
                at.connection->receive(receive_buffer(at, buffer), shape_.slot(), receive_mark | buffer);
            else
                response(at, buffer, wc);
        }
        return count != 0;
    }

    std::size_t receive_buffer(const served &at, std::uint32_t buffer) const
    {
        return at.messages + buffer * shape_.slot();
    }

    void response(const served &at, std::uint32_t buffer, const ibv_wc &wc)
    {
        const std::size_t received = receive_buffer(at, buffer);
        if (shape_.kind() == workload::write_with_imm) {
            at.connection->send_imm(ntohl(wc.imm_data), buffer);
            return;
        }
        if (shape_.kind() == workload::send_recv) {
            at.connection->send(received, shape_.slot(), buffer);
            return;
        }
        const std::size_t reply = received + shape_.server_receives() * shape_.slot();
        gpspm_wire::encode_response(messages_ + reply, act_on(messages_ + received));
        at.connection->send(reply, gpspm_wire::response_size, buffer);
    }

    std::uint64_t act_on(const std::byte *message)
    {
        if (shape_.kind() == workload::gpspm) {
            const gpspm_wire::request request = gpspm_wire::decode_request(message);
            persist(request.offset, request.length);
            return request.op_context;
        }
        const aof_wire::request request = aof_wire::decode_request(message);
        persist(request.offset, request.length);
        if (request.pointer_offset % aof_wire::pointer_size != 0)
            throw failure("append request: the pointer is not at a multiple of 8");
        check_range(request.pointer_offset, aof_wire::pointer_size);
        auto *const pointer = reinterpret_cast<std::uint64_t *>(target_.data() + request.pointer_offset);
        std::atomic_ref(*pointer).store(request.offset + request.length, std::memory_order_release);
        persist(request.pointer_offset, aof_wire::pointer_size);
        return request.op_context;
    }

    void check_range(std::uint64_t offset, std::uint64_t length) const
    {
        if (offset > target_.size() || length > target_.size() - offset)
            throw failure("request to persist out of bounds");
    }

    void persist(std::uint64_t offset, std::uint64_t length)
    {
        check_range(offset, length);
        if (persistent_)
            target_.persist(offset, length);
    }

    const layout &shape_;
    bool sleeps_, persistent_;
    const target_memory &target_;
    std::byte *messages_;
    std::vector<served> served_;
    waiter waiter_;
};

} // namespace bench
