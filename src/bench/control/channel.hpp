// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>
#include <string>

// Control protocol: requests and responses, each one line of JSON, on a stream socket. A request contains "do". A
// response contains "ok"; if false, "error" (one line) and "status" (exit status). The first request is "hello".
namespace bench
{

using json = nlohmann::json;

constexpr int protocol_version = 2;

class peer_gone : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

class channel
{
public:
    // Takes ownership of the socket. peer is the name of the peer in errors: "the server at 10.0.0.1".
    channel(int fd, std::string peer);
    ~channel();
    channel(channel &&other) noexcept;
    channel &operator=(channel &&) = delete;

    void send(const json &message);
    // Receives a message of at most `max_size` bytes within timeout_s; a negative value means no limit.
    json receive(double timeout_s, std::size_t max_size = 64 << 20);

private:
    int fd_;
    std::string peer_;
    std::string buffer_;
};

} // namespace bench
