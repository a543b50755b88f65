// SPDX-License-Identifier: BSD-3-Clause
#include "degrade.hpp"

#include <cstring>
#include <syslog.h>

#include "log.hpp"
#include "state_file.hpp"

namespace rpmem
{

void tell_degraded(const char *replica_name, int error)
{
    log_line(log_level::warning, "%s is lost (%s): going on without it", replica_name, std::strerror(error));
    syslog(LOG_USER | LOG_WARNING, "librpmem: %s is lost (%s): the program goes on without it", replica_name,
            std::strerror(error));
    record_loss(replica_name, error);
}

} // namespace rpmem
