// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "config/config.hpp"
#include "lanes/lane.hpp"
#include "lanes/policy.hpp"
#include "message/control.hpp"
#include "store/pool.hpp"

namespace rpmemd
{

// Address for the lanes of a session, metrics, and the epoch that lanes of a writer must prove (0 without a writer).
struct lane_params {
    std::string address;
    std::uint64_t epoch = 0;
    set_metrics *counted = nullptr;
    // Memory that clients can only read. If set, they cannot access the pool.
    std::span<std::byte> read_only{};
};

// Lanes that a client requests, and the size of the memory that they can access.
struct lane_request {
    std::uint64_t pool_size = 0;
    std::uint32_t lanes = 0;
    std::uint32_t devices = 0; // bits of replica::device_kind
};

// Data connections of a session: the registered memory, a listener that accepts only clients with the token, and the
// threads that serve lanes. The destructor closes all of them.
class lane_server
{
public:
    lane_server(const config &settings, pool &served_pool, const lane_request &request, const lane_params &params);
    ~lane_server();

    // Closes everything. Throws failure unless the device confirms that clients can no longer access the memory.
    void revoke();

    void describe(replica::wire::region &to) const;
    const policy &chosen() const { return policy_; }
    bool flushes_natively() const { return flushes_natively_; }
    std::uint32_t lanes() const { return lanes_count_; }
    bool was_used() const { return used_; }

private:
    class worker;

    void close();
    void register_read_only(std::span<std::byte> memory);
    void register_regions(const pool &of, std::uint64_t size);
    void accept_lanes();
    void accept_one();
    std::uint32_t prove(const rpma_conn_req *request) const;

    const config &settings_;
    const std::string address_;
    const std::uint64_t epoch_;
    device device_;
    policy policy_;
    bool flushes_natively_ = false;
    std::uint32_t lanes_count_ = 0;
    replica::token token_{};
    region_ptr data_, header_, messages_region_;
    std::vector<std::byte> messages_;
    lane_context context_;
    endpoint endpoint_;
    std::vector<std::unique_ptr<lane>> lanes_;
    replica::fd_owner stop_; // readable when the threads must end
    std::vector<std::unique_ptr<worker>> workers_;
    std::atomic<bool> used_ = false;
    std::thread acceptor_;
};

// Returns the address that clients connect to: the server address of ssh, or loopback.
std::string data_address();

} // namespace rpmemd
