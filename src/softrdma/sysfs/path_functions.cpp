// SPDX-License-Identifier: BSD-3-Clause
// Functions of the C library that take a path. Programs read the files of an RDMA device by their names, without
// libibverbs. Each function replaces a name of the device and calls the C library.
#include "sysfs/next.hpp"
#include "sysfs/paths.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <memory>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

// Programs pass NULL although the headers declare these pointers nonnull, and get EFAULT.
#define PASSES_NULL __attribute__((no_sanitize("nonnull-attribute")))

#define REPLACE(result, name, parameters)                                                                              \
    extern "C" PASSES_NULL result replaced_##name parameters __asm__(#name);                                           \
    static constinit next_function<decltype(replaced_##name)> next_##name(#name);                                      \
    extern "C" PASSES_NULL result replaced_##name parameters

// Functions that need another path: result, name, parameters, and arguments with the replaced path.
#define REPLACE_PATH(result, name, parameters, arguments)                                                              \
    REPLACE(result, name, parameters)                                                                                  \
    {                                                                                                                  \
        return next_##name.get() arguments;                                                                            \
    }
#define PATH located(path).path()
#define PATH_AT located(directory, path).path()
#define PATH_OPENED located(AT_FDCWD, path, (flags & O_PATH) == 0).path()
#define PATH_OPENED_AT located(directory, path, (flags & O_PATH) == 0).path()

// Functions to open a file. Its mode is an argument only if they can create it.
#define REPLACE_OPEN(name, parameters, arguments)                                                                      \
    REPLACE(int, name, parameters)                                                                                     \
    {                                                                                                                  \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;                               \
        const mode_t mode = creates ? va_arg(list, mode_t) : 0;                                                        \
        va_end(list);                                                                                                  \
        return next_##name.get() arguments;                                                                            \
    }

// Functions of old binaries, with the only version number of the structure.
#define REPLACE_OLD_STAT(name, parameters, call)                                                                       \
    extern "C" PASSES_NULL int replaced_##name parameters __asm__(#name);                                              \
    extern "C" PASSES_NULL int replaced_##name parameters                                                              \
    {                                                                                                                  \
        return call;                                                                                                   \
    }

using namespace softrdma::sysfs;

using glob_function = int(const char *, int, int (*)(const char *, int), glob_t *);
using dirent_filter = int (*)(const dirent *);
using dirent_order = int (*)(const dirent **, const dirent **);
using dirent64_filter = int (*)(const dirent64 *);
using dirent64_order = int (*)(const dirent64 **, const dirent64 **);

REPLACE_OPEN(open, (const char *path, int flags, ...), (PATH_OPENED, flags, mode))
REPLACE_OPEN(open64, (const char *path, int flags, ...), (PATH_OPENED, flags, mode))
REPLACE_OPEN(openat, (int directory, const char *path, int flags, ...), (directory, PATH_OPENED_AT, flags, mode))
REPLACE_OPEN(openat64, (int directory, const char *path, int flags, ...), (directory, PATH_OPENED_AT, flags, mode))
REPLACE_PATH(int, __open_2, (const char *path, int flags), (PATH_OPENED, flags))
REPLACE_PATH(int, __open64_2, (const char *path, int flags), (PATH_OPENED, flags))
REPLACE_PATH(int, __openat_2, (int directory, const char *path, int flags), (directory, PATH_OPENED_AT, flags))
REPLACE_PATH(int, __openat64_2, (int directory, const char *path, int flags), (directory, PATH_OPENED_AT, flags))
REPLACE_PATH(FILE *, fopen, (const char *path, const char *mode), (PATH, mode))
REPLACE_PATH(FILE *, fopen64, (const char *path, const char *mode), (PATH, mode))
REPLACE_PATH(FILE *, freopen, (const char *path, const char *mode, FILE *file), (PATH, mode, file))
REPLACE_PATH(FILE *, freopen64, (const char *path, const char *mode, FILE *file), (PATH, mode, file))

REPLACE_PATH(int, stat, (const char *path, struct stat *out), (PATH, out))
REPLACE_PATH(int, stat64, (const char *path, struct stat64 *out), (PATH, out))
REPLACE_PATH(int, lstat, (const char *path, struct stat *out), (PATH, out))
REPLACE_PATH(int, lstat64, (const char *path, struct stat64 *out), (PATH, out))
REPLACE_PATH(
        int, fstatat, (int directory, const char *path, struct stat *out, int flags), (directory, PATH_AT, out, flags))
REPLACE_PATH(int, fstatat64, (int directory, const char *path, struct stat64 *out, int flags),
        (directory, PATH_AT, out, flags))
REPLACE_PATH(int, statx, (int directory, const char *path, int flags, unsigned mask, struct statx *out),
        (directory, PATH_AT, flags, mask, out))
REPLACE_OLD_STAT(__xstat, (int, const char *path, struct stat *out), replaced_stat(path, out))
REPLACE_OLD_STAT(__xstat64, (int, const char *path, struct stat64 *out), replaced_stat64(path, out))
REPLACE_OLD_STAT(__lxstat, (int, const char *path, struct stat *out), replaced_lstat(path, out))
REPLACE_OLD_STAT(__lxstat64, (int, const char *path, struct stat64 *out), replaced_lstat64(path, out))
REPLACE_OLD_STAT(__fxstatat, (int, int directory, const char *path, struct stat *out, int flags),
        replaced_fstatat(directory, path, out, flags))
REPLACE_OLD_STAT(__fxstatat64, (int, int directory, const char *path, struct stat64 *out, int flags),
        replaced_fstatat64(directory, path, out, flags))
REPLACE_PATH(int, access, (const char *path, int mode), (PATH, mode))
REPLACE_PATH(int, faccessat, (int directory, const char *path, int mode, int flags), (directory, PATH_AT, mode, flags))
REPLACE_PATH(int, euidaccess, (const char *path, int mode), (PATH, mode))
REPLACE_PATH(int, eaccess, (const char *path, int mode), (PATH, mode))
REPLACE_PATH(
        ssize_t, getxattr, (const char *path, const char *name, void *value, size_t size), (PATH, name, value, size))
REPLACE_PATH(
        ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size), (PATH, name, value, size))
REPLACE_PATH(ssize_t, listxattr, (const char *path, char *list, size_t size), (PATH, list, size))
REPLACE_PATH(ssize_t, llistxattr, (const char *path, char *list, size_t size), (PATH, list, size))

REPLACE_PATH(DIR *, opendir, (const char *path), (PATH))
REPLACE_PATH(int, chdir, (const char *path), (PATH))
REPLACE_PATH(int, scandir, (const char *path, dirent ***list, dirent_filter filter, dirent_order order),
        (PATH, list, filter, order))
REPLACE_PATH(int, scandir64, (const char *path, dirent64 ***list, dirent64_filter filter, dirent64_order order),
        (PATH, list, filter, order))
REPLACE_PATH(int, scandirat,
        (int directory, const char *path, dirent ***list, dirent_filter filter, dirent_order order),
        (directory, PATH_AT, list, filter, order))
REPLACE_PATH(int, scandirat64,
        (int directory, const char *path, dirent64 ***list, dirent64_filter filter, dirent64_order order),
        (directory, PATH_AT, list, filter, order))

// Reads a link. A target that does not fit is read again, because its visible name is shorter.
template<typename Read>
static ssize_t read_link(char *out, size_t size, Read read)
{
    ssize_t length = read(out, size);
    if (length < 0)
        return length;
    std::array<char, PATH_MAX> whole{};
    const bool is_cut = static_cast<size_t>(length) == size && size < whole.size();
    if (is_cut)
        length = read(whole.data(), whole.size());
    char *const text = is_cut ? whole.data() : out;
    const size_t visible = length < 0 ? 0 : std::min(make_visible(text, static_cast<size_t>(length)), size);
    if (is_cut)
        memcpy(out, text, visible);
    return length < 0 ? length : static_cast<ssize_t>(visible);
}
// Functions that return a path, which can lead into the private directory, for example from /proc/self/fd.
#define REPLACE_LINK(name, parameters, arguments)                                                                      \
    REPLACE(ssize_t, name, parameters)                                                                                 \
    {                                                                                                                  \
        return read_link(out, size, [&](char *text, size_t space) { return next_##name.get() arguments; });            \
    }
#define REPLACE_NAME(name, parameters, arguments)                                                                      \
    REPLACE(char *, name, parameters)                                                                                  \
    {                                                                                                                  \
        return make_visible(next_##name.get() arguments);                                                              \
    }
REPLACE_LINK(readlink, (const char *path, char *out, size_t size), (PATH, text, space))
REPLACE_LINK(__readlink_chk, (const char *path, char *out, size_t size, size_t limit),
        (PATH, text, space, text == out ? limit : space))
REPLACE_LINK(readlinkat, (int directory, const char *path, char *out, size_t size), (directory, PATH_AT, text, space))
REPLACE_LINK(__readlinkat_chk, (int directory, const char *path, char *out, size_t size, size_t limit),
        (directory, PATH_AT, text, space, text == out ? limit : space))
REPLACE_NAME(realpath, (const char *path, char *out), (PATH, out))
REPLACE_NAME(__realpath_chk, (const char *path, char *out, size_t limit), (PATH, out, limit))
REPLACE_NAME(canonicalize_file_name, (const char *path), (PATH))
REPLACE_NAME(getcwd, (char *out, size_t size), (out, size))
REPLACE_NAME(__getcwd_chk, (char *out, size_t size, size_t limit), (out, size, limit))
REPLACE_NAME(get_current_dir_name, (), ())

// Patterns of sysfs, which can match the device: the C library expands them with the functions above.
static int expand(glob_function *next, const char *pattern, int flags, int (*report)(const char *, int), glob_t *out)
{
    const bool is_known = (flags & GLOB_ALTDIRFUNC) == 0 && pattern != nullptr;
    if (!is_known || !(strncmp(pattern, "/sys/", 5) == 0 || located(pattern).is_of_device()))
        return next(pattern, flags, report, out);
    const glob_t before = *out;
    out->gl_opendir = [](const char *path) -> void * { return replaced_opendir(path); };
    out->gl_readdir = [](void *stream) { return readdir(static_cast<DIR *>(stream)); };
    out->gl_closedir = [](void *stream) { closedir(static_cast<DIR *>(stream)); };
    out->gl_stat = replaced_stat;
    out->gl_lstat = replaced_lstat;
    const int result = next(pattern, flags | GLOB_ALTDIRFUNC, report, out);
    out->gl_opendir = before.gl_opendir;
    out->gl_readdir = before.gl_readdir;
    out->gl_closedir = before.gl_closedir;
    out->gl_stat = before.gl_stat;
    out->gl_lstat = before.gl_lstat;
    out->gl_flags &= ~GLOB_ALTDIRFUNC;
    return result;
}
REPLACE(int, glob, (const char *pattern, int flags, int (*report)(const char *, int), glob_t *out))
{
    return expand(next_glob.get(), pattern, flags, report, out);
}
static_assert(sizeof(glob_t) == sizeof(glob64_t));
REPLACE(int, glob64, (const char *pattern, int flags, int (*report)(const char *, int), glob64_t *out))
{
    return expand(reinterpret_cast<glob_function *>(next_glob64.get()), pattern, flags, report,
            reinterpret_cast<glob_t *>(out));
}

// Walk through a tree of the device: the program's function gets names that the program knows.
template<typename Visit>
static thread_local Visit visit_of_program = nullptr;

template<typename Status>
static int visit(const char *path, const Status *status, int kind, FTW *position)
{
    std::string name(path);
    const std::size_t length = make_visible(name.data(), name.size());
    FTW moved = *position;
    moved.base -= static_cast<int>(name.size() - length);
    name.resize(length);
    return visit_of_program<decltype(&visit<Status>)>(name.c_str(), status, kind, &moved);
}
template<typename Status>
static int visit_plain(const char *path, const Status *status, int kind)
{
    std::string name(path);
    name.resize(make_visible(name.data(), name.size()));
    return visit_of_program<decltype(&visit_plain<Status>)>(name.c_str(), status, kind);
}
template<typename Visit, typename... Flags>
static int walk(int (*next)(const char *, Visit, int, Flags...), const char *path, Visit call, Visit replaced,
        int limit, Flags... flags)
{
    const located at(path);
    if (!at.is_of_device())
        return next(path, call, limit, flags...);
    const Visit before = std::exchange(visit_of_program<Visit>, call);
    const int result = next(at.path(), replaced, limit, flags...);
    visit_of_program<Visit> = before;
    return result;
}
REPLACE(int, nftw, (const char *path, __nftw_func_t call, int limit, int flags))
{
    return walk(next_nftw.get(), path, call, &visit<struct stat>, limit, flags);
}
REPLACE(int, nftw64, (const char *path, __nftw64_func_t call, int limit, int flags))
{
    return walk(next_nftw64.get(), path, call, &visit<struct stat64>, limit, flags);
}
REPLACE(int, ftw, (const char *path, __ftw_func_t call, int limit))
{
    return walk(next_ftw.get(), path, call, &visit_plain<struct stat>, limit);
}
REPLACE(int, ftw64, (const char *path, __ftw64_func_t call, int limit))
{
    return walk(next_ftw64.get(), path, call, &visit_plain<struct stat64>, limit);
}

// The names in the entries are those of the private directory.
template<typename Open, typename Order>
static auto open_tree(Open *next, char *const *paths, int options, Order order)
{
    std::vector<std::unique_ptr<located>> all;
    std::vector<char *> arguments;
    for (; *paths != nullptr; ++paths) {
        all.push_back(std::make_unique<located>(*paths));
        arguments.push_back(const_cast<char *>(all.back()->path()));
    }
    arguments.push_back(nullptr);
    return next(arguments.data(), options, order);
}
REPLACE(FTS *, fts_open, (char *const *paths, int options, int (*order)(const FTSENT **, const FTSENT **)))
{
    return open_tree(next_fts_open.get(), paths, options, order);
}
REPLACE(FTS64 *, fts64_open, (char *const *paths, int options, int (*order)(const FTSENT64 **, const FTSENT64 **)))
{
    return open_tree(next_fts64_open.get(), paths, options, order);
}

// System calls by number, such as those of Node.js. All others are left to the C library with a jump.
using system_call = long(long, long, long, long, long, long, long);
extern "C" system_call replaced_syscall __asm__("syscall");
static constinit next_function<system_call> next_syscall("syscall");

static long call_with_path(long number, long first, long second, long third, long fourth, long fifth, long sixth)
{
    return next_syscall.get()(number,
            reinterpret_cast<long>(located(AT_FDCWD, reinterpret_cast<const char *>(first), false).path()), second,
            third, fourth, fifth, sixth);
}
static long call_with_path_at(long number, long first, long second, long third, long fourth, long fifth, long sixth)
{
    const located at(static_cast<int>(first), reinterpret_cast<const char *>(second), false);
    return next_syscall.get()(number, first, reinterpret_cast<long>(at.path()), third, fourth, fifth, sixth);
}
static system_call *caller_of(long number) noexcept
{
    switch (number) {
    case SYS_openat:
    case SYS_openat2:
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_faccessat:
    case SYS_faccessat2:
    case SYS_readlinkat:
        return &call_with_path_at;
#ifdef SYS_open
    case SYS_open:
    case SYS_stat:
    case SYS_lstat:
    case SYS_access:
    case SYS_readlink:
#endif
    case SYS_chdir:
        return &call_with_path;
    default:
        return next_syscall.get();
    }
}
extern "C" JUMPS long replaced_syscall(
        long number, long first, long second, long third, long fourth, long fifth, long sixth)
{
    JUMP_TO caller_of(number)(number, first, second, third, fourth, fifth, sixth);
}
