// SPDX-License-Identifier: BSD-3-Clause
#include "agent.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "api/descriptor.hpp"
#include "api/rpma.hpp"
#include "api/socket.hpp"
#include "channel.hpp"
#include "engine/client.hpp"
#include "engine/layout.hpp"
#include "engine/server.hpp"
#include "engine/target_memory.hpp"
#include "host_facts.hpp"
#include "results.hpp"

namespace bench
{

namespace
{

constexpr int port_attempts = 5;
// Limits of the first message, which a client sends immediately and which is short.
constexpr double handshake_timeout_s = 10;
constexpr std::size_t max_handshake = 4096;
// Limits of later messages. Each preparation takes less time; the client announces the duration of a run.
constexpr double message_timeout_s = 180;
constexpr double max_run_s = 3600;
constexpr std::size_t max_request = 64 << 10;

using handlers = std::map<std::string, std::function<json(const json &)>>;

std::string verb_of(const json &request)
{
    const auto found = request.find("do");
    return found != request.end() && found->is_string() ? found->get<std::string>() : "";
}

void check_handshake(const json &request)
{
    const int client_version = request.value("protocol", 0);
    if (client_version != protocol_version)
        throw failure(fmt::format("this server uses version {} of the control protocol, the client version {} "
                                  "(install the same rpma-bench on both ends)",
                protocol_version, client_version));
}

json response_to(const json &request, const handlers &commands)
{
    try {
        const auto found = commands.find(verb_of(request));
        if (found == commands.end())
            throw failure("unknown request of the control protocol");
        json response = found->second(request);
        response["ok"] = true;
        return response;
    } catch (const failure &error) {
        return {{"ok", false}, {"error", error.what()}, {"status", int{error.status()}}};
    } catch (const std::exception &error) { // malformed request, or out of memory
        return {{"ok", false}, {"error", error.what()}, {"status", int{exit_failed}}};
    }
}

double run_duration_s(const json &request)
{
    const auto found = request.find("for_s");
    return found != request.end() && found->is_number() ? std::clamp(found->get<double>(), 0.0, max_run_s) : 0;
}

// Serves requests until the peer exits or is silent for too long, or its first request is rejected.
void serve_session(channel &control, const handlers &commands, bool trusted)
{
    try {
        double limit_s = handshake_timeout_s;
        for (bool handshake_done = false;;) {
            const json request = trusted ? control.receive(-1)
                                         : control.receive(limit_s, handshake_done ? max_request : max_handshake);
            if (!handshake_done && verb_of(request) != "hello")
                throw failure("the peer is not rpma-bench: no handshake");
            const json response = response_to(request, commands);
            control.send(response);
            if (!handshake_done && !response["ok"].get<bool>())
                return;
            handshake_done = true;
            limit_s = message_timeout_s + run_duration_s(request);
        }
    } catch (const peer_gone &) {
        return;
    }
}

json describe_process(const std::string &device)
{
    return {{"host", describe_host()}, {"device", device}, {"transport", transport_of(device)},
            {"rdma_core", rdma_core_version()}, {"tool", std::string("rpma-bench ") + RPMA_BENCH_VERSION},
            {"library", describe_library()}};
}

setup setup_in(const json &request)
{
    auto point_setup = request.at("setup").get<setup>();
    check_setup(point_setup);
    return point_setup;
}

// Limits the memory of a client's setup, so that other processes keep enough.
void check_memory(const layout &shape, std::size_t connections)
{
    const double required = static_cast<double>(shape.data_size()) +
                            static_cast<double>(shape.server_messages()) * static_cast<double>(connections);
    const double half = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 2;
    if (required > half)
        throw failure(fmt::format("{:.0f} MiB are more than half of the server's memory (use smaller blocks, fewer "
                                  "connections or less depth)",
                required / (1 << 20)));
}

class server_session
{
public:
    explicit server_session(const server_settings &settings)
        : settings_(settings), device_(rpma::device(settings.host, end::server).name()),
          direct_write_(settings.direct_write.value_or(is_softrdma(device_))),
          target_(describe_target(settings.target_path, is_softrdma(device_), direct_write_))
    {
    }

    void run(channel &control)
    {
        handlers commands;
        commands["hello"] = [&](const json &request) {
            check_handshake(request);
            return json{{"protocol", protocol_version}, {"facts", describe_process(device_)},
                    {"target", {{"word", target_.word}, {"description", target_.description},
                                       {"persistence", target_.persistence}}},
                    {"direct_write", direct_write_}};
        };
        commands["open"] = [&](const json &request) { return json{{"port", open(setup_in(request))}}; };
        commands["connected"] = [&](const json &) { return json{{"memory", current().wait_for_connections()}}; };
        commands["begin"] = [&](const json &request) {
            current().begin(request.at("seed").get<std::uint64_t>());
            return json::object();
        };
        commands["end"] = [&](const json &) {
            const server_sample sample = current().end();
            return json{{"cpu_s", sample.cpu_s}, {"hash", sample.target_hash}};
        };
        commands["close"] = [&](const json &) {
            point_.reset();
            return json::object();
        };
        serve_session(control, commands, false);
        point_.reset();
    }

private:
    server &current() const
    {
        if (!point_)
            throw failure("no open point on the server");
        return *point_;
    }

    // Another process may take the free port before its use: tries another one.
    std::string open(const setup &point_setup)
    {
        point_.reset();
        check_memory(layout(point_setup), point_setup.parameters.connections);
        const bool in_dram = point_setup.parameters.target == "dram";
        if (!in_dram && point_setup.parameters.target != target_.word)
            throw failure("the server lacks a target of the kind " + point_setup.parameters.target +
                                  " (start it with --target DIRECTORY or PMEM-DEVICE)",
                    exit_cannot_run);
        server_options options{
                {settings_.host, settings_.rdma_port}, in_dram ? "" : settings_.target_path, direct_write_};
        for (int attempt = 1;; ++attempt) {
            if (settings_.rdma_port.empty())
                options.at.port = free_port(settings_.host);
            try {
                point_ = open_server(point_setup, options);
                return options.at.port;
            } catch (const failure &) {
                if (attempt == port_attempts || !settings_.rdma_port.empty())
                    throw;
            }
        }
    }

    const server_settings &settings_;
    std::string device_;
    bool direct_write_;
    target_kind target_;
    std::unique_ptr<server> point_;
};

// Detects within a minute that the client's machine no longer responds.
void watch_peer(int fd)
{
    const int on = 1, idle_s = 20, interval_s = 10, count = 3;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const timeval response_timeout{20, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &response_timeout, sizeof response_timeout);
}

void announce(const server_settings &settings, const std::string &port)
{
    if (settings.ready_fd < 0) {
        fmt::print("serving at {} port {}\n", settings.host, port);
        std::fflush(stdout);
        return;
    }
    const std::string line = port + "\n";
    if (write(settings.ready_fd, line.data(), line.size()) < 0)
        throw system_failure("cannot report the port");
    close(settings.ready_fd);
}

} // namespace

void serve(const server_settings &settings)
{
    server_session session(settings);
    const int listening = listen_on({settings.host, settings.port});
    announce(settings, port_of(listening));
    const int limit_ms = settings.idle_limit_s > 0 ? static_cast<int>(settings.idle_limit_s * 1000) : -1;
    do {
        if (!wait_readable(listening, limit_ms)) {
            if (settings.ready_fd < 0)
                fmt::print("no client for {} s: done\n", settings.idle_limit_s);
            break;
        }
        const int fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        watch_peer(fd);
        channel control(fd, "the client");
        try {
            session.run(control);
        } catch (const failure &error) {
            fmt::print(stderr, "rpma-bench: {}\n", error.what());
        }
    } while (!settings.once);
    close(listening);
}

void serve_client(const client_settings &settings)
{
    std::unique_ptr<client> point;
    const auto current = [&]() -> client & {
        if (!point)
            throw failure("no open point on the client");
        return *point;
    };
    handlers commands;
    commands["hello"] = [&](const json &request) {
        check_handshake(request);
        const std::string device = rpma::device(settings.server_host, end::client).name();
        return json{{"protocol", protocol_version}, {"facts", describe_process(device)}};
    };
    commands["open"] = [&](const json &request) {
        point.reset();
        const setup point_setup = setup_in(request);
        point = open_client(point_setup, {settings.server_host, request.value("port", std::string())},
                point_setup.parameters.target == "dram" ? "" : settings.target_path);
        return json::object();
    };
    commands["begin"] = [&](const json &request) {
        current().begin(request.at("seed").get<std::uint64_t>());
        return json::object();
    };
    commands["warm_up"] = [&](const json &request) {
        return json{{"took_s", current().warm_up(request.at("limit_s").get<double>())}};
    };
    commands["measure"] = [&](const json &request) {
        const run_result run = current().measure(request.at("duration_s").get<double>());
        json response{{"run", run.repeat}};
        if (run.expected_target)
            response["hash"] = *run.expected_target;
        return response;
    };
    commands["close"] = [&](const json &) {
        point.reset();
        return json::object();
    };
    channel control(settings.control_fd, "the program that started this one");
    serve_session(control, commands, true);
}

} // namespace bench
