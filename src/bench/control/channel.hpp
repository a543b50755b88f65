// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>
#include <string>

/*
 * The control protocol: requests and answers, each one line of JSON, on a stream socket. A request has "do"; an answer
 * has "ok", and if that is false "error", a line, and "status", the exit status it deserves. The first request is
 * "hello" with the version of the protocol.
 */
namespace bench
{

using json = nlohmann::json;

constexpr int protocol_version = 2;

// The other end is gone: distinct from an answer that tells of a failure.
class peer_gone : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

class channel
{
public:
    // Owns the socket. peer names the other end in errors: "the server at 10.0.0.1".
    channel(int fd, std::string peer);
    ~channel();
    channel(channel &&other) noexcept;
    channel &operator=(channel &&) = delete;

    void send(const json &message);
    // The whole message must be there in time; negative: no time limit. Longer messages than `most` bytes are refused.
    json receive(double timeout_s, std::size_t most = 64 << 20);

private:
    int fd_;
    std::string peer_;
    std::string buffer_;
};

} // namespace bench
