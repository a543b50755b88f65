// SPDX-License-Identifier: BSD-3-Clause
#include "store/set_file.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <utility>

#include "base/fd_owner.hpp"
#include "base/text_file.hpp"
#include "config/failure.hpp"
#include "message/set_name.hpp"

namespace rpmemd
{

namespace
{

constexpr std::size_t max_file_size = std::size_t{1} << 20;

// Opens the directories of the name one by one. Rejects symbolic links, because they may lead outside.
replica::fd_owner open_step_by_step(replica::fd_owner at, std::string_view name, int flags)
{
    for (;;) {
        const std::size_t slash = name.find('/');
        const bool is_last = slash == std::string_view::npos;
        const std::string part(slash == 0 || name.empty() ? "." : name.substr(0, slash));
        const int step = is_last ? flags : O_PATH | O_DIRECTORY;
        replica::fd_owner next(openat(at.get(), part.c_str(), step | O_NOFOLLOW | O_CLOEXEC));
        if (is_last || !next.valid())
            return next;
        at = std::move(next);
        name.remove_prefix(slash + 1);
    }
}

replica::fd_owner open_beneath(const std::string &directory, const std::string &name, int flags)
{
    replica::fd_owner top(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!top.valid())
        throw system_failure("cannot open the poolset directory " + directory);
    open_how how{};
    how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    replica::fd_owner file(static_cast<int>(syscall(SYS_openat2, top.get(), name.c_str(), &how, sizeof(how))));
    // The call is missing in Linux before 5.6, valgrind 3.19 and seccomp filters of old container runtimes.
    if (!file.valid() && (errno == ENOSYS || errno == EPERM))
        file = open_step_by_step(std::move(top), name, flags);
    if (!file.valid() && errno == EXDEV)
        throw failure(EACCES, "set '" + name + "' is outside the poolset directory " + directory);
    if (!file.valid())
        throw system_failure("cannot open the set '" + name + "' in " + directory);
    return file;
}

} // namespace

void check_set_name(const std::string &name)
{
    if (const char *const fault = replica::set_name_fault(name); fault != nullptr)
        throw failure(EBADF, fault);
}

std::string read_set_file(const std::string &directory, const std::string &name)
{
    check_set_name(name);
    // O_NONBLOCK: opening a named pipe must not block the daemon.
    const replica::fd_owner file = open_beneath(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct stat facts {
    };
    if (fstat(file.get(), &facts) != 0)
        throw system_failure("cannot stat the set '" + name + "'");
    if (!S_ISREG(facts.st_mode))
        throw failure(EINVAL, "set '" + name + "': not a regular file");
    if ((facts.st_mode & S_IWOTH) != 0)
        throw failure(EACCES, "set '" + name + "': writable by all users (chmod o-w)");
    if (facts.st_size > static_cast<off_t>(max_file_size))
        throw failure(EINVAL, "set '" + name + "': larger than 1 MiB: not a set file");
    try {
        return replica::read_text(file);
    } catch (const replica::file_error &error) {
        throw failure(error.os_errno(), "cannot read the set '" + name + "': " + error.what());
    }
}

poolset read_poolset(const std::string &directory, const std::string &name)
{
    const std::string text = read_set_file(directory, name);
    try {
        return parse_poolset(text);
    } catch (const failure &error) {
        throw failure(error.os_errno(), "set '" + name + "': " + error.what());
    }
}

void remove_set_file(const std::string &directory, const std::string &name)
{
    check_set_name(name);
    const std::size_t slash = name.rfind('/');
    const std::string parent = slash == std::string::npos ? "." : name.substr(0, slash);
    const replica::fd_owner place = open_beneath(directory, parent, O_PATH | O_DIRECTORY);
    if (unlinkat(place.get(), name.substr(slash == std::string::npos ? 0 : slash + 1).c_str(), 0) != 0)
        throw system_failure("cannot remove the set '" + name + "'");
}

} // namespace rpmemd
