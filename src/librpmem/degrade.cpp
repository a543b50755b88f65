// SPDX-License-Identifier: BSD-3-Clause
#include "degrade.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "log.hpp"
#include "short_text.hpp"

namespace rpmem
{

namespace
{

using path = replica::short_text<4095>;

// RPMEM_STATE_FILE, or librpmem/lost in the user's directory for states, which is made.
path state_file()
{
    path file;
    if (const char *const named = getenv("RPMEM_STATE_FILE"); named != nullptr && *named != '\0') {
        file.assign(named);
        return file;
    }
    path directory;
    if (const char *const states = getenv("XDG_STATE_HOME"); states != nullptr && *states == '/')
        directory.assign(states);
    else if (const char *const home = getenv("HOME"); home != nullptr && *home == '/')
        directory.format("%s/.local/state", home);
    else
        return file;
    file.format("%s/librpmem", directory.c_str());
    for (const char *slash = file.c_str(); slash != nullptr;) {
        slash = std::strchr(slash + 1, '/');
        path part;
        part.assign(slash == nullptr ? file.view()
                                     : std::string_view(file.c_str(), static_cast<std::size_t>(slash - file.c_str())));
        mkdir(part.c_str(), 0700);
    }
    file.format("%s/librpmem/lost", directory.c_str());
    return file;
}

} // namespace

void tell_degraded(const char *replica_name, int error)
{
    log_line(log_level::warning, "%s is lost (%s): going on without it", replica_name, std::strerror(error));
    syslog(LOG_USER | LOG_WARNING, "librpmem: %s is lost (%s): the program goes on without it", replica_name,
            std::strerror(error));
    const int fd = open(state_file().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char when[32] = "";
    std::strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
    replica::short_text<767> line;
    line.format("%s pid %d: %s: %s\n", when, static_cast<int>(getpid()), replica_name, std::strerror(error));
    if (write(fd, line.c_str(), line.view().size()) < 0)
        log_line(log_level::error, "cannot write the state file");
    close(fd);
}

} // namespace rpmem
