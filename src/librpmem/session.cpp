// SPDX-License-Identifier: BSD-3-Clause
#include "session.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <utility>

#include "channel/command.hpp"
#include "failure.hpp"
#include "group/step.hpp"
#include "log.hpp"

namespace rpmem
{

using replica::deadline;

namespace
{

// Prefix of the line on standard error that reports the end of the daemon. This process cannot wait for the daemon,
// which is not its child, so a script does. The script suppresses messages of the shell about signals.
constexpr std::string_view status_line = "librpmem: exit status ";
constexpr char reporting_script[] = "exec 3>&2 2>/dev/null; s=300; command -v \"$1\" >&2 && { (exec \"$@\" 2>&3 3>&-); "
                                    "s=$?; }; echo \"librpmem: exit status $s\" >&3; exit $s";
constexpr int not_found_status = 300;    // program not found
constexpr int first_signal_status = 128; // a shell adds the number of the signal that killed a program

} // namespace

session::session(const call_settings &settings, replica::loss &lost) : settings_(settings), lost_(lost) {}

session::~session()
{
    finish();
}

int session::start(const replica::target &to, const std::string &daemon, const deadline &until)
{
    program_ = to.local ? "rpmemd" : settings_.ssh;
    std::vector<std::string> words = replica::daemon_words(to, settings_.ssh, daemon);
    const std::string first = words.front();
    words.insert(words.begin(), {"/bin/sh", "-c", reporting_script, "sh"});
    replica::command start(std::move(words));
    if (const int error = daemon_.start(start.words()); error != 0)
        return fail(error, "cannot start %s: %s", first.c_str(), std::strerror(error));
    control_.emplace(std::make_unique<replica::fd_stream>(daemon_.channel()));
    try {
        features_ = control_->greet(until);
        return 0;
    } catch (const replica::control_error &error) {
        return error.is_rejection ? fail(error.os_errno, "rpmemd did not start: %s", error.what()) : fail_start(error);
    }
}

// Reports the failure of a start with the last output of the daemon or ssh and its exit status, which give the cause.
int session::fail_start(const replica::control_error &error)
{
    if (error.os_errno == ECONNRESET)
        await_end(1000);
    read_messages();
    if (exit_status_ == not_found_status)
        return fail(ENOENT, "cannot start %s: %s", program_.c_str(), std::strerror(ENOENT));
    const char *const how = describe_end();
    const bool silent = last_message_.empty();
    return fail(error.os_errno, "the target %s%s%s%s%s", error.what(), *how == '\0' ? "" : ": ", how,
            silent ? "" : ": ", last_message_.c_str());
}

void session::await_end(int timeout_ms)
{
    pollfd poller{daemon_.pidfd(), POLLIN, 0};
    poll(&poller, 1, timeout_ms);
}

// Returns how the daemon ended. Empty unless it ended with a known failure.
const char *session::describe_end()
{
    if (exit_status_ <= 0)
        return "";
    const int signal_number = exit_status_ - first_signal_status;
    const char *const signal_name = signal_number > 0 ? sigdescr_np(signal_number) : nullptr;
    if (signal_name != nullptr)
        end_.format("%s was killed by signal %d (%s)", program_.c_str(), signal_number, signal_name);
    else
        end_.format("%s ended with exit status %d", program_.c_str(), exit_status_);
    return end_.c_str();
}

void session::read_messages()
{
    char bytes[512];
    for (ssize_t got; (got = read(daemon_.messages(), bytes, sizeof(bytes))) > 0;)
        for (const char c : std::string_view(bytes, static_cast<std::size_t>(got))) {
            if (c != '\n' && line_size_ < sizeof(line_))
                line_[line_size_++] = c;
            else if (c == '\n')
                read_line(std::string_view(line_, std::exchange(line_size_, 0)));
        }
}

void session::read_line(std::string_view line)
{
    if (!line.empty() && line.back() == '\r')
        line.remove_suffix(1);
    if (line.empty())
        return;
    if (line.starts_with(status_line)) {
        const char *const end = line.data() + line.size();
        std::from_chars(line.data() + status_line.size(), end, exit_status_);
        return;
    }
    last_message_.assign(line);
    log_line(log_level::info, "target: %s", last_message_.c_str());
}

int session::request(const replica::request &r, replica::response *to)
{
    return lost_.error() == 0 ? request(r, to, deadline(settings_.session_timeout_ms())) : fail_lost();
}

int session::request(const replica::request &r, replica::response *to, const deadline &until)
{
    try {
        *to = control_->call(r, until);
        return 0;
    } catch (const replica::control_error &error) {
        if (error.is_rejection)
            return fail(error.os_errno, "target: %s", error.what());
        if (!watched_)
            return fail_start(error);
        lost_.declare(error.os_errno);
        return fail_lost();
    }
}

int session::fail_lost() const
{
    return fail(lost_.error(), "target lost: %s", std::strerror(lost_.error()));
}

int session::watch()
{
    stop_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stop_.valid())
        return fail(errno, "cannot create an event: %s", std::strerror(errno));
    try {
        thread_ = group::quiet_thread([this] { run(); });
    } catch (const std::system_error &error) {
        return fail(error.code().value(), "cannot start a thread: %s", std::strerror(error.code().value()));
    }
    control_->set_receiver();
    watched_ = true;
    return 0;
}

void session::watch_channel()
{
    const int interval_ms = !keeps_alive()              ? -1
                            : settings_.timeout_ms == 0 ? keep_alive_ms
                                                        : std::clamp(settings_.timeout_ms / 4, 20, keep_alive_ms);
    // Counts only completed waits: a client that was itself stopped has not waited.
    int idle_ms = 0;
    while (lost_.error() == 0) {
        pollfd pollers[] = {{stop_.get(), POLLIN, 0}, {daemon_.channel(), POLLIN, 0}, {daemon_.messages(), POLLIN, 0},
                {daemon_.pidfd(), POLLIN, 0}, {lost_.fd(), POLLIN, 0}};
        // After standard error was closed, the pipe would stay readable forever.
        const bool quiet = pollers[2].fd < 0;
        const int ready = poll(pollers, std::size(pollers), interval_ms);
        if (ready == 0) {
            idle_ms = settings_.timeout_ms == 0 ? 0 : idle_ms + interval_ms;
            keep_alive(idle_ms);
            continue;
        }
        if (ready < 0)
            continue;
        if (pollers[0].revents != 0)
            break;
        if (!quiet && (pollers[2].revents & POLLIN) != 0)
            read_messages();
        if (pollers[1].revents != 0) {
            idle_ms = 0;
            control_->receive_response(deadline(settings_.timeout_ms));
        } else if (pollers[3].revents != 0 || (pollers[2].revents & POLLHUP) != 0) {
            // The channel has no unread data, so the daemon has ended.
            lost_.declare(ECONNRESET);
        }
    }
}

void session::run()
{
    const auto watch_until_end = [&] {
        try {
            watch_channel();
        } catch (const replica::control_error &error) {
            lost_.declare(error.os_errno);
        }
        return 0;
    };
    if (guarded(watch_until_end) != 0)
        lost_.declare(errno);
    control_->fail(replica::received::broken);
    // A daemon that has ended reports its status within end_report_ms.
    if (lost_.error() == ECONNRESET)
        await_end(end_report_ms);
    read_messages();
    const std::lock_guard guard(lock_);
    describe_end();
    if (lost_.error() != 0 && !end_.empty())
        log_line(log_level::warning, "%s%s%s", end_.c_str(), last_message_.empty() ? "" : ": ", last_message_.c_str());
    watch_ended_ = true;
    changed_.notify_all();
}

replica::error_text session::end_of_lost()
{
    std::unique_lock lock(lock_);
    changed_.wait_for(lock, std::chrono::seconds(1), [&] { return !watched_ || watch_ended_; });
    return watch_ended_ ? end_ : replica::error_text();
}

void session::keep_alive(int idle_ms)
{
    if (settings_.timeout_ms != 0 && idle_ms >= settings_.timeout_ms) {
        lost_.declare(ETIMEDOUT);
        return;
    }
    replica::request r;
    r.mutable_keep_alive();
    control_->start_call(std::move(r), deadline(settings_.timeout_ms));
}

void session::finish()
{
    if (watched_) {
        eventfd_write(stop_.get(), 1);
        thread_.join();
        watched_ = false;
    }
    daemon_.finish(deadline(settings_.timeout_ms));
}

} // namespace rpmem
