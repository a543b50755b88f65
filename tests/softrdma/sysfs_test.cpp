// SPDX-License-Identifier: BSD-3-Clause
// Reads the sysfs files of the device through each function that takes a path.
#include <array>
#include <atomic>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <infiniband/verbs.h>
#include <set>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <cstdio>
#include "cmocka_headers.hpp"

namespace
{

namespace fs = std::filesystem;

const std::string device = "/sys/class/infiniband/softrdma0";
const std::string port = device + "/ports/1";

std::string contents(const std::string &path)
{
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return in ? line : "absent: " + path;
}

bool closed(int fd)
{
    return fd >= 0 && close(fd) == 0;
}
bool closed(FILE *file)
{
    return file != nullptr && fclose(file) == 0;
}
bool closed(DIR *directory)
{
    return directory != nullptr && closedir(directory) == 0;
}

template<typename Function>
Function *symbol(const char *name)
{
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

struct stat stat_out;
struct stat64 stat64_out;
struct statx statx_out;
char path_out[PATH_MAX];

bool globs(const char *path)
{
    glob_t found{};
    const bool is_found = glob(path, 0, nullptr, &found) == 0 && strcmp(found.gl_pathv[0], path) == 0;
    globfree(&found);
    return is_found;
}

bool canonicalizes(const char *path)
{
    char *found = canonicalize_file_name(path);
    free(found);
    return found != nullptr;
}

// Functions that take a path. Each entry returns whether the function found the file `p`.
struct path_function {
    const char *name;
    bool (*finds)(const char *path);
};
#define FINDS(name, ...)                                                                                               \
    {                                                                                                                  \
        name, [](const char *p) { return __VA_ARGS__; }                                                                \
    }
const path_function path_functions[] = {
        FINDS("open", closed(open(p, O_RDONLY))),
        FINDS("open64", closed(open64(p, O_RDONLY))),
        FINDS("openat", closed(openat(AT_FDCWD, p, O_RDONLY))),
        FINDS("openat64", closed(openat64(AT_FDCWD, p, O_RDONLY))),
        FINDS("__open_2", closed(symbol<int(const char *, int)>("__open_2")(p, O_RDONLY))),
        FINDS("__open64_2", closed(symbol<int(const char *, int)>("__open64_2")(p, O_RDONLY))),
        FINDS("__openat_2", closed(symbol<int(int, const char *, int)>("__openat_2")(0, p, 0))),
        FINDS("__openat64_2", closed(symbol<int(int, const char *, int)>("__openat64_2")(0, p, 0))),
        FINDS("fopen", closed(fopen(p, "r"))),
        FINDS("fopen64", closed(fopen64(p, "r"))),
        FINDS("freopen", closed(freopen(p, "r", fopen("/dev/null", "r")))),
        FINDS("freopen64", closed(freopen64(p, "r", fopen("/dev/null", "r")))),
        FINDS("ifstream", std::ifstream(p).is_open()),
        FINDS("stat", stat(p, &stat_out) == 0 && stat_out.st_size > 0),
        FINDS("stat64", stat64(p, &stat64_out) == 0 && stat64_out.st_size > 0),
        FINDS("lstat", lstat(p, &stat_out) == 0 && S_ISREG(stat_out.st_mode)),
        FINDS("lstat64", lstat64(p, &stat64_out) == 0 && S_ISREG(stat64_out.st_mode)),
        FINDS("fstatat", fstatat(AT_FDCWD, p, &stat_out, 0) == 0),
        FINDS("fstatat64", fstatat64(AT_FDCWD, p, &stat64_out, 0) == 0),
        FINDS("statx", statx(AT_FDCWD, p, 0, STATX_SIZE, &statx_out) == 0),
        FINDS("__xstat",
                symbol<int(int, const char *, struct stat *)>("__xstat")(1, p, &stat_out) == 0 && stat_out.st_size > 0),
        FINDS("__lxstat64", symbol<int(int, const char *, struct stat64 *)>("__lxstat64")(1, p, &stat64_out) == 0),
        FINDS("__fxstatat", symbol<int(int, int, const char *, struct stat *, int)>("__fxstatat")(
                                    1, AT_FDCWD, p, &stat_out, 0) == 0),
        FINDS("access", access(p, R_OK) == 0),
        FINDS("faccessat", faccessat(AT_FDCWD, p, R_OK, 0) == 0),
        FINDS("euidaccess", euidaccess(p, R_OK) == 0),
        FINDS("eaccess", eaccess(p, R_OK) == 0),
        FINDS("realpath", realpath(p, path_out) == path_out),
        {"canonicalize_file_name", canonicalizes},
        FINDS("__realpath_chk", symbol<char *(const char *, char *, size_t)>("__realpath_chk")(
                                        p, path_out, sizeof(path_out)) == path_out),
        FINDS("listxattr", listxattr(p, nullptr, 0) >= 0),
        FINDS("llistxattr", llistxattr(p, nullptr, 0) >= 0),
        FINDS("getxattr", getxattr(p, "user.absent", nullptr, 0) < 0 && errno != ENOENT),
        FINDS("lgetxattr", lgetxattr(p, "user.absent", nullptr, 0) < 0 && errno != ENOENT),
        {"glob", globs},
        FINDS("syscall statx",
                syscall(SYS_statx, AT_FDCWD, p, 0, STATX_SIZE, &statx_out) == 0 && statx_out.stx_size > 0),
        FINDS("syscall openat", closed(static_cast<int>(syscall(SYS_openat, 0, p, O_RDONLY)))),
        FINDS("exists", fs::exists(p)),
};
#undef FINDS

DEFINE_TEST(each_function_finds_a_file, nullptr, nullptr)
{
    const std::string file = port + "/state";
    for (const path_function &f : path_functions) {
        if (!f.finds(file.c_str()))
            fail_msg("%s does not find %s: %s", f.name, file.c_str(), strerror(errno));
        errno = 0;
        if (f.finds((device + "/ports/2/state").c_str()))
            fail_msg("%s finds a port that does not exist", f.name);
        if (!f.finds("/sys//class/./infiniband/../infiniband/softrdma0/ports/1/state") && strcmp(f.name, "glob") != 0)
            fail_msg("%s does not find a file with dots in its path", f.name);
        if (!f.finds("/proc/self/../../etc/passwd") && strncmp(f.name, "glob", 4) != 0 &&
                strstr(f.name, "list") == nullptr)
            fail_msg("%s does not find a file of the system", f.name);
    }
}

std::set<std::string> names_of(const std::string &directory)
{
    std::set<std::string> names;
    for (const auto &entry : fs::directory_iterator(directory))
        names.insert(entry.path().filename());
    return names;
}

DEFINE_TEST(directories_are_listed, nullptr, nullptr)
{
    assert_true(closed(opendir("/sys/class/infiniband")));
    assert_null(opendir("/sys/class/infiniband/other"));
    assert_true(names_of("/sys/class/infiniband") == std::set<std::string>{"softrdma0"});
    assert_true(names_of(port + "/gids") == names_of(port + "/gid_attrs/types"));
    assert_true((names_of("/dev/infiniband") == std::set<std::string>{"rdma_cm", "uverbs-softrdma0"}));
    assert_true(names_of("/sys/class/infiniband_verbs").count("uverbs-softrdma0") == 1);

    const auto is_name = [](const dirent *entry) { return static_cast<int>(entry->d_name[0] != '.'); };
    dirent **list = nullptr;
    assert_int_equal(scandir("/sys/class/infiniband", &list, is_name, alphasort), 1);
    assert_string_equal(list[0]->d_name, "softrdma0");
    free(list[0]);
    free(list);
    assert_int_equal(scandirat(AT_FDCWD, (device + "/ports").c_str(), &list, is_name, nullptr), 1);
    free(list[0]);
    free(list);

    glob_t found{};
    assert_int_equal(glob("/sys/class/infiniband/*/ports/*/link_layer", 0, nullptr, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    assert_string_equal(found.gl_pathv[0], (port + "/link_layer").c_str());
    globfree(&found);

    for (const char *pattern : {"/sys/class/infiniband*", "/sys/class/*/softrdma0", "/sys/devices/*/softrdma0"}) {
        assert_int_equal(glob(pattern, 0, nullptr, &found), 0);
        assert_true(strstr(found.gl_pathv[0], "/infiniband") != nullptr || found.gl_pathc == 1);
        globfree(&found);
    }

    static unsigned visited;
    const auto visit = [](const char *path, const struct stat *, int, FTW *place) {
        assert_true(strncmp(path, "/sys/class/infiniband", 21) == 0 && path[place->base - 1] == '/');
        return static_cast<int>(++visited == 0);
    };
    assert_int_equal(nftw(port.c_str(), visit, 10, FTW_PHYS), 0);
    assert_true(visited > 40);

    char first[] = "/sys/class/infiniband/softrdma0/ports";
    char *const roots[] = {first, nullptr};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, nullptr);
    assert_non_null(walk);
    unsigned files = 0;
    while (FTSENT *entry = fts_read(walk))
        files += entry->fts_info == FTS_F;
    assert_true(files > 40);
    fts_close(walk);
}

// Listings of the parent directories contain the device and the entries of the system.
DEFINE_TEST(parents_are_listed, nullptr, nullptr)
{
    const auto has = [](const std::set<std::string> &names, const char *name) { return names.count(name) == 1; };
    for (const char *path : {"/sys/class", "/sys/class//", "/sys/./class/.", "/sys/class/infiniband/.."}) {
        const auto names = names_of(path);
        assert_true(has(names, "infiniband") && has(names, "infiniband_verbs") && has(names, "net"));
    }
    assert_true(has(names_of("/sys/class/misc"), "rdma_cm"));
    assert_true(has(names_of("/sys/devices/platform"), "softrdma0"));
    assert_string_equal(contents("/sys/class/net/lo/ifindex").c_str(), "1");

    const fs::path before = fs::current_path();
    char now[PATH_MAX];
    assert_int_equal(chdir("/sys"), 0);
    assert_true(has(names_of("class"), "infiniband"));
    assert_int_equal(chdir("class"), 0);
    assert_string_equal(getcwd(now, sizeof(now)), "/sys/class");
    assert_true(has(names_of("."), "infiniband"));
    assert_string_equal(contents("net/lo/ifindex").c_str(), "1");
    fs::current_path(before);

    // Programs that resolve links themselves open the directories of the system one by one.
    const int sys = open("/sys", O_PATH);
    const int all = openat(sys, "class", O_PATH | O_NOFOLLOW);
    const int net = openat(all, "net", O_PATH | O_NOFOLLOW | O_DIRECTORY);
    const int own = openat(all, "infiniband", O_PATH | O_NOFOLLOW | O_DIRECTORY);
    assert_true(closed(net) && closed(own) && closed(all) && closed(sys));
}

// Programs open files relative to a directory descriptor; hwloc uses one of the root directory.
DEFINE_TEST(relative_paths_work, nullptr, nullptr)
{
    const int ports = open((device + "/ports").c_str(), O_RDONLY | O_DIRECTORY);
    assert_true(ports >= 0 && closed(openat(ports, "1/state", O_RDONLY)));
    close(ports);
    const int root = open("/", O_RDONLY | O_DIRECTORY);
    assert_true(closed(openat(root, "sys/class/infiniband/softrdma0/node_guid", O_RDONLY)));
    struct stat status {
    };
    assert_int_equal(fstatat(root, "sys/class/infiniband", &status, 0), 0);
    close(root);

    const fs::path before = fs::current_path();
    char now[PATH_MAX];
    assert_int_equal(chdir("/sys/class"), 0);
    assert_true(closed(open("infiniband/softrdma0/fw_ver", O_RDONLY)));
    assert_int_equal(chdir(port.c_str()), 0);
    assert_true(closed(fopen("state", "r")));
    assert_true(closed(open("../../device/numa_node", O_RDONLY)));
    assert_non_null(getcwd(now, sizeof(now)));
    assert_string_equal(now, "/sys/devices/platform/softrdma0/infiniband/softrdma0/ports/1");
    fs::current_path(before);
}

DEFINE_TEST(links_resolve_to_the_device, nullptr, nullptr)
{
    char out[PATH_MAX];
    assert_non_null(realpath((device + "/device").c_str(), out));
    assert_string_equal(out, "/sys/devices/platform/softrdma0");
    assert_string_equal(contents(std::string(out) + "/numa_node").c_str(), "-1");
    assert_true(fs::canonical(device) == "/sys/devices/platform/softrdma0/infiniband/softrdma0");
    const ssize_t length = readlink(device.c_str(), out, sizeof(out));
    assert_true(length > 0);
    assert_string_equal(std::string(out, static_cast<size_t>(length)).c_str(),
            "../../devices/platform/softrdma0/infiniband/softrdma0");
    const int fd = open(device.c_str(), O_RDONLY);
    assert_true(fs::read_symlink("/proc/self/fd/" + std::to_string(fd)) ==
                "/sys/devices/platform/softrdma0/infiniband/softrdma0");
    close(fd);
    struct stat status {
    };
    assert_int_equal(lstat(device.c_str(), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_true(fs::canonical(device + "/subsystem").filename() == "infiniband");
    assert_true(names_of(device + "/device/net").count(contents(port + "/gid_attrs/ndevs/0")) == 1);
    assert_true(contents(device + "/device/net/" + contents(port + "/gid_attrs/ndevs/0") + "/ifindex").size() < 6);

    assert_int_equal(stat("/dev/infiniband/uverbs-softrdma0", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    assert_int_equal(access("/dev/infiniband/uverbs-softrdma0", R_OK | W_OK), 0);
    assert_int_equal(stat("/dev/infiniband/uverbs-softrdma1", &status), -1);
    assert_int_equal(errno, ENOENT);
}

// open() of a FIFO waits for a writer. It is a cancellation point.
DEFINE_TEST(a_thread_can_be_canceled_in_open, nullptr, nullptr)
{
    const std::string fifo = "canceled." + std::to_string(getpid());
    assert_int_equal(mkfifo(fifo.c_str(), 0600), 0);
    static std::atomic<bool> started{false};
    const auto wait = [](void *path) -> void * {
        started = true;
        open(static_cast<const char *>(path), O_RDONLY);
        return nullptr;
    };
    pthread_t thread{};
    void *result = nullptr;
    assert_int_equal(pthread_create(&thread, nullptr, wait, const_cast<char *>(fifo.c_str())), 0);
    while (!started)
        std::this_thread::yield();
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(unlink(fifo.c_str()), 0);
}

// Calls with paths outside the device reach the C library unchanged.
DEFINE_TEST(other_paths_are_not_replaced, nullptr, nullptr)
{
    struct stat status {
    };
    const char *volatile nothing = nullptr;
    assert_int_equal(stat(nothing, &status), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(open(nothing, O_RDONLY), -1);
    assert_int_equal(errno, EFAULT);
    const int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0640);
    if (fd >= 0) {
        assert_int_equal(fstat(fd, &status), 0);
        assert_int_equal(status.st_mode & 0027, 0);
        assert_int_equal(close(fd), 0);
    }
    assert_int_equal(open("/sys/class/infiniband_other", O_RDONLY), -1);
    assert_int_equal(errno, ENOENT);
}

std::string in_groups(const std::uint8_t *bytes, size_t count)
{
    std::string text;
    char group[8];
    for (size_t i = 0; i < count; i += 2) {
        snprintf(group, sizeof(group), "%s%02x%02x", i == 0 ? "" : ":", bytes[i], bytes[i + 1]);
        text += group;
    }
    return text;
}

DEFINE_TEST(files_agree_with_the_queries, nullptr, nullptr)
{
    int count = 0;
    ibv_device **list = ibv_get_device_list(&count);
    assert_int_equal(static_cast<int>(names_of("/sys/class/infiniband").size()), count);
    assert_true(fs::is_directory(list[0]->ibdev_path) && fs::is_directory(list[0]->dev_path));
    assert_string_equal(contents(std::string(list[0]->dev_path) + "/ibdev").c_str(), list[0]->name);
    ibv_context *context = ibv_open_device(list[0]);
    assert_non_null(context);
    ibv_device_attr attr{};
    assert_int_equal(ibv_query_device(context, &attr), 0);
    assert_string_equal(contents(device + "/fw_ver").c_str(), attr.fw_ver);
    assert_int_equal(static_cast<int>(names_of(device + "/ports").size()), attr.phys_port_cnt);
    std::array<std::uint8_t, 8> guid{};
    memcpy(guid.data(), &attr.node_guid, guid.size());
    assert_string_equal(contents(device + "/node_guid").c_str(), in_groups(guid.data(), guid.size()).c_str());

    ibv_port_attr of_port{};
    assert_int_equal(ibv_query_port(context, 1, &of_port), 0);
    assert_int_equal(std::stoi(contents(port + "/state")), of_port.state);
    assert_int_equal(std::stoi(contents(port + "/phys_state")), of_port.phys_state);
    assert_int_equal(std::stoi(contents(port + "/lid"), nullptr, 16), of_port.lid);
    assert_int_equal(std::stoul(contents(port + "/cap_mask"), nullptr, 16), of_port.port_cap_flags);
    assert_int_equal(static_cast<int>(names_of(port + "/pkeys").size()), of_port.pkey_tbl_len);
    assert_int_equal(static_cast<int>(names_of(port + "/gids").size()), of_port.gid_tbl_len);
    for (int i = 0; i < of_port.gid_tbl_len; ++i) {
        ibv_gid gid{};
        assert_int_equal(ibv_query_gid(context, 1, i, &gid), 0);
        assert_string_equal(contents(port + "/gids/" + std::to_string(i)).c_str(), in_groups(gid.raw, 16).c_str());
    }
    assert_string_equal(contents(port + "/gid_attrs/types/0").c_str(), "RoCE v2");
    for (const char *directory : {"/counters", "/hw_counters"}) {
        for (const std::string &name : names_of(port + directory))
            assert_true(contents(port + directory + "/" + name).find_first_not_of("0123456789") == std::string::npos);
    }
    assert_int_equal(ibv_close_device(context), 0);
    ibv_free_device_list(list);
}

// Returns the directory of this process' files, found without the replaced functions.
std::string private_directory()
{
    const int fd = open("/sys/class/infiniband", O_RDONLY | O_DIRECTORY);
    char out[PATH_MAX] = "";
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (syscall(SYS_readlinkat, AT_FDCWD, link.c_str(), out, sizeof(out) - 1) < 0)
        out[0] = '\0';
    close(fd);
    return fs::path(out).parent_path().parent_path();
}

// Runs `call` in a child that has not opened a file of the device. Returns the status of the child.
int in_child(void (*call)(int out), std::string &text)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        call(ends[1]);
        exit(0);
    }
    close(ends[1]);
    char out[PATH_MAX] = "";
    assert_true(read(ends[0], out, sizeof(out) - 1) >= 0);
    close(ends[0]);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    text = out;
    return status;
}

void write_directory(int out)
{
    const std::string path = private_directory();
    if (write(out, path.data(), path.size()) < 0)
        abort();
}

DEFINE_TEST(the_files_are_removed_with_their_process, nullptr, nullptr)
{
    const std::string own = private_directory();
    std::string of_killed;
    std::string of_ended;
    const auto be_killed = [](int out) {
        write_directory(out);
        raise(SIGKILL);
    };
    assert_true(WIFSIGNALED(in_child(be_killed, of_killed)));
    assert_true(fs::exists(of_killed) && of_killed != own);
    assert_int_equal(in_child(write_directory, of_ended), 0);
    assert_true(of_ended != own && of_ended != of_killed && !of_ended.empty());
    assert_false(fs::exists(of_ended));
    assert_false(fs::exists(of_killed));
    assert_true(fs::exists(own));
}

DEFINE_TEST(many_threads_can_start_concurrently, nullptr, nullptr)
{
    const auto open_all = [](int out) {
        std::atomic<int> good{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i)
            threads.emplace_back([&good] { good += contents(port + "/state") == "4: ACTIVE"; });
        for (std::thread &thread : threads)
            thread.join();
        const std::string text = std::to_string(good);
        if (write(out, text.data(), text.size()) < 0)
            abort();
    };
    std::string good;
    assert_int_equal(in_child(open_all, good), 0);
    assert_string_equal(good.c_str(), "8");
}

DEFINE_TEST(queries_work_after_programs_close_all_descriptors, nullptr, nullptr)
{
    const auto close_all = [](int out) {
        contents(port + "/state");
        const int kept = dup2(out, 1000);
        close_range(0, 999, 0);
        const std::string text = contents(port + "/state");
        if (write(kept, text.data(), text.size()) < 0)
            abort();
    };
    std::string text;
    assert_int_equal(in_child(close_all, text), 0);
    assert_string_equal(text.c_str(), "4: ACTIVE");
}

} // namespace
