// SPDX-License-Identifier: BSD-3-Clause
#include "config/startup.hpp"

#include <csignal>
#include <cstdlib>
#include <librpma.h>
#include <sys/prctl.h>

#include "config/failure.hpp"

namespace rpmemd
{

namespace
{

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

} // namespace

void start_process(const config &settings)
{
    translate_force_switch();
    // Lets a write beyond the limit of file sizes fail (EFBIG), for example to the log, instead of ending the process.
    std::signal(SIGXFSZ, SIG_IGN);
    start_log(settings);
}

void prepare_to_serve()
{
    std::signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    // Disables the log of the library, because it contains addresses.
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
}

} // namespace rpmemd
