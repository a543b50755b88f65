// SPDX-License-Identifier: BSD-3-Clause
#include "state_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "fd_owner.hpp"
#include "log.hpp"

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
bool has_torn_line(int fd)
{
    struct stat facts {
    };
    char last = '\0';
    return fstat(fd, &facts) == 0 && facts.st_size > 0 && (pread(fd, &last, 1, facts.st_size - 1) != 1 || last != '\n');
}

// Appends a durable line with one write, because other processes append to the file too. Returns 0 or an errno value.
int append_line(const std::string &file, std::string line)
{
    const replica::fd_owner opened(open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!opened.valid())
        return errno;
    if (has_torn_line(opened.get()))
        line.insert(0, "\n");
    const ssize_t written = write(opened.get(), line.data(), line.size());
    if (written >= 0 && static_cast<std::size_t>(written) != line.size())
        return ENOSPC;
    // A character device such as /dev/null cannot be synchronized.
    return written >= 0 && (fdatasync(opened.get()) == 0 || errno == EINVAL) ? 0 : errno;
}

void append(const char *replica_name, std::string_view entry)
{
    const std::string file = state_file();
    make_directories_of(file);
    if (const int error = append_line(file, line_of(replica_name, entry)); error != 0)
        log_line(log_level::error, "cannot write the state file '%s': %s", file.c_str(), std::strerror(error));
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

// Opens the state file. Returns an errno value if the file exists but cannot be read, otherwise 0. A program without
// search permission on the directory has never written the file.
int open_state_file(std::FILE **to)
{
    const std::string file = state_file();
    *to = std::fopen(file.c_str(), "re");
    const int error = errno;
    struct stat facts {
    };
    return *to != nullptr || stat(file.c_str(), &facts) != 0 ? 0 : error;
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
    std::FILE *file = nullptr;
    int error = open_state_file(&file);
    char line[1024];
    while (file != nullptr && std::fgets(line, sizeof(line), file) != nullptr) {
        line[std::strcspn(line, "\n")] = '\0';
        const std::string_view entry = entry_of(line, replica_name);
        if (entry.empty())
            continue;
        error = entry == rebuilt || entry == removed ? 0 : ESTALE;
        reason->format("replica out of date since %.20s: %s (recreate it, for example with pmempool sync)", line,
                entry.data());
    }
    if (file != nullptr && std::ferror(file) != 0)
        error = errno;
    if (file != nullptr)
        std::fclose(file);
    if (error != 0 && error != ESTALE)
        reason->format(
                "state file '%s': cannot read: %s (replica state unknown)", state_file().c_str(), std::strerror(error));
    return error;
}

} // namespace rpmem
