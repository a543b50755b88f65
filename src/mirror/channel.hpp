// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "control.hpp"
#include "fd_owner.hpp"
#include "settings.hpp"
#include "stream.hpp"

namespace mirror
{

// Throws failure.
replica::mirror_key read_key(const std::string &path);

// The control connection to a target. Threads may ask at the same time, and each more before it waits for an answer;
// the target answers in the order of the questions. Functions throw failure: E_CONNECTION and E_TIMEOUT if the
// connection is at its end, and what the target refuses as E_FENCED, E_EXISTS, E_NOT_FOUND, E_BUSY or E_REJECTED.
class channel
{
public:
    // What was asked and is not answered yet. The answer to one that is destroyed is dropped.
    class question
    {
    public:
        question() = default;
        question(question &&other) noexcept { *this = std::move(other); }
        question &operator=(question &&other) noexcept
        {
            std::swap(of_, other.of_);
            std::swap(number_, other.number_);
            return *this;
        }
        question(const question &) = delete;
        question &operator=(const question &) = delete;
        ~question();

    private:
        friend class channel;
        channel *of_ = nullptr;
        std::uint32_t number_ = 0;
    };

    // Connects, and proves that this side has the key.
    channel(const target_settings &to, const replica::mirror_key &key, const replica::deadline &until);

    replica::answer ask(replica::request asked, const replica::deadline &until);
    // The same in two halves, between which this or other targets may be asked more.
    question begin(replica::request asked, const replica::deadline &until);
    replica::answer finish(question asked, const replica::deadline &until);

    // Hangs up once the other side has.
    int fd() const { return connection_.get(); }

private:
    // Of a question, in the order of the questions.
    struct expected {
        std::uint32_t number;
        replica::request_type type;
        bool dropped = false;
        std::optional<replica::answer> answer;
    };
    using hold = std::unique_lock<std::mutex>;

    void connect(const target_settings &to, const replica::deadline &until);
    void introduce(const replica::mirror_key &key, const replica::deadline &until);
    template<class F>
    void wait(hold &held, const replica::deadline &until, F condition);
    void read_one(hold &held, const replica::deadline &until);
    [[noreturn]] void broken(hold &held, int code, const char *what);

    const std::string name_;
    replica::fd_owner connection_;
    replica::message_buffer buffer_; // of the thread that reads
    std::mutex lock_;
    std::condition_variable changed_;
    std::list<expected> expected_;
    std::uint32_t number_ = 0;
    // A thread does, and nobody else; the lock is free meanwhile.
    bool sending_ = false;
    bool reading_ = false;
    bool broken_ = false;
};

} // namespace mirror
