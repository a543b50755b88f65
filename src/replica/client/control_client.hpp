// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "control.hpp"
#include "stream.hpp"

namespace replica
{

// The control channel failed, or the daemon rejected a request. The text follows the name of the target.
class control_error : public std::runtime_error
{
public:
    // The channel failed with ECONNRESET, ETIMEDOUT, EPROTO or EPROTONOSUPPORT.
    explicit control_error(int os_errno);
    // The daemon rejected a request, or the client.
    control_error(int os_errno, const std::string &text);

    int os_errno() const { return os_errno_; }
    bool is_rejection() const { return is_rejection_; }

private:
    int os_errno_;
    bool is_rejection_;
};

// Client of a daemon over a control channel. Several threads may send requests concurrently, and a thread may send
// several requests before it waits for a response. The daemon responds in order. After a failure of the channel all
// calls fail with the same error. Functions throw control_error, unless exception_of() is overridden.
class control_client
{
public:
    // Pending request. If it is destroyed, its response is discarded.
    class pending_call
    {
    public:
        pending_call() = default;
        pending_call(pending_call &&other) noexcept { *this = std::move(other); }
        pending_call &operator=(pending_call &&other) noexcept
        {
            std::swap(of_, other.of_);
            std::swap(number_, other.number_);
            return *this;
        }
        pending_call(const pending_call &) = delete;
        pending_call &operator=(const pending_call &) = delete;
        ~pending_call();

    private:
        friend class control_client;
        control_client *of_ = nullptr;
        std::uint32_t number_ = 0;
    };

    explicit control_client(std::unique_ptr<byte_stream> socket) : socket_(std::move(socket)) {}
    control_client(const control_client &) = delete;
    control_client &operator=(const control_client &) = delete;
    virtual ~control_client() = default;

    // Receives the greeting. Returns the features of the daemon.
    std::uint64_t greet(const deadline &until);
    response call(request r, const deadline &until);
    // Split call(): start_call() sends the request, finish_call() waits for the response. Other requests may be sent
    // between them.
    pending_call start_call(request r, const deadline &until);
    response finish_call(pending_call pending, const deadline &until);

    // Descriptor of the channel, which reports a hang-up of the target.
    int fd() const { return socket_->fd(); }

protected:
    // Returns the exception that the functions throw.
    virtual std::exception_ptr exception_of(const control_error &error) const;

private:
    // Expected response, in the order of the requests.
    struct expected {
        std::uint32_t number;
        request::BodyCase kind;
        bool abandoned = false;
        std::optional<replica::response> response;
    };
    using unique_lock = std::unique_lock<std::mutex>;

    template<class F>
    void wait(unique_lock &lock, const deadline &until, F condition);
    void receive_response(const deadline &until);
    [[noreturn]] void fail(unique_lock &lock, int os_errno);

    const std::unique_ptr<byte_stream> socket_;
    std::mutex lock_;
    std::condition_variable changed_;
    std::list<expected> expected_;
    std::uint32_t number_ = 0;
    // True while one thread sends or receives, with lock_ released.
    bool sending_ = false;
    bool receiving_ = false;
    int broken_ = 0; // errno value of the first failure of the channel
};

} // namespace replica
