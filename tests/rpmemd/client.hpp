// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdlib>
#include <string>

#include "channel/stream.hpp"
#include "child_process.hpp"
#include "fixture.hpp"
#include "lanes/lane.hpp"
#include "message/lane_message.hpp"
#include "message/lane_proof.hpp"

// Client side of the daemon, for tests. Failures end the test.

// A daemon, and a control channel to it.
class daemon_process
{
public:
    explicit daemon_process(const scratch &place, const std::vector<std::string> &options = {});
    ~daemon_process() { hang_up(); }
    daemon_process(const daemon_process &) = delete;
    daemon_process &operator=(const daemon_process &) = delete;

    replica::greeting greet();
    replica::response ask(replica::request request);
    void send(std::string_view bytes) const;
    void hang_up();
    int exit_status() { return process_.wait(); }

private:
    int channel_ = -1;
    child_process process_;
    std::uint32_t number_ = 0;
};

// Enumerations of responses.
inline replica::status status_of(const replica::response &r)
{
    return static_cast<replica::status>(r.status());
}
inline replica::token token_of(const replica::wire::region &r)
{
    return replica::array_of<replica::token>(r.token());
}

replica::request pool_request(bool create, const std::string &set, std::uint64_t size, std::uint32_t lanes = 1);

// A data connection to the server that a response describes.
class test_lane
{
public:
    test_lane(const replica::wire::region &session, std::uint32_t number);
    // Sends a proof for another token, or for an epoch.
    test_lane(const replica::wire::region &session, std::uint32_t number, const replica::token &token,
            std::uint64_t epoch = 0);
    ~test_lane();
    test_lane(const test_lane &) = delete;
    test_lane &operator=(const test_lane &) = delete;

    bool is_connected() const { return connected_; }
    void write(std::uint64_t offset, const std::string &bytes);
    bool try_write(std::uint64_t offset, const std::string &bytes); // returns false if the lane was closed
    std::string read(std::uint64_t offset, std::size_t length);
    std::string read_header(std::size_t length);
    bool can_write_header(); // breaks the lane if not
    // Each function returns the errno value of the response, or -1 if the lane was closed.
    int request(replica::lane_request_kind kind, const std::vector<replica::range> &ranges);
    int send_raw(std::span<const std::byte> bytes);
    int flush(std::uint64_t offset, std::uint64_t length); // uses rpma_flush
    bool is_gone();                                        // waits until the daemon has closed it

private:
    void connect(const replica::token &token, std::uint64_t epoch);
    std::string read_from(const rpma_mr_remote *source, std::uint64_t offset, std::size_t length);
    bool wait(std::uint64_t context);
    bool has_event(int wait_ms = 0) const;

    replica::wire::region session_;
    std::uint32_t number_;
    std::uint64_t begin_;
    std::uint64_t sequence_ = 0;
    std::vector<std::byte> memory_;
    rpmemd::device device_;
    rpmemd::region_ptr region_;
    rpma_mr_remote *data_ = nullptr, *header_ = nullptr;
    rpmemd::connection_ptr connection_;
    bool connected_ = false;
};
