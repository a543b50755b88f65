// SPDX-License-Identifier: BSD-3-Clause
#include "rdma/library.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>

#include "log.hpp"
#include "shortage.hpp"

namespace rpma::rdma
{

namespace
{

// Devices of the kernel have the names uverbs0, uverbs1, ...
constexpr char software_name[] = "uverbs-softrdma";

bool is_software_device(const ibv_device *device)
{
    return std::strncmp(device->dev_name, software_name, sizeof(software_name) - 1) == 0;
}

struct devices {
    bool hardware = false;
    bool software = false;
};

// Without a free descriptor, libibverbs returns no devices, as for a kernel without RDMA.
result<devices> find_devices(const library &in)
{
    devices found;
    const int before = errno;
    int count = 0;
    ibv_device **const list = in.ibv_get_device_list(&count);
    const int failed = list == nullptr && is_local_shortage(errno) ? errno : count == 0 ? descriptor_shortage() : 0;
    for (int i = 0; i < count; ++i)
        (is_software_device(list[i]) ? found.software : found.hardware) = true;
    if (list != nullptr)
        in.ibv_free_device_list(list);
    if (failed != 0)
        return log::provider_error(failed, "ibv_get_device_list");
    errno = before;
    return found;
}

// Returns NULL on failure, and sets errno and the reason. dlopen(3) reports errors as texts only.
void *open_library(const char *path, const char *&reason)
{
    if (void *const opened = dlopen(path, RTLD_NOW | RTLD_LOCAL); opened != nullptr)
        return opened;
    reason = dlerror();
    errno = ELIBACC;
    for (const int error : {EMFILE, ENFILE, ENOMEM})
        if (std::strstr(reason, log::errno_text(error).c_str()) != nullptr)
            errno = error;
    return nullptr;
}

// Searches in the directory of this library (a build tree), then in the configured installation directory.
void *open_software(const char *&reason)
{
    char path[PATH_MAX];
    Dl_info self;
    if (dladdr(reinterpret_cast<void *>(open_software), &self) != 0 && self.dli_fname != nullptr) {
        const char *const slash = std::strrchr(self.dli_fname, '/');
        const int length = slash != nullptr ? static_cast<int>(slash + 1 - self.dli_fname) : 0;
        for (const char *const beside : {"softrdma/libsoftrdma.so", "libsoftrdma.so"}) {
            const int written = std::snprintf(path, sizeof(path), "%.*s%s", length, self.dli_fname, beside);
            if (length == 0 || written < 0 || static_cast<std::size_t>(written) >= sizeof(path))
                continue;
            if (void *const opened = open_library(path, reason); opened != nullptr || is_local_shortage(errno))
                return opened;
        }
    }
    return open_library(RPMA_INSTALLED_SOFTRDMA, reason);
}

bool load(library &to, void *from)
{
    const char *missing = nullptr;
#define RPMA_LOAD(function)                                                                                            \
    to.function = reinterpret_cast<decltype(to.function)>(dlsym(from, #function));                                     \
    if (to.function == nullptr)                                                                                        \
        missing = #function;
    RPMA_RDMA_FUNCTIONS(RPMA_LOAD)
#undef RPMA_LOAD
    if (missing != nullptr)
        RPMA_LOG_ERROR(
                "libsoftrdma.so: symbol %s not found: version mismatch (install softrdma of this version)\n", missing);
    return missing == nullptr;
}

pthread_mutex_t software_lock = PTHREAD_MUTEX_INITIALIZER;
std::atomic<const library *> loaded_software = nullptr;
library software_functions;

result<const library *> load_software()
{
    RPMA_ASSIGN_OR_RETURN(const devices loaded, find_devices(library::system()));
    if (loaded.software)
        return &library::system();
    const int before = errno;
    const char *reason = nullptr;
    void *const opened = open_software(reason);
    if (opened == nullptr) {
        RPMA_LOG_ERROR("softrdma: cannot load: %s%s\n", reason, errno == ELIBACC ? " (install softrdma)" : "");
        return errc::provider;
    }
    if (!load(software_functions, opened)) {
        errno = ELIBACC;
        return errc::provider;
    }
    errno = before;
    return &software_functions;
}

} // namespace

const library &library::system()
{
#define RPMA_NAME(name) .name = &::name,
    static constexpr library linked{RPMA_RDMA_FUNCTIONS(RPMA_NAME)};
#undef RPMA_NAME
    return linked;
}

result<const library *> library::software()
{
    if (const library *const before = loaded_software.load(); before != nullptr)
        return before;
    (void)pthread_mutex_lock(&software_lock);
    result<const library *> found = loaded_software.load();
    if (found.value() == nullptr)
        found = load_software();
    if (found.ok())
        loaded_software.store(found.value());
    (void)pthread_mutex_unlock(&software_lock);
    return found;
}

const library &library::of(const ibv_context *context)
{
    const library *const software = loaded_software.load();
    return software != nullptr && is_software(context) ? *software : system();
}

result<bool> library::has_hardware() const
{
    RPMA_ASSIGN_OR_RETURN(const devices found, find_devices(*this));
    return found.hardware;
}

bool is_software(const ibv_context *context)
{
    return is_software_device(context->device);
}

} // namespace rpma::rdma
