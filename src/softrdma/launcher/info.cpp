// SPDX-License-Identifier: BSD-3-Clause
#include "base/config.hpp"
#include "base/unique_fd.hpp"
#include "launcher/commands.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <csignal>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <memory>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace softrdma::launcher
{

namespace
{

int print_device(const std::string &library)
{
    void *device_library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (device_library == nullptr) {
        fprintf(stderr, "softrdma: cannot load %s: %s\n", library.c_str(), dlerror());
        return exit_failure;
    }
    const auto list = reinterpret_cast<decltype(&ibv_get_device_list)>(dlsym(device_library, "ibv_get_device_list"));
    const auto open = reinterpret_cast<decltype(&ibv_open_device)>(dlsym(device_library, "ibv_open_device"));
    const auto release =
            reinterpret_cast<decltype(&ibv_free_device_list)>(dlsym(device_library, "ibv_free_device_list"));
    if (list == nullptr || open == nullptr || release == nullptr) {
        fprintf(stderr, "softrdma: %s: not a softrdma library (reinstall softrdma)\n", library.c_str());
        return exit_failure;
    }
    const std::unique_ptr<ibv_device *, decltype(release)> devices(list(nullptr), release);
    ibv_context *const context = devices ? open(*devices) : nullptr;
    ibv_device_attr_ex attr{};
    // Avoids the inline functions, which would call the real libibverbs.
    if (context == nullptr || verbs_get_ctx(context)->query_device_ex(context, nullptr, &attr, sizeof(attr)) != 0) {
        fprintf(stderr, "softrdma: cannot open the device: %s\n", strerror(errno));
        return exit_failure;
    }
    const ibv_device_attr &a = attr.orig_attr;
    printf("device:        %s\n", (*devices)->name);
    printf("library:       %s\n", library.c_str());
    printf("native verbs:  flush %s, atomic write %s, atomic operations %s\n",
            (attr.device_cap_flags_ex >> 38 & 3) == 3 ? "yes" : "no",
            (attr.device_cap_flags_ex >> 40 & 1) != 0 ? "yes" : "no", a.atomic_cap != IBV_ATOMIC_NONE ? "yes" : "no");
    printf("limits:        %d queue pairs, %d requests each, %d elements, %d reads in flight, %d completions per "
           "queue\n",
            a.max_qp, a.max_qp_wr, a.max_sge, a.max_qp_rd_atom, a.max_cqe);
    return 0;
}

// Tests on a child process whether private memory is accessible. Returns the reason if it is not.
std::string try_direct_path()
{
    static volatile int word = 42;
    const pid_t child = fork();
    if (child < 0)
        return std::string("fork: ") + strerror(errno);
    if (child == 0) {
        pause();
        _exit(0);
    }
    std::string reason;
    int value = 0;
    const iovec local{&value, sizeof(value)};
    const iovec remote{const_cast<int *>(&word), sizeof(word)};
    if (process_vm_readv(child, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(sizeof(value)))
        reason = std::string("process_vm_readv: ") + strerror(errno);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return reason;
}

std::string probe_fd_passing()
{
    sockaddr_un any{};
    any.sun_family = AF_UNIX;
    const unique_fd arena(memfd_create("softrdma-info", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (arena.get() < 0)
        return std::string("memfd_create: ") + strerror(errno);
    const unique_fd fd_server(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (fd_server.get() < 0 ||
            bind(fd_server.get(), reinterpret_cast<const sockaddr *>(&any), sizeof(any.sun_family)) != 0 ||
            listen(fd_server.get(), 1) != 0)
        return std::string("local socket: ") + strerror(errno);
    return {};
}

void print_path(const char *label, const char *setting, const std::string &reason, const char *use)
{
    if (setting != nullptr)
        printf("%-14s not used: %s\n", label, setting);
    else if (!reason.empty())
        printf("%-14s not available: %s\n", label, reason.c_str());
    else
        printf("%-14s %s\n", label, use);
}

void print_paths()
{
    using config::setting;
    const auto transport = static_cast<config::transport_word>(config::value(setting::transport));
    const bool trusted = config::is(setting::trust, config::trust_word::user);
    const bool is_roce = transport == config::transport_word::roce;
    const char *not_local = !trusted                                   ? "SOFTRDMA_TRUST=none"
                            : is_roce                                  ? "SOFTRDMA_TRANSPORT=roce"
                            : transport == config::transport_word::tcp ? "SOFTRDMA_TRANSPORT=tcp"
                                                                       : nullptr;
    const char *not_shm = transport == config::transport_word::shm_fd ? "SOFTRDMA_TRANSPORT=shm-fd" : not_local;
    const char *not_shm_fd = transport == config::transport_word::shm ? "SOFTRDMA_TRANSPORT=shm" : not_local;
    const std::string no_fd_passing = probe_fd_passing();
    const std::string no_memory = no_fd_passing.empty() ? try_direct_path() : no_fd_passing;
    print_path("path tcp:", is_roce ? not_local : nullptr, "", "available");
    const bool is_auto = transport == config::transport_word::automatic;
    const char *no_roce = is_roce || (is_auto && !config::is(setting::roce, config::roce_word::off)) ? nullptr
                          : is_auto ? "SOFTRDMA_ROCE=off"
                                    : "SOFTRDMA_TRANSPORT is neither auto nor roce";
    print_path("path roce:", no_roce, "", is_roce ? "used with all peers" : "used with hosts that refuse TCP");
    print_path("path shm:", not_shm, no_memory, "used with programs of the same user on this host");
    print_path("path shm-fd:", not_shm_fd, no_fd_passing, "used with programs of the same user that refuse path shm");
    printf("trust:         %s\n", trusted ? "programs of the same user" : "none");
}

} // namespace

int info_command(int argc, char **)
{
    if (argc > 0)
        return usage("info takes no arguments");
    config::check();
    config::report_unknown();
    const std::string library = find_library();
    if (library.empty())
        return exit_failure;
    if (const int status = print_device(library); status != 0)
        return status;
    print_paths();
    for (int i = 0; i < static_cast<int>(config::setting::count); ++i) {
        const char *name = config::name(static_cast<config::setting>(i));
        if (const char *value = getenv(name); value != nullptr)
            printf("setting:       %s=%s\n", name, value);
    }
    return 0;
}

} // namespace softrdma::launcher
