// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <librpma.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "channel/stream.hpp"
#include "config/config.hpp"
#include "config/failure.hpp"
#include "config/log.hpp"
#include "listen/mirror_server.hpp"
#include "serve/check.hpp"
#include "serve/session.hpp"
#include "standard_output.hpp"
#include "store/pool.hpp"

namespace rpmemd
{

namespace
{

constexpr int greeting_timeout_ms = 5'000;

void start_log(const config &settings)
{
    log_threshold(settings.level);
    if (settings.use_syslog)
        return log_to_syslog();
    try {
        log_to_file(settings.log_file);
    } catch (const failure &error) {
        throw config_error(exit_failed, error.what());
    }
}

void translate_force_switch()
{
    const char *const is_pmem = getenv("PMEM_IS_PMEM_FORCE");
    if (is_pmem != nullptr)
        setenv("PMEM2_FORCE_GRANULARITY", *is_pmem == '1' ? "CACHE_LINE" : "PAGE", 0);
}

void prepare_to_serve()
{
    std::signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    // Disables the log of the library, because it contains addresses.
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
}

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
    translate_force_switch();
    // Lets a write beyond the limit of file sizes fail (EFBIG), for example to the log, instead of ending the process.
    std::signal(SIGXFSZ, SIG_IGN);
    start_log(settings);
    if (settings.remove)
        return remove(settings);
    if (settings.check)
        return standard_output::finish("rpmemd", check_set(settings, *settings.check));
    if (!settings.listen && (isatty(STDIN_FILENO) != 0 || isatty(STDOUT_FILENO) != 0)) {
        std::fprintf(stderr,
                "rpmemd: standard input or output is a terminal: librpmem starts sessions, usually over ssh "
                "(see rpmemd --help; rpmem-doctor checks a target)\n");
        return exit_rejected;
    }
    prepare_to_serve();
    if (!settings.listen)
        return serve_client(settings);
    try {
        return serve_mirrors(settings);
    } catch (const failure &error) {
        log(log_level::err, error.what());
        std::fprintf(stderr, "rpmemd: %s\n", error.what());
        return error.os_errno() == EINVAL ? exit_rejected : exit_failed;
    }
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
    const std::optional<rpmemd::config> settings = rpmemd::read_config(argc, argv);
    return settings ? rpmemd::run(*settings) : rpmemd::exit_done;
} catch (const rpmemd::config_error &error) {
    return rpmemd::reject(argc, argv, error);
} catch (const std::exception &error) {
    rpmemd::log(rpmemd::log_level::err, error.what());
    return rpmemd::exit_failed;
}
