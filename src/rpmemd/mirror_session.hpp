// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "control.hpp"
#include "fd_owner.hpp"
#include "mirror_set.hpp"
#include "stream.hpp"

namespace rpmemd
{

// The sets of a daemon, by name. One stays once it was asked for, for its lock and its lanes are the daemon's.
class mirror_sets
{
public:
    mirror_sets(const config &settings, std::string address) : settings_(settings), address_(std::move(address)) {}
    mirror_set &of(const std::string &name);

private:
    const config &settings_;
    const std::string address_;
    std::mutex lock_;
    std::map<std::string, std::unique_ptr<mirror_set>> sets_;
};

// The control connection of a client that has authenticated.
class mirror_session
{
public:
    mirror_session(mirror_sets &sets, replica::fd_owner connection, std::uint64_t number);
    ~mirror_session();

    // Until the client is gone, or stop() was called. Does not throw.
    void run();
    // From another thread.
    void stop() const;
    bool is_over() const { return over_; }

private:
    bool serve_one();
    replica::answer serve(const replica::request &request);
    void execute(const replica::request &request, replica::answer &answer);
    bool send(const replica::encoded_message &message) const;

    mirror_sets &sets_;
    const replica::fd_owner connection_;
    const std::uint64_t number_;
    replica::message_buffer buffer_;
    std::set<std::string> attached_;
    std::atomic<bool> over_ = false;
};

} // namespace rpmemd
