// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/loss.hpp"
#include "channel/control_client.hpp"
#include "channel/process.hpp"
#include "channel/target.hpp"
#include "settings.hpp"

namespace rpmem
{

// Control channel to a daemon, from its start to its end. After watch(), a thread of the library reads the channel,
// sends keep-alive messages, and declares the loss of an unresponsive target.
class session
{
public:
    session(const call_settings &settings, replica::loss &lost);
    ~session();
    session(const session &) = delete;
    session &operator=(const session &) = delete;

    static constexpr int keep_alive_ms = 1000; // maximum interval
    static constexpr int end_report_ms = 200;  // maximum time between the end of a daemon and its report

    // request() is thread-safe.
    int start(const replica::target &to, const std::string &daemon, const replica::deadline &until);
    int request(const replica::request &r, replica::response *to, const replica::deadline &until);
    int request(const replica::request &r, replica::response *to);
    int watch();

    bool keeps_alive() const { return (features_ & replica::feature_keep_alive) != 0; }
    // Returns whether the daemon stores membership records of pools with several targets.
    bool keeps_record() const { return (features_ & replica::feature_record) != 0; }
    // Returns whether the daemon stores promises and hashes segments for pools with several targets.
    bool serves_group() const { return (features_ & replica::feature_group) != 0; }

    // Returns how the daemon of a lost replica ended, or "" if it runs. Waits up to 1 s. Call only after watch().
    replica::error_text end_of_lost();

    void kill_daemon() { daemon_.kill(); }
    // Closes the channel and waits for the end of the daemon.
    void finish();

private:
    void run();
    void watch_channel();
    void keep_alive(int idle_ms);
    void read_messages();
    void read_line(std::string_view line);
    void await_end(int timeout_ms);
    const char *describe_end();
    int fail_start(const replica::control_error &error);
    int fail_lost() const;

    const call_settings settings_;
    replica::loss &lost_;
    replica::process daemon_;
    std::optional<replica::control_client> control_;
    std::uint64_t features_ = 0;
    // Last line that the daemon or ssh wrote to standard error, and an incomplete line.
    replica::error_text last_message_;
    char line_[255]{};
    std::size_t line_size_ = 0;
    // Name of the daemon or ssh, and how it ended.
    std::string program_;
    int exit_status_ = -1; // unknown
    replica::error_text end_;

    bool watched_ = false;
    replica::fd_owner stop_;
    std::mutex lock_; // protects end_ and watch_ended_
    std::condition_variable changed_;
    bool watch_ended_ = false;
    std::jthread thread_;
};

} // namespace rpmem
