// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "results.hpp"

namespace bench
{

enum class workload {
    read,
    write_flush,
    gpspm,
    aof,
    send_recv,
    write_with_imm,
    atomic_write,
    log_append,
    mix,
    connect,
    rpmem_persist,
    rpmem_flush_drain
};

const std::vector<std::string> &workload_names();
workload workload_from(const std::string &name);

void check_setup(const setup &point_setup);

bool needs_responder(workload kind);
bool is_replica(workload kind);
// Returns the reason why the api does not support the workload; empty if it does.
std::string unsupported_reason(const setup &point_setup);

// Sizes of memory and queues, which both ends derive from a setup.
class layout
{
public:
    explicit layout(const setup &point_setup);

    bench::workload kind() const { return kind_; }
    std::size_t block() const { return block_; }
    // Slice of each connection in the target's data: a header, then blocks.
    std::size_t header() const { return header_; }
    std::size_t blocks() const { return blocks_; }
    // The blocks before this one are read, the others are written.
    std::size_t blocks_read() const { return blocks_read_; }
    std::size_t slice() const { return header_ + blocks_ * block_; }
    std::size_t data_size() const { return slice() * connections_; }
    std::size_t slice_base(std::size_t connection) const { return connection * slice(); }
    std::size_t block_offset(std::size_t index) const { return header_ + index * block_; }

    // Message buffers of a connection. The server has more: it reposts a receive only after its response was sent.
    std::size_t slot() const { return slot_; }
    std::size_t client_receives() const { return receives_; }
    std::size_t server_receives() const { return receives_ == 0 ? 0 : 3 * receives_ + 1; }
    std::size_t client_messages() const { return slot_ * 2 * receives_; }
    std::size_t server_messages() const { return slot_ * 2 * server_receives(); }

    std::uint32_t client_sends() const { return sends_; }
    std::uint32_t server_sends() const { return static_cast<std::uint32_t>(server_receives()) + 1; }

private:
    bench::workload kind_;
    std::size_t connections_;
    std::size_t block_;
    std::size_t header_ = 0;
    std::size_t blocks_;
    std::size_t blocks_read_ = 0;
    std::size_t slot_ = 0;
    std::size_t receives_ = 0;
    std::uint32_t sends_ = 0;
};

} // namespace bench
