// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <mutex>

#include "control.hpp"
#include "fd_owner.hpp"
#include "settings.hpp"
#include "stream.hpp"

namespace mirror
{

// Throws failure.
replica::mirror_key read_key(const std::string &path);

// The control connection to a target, on which one thread at a time asks something. Functions throw failure: E_LINK and
// E_TIMEOUT if the connection is at its end, and what the target refuses as E_FENCED, E_EXISTS, E_MISSING, E_BUSY or
// E_TARGET.
class channel
{
public:
    // Connects, and proves that this side has the key.
    channel(const target_settings &to, const replica::mirror_key &key, const replica::deadline &until);

    replica::answer ask(replica::request asked, const replica::deadline &until);
    // The same in two halves, between which other targets may be asked. Nothing follows a begin() that threw.
    void begin(replica::request asked, const replica::deadline &until);
    replica::answer finish(const replica::deadline &until);

    // Hangs up once the other side has.
    int fd() const { return connection_.get(); }

private:
    void connect(const target_settings &to, const replica::deadline &until);
    void introduce(const replica::mirror_key &key, const replica::deadline &until);
    // Ends the turn of this thread.
    struct turn {
        channel *of;
        ~turn();
    };
    void take_turn(const replica::deadline &until);
    [[noreturn]] void broken(int code, const char *what);

    const std::string name_;
    replica::fd_owner connection_;
    replica::message_buffer buffer_;
    // A question and its answer are one turn. The rest belongs to the thread whose turn it is.
    std::mutex lock_;
    std::condition_variable free_;
    bool taken_ = false;
    replica::request_type asked_ = replica::request_type::keep_alive;
    std::uint32_t number_ = 0;
    bool broken_ = false;
};

} // namespace mirror
