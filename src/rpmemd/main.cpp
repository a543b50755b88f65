// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <unistd.h>

#include "channel/stream.hpp"
#include "config/config.hpp"
#include "config/failure.hpp"
#include "config/log.hpp"
#include "config/startup.hpp"
#include "serve/check.hpp"
#include "serve/session.hpp"
#include "standard_output.hpp"
#include "store/pool.hpp"

namespace rpmemd
{

namespace
{

constexpr int greeting_timeout_ms = 5'000;

int remove(const config &settings)
{
    try {
        remove_pool(settings, *settings.remove);
        return exit_done;
    } catch (const failure &error) {
        log(log_level::err, error.what());
        // Prints to standard error, too: ssh forwards it to the client.
        std::fprintf(stderr, "rpmemd: %s\n", error.what());
        return error.os_errno() == EBADF ? EINVAL : error.os_errno();
    }
}

int run(const config &settings)
{
    start_process(settings);
    if (settings.remove)
        return remove(settings);
    if (settings.check)
        return standard_output::finish("rpmemd", check_set(settings, *settings.check));
    if (isatty(STDIN_FILENO) != 0 || isatty(STDOUT_FILENO) != 0) {
        std::fprintf(stderr,
                "rpmemd: standard input or output is a terminal: librpmem starts sessions, usually over ssh "
                "(see rpmemd --help; rpmem-doctor checks a target)\n");
        return exit_rejected;
    }
    prepare_to_serve();
    return serve_client(settings);
}

bool requests_server(std::span<char *> arguments)
{
    return std::ranges::any_of(arguments, [](const std::string_view argument) {
        return argument == "--listen" || argument.starts_with("--listen=");
    });
}

// Executes the server of mirrored sets in this process. The server is a program of its own, because its libraries
// would delay the start of each session.
[[noreturn]] void execute_server(char *const *argv)
{
    const std::filesystem::path directory = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    const std::string program = (directory / RPMEMD_LISTEN_PROGRAM).lexically_normal();
    execv(program.c_str(), argv);
    throw config_error(
            exit_failed, "cannot execute '" + program + "': " + std::strerror(errno) + " (reinstall rpmemd)");
}

// Returns whether a client waits for a greeting. Uses the raw arguments, because parsing may have failed.
bool starts_session(int argc, const char *const *argv)
{
    std::string words;
    for (int i = 1; i < argc; ++i)
        words.append(" ").append(argv[i]);
    if (const char *const forced = getenv("SSH_ORIGINAL_COMMAND"); forced != nullptr)
        words.append(" ").append(forced);
    constexpr std::array<const char *, 5> others = {" -r", " --remove", " --check", " --listen", " --version"};
    return isatty(STDOUT_FILENO) == 0 &&
           std::ranges::none_of(others, [&](const char *option) { return words.find(option) != std::string::npos; });
}

// Logs the configuration error and reports it to the client of a session as EINVAL, like the daemon of PMDK.
exit_status reject(int argc, const char *const *argv, const config_error &error)
{
    log(log_level::err, error.what());
    if (starts_session(argc, argv)) {
        std::signal(SIGPIPE, SIG_IGN);
        replica::greeting greeting;
        greeting.set_error(EINVAL);
        greeting.set_text(std::string(error.what()).substr(0, replica::error_text::capacity));
        replica::send_message(STDOUT_FILENO, replica::deadline(greeting_timeout_ms), replica::encode(greeting));
    }
    return error.status();
}

} // namespace

} // namespace rpmemd

int main(int argc, char **argv)
try {
    if (rpmemd::requests_server({argv, static_cast<std::size_t>(argc)}))
        rpmemd::execute_server(argv);
    const std::optional<rpmemd::config> settings = rpmemd::read_config(argc, argv);
    return settings ? rpmemd::run(*settings) : rpmemd::exit_done;
} catch (const rpmemd::config_error &error) {
    return rpmemd::reject(argc, argv, error);
} catch (const std::exception &error) {
    rpmemd::log(rpmemd::log_level::err, error.what());
    return rpmemd::exit_failed;
}
