// SPDX-License-Identifier: BSD-3-Clause
#include "listen/metrics_server.hpp"

#include <algorithm>
#include <cstring>
#include <microhttpd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "config/failure.hpp"
#include "config/log.hpp"

namespace rpmemd
{

namespace
{

constexpr unsigned max_clients = 16, max_clients_per_address = 8;
constexpr std::chrono::seconds client_limit{10};
constexpr std::size_t client_memory = 16 * 1024;
constexpr int poll_interval_ms = 500;

} // namespace

void metrics_server::stopper::operator()(MHD_Daemon *daemon) const
{
    MHD_stop_daemon(daemon);
}

// Functions that libmicrohttpd calls, in the thread of the server.
struct metrics_server::callbacks {
    static MHD_Result respond(void *self, MHD_Connection *connection, const char *url, const char *method, const char *,
            const char *, std::size_t *, void **)
    {
        try {
            return static_cast<const metrics_server *>(self)->respond(connection, url, method) == MHD_YES ? MHD_YES
                                                                                                          : MHD_NO;
        } catch (const std::exception &error) {
            log(log_level::err, std::string("metrics: ") + error.what());
            return MHD_NO;
        }
    }

    static void notify(void *self, MHD_Connection *connection, void **context, MHD_ConnectionNotificationCode event)
    {
        auto &clients = static_cast<metrics_server *>(self)->clients_;
        if (event == MHD_CONNECTION_NOTIFY_STARTED) {
            const auto *const info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
            clients.push_back({info->connect_fd, clock::now()});
            *context = &clients.back();
        } else {
            clients.remove_if([context](const client &c) { return &c == *context; });
        }
    }
};

metrics_server::metrics_server(const location &at, std::function<std::string()> text)
    : text_(std::move(text)), stop_(eventfd(0, EFD_CLOEXEC))
{
    listener socket("--metrics", at, true);
    port_ = socket.port();
    daemon_.reset(MHD_start_daemon(MHD_USE_EPOLL, 0, nullptr, nullptr, callbacks::respond, this,
            MHD_OPTION_LISTEN_SOCKET, socket.fd(), MHD_OPTION_CONNECTION_LIMIT, max_clients,
            MHD_OPTION_PER_IP_CONNECTION_LIMIT, max_clients_per_address, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
            client_memory, MHD_OPTION_NOTIFY_CONNECTION, callbacks::notify, this, MHD_OPTION_END));
    if (!daemon_ || !stop_.valid())
        throw system_failure("--metrics: cannot start the HTTP server");
    socket.release(); // libmicrohttpd closes it
    thread_ = std::thread([this] { run(); });
}

metrics_server::~metrics_server()
{
    eventfd_write(stop_.get(), 1);
    thread_.join();
}

int metrics_server::respond(MHD_Connection *connection, const char *url, const char *method) const
{
    unsigned status = MHD_HTTP_OK;
    std::string text;
    if (std::strcmp(method, MHD_HTTP_METHOD_GET) != 0 && std::strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        status = MHD_HTTP_METHOD_NOT_ALLOWED;
    else if (std::strcmp(url, "/metrics") != 0)
        status = MHD_HTTP_NOT_FOUND;
    else
        text = text_();
    const std::unique_ptr<MHD_Response, decltype(&MHD_destroy_response)> response(
            MHD_create_response_from_buffer(text.size(), text.data(), MHD_RESPMEM_MUST_COPY), MHD_destroy_response);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
    // Closes the connection after each request, so that the time limit of a connection is that of a request.
    MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONNECTION, "close");
    return MHD_queue_response(connection, status, response.get());
}

// libmicrohttpd limits only the time without progress. It closes a connection that was shut down.
void metrics_server::end_late_clients()
{
    const clock::time_point limit = clock::now() - client_limit;
    for (const client &c : clients_)
        if (c.since < limit)
            shutdown(c.fd, SHUT_RDWR);
}

void metrics_server::run()
{
    const int events = MHD_get_daemon_info(daemon_.get(), MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    for (;;) {
        MHD_UNSIGNED_LONG_LONG left = poll_interval_ms;
        if (MHD_get_timeout(daemon_.get(), &left) != MHD_YES)
            left = poll_interval_ms;
        pollfd waited[] = {{events, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
        poll(waited, 2, static_cast<int>(std::min<MHD_UNSIGNED_LONG_LONG>(left, poll_interval_ms)));
        if (waited[1].revents != 0)
            return;
        end_late_clients();
        MHD_run(daemon_.get());
    }
}

} // namespace rpmemd
