// SPDX-License-Identifier: BSD-3-Clause
#include "listen/mirror_server.hpp"

#include <csignal>
#include <cstdio>
#include <list>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <thread>
#include <unistd.h>

#include "config/log.hpp"
#include "listen/listener.hpp"
#include "listen/metrics_server.hpp"
#include "listen/metrics_text.hpp"
#include "listen/mirror_session.hpp"
#include "listen/pending_connections.hpp"

namespace rpmemd
{

namespace
{

replica::tls_keys read_keys(const std::string &path)
{
    try {
        return replica::read_key_file(path);
    } catch (const replica::file_error &error) {
        throw failure(error.os_errno(), std::string("--key-file: ") + error.what());
    }
}

// Detects a writer host that has failed within 15 s, so that its lanes are revoked.
void watch_peer(int fd)
{
    const int on = 1, idle_s = 5, interval_s = 3, probes = 3, unacknowledged_ms = 15'000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof(unacknowledged_ms));
}

void raise_descriptor_limit()
{
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

// Blocks SIGTERM, SIGINT and SIGHUP in this and later threads. Returns a descriptor that receives them.
replica::fd_owner take_signals()
{
    sigset_t signal_set;
    sigemptyset(&signal_set);
    sigaddset(&signal_set, SIGTERM);
    sigaddset(&signal_set, SIGINT);
    sigaddset(&signal_set, SIGHUP);
    if (pthread_sigmask(SIG_BLOCK, &signal_set, nullptr) != 0)
        throw system_failure("cannot block signals");
    replica::fd_owner signals(signalfd(-1, &signal_set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals.valid())
        throw system_failure("cannot wait for signals");
    return signals;
}

// The service manager that started this process, if any. It restarts a daemon that does not report in time.
class service_manager
{
public:
    service_manager()
    {
        std::uint64_t limit_us = 0;
        if (sd_watchdog_enabled(0, &limit_us) > 0)
            interval_ms_ = static_cast<int>(limit_us / 2'000);
    }
    void ready() const { sd_notify(0, "READY=1"); }
    void stopping() const { sd_notify(0, "STOPPING=1"); }
    // Reports that the daemon responds. Returns the time to wait for events until the next report, -1 for no limit.
    int report(int timeout_ms) const
    {
        if (interval_ms_ < 0)
            return timeout_ms;
        sd_notify(0, "WATCHDOG=1");
        return timeout_ms < 0 ? interval_ms_ : std::min(timeout_ms, interval_ms_);
    }

private:
    int interval_ms_ = -1;
};

class server
{
public:
    server(const config &settings, const location &at)
        : settings_(settings), pending_(settings.limits, read_keys(settings.key_file)), signals_(take_signals()),
          listener_("--listen", at, false), ended_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), sets_(settings, at.address)
    {
        if (!ended_.valid())
            throw system_failure("cannot wait for the end of sessions");
        if (!settings.metrics.empty())
            metrics_ = std::make_unique<metrics_server>(
                    parse_location(settings.metrics), [this] { return metrics_text(counted_, sets_); });
        std::printf("rpmemd: listening on %s port %u\n", at.address.c_str(), listener_.port());
        if (metrics_)
            std::printf("rpmemd: metrics on port %u\n", metrics_->port());
        std::fflush(stdout);
        manager_.ready();
    }

    ~server()
    {
        for (client &c : clients_)
            c.session.stop();
        for (client &c : clients_)
            c.thread.join();
    }

    void run()
    {
        for (;;) {
            pollfd waited[] = {{accepts_ ? listener_.fd() : -1, POLLIN, 0}, {signals_.get(), POLLIN, 0},
                    {ended_.get(), POLLIN, 0}, {pending_.fd(), POLLIN, 0}};
            const int timeout_ms = accepts_ ? pending_.left_ms() : pause_without_descriptors_ms;
            if (poll(waited, std::size(waited), manager_.report(timeout_ms)) < 0 && errno != EINTR)
                throw system_failure("cannot wait for clients");
            accepts_ = true;
            if (waited[1].revents != 0 && !handle_signals())
                return manager_.stopping();
            if (waited[2].revents != 0)
                drop_ended();
            pending_.close_late();
            if (waited[3].revents != 0)
                pending_.serve([this](auto connection) { admit(std::move(connection)); });
            if (waited[0].revents != 0)
                accept_one();
            counted_.unauthenticated = pending_.size();
            counted_.clients = clients_.size();
        }
    }

private:
    struct client {
        mirror_session session;
        std::thread thread;

        client(mirror_sets &sets, std::unique_ptr<replica::byte_stream> connection, access rights, std::uint64_t number)
            : session(sets, std::move(connection), std::move(rights), number)
        {
        }
    };

    bool handle_signals()
    {
        bool continues = true;
        for (signalfd_siginfo received{}; read(signals_.get(), &received, sizeof(received)) == sizeof(received);) {
            if (received.ssi_signo == SIGHUP)
                reload();
            else
                continues = false;
        }
        return continues;
    }

    // Reads keys and rights of clients again, for new sessions. An error changes nothing.
    void reload()
    {
        try {
            config fresh;
            for (const std::string &path : settings_.files)
                read_config_file(fresh, path);
            pending_.set_keys(read_keys(settings_.key_file));
            grants_ = std::move(fresh.grants);
            log(log_level::notice, "SIGHUP: keys and rights of clients read again");
        } catch (const std::exception &error) {
            log(log_level::err, std::string("SIGHUP: keys and rights of clients are unchanged: ") + error.what());
        }
    }

    void drop_ended()
    {
        eventfd_t count{};
        eventfd_read(ended_.get(), &count);
        std::erase_if(clients_, [](client &c) {
            const bool done = c.session.is_done();
            if (done)
                c.thread.join();
            return done;
        });
    }

    void accept_one()
    {
        sockaddr_storage peer{};
        socklen_t size = sizeof(peer);
        replica::fd_owner connection(accept4(listener_.fd(), reinterpret_cast<sockaddr *>(&peer), &size, SOCK_CLOEXEC));
        if (!connection.valid()) {
            // The listener stays readable while no descriptor is free, so run() pauses accepting.
            accepts_ = errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
            return;
        }
        watch_peer(connection.get());
        pending_.add(std::move(connection), peer);
    }

    void admit(std::unique_ptr<replica::tls_stream> connection)
    {
        if (clients_.size() >= settings_.limits.sessions) {
            const std::string text = "target: limit of " + std::to_string(clients_.size()) +
                                     " clients reached (see max-sessions in rpmemd.conf)";
            log(log_level::err, text);
            ++counted_.rejected;
            replica::greeting greeting;
            greeting.set_error(EBUSY);
            greeting.set_text(text);
            // The buffer of a new socket has space for the message.
            (void)replica::send_message(*connection, replica::deadline(1), replica::encode(greeting));
            return;
        }
        access rights(connection->identity(), grants_);
        client &added = clients_.emplace_back(sets_, std::move(connection), std::move(rights), ++last_number_);
        try {
            added.thread = std::thread([this, &added] {
                added.session.run();
                eventfd_write(ended_.get(), 1);
            });
        } catch (const std::system_error &error) {
            log(log_level::err, std::string("cannot serve a client: ") + error.what());
            clients_.pop_back();
        }
    }

    static constexpr int pause_without_descriptors_ms = 100;

    const config &settings_;
    std::vector<grant> grants_ = settings_.grants;
    const service_manager manager_;
    pending_connections pending_;
    const replica::fd_owner signals_;
    const listener listener_;
    const replica::fd_owner ended_; // readable when a session has ended
    mirror_sets sets_;
    std::list<client> clients_;
    std::uint64_t last_number_ = 0;
    bool accepts_ = true;
    daemon_metrics counted_;
    std::unique_ptr<metrics_server> metrics_; // the first to be destroyed
};

} // namespace

exit_status serve_mirrors(const config &settings)
{
    raise_descriptor_limit();
    location at;
    try {
        at = parse_location(*settings.listen);
    } catch (const std::invalid_argument &error) {
        throw failure(EINVAL, std::string("--listen: ") + error.what());
    }
    server(settings, at).run();
    return exit_done;
}

} // namespace rpmemd
