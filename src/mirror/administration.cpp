// SPDX-License-Identifier: BSD-3-Clause
#include "administration.hpp"

#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "failure.hpp"
#include "mirror_admin.hpp"
#include "set.hpp"
#include "step.hpp"

using namespace mirror;
using mirror_admin::json;

namespace
{

constexpr std::size_t max_clients = 8;
constexpr int backlog = 16;
constexpr int client_timeout_ms = 5000; // time for a client to send its request, and to receive lines

// Returns a number of the request. json::get() would convert other numbers and types, for example 4294967297 to 1.
std::uint64_t number_of(const json &request, const char *member, std::uint64_t max = UINT64_MAX)
{
    const json &value = request.at(member);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max)
        throw failure(RPMA_MIRROR_E_INVAL,
                std::string("invalid request: '") + member + "' is not a number from 0 to " + std::to_string(max));
    return value.get<std::uint64_t>();
}

unsigned copy_of(const json &request)
{
    return static_cast<unsigned>(number_of(request, "copy", RPMA_MIRROR_MAX_COPIES - 1));
}

std::uint64_t rate_of(const json &request)
{
    return request.is_object() && request.contains("rate") ? number_of(request, "rate") : 0;
}

// Claim on changing the members. Only one client at a time has it, because a failed addition is reverted.
class exclusive_change
{
public:
    explicit exclusive_change(std::atomic<bool> &of) : active_(of)
    {
        if (active_.exchange(true))
            throw failure(RPMA_MIRROR_E_BUSY, "another administrator adds or removes a copy (try again later)");
    }
    ~exclusive_change() { active_ = false; }
    exclusive_change(const exclusive_change &) = delete;
    exclusive_change &operator=(const exclusive_change &) = delete;

private:
    std::atomic<bool> &active_;
};

json verify(rpma_mirror &set, const json &request, const limits &within)
{
    rpma_mirror_verify_report report{};
    set.verification.verify(copy_of(request), within, report);
    json result;
    mirror_admin::each_member_of_report(report, mirror_admin::writer_of{result});
    return result;
}

// Removes the copy again if its resync failed or was canceled, because the set file does not list it.
void add(rpma_mirror &set, const json &request, const limits &within)
{
    const unsigned copy = copy_of(request);
    set.targets.create_target(
            copy, request.at("target").get<std::string>().c_str(), request.at("poolset").get<std::string>().c_str());
    try {
        set.targets.resync(copy, within);
    } catch (...) {
        guarded([&] { set.targets.remove_target(copy); });
        throw;
    }
}

json status(rpma_mirror &set)
{
    const auto state = std::make_unique<rpma_mirror_state>();
    set.state(*state);
    json result = mirror_admin::to_json(*state);
    result["failure"] = state->is_open != 0 ? json() : json(set.parts.members.terminal_reason());
    return result;
}

json execute(rpma_mirror &set, const json &request, const limits &within, std::atomic<bool> &changes_members)
{
    const auto command = request.at("command").get<std::string>();
    if (command == "status")
        return status(set);
    if (command == "metrics")
        return set.metrics();
    if (command == "verify")
        return verify(set, request, within);
    if (command == "resync") {
        set.targets.resync(copy_of(request), within);
        return {};
    }
    if (command == "grow") {
        set.growth.grow(number_of(request, "length"));
        return {};
    }
    if (command != "add" && command != "remove")
        throw failure(RPMA_MIRROR_E_INVAL, "unknown command '" + command + "' (use rpma-mirror of this version)");
    const exclusive_change change(changes_members);
    if (command == "add")
        add(set, request, within);
    else
        set.targets.remove_target(copy_of(request));
    return {};
}

std::string result_line(int code, const char *message, const json &result = {})
{
    return mirror_admin::line_of({{"code", code}, {"message", message}, {"result", result}});
}

} // namespace

// Connection with at most one request. Only the thread of the socket accesses the first group of members.
struct administration::client {
    replica::fd_owner connection;
    std::string received, unsent;
    std::int64_t due_ms = replica::now_ms() + client_timeout_ms; // time at which a silent client is disconnected
    std::int64_t next_line_ms = 0;
    bool is_running = false;

    replica::loss cancel;

    std::mutex lock; // protects the following members
    std::optional<rpma_mirror_progress> progress;
    std::string result; // the last line, once the request is completed

    static int note(void *context, const rpma_mirror_progress *p)
    {
        auto &c = *static_cast<client *>(context);
        const std::lock_guard guard(c.lock);
        c.progress = *p;
        return 0;
    }

    std::jthread worker; // the first to be destroyed
};

administration::administration(rpma_mirror &of) : set_(of) {}

administration::~administration()
{
    stop();
}

// Binds to a temporary name and renames it over the socket of a killed writer. /proc avoids the limit of 107 bytes.
void administration::create_socket(const std::string &path)
{
    const std::filesystem::path whole(path);
    const std::string folder = whole.has_parent_path() ? whole.parent_path().string() : ".";
    const std::string message = "cannot create " + path;
    directory_.reset(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    struct stat state_file {
    };
    if (!directory_.valid() || !listener_.valid() || stat(set_.parts.configured.state_path.c_str(), &state_file) != 0)
        throw system_failure(message);
    name_ = whole.filename().string();
    const std::string temporary = ".rpma-mirror-" + std::to_string(getpid()) + "-" + std::to_string(directory_.get());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string bound = "/proc/self/fd/" + std::to_string(directory_.get()) + "/" + temporary;
    bound.copy(address.sun_path, sizeof(address.sun_path) - 1);
    unlinkat(directory_.get(), temporary.c_str(), 0);
    if (bind(listener_.get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0)
        throw system_failure(message);
    // A client cannot connect before listen().
    if (fchmodat(directory_.get(), temporary.c_str(), state_file.st_mode & 0666, 0) != 0 ||
            listen(listener_.get(), backlog) != 0 ||
            renameat(directory_.get(), temporary.c_str(), directory_.get(), name_.c_str()) != 0) {
        const int error = errno;
        unlinkat(directory_.get(), temporary.c_str(), 0);
        throw system_failure(message, error);
    }
}

void administration::start()
{
    const std::string path = set_.parts.configured.admin_path();
    if (path.empty())
        return;
    try {
        create_socket(path);
        thread_ = quiet_thread([this] { serve(); });
    } catch (...) {
        stop();
        throw;
    }
}

void administration::stop()
{
    stopping_ = true;
    changed_.raise();
    if (thread_.joinable())
        thread_.join();
    if (listener_.valid())
        unlinkat(directory_.get(), name_.c_str(), 0);
    listener_.reset();
    for (const auto &c : clients_)
        c->cancel.declare(ECANCELED);
    for (const auto &c : clients_)
        send_result(*c);
    clients_.clear();
}

// Waits for the end of the request. It can have changed the set before it was canceled, which the client must know.
void administration::send_result(client &c)
{
    if (c.worker.joinable())
        c.worker.join();
    if (!c.is_running || !c.connection.valid())
        return;
    c.unsent += c.result;
    send(c.connection.get(), c.unsent.data(), c.unsent.size(), MSG_NOSIGNAL);
}

void administration::serve()
{
    std::vector<pollfd> polled;
    while (!stopping_) {
        const bool accepts = replica::now_ms() >= accept_at_ms_;
        polled.assign({{changed_.fd(), POLLIN, 0}, {accepts ? listener_.get() : -1, POLLIN, 0}});
        for (const auto &c : clients_) {
            const bool reads = !c->is_running && c->unsent.empty();
            polled.push_back({c->connection.get(),
                    static_cast<short>(reads               ? POLLIN
                                       : c->unsent.empty() ? 0
                                                           : POLLOUT),
                    0});
        }
        poll(polled.data(), polled.size(), clients_.empty() && accepts ? -1 : mirror_admin::line_interval_ms);
        changed_.clear();
        for (std::size_t i = clients_.size(); i-- > 0;)
            if (!advance(*clients_[i], polled[i + 2].revents))
                clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
        if (polled[1].revents != 0)
            accept_clients();
    }
}

void administration::accept_clients()
{
    for (;;) {
        replica::fd_owner connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!connection.valid()) {
            // Without a free descriptor, the client stays in the listen queue.
            accept_at_ms_ = replica::now_ms() + (errno == EAGAIN ? 0 : mirror_admin::line_interval_ms);
            return;
        }
        const int code = guarded([&] {
            if (clients_.size() >= max_clients)
                throw failure(RPMA_MIRROR_E_BUSY, "too many administrators are connected (try again later)");
            auto created = std::make_unique<client>();
            if (const int error = created->cancel.open(); error != 0)
                throw system_failure("cannot create an event", error);
            clients_.push_back(std::move(created));
        });
        if (code == 0) {
            clients_.back()->connection = std::move(connection);
            continue;
        }
        const std::string line = result_line(code, last_failure());
        send(connection.get(), line.data(), line.size(), MSG_NOSIGNAL);
    }
}

// Returns false if the client must be disconnected. Does not wait.
bool administration::advance(client &c, short happened)
{
    // A closed connection cancels the request. The client stays until its thread has ended.
    if ((happened & (POLLHUP | POLLERR)) != 0)
        c.connection.reset();
    if (!c.connection.valid() && !c.is_running)
        return false;
    if (!c.is_running)
        return c.result.empty() ? receive_request(c) : send_lines(c) && !c.unsent.empty();
    std::string last;
    {
        const std::lock_guard guard(c.lock);
        last = c.result;
        if (last.empty() && c.connection.valid() && c.unsent.empty() && replica::now_ms() >= c.next_line_ms) {
            json progress;
            if (c.progress)
                mirror_admin::each_member_of_progress(*c.progress, mirror_admin::writer_of{progress});
            c.unsent = mirror_admin::line_of({{"progress", progress}});
            c.due_ms = replica::now_ms() + client_timeout_ms;
        }
    }
    c.is_running = last.empty();
    if (!c.is_running) {
        c.unsent += last;
        c.due_ms = replica::now_ms() + client_timeout_ms;
    }
    if (c.connection.valid() && !c.unsent.empty() && !send_lines(c))
        c.connection.reset();
    if (!c.connection.valid())
        c.cancel.declare(ECANCELED);
    return c.is_running || !c.unsent.empty();
}

bool administration::receive_request(client &c)
{
    char bytes[mirror_admin::max_request_size];
    const ssize_t count = recv(c.connection.get(), bytes, sizeof(bytes), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN) || (count < 0 && replica::now_ms() >= c.due_ms))
        return false;
    c.received.append(bytes, count < 0 ? 0 : static_cast<std::size_t>(count));
    const std::size_t end = c.received.find('\n');
    if (end == std::string::npos && c.received.size() < mirror_admin::max_request_size)
        return replica::now_ms() < c.due_ms;
    if (end == std::string::npos || end >= mirror_admin::max_request_size) {
        c.result = result_line(RPMA_MIRROR_E_INVAL,
                ("request longer than " + std::to_string(mirror_admin::max_request_size) + " bytes").c_str());
        c.unsent = c.result;
        return send_lines(c) && !c.unsent.empty();
    }
    c.received.resize(end);
    c.next_line_ms = replica::now_ms() + mirror_admin::line_interval_ms;
    c.is_running = true;
    const int code = guarded([&] { c.worker = quiet_thread([this, &c] { run(c, c.received); }); });
    if (code != 0)
        c.result = result_line(code, last_failure());
    return true;
}

// Sends as much as the client can receive without waiting. Returns false if the client received nothing for too long.
bool administration::send_lines(client &c)
{
    const ssize_t count = send(c.connection.get(), c.unsent.data(), c.unsent.size(), MSG_NOSIGNAL);
    if (count < 0)
        return errno == EAGAIN && replica::now_ms() < c.due_ms;
    c.unsent.erase(0, static_cast<std::size_t>(count));
    c.next_line_ms = replica::now_ms() + mirror_admin::line_interval_ms;
    return true;
}

void administration::run(client &c, const std::string &request)
{
    json result;
    const int code = guarded([&] {
        try {
            const json parsed = json::parse(request);
            const limits within{rate_of(parsed), client::note, &c, &c.cancel};
            result = execute(set_, parsed, within, changes_members_);
        } catch (const json::exception &error) {
            throw failure(RPMA_MIRROR_E_INVAL, std::string("invalid request: ") + error.what());
        }
    });
    std::string line = result_line(code, code == 0 ? "" : last_failure(), result);
    const std::lock_guard guard(c.lock);
    c.result = std::move(line);
    changed_.raise();
}
