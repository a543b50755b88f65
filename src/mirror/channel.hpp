// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "control.hpp"
#include "settings.hpp"
#include "tls_stream.hpp"

namespace mirror
{

// Reads the only key of a file. Throws failure.
replica::tls_keys read_key(const std::string &path);

// Control connection to a target, which responds in order. Several threads may send requests concurrently, and a thread
// may send several before it waits for a response. Functions throw failure: E_CONNECTION or E_TIMEOUT if the connection
// has failed, and E_FENCED, E_EXISTS, E_NOT_FOUND, E_BUSY or E_REJECTED if the target rejects a request.
class channel
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
        friend class channel;
        channel *of_ = nullptr;
        std::uint32_t number_ = 0;
    };

    // Connects and authenticates with the key.
    channel(const target_settings &to, const replica::tls_keys &key, const replica::deadline &until);

    replica::response call(replica::request request, const replica::deadline &until);
    // Split ask(): begin() sends the request, finish() waits for the response. Other requests may be sent between them.
    pending_call start_call(replica::request request, const replica::deadline &until);
    replica::response finish_call(pending_call pending, const replica::deadline &until);

    // Descriptor of the connection, which reports a hang-up of the target.
    int fd() const { return connection_->fd(); }

private:
    // Expected response, in the order of the requests.
    struct expected {
        std::uint32_t number;
        replica::request::BodyCase kind;
        bool abandoned = false;
        std::optional<replica::response> response;
    };
    using unique_lock = std::unique_lock<std::mutex>;

    replica::fd_owner connect(const target_settings &to, const replica::deadline &until) const;
    void introduce(const replica::deadline &until);
    template<class F>
    void wait(unique_lock &lock, const replica::deadline &until, F condition);
    void read_one(unique_lock &lock, const replica::deadline &until);
    [[noreturn]] void broken(unique_lock &lock, int code, const std::string &message);

    const std::string name_;
    std::unique_ptr<replica::tls_stream> connection_;
    std::mutex lock_;
    std::condition_variable changed_;
    std::list<expected> expected_;
    std::uint32_t number_ = 0;
    // True while one thread sends or receives, with lock_ released.
    bool sending_ = false;
    bool reading_ = false;
    bool broken_ = false;
};

} // namespace mirror
