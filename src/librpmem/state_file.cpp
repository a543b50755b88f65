// SPDX-License-Identifier: BSD-3-Clause
#include "state_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd_owner.hpp"
#include "base/text_file.hpp"
#include "log.hpp"
#include "write_all.hpp"

namespace rpmem
{

namespace
{

constexpr std::string_view rebuilt = "rebuilt";
constexpr std::string_view removed = "removed";

// Returns RPMEM_STATE_FILE, or librpmem/lost in the state directory of the user, or an empty path if it is unknown.
std::string state_file()
{
    if (const char *const chosen = getenv("RPMEM_STATE_FILE"); chosen != nullptr && *chosen != '\0')
        return chosen;
    if (const char *const states = getenv("XDG_STATE_HOME"); states != nullptr && *states == '/')
        return std::string(states) + "/librpmem/lost";
    if (const char *const user_dir = getenv("HOME"); user_dir != nullptr && *user_dir == '/')
        return std::string(user_dir) + "/.local/state/librpmem/lost";
    return "";
}

void make_directories_of(const std::string &file)
{
    for (std::size_t slash = file.find('/', 1); slash != file.npos; slash = file.find('/', slash + 1))
        mkdir(file.substr(0, slash).c_str(), 0700);
}

std::string line_of(const char *replica_name, std::string_view entry)
{
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char when[32] = "";
    std::strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
    return std::string(when) + " pid " + std::to_string(getpid()) + ": " + replica_name + ": " + std::string(entry) +
           "\n";
}

// Returns whether the last line has no end: the disk was full, or the machine crashed.
bool has_torn_line(int fd, off_t size)
{
    char last = '\0';
    return size > 0 && (pread(fd, &last, 1, size - 1) != 1 || last != '\n');
}

// Appends a durable line by one write, because other processes append, too. Throws replica::file_error.
void append_line(const std::string &file, std::string line)
{
    const int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    const replica::fd_owner opened(open(file.c_str(), flags, 0600));
    const off_t size = replica::check_text_file(opened).st_size;
    if (has_torn_line(opened.get(), size))
        line.insert(0, "\n");
    // A character device such as /dev/null cannot be synchronized.
    if (!write_all(opened.get(), line) || (fdatasync(opened.get()) != 0 && errno != EINVAL))
        throw replica::file_error(errno, std::strerror(errno));
}

void append(const char *replica_name, std::string_view entry)
{
    const std::string file = state_file();
    make_directories_of(file);
    try {
        append_line(file, line_of(replica_name, entry));
    } catch (const replica::file_error &error) {
        log_line(log_level::error, "cannot write the state file '%s': %s", file.c_str(), error.what());
    }
}

// Returns the entry of a line, or an empty string if the line belongs to another replica.
std::string_view entry_of(std::string_view line, std::string_view replica_name)
{
    constexpr std::string_view separator = ": ";
    const std::size_t stamp = line.find(separator);
    if (stamp == line.npos)
        return {};
    line.remove_prefix(stamp + separator.size());
    if (!line.starts_with(replica_name))
        return {};
    line.remove_prefix(replica_name.size());
    if (!line.starts_with(separator))
        return {};
    line.remove_prefix(separator.size());
    return line;
}

// Returns the text of the state file, or an empty string if it does not exist. A program without search permission on
// the directory has never written the file. Throws replica::file_error.
std::string read_state_file()
{
    const std::string file = state_file();
    try {
        return replica::read_text_file(file);
    } catch (const replica::file_error &) {
        struct stat facts {
        };
        if (stat(file.c_str(), &facts) != 0)
            return "";
        throw;
    }
}

void record_end(const char *replica_name, std::string_view entry)
{
    replica::error_text reason;
    if (recorded_fault(replica_name, &reason) != 0)
        append(replica_name, entry);
}

} // namespace

void record_loss(const char *replica_name, int error)
{
    append(replica_name, std::strerror(error));
}

void record_rebuilt(const char *replica_name)
{
    record_end(replica_name, rebuilt);
}

void record_removed(const char *replica_name)
{
    record_end(replica_name, removed);
}

int recorded_fault(const char *replica_name, replica::error_text *reason)
{
    int error = 0;
    try {
        std::istringstream lines(read_state_file());
        for (std::string line; std::getline(lines, line);) {
            const std::string_view entry = entry_of(line, replica_name);
            if (entry.empty())
                continue;
            error = entry == rebuilt || entry == removed ? 0 : ESTALE;
            reason->format("replica out of date since %.20s: %s (recreate it, for example with pmempool sync)",
                    line.c_str(), entry.data());
        }
    } catch (const replica::file_error &failed) {
        error = failed.os_errno();
        reason->format("state file '%s': cannot read: %s (replica state unknown)", state_file().c_str(), failed.what());
    }
    return error;
}

} // namespace rpmem
