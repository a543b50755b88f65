// SPDX-License-Identifier: BSD-3-Clause
#include <csignal>
#include <cstdlib>
#include <librpma.h>
#include <sys/prctl.h>

#include "check.hpp"
#include "config.hpp"
#include "failure.hpp"
#include "log.hpp"
#include "mirror_server.hpp"
#include "pool.hpp"
#include "session.hpp"

namespace rpmemd
{

namespace
{

void start_log(const config &settings)
{
    log_threshold(settings.level);
    if (settings.use_syslog)
        log_to_syslog();
    else
        log_to_file(settings.log_file);
}

// libpmem2 has its own name for the switch of tests that libpmem had.
void take_over_force_switch()
{
    const char *const is_pmem = getenv("PMEM_IS_PMEM_FORCE");
    if (is_pmem != nullptr)
        setenv("PMEM2_FORCE_GRANULARITY", *is_pmem == '1' ? "CACHE_LINE" : "PAGE", 0);
}

void prepare_to_serve()
{
    std::signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    // The log of the library has addresses.
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
}

// The exit status is the errno value.
int remove(const config &settings)
{
    try {
        remove_pool(settings, *settings.remove);
        return exit_done;
    } catch (const failure &problem) {
        log(log_level::err, problem.what());
        // Whoever asked sees both: over ssh standard error is the client's.
        std::fprintf(stderr, "rpmemd: %s\n", problem.what());
        return problem.error() == EBADF ? EINVAL : problem.error();
    }
}

int run(const config &settings)
{
    take_over_force_switch();
    // A file that must not grow is an error (EFBIG) of what writes to it, the log among others.
    std::signal(SIGXFSZ, SIG_IGN);
    start_log(settings);
    if (settings.remove)
        return remove(settings);
    if (settings.check)
        return check_set(settings, *settings.check);
    prepare_to_serve();
    if (!settings.listen)
        return serve_client(settings);
    try {
        return serve_mirrors(settings);
    } catch (const failure &problem) {
        log(log_level::err, problem.what());
        std::fprintf(stderr, "rpmemd: %s\n", problem.what());
        return problem.error() == EINVAL ? exit_refused : exit_failed;
    }
}

} // namespace

} // namespace rpmemd

int main(int argc, char **argv)
try {
    const std::optional<rpmemd::config> settings = rpmemd::read_config(argc, argv);
    return settings ? rpmemd::run(*settings) : rpmemd::exit_done;
} catch (const rpmemd::config_error &problem) {
    rpmemd::log(rpmemd::log_level::err, problem.what());
    return problem.status();
} catch (const std::exception &problem) {
    rpmemd::log(rpmemd::log_level::err, problem.what());
    return rpmemd::exit_failed;
}
