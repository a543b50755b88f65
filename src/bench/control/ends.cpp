// SPDX-License-Identifier: BSD-3-Clause
#include "ends.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/descriptor.hpp"
#include "api/socket.hpp"
#include "engine/layout.hpp"
#include "failure.hpp"

namespace bench
{

namespace
{

constexpr double answer_s = 60;
constexpr double start_s = 20;
constexpr double greeting_s = 20; // a server that has another client does not answer

// Reads the line that a server writes when it listens. One that ends before has told why on stderr.
std::string read_port(int fd, child &process)
{
    std::string line;
    for (char c = 0; c != '\n';) {
        const bool in_time = wait_readable(fd, static_cast<int>(start_s * 1000));
        if (in_time && read(fd, &c, 1) == 1)
            line += c;
        else if (const std::optional<int> status = in_time ? process.exit_status() : std::nullopt)
            throw already_told(static_cast<exit_status>(*status));
        else
            throw failure("the server did not start: it " + process.fate());
    }
    line.pop_back();
    return line;
}

// What has become of a process that does not answer.
std::string story_of(const char *name, child &process, const json &request)
{
    if (process.has_ended())
        return std::string(name) + " " + process.fate();
    return fmt::format("{} does not answer the request to {}", name, request.at("do").get<std::string>());
}

} // namespace

ends::ends(const ends_options &options) : options_(options)
{
    if (!options.library.empty())
        library_directory_ = find_library_directory(options.library);
    if (options.server_host.empty())
        start_server();
    server_ = std::make_unique<channel>(
            connect_to({options_.server_host, options_.server_port}), "the server at " + options_.server_host);
    start_client();
    greet();
}

std::vector<std::string> ends::command(const std::vector<std::string> &words) const
{
    std::vector<std::string> all;
    if (options_.use_softrdma)
        all = {softrdma_launcher(), "run", "--"};
    all.push_back(own_path());
    all.insert(all.end(), words.begin(), words.end());
    return all;
}

void ends::start_server()
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0)
        throw system_failure("pipe2() failed");
    std::vector<std::string> words = {"server", "--address", options_.host, "--port", "0", "--once", "--ready-fd",
            std::to_string(ready[1]), "--idle-limit", "60"};
    if (!options_.target_path.empty())
        words.insert(words.end(), {"--target", options_.target_path});
    server_process_ = std::make_unique<child>(command(words), library_directory_, ready[1]);
    ::close(ready[1]);
    try {
        options_.server_port = read_port(ready[0], *server_process_);
    } catch (...) {
        ::close(ready[0]);
        throw;
    }
    ::close(ready[0]);
    options_.server_host = options_.host;
}

void ends::start_client()
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
        throw system_failure("socketpair() failed");
    std::vector<std::string> words = {"agent", "--fd", std::to_string(sockets[1]), "--server", options_.server_host};
    if (!options_.target_path.empty())
        words.insert(words.end(), {"--target", options_.target_path});
    client_ = std::make_unique<channel>(sockets[0], "the client process");
    client_process_ = std::make_unique<child>(command(words), library_directory_, sockets[1]);
    ::close(sockets[1]);
}

void ends::greet()
{
    const json hello{{"do", "hello"}, {"protocol", protocol_version}};
    const json server = ask_server(hello, greeting_s);
    if (server.value("protocol", 0) != protocol_version)
        throw failure(fmt::format("{} speaks version {} of the control protocol, this rpma-bench version {}: use the "
                                  "same on both ends",
                server_->peer(), server.value("protocol", 0), protocol_version));
    facts_ = unpack(ask_client(hello, answer_s).at("facts"), client_->peer());
    const results theirs = unpack(server.at("facts"), server_->peer());
    facts_.environment.server = theirs.environment.client;
    facts_.environment.same_host = server_process_ != nullptr;

    const json &target = server.at("target");
    target_ = {target.at("word"), target.at("description"), target.at("persistence"), server.at("direct_write"),
            server_process_ != nullptr};
    if (library_directory_.empty())
        return;
    std::error_code error;
    const std::filesystem::path wanted = std::filesystem::path(library_directory_) / "librpma.so.0";
    if (!std::filesystem::equivalent(facts_.libraries.at(0).file, wanted, error))
        throw failure("asked for the library in " + library_directory_ + ", but " + facts_.libraries.at(0).file +
                      " was loaded");
}

json ends::ask_server(const json &request, double timeout_s)
try {
    return server_->ask(request, timeout_s);
} catch (const peer_gone &gone) {
    if (server_process_)
        throw peer_gone(story_of("the server process", *server_process_, request));
    if (request.at("do") == "hello")
        throw failure(std::string(gone.what()) + " (a server has one client at a time)");
    throw;
}

json ends::ask_client(const json &request, double timeout_s)
try {
    return client_->ask(request, timeout_s);
} catch (const peer_gone &gone) {
    throw peer_gone(story_of("the client process", *client_process_, request));
}

void ends::open(const setup &what)
{
    const json packed = pack_setup(what);
    json request{{"do", "open"}, {"setup", packed}};
    has_server_ = what.api != api::memcpy && !is_replica(workload_from(what.workload));
    server_memory_.reset();
    if (has_server_)
        request["port"] = ask_server(request, answer_s).at("port");
    ask_client(request, answer_s);
    if (has_server_ && what.workload != "connect")
        server_memory_ = ask_server({{"do", "connected"}}, answer_s).at("memory").get<double>();
}

void ends::begin(double for_s)
{
    ++seed_;
    const json request{{"do", "begin"}, {"seed", seed_}, {"for_s", for_s}};
    if (has_server_)
        ask_server(request, answer_s);
    ask_client(request, answer_s);
}

void ends::warm_up(double limit_s)
{
    begin(limit_s);
    ask_client({{"do", "warm_up"}, {"limit_s", limit_s}}, limit_s + answer_s);
    if (has_server_)
        ask_server({{"do", "end"}}, answer_s);
}

bench::repeat ends::run(double duration_s)
{
    begin(duration_s);
    const json answer = ask_client({{"do", "measure"}, {"duration_s", duration_s}}, duration_s + answer_s);
    bench::repeat r = unpack(answer.at("run"), client_->peer()).points.at(0).repeats.at(0);
    if (has_server_) {
        const json sample = ask_server({{"do", "end"}}, answer_s);
        r.cpu_s.server = sample.at("cpu_s").get<double>();
        r.memory_per_connection_bytes.server = server_memory_;
        if (answer.contains("hash"))
            r.verified = r.verified.value_or(true) && answer.at("hash") == sample.at("hash");
    }
    return r;
}

void ends::close()
{
    ask_client({{"do", "close"}}, answer_s);
    if (has_server_)
        ask_server({{"do", "close"}}, answer_s);
}

} // namespace bench
