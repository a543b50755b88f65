// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <stdexcept>

#include "channel/stream.hpp"
#include "message/control.hpp"

namespace replica
{

// The control channel failed, or the daemon rejected a request. The text follows the name of the target.
struct control_error : std::runtime_error {
    // The channel failed: ECONNRESET, ETIMEDOUT, EPROTO or EPROTONOSUPPORT.
    explicit control_error(received failed);
    // The daemon rejected a request, or the client.
    control_error(int error, const std::string &reason);

    int os_errno;
    bool is_rejection;
};

// Client of a daemon over a control channel. Several threads may send requests concurrently, and a thread may send
// several requests before it waits for a response. The daemon responds in order. After a failure of the channel all
// calls fail with the same error. Functions throw the exception of exception_of(), by default control_error.
class control_client
{
    struct expected {
        std::uint32_t number;
        request::BodyCase kind;
        std::optional<replica::response> response;
    };

public:
    // Pending request. If it is destroyed, its response is discarded.
    using pending_call = std::shared_ptr<expected>;

    explicit control_client(std::unique_ptr<byte_stream> socket) : socket_(std::move(socket)) {}
    control_client(const control_client &) = delete;
    control_client &operator=(const control_client &) = delete;
    virtual ~control_client() = default;

    // Receives the greeting. Returns the features of the daemon.
    std::uint64_t greet(const deadline &until);
    response call(request r, const deadline &until);
    // Parts of call(): start_call() sends the request, finish_call() waits for the response. Others may be between.
    pending_call start_call(request r, const deadline &until);
    response finish_call(const pending_call &pending, const deadline &until);

    // After set_receiver(), one thread receives the responses for all threads, with receive_response().
    void set_receiver();
    void receive_response(const deadline &until);
    // Makes all pending and later calls fail.
    void fail(received failed);

    // Descriptor of the channel, which reports a hang-up of the target.
    int fd() const { return socket_->fd(); }

protected:
    virtual std::exception_ptr exception_of(const control_error &error) const;

private:
    using unique_lock = std::unique_lock<std::mutex>;

    template<class F>
    void wait(unique_lock &lock, const deadline &until, F condition);
    [[noreturn]] void fail_call(unique_lock &lock, received failed);

    const std::unique_ptr<byte_stream> socket_;
    std::mutex lock_;
    std::condition_variable changed_;
    std::queue<pending_call> expected_; // in the order of the requests
    std::uint32_t number_ = 0;
    // True while one thread sends or receives, with lock_ released.
    bool sending_ = false;
    bool receiving_ = false;
    bool has_receiver_ = false;
    received failed_ = received::message; // first failure of the channel
};

} // namespace replica
