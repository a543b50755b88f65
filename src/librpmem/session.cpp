// SPDX-License-Identifier: BSD-3-Clause
#include "session.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <utility>

#include "command.hpp"
#include "failure.hpp"
#include "group/step.hpp"
#include "log.hpp"

namespace rpmem
{

using replica::deadline;
using replica::received;

namespace
{

int errno_of(received got)
{
    switch (got) {
    case received::other_version:
        return EPROTONOSUPPORT;
    case received::malformed:
        return EPROTO;
    case received::timed_out:
        return ETIMEDOUT;
    default:
        return ECONNRESET;
    }
}

const char *to_string(received got)
{
    switch (got) {
    case received::other_version:
        return "uses another version of the protocol (install the same version on both sides)";
    case received::malformed:
        return "does not use the protocol of rpmemd";
    case received::timed_out:
        return "did not respond in time";
    default:
        return "closed the connection";
    }
}

// Prefix of the line on standard error with which the reporting script reports the end of the daemon. This process
// cannot wait for the daemon, which is not its child. The script suppresses messages of a shell about signals.
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
    replica::greeting g;
    const received got = receive(daemon_.channel(), until, g);
    if (got != received::message)
        return failed_start(got);
    if (g.error() != 0)
        return fail(static_cast<int>(g.error()), "rpmemd did not start: %s", g.text().c_str());
    keep_alive_.mutable_keep_alive();
    keeps_alive_ = (g.features() & replica::feature_keep_alive) != 0;
    serves_group_ = (g.features() & replica::feature_group) != 0;
    keeps_record_ = (g.features() & replica::feature_record) != 0;
    return 0;
}

// Reports the failure of a start with the last output of the daemon or ssh and its exit status, which give the cause.
int session::failed_start(received got)
{
    if (got == received::ended || got == received::broken)
        await_end(1000);
    read_messages();
    if (exit_status_ == not_found_status)
        return fail(ENOENT, "cannot start %s: %s", program_.c_str(), std::strerror(ENOENT));
    const char *const how = describe_end();
    const bool silent = last_message_.empty();
    return fail(errno_of(got), "the target %s%s%s%s%s", to_string(got), *how == '\0' ? "" : ": ", how,
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

int session::send(const replica::request &r)
{
    const std::string frame = replica::encode(r);
    const std::lock_guard guard(lock_);
    return send_message(daemon_.channel(), deadline(settings_.timeout_ms), frame) ? 0 : ECONNRESET;
}

int session::fail_received(received got)
{
    return fail(errno_of(got), "the target %s", to_string(got));
}

int session::report(const replica::response &r)
{
    const int error = replica::errno_of(static_cast<replica::status>(r.status()));
    return error == 0 ? 0 : fail(error, "target: %s", r.text().empty() ? std::strerror(error) : r.text().c_str());
}

int session::request(replica::request &r, replica::response *to)
{
    return request(r, to, deadline(settings_.session_timeout_ms()));
}

int session::request(replica::request &r, replica::response *to, const deadline &until)
{
    const std::lock_guard one_at_a_time(requests_);
    r.set_number(next_number_++);
    if (watched_) {
        const std::lock_guard guard(lock_);
        awaited_ = &r;
    }
    if (const int error = send(r); error != 0) {
        // A partially sent message makes the channel unusable.
        lost_.declare(error);
        return fail(error, "the target closed the connection");
    }
    if (watched_)
        return await_response(to);
    const received got = receive(daemon_.channel(), until, *to);
    if (got == received::ended)
        return failed_start(got);
    if (got != received::message)
        return fail_received(got);
    if (!replica::answers(*to, r.number(), r.body_case()))
        return fail_received(received::malformed);
    return report(*to);
}

int session::await_response(replica::response *to)
{
    const int timeout_ms = settings_.session_timeout_ms();
    {
        std::unique_lock lock(lock_);
        changed_.wait_for(lock, std::chrono::seconds(timeout_ms == 0 ? INT32_MAX : timeout_ms / 1000 + 1),
                [&] { return awaited_ == nullptr || lost_.error() != 0; });
        const bool responded = awaited_ == nullptr;
        awaited_ = nullptr;
        // The response can still arrive later, so no further request may be sent.
        if (!responded && lost_.error() == 0)
            lost_.declare(ETIMEDOUT);
        if (!responded)
            return fail(lost_.error(), "target lost: %s", std::strerror(lost_.error()));
        to->Swap(&response_);
    }
    return report(*to);
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
    watched_ = true;
    return 0;
}

void session::watch_channel()
{
    const int interval_ms = !keeps_alive_               ? -1
                            : settings_.timeout_ms == 0 ? keep_alive_ms
                                                        : std::clamp(settings_.timeout_ms / 4, 20, keep_alive_ms);
    // Counts only completed waits: a client that was itself stopped has not waited.
    int idle_ms = 0;
    while (lost_.error() == 0) {
        pollfd pollers[] = {{stop_.get(), POLLIN, 0}, {daemon_.channel(), POLLIN, 0}, {daemon_.messages(), POLLIN, 0},
                {daemon_.pidfd(), POLLIN, 0}, {lost_.fd(), POLLIN, 0}};
        // After standard error is closed, the pipe would stay readable forever.
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
            if (!receive_response())
                break;
        } else if (pollers[3].revents != 0 || (pollers[2].revents & POLLHUP) != 0) {
            // The channel has no unread data, so the daemon has ended.
            lost_.declare(ECONNRESET);
        }
    }
}

void session::run()
{
    const auto watch_until_end = [&] {
        watch_channel();
        return 0;
    };
    if (guarded(watch_until_end) != 0)
        lost_.declare(errno);
    {
        const std::lock_guard guard(lock_);
        changed_.notify_all();
    }
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

bool session::receive_response()
{
    replica::response r;
    const received got = receive(daemon_.channel(), deadline(settings_.timeout_ms), r);
    if (got != received::message) {
        lost_.declare(errno_of(got));
        return false;
    }
    if (r.kind() == replica::request::kKeepAlive)
        return true;
    const std::lock_guard guard(lock_);
    if (awaited_ == nullptr || !replica::answers(r, awaited_->number(), awaited_->body_case())) {
        lost_.declare(EPROTO);
        return false;
    }
    response_.Swap(&r);
    awaited_ = nullptr;
    changed_.notify_all();
    return true;
}

void session::keep_alive(int idle_ms)
{
    if (settings_.timeout_ms != 0 && idle_ms >= settings_.timeout_ms) {
        lost_.declare(ETIMEDOUT);
        return;
    }
    if (send(keep_alive_) != 0)
        lost_.declare(ECONNRESET);
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
