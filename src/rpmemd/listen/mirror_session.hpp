// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "channel/stream.hpp"
#include "config/access.hpp"
#include "listen/mirror_set.hpp"
#include "message/control.hpp"

namespace rpmemd
{

// Mirrored sets of the daemon, by name. A set is never removed, because its lock and lanes exist as long as the daemon.
class mirror_sets
{
public:
    mirror_sets(const config &settings, std::string address) : settings_(settings), address_(std::move(address)) {}
    // Returns the set, which need not have a copy yet. Throws failure.
    mirror_set &of(const std::string &name);
    // Calls f with the name and the metrics of each set. f must not block.
    template<class F>
    void each(F &&f) const
    {
        const std::lock_guard guard(lock_);
        for (const auto &[name, set] : sets_)
            f(name, set->metrics());
    }

private:
    mirror_set *find(const std::string &name);

    const config &settings_;
    const std::string address_;
    mutable std::mutex lock_;
    std::map<std::string, std::unique_ptr<mirror_set>> sets_;
};

class mirror_session
{
public:
    mirror_session(
            mirror_sets &sets, std::unique_ptr<replica::byte_stream> connection, access rights, std::uint64_t number);
    ~mirror_session();

    // Serves requests until the client disconnects or stop() is called. Does not throw.
    void run();
    void stop() const;
    bool is_done() const { return done_; }

private:
    bool serve_one();
    replica::response serve(const replica::request &request);
    void execute(const replica::request &request, replica::response &response);
    void execute_reader(mirror_set &set, const replica::request &request, replica::response &response);

    mirror_sets &sets_;
    const std::unique_ptr<replica::byte_stream> connection_;
    const access rights_;
    const std::uint64_t number_;
    std::set<std::string> attached_;
    bool reads_ = false;
    std::atomic<bool> done_ = false;
};

} // namespace rpmemd
