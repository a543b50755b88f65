// SPDX-License-Identifier: BSD-3-Clause
#include "degrade.hpp"

#include <cstring>
#include <syslog.h>

#include "log.hpp"
#include "state_file.hpp"

namespace rpmem
{

void report_degraded(const char *replica_name, int error)
{
    log_line(log_level::warning, "%s: replica lost: %s (continuing without it)", replica_name, std::strerror(error));
    syslog(LOG_USER | LOG_WARNING, "librpmem: %s: replica lost: %s (continuing without it)", replica_name,
            std::strerror(error));
    record_loss(replica_name, error);
}

} // namespace rpmem
