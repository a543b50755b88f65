// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include "loss.hpp"
#include "process.hpp"
#include "settings.hpp"
#include "stream.hpp"
#include "target.hpp"

namespace rpmem
{

// The control channel to a daemon, from its start to its end. As soon as it is watched, one thread of the library reads
// it, says that the client lives, and declares the loss when the target does not.
class session
{
public:
    session(const call_settings &settings, replica::loss &lost);
    ~session();
    session(const session &) = delete;
    session &operator=(const session &) = delete;

    // The longest time between two signs of life.
    static constexpr int keep_alive_ms = 1000;
    // The longest time between the end of a daemon and the report of it.
    static constexpr int end_report_ms = 200;

    // These return 0, or -1 with the failure reported. Threads may request something at the same time. The deadline is
    // for sessions that are not watched yet.
    int start(const replica::target &to, const daemon_command &chosen, const replica::deadline &until);
    int request(replica::request &r, replica::answer *a, const replica::deadline &until);
    int request(replica::request &r, replica::answer *a);
    int watch();

    // Whether the daemon is told regularly that this side lives.
    bool keeps_alive() const { return keeps_alive_; }
    // Whether the daemon keeps a record of pools that several targets have.
    bool keeps_record() const { return keeps_record_; }

    // How the daemon of a lost replica ended, which may take a moment to be known; empty if it runs. Only after
    // watch().
    replica::error_text end_of_lost();

    // For one that does not answer any more: the daemon, or ssh, is killed.
    void kill_daemon() { daemon_.kill(); }
    // Waits for the end of the daemon.
    void finish();

private:
    static void *watch_thread(void *self);
    void run();
    // False: the loss is declared.
    bool heard();
    void keep_alive(int silent_ms);
    void read_messages();
    void read_line(std::string_view line);
    void await_end(int timeout_ms);
    const char *describe_end();

    int start_reporting(char *const words[]);
    int send(const replica::encoded_message &m);
    int await_answer(replica::answer *a);
    int judge(replica::received got);
    int report(const replica::answer &a);
    int failed_start(replica::received got);
    void stop_watching();

    const call_settings settings_;
    replica::loss &lost_;
    replica::process daemon_;
    replica::message_buffer buffer_;
    std::uint32_t next_number_ = 1;
    bool keeps_alive_ = false;
    bool keeps_record_ = false;
    // The last line that the daemon, or ssh, wrote to its standard error, and a line that is not complete.
    replica::error_text last_message_;
    char line_[255]{};
    std::size_t line_size_ = 0;
    // The daemon, or ssh, and how it ended.
    replica::short_text<63> program_;
    int exit_status_ = -1; // not known
    replica::error_text end_;

    pthread_t thread_{};
    bool watched_ = false;
    replica::fd_owner stop_;
    // Requests go one after the other.
    pthread_mutex_t requests_ = PTHREAD_MUTEX_INITIALIZER;
    // What the thread and a request share: the request without answer, and its answer. The lock also keeps messages
    // whole.
    pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t changed_;
    bool watch_over_ = false;
    const replica::request *awaited_ = nullptr;
    replica::answer answer_;
};

} // namespace rpmem
