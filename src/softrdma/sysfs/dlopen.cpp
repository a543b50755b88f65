// SPDX-License-Identifier: BSD-3-Clause
// Programs that open libibverbs or librdmacm by name get the device, which has the functions of both.
#include "sysfs/next.hpp"

#include <string_view>

using open_library = void *(const char *, int);
using open_library_in = void *(Lmid_t, const char *, int);
using find_version = void *(void *, const char *, const char *);

extern "C" open_library dlopen_of_program __asm__("dlopen");
extern "C" open_library_in dlmopen_of_program __asm__("dlmopen");
extern "C" find_version dlvsym_of_program __asm__("dlvsym");

namespace
{

constinit softrdma::sysfs::next_function<open_library> next_dlopen("dlopen");
constinit softrdma::sysfs::next_function<open_library_in> next_dlmopen("dlmopen");
constinit softrdma::sysfs::next_function<find_version> next_dlvsym("dlvsym");

bool is_replaced(const char *file) noexcept
{
    if (file == nullptr)
        return false;
    std::string_view name(file);
    name.remove_prefix(name.rfind('/') + 1);
    for (const std::string_view library : {"libibverbs.so", "librdmacm.so"}) {
        if (name.starts_with(library) && (name.size() == library.size() || name.substr(library.size()) == ".1" ||
                                                 name.substr(library.size()).starts_with(".1.")))
            return true;
    }
    return false;
}

const char *own_path() noexcept
{
    Dl_info info{};
    return dladdr(reinterpret_cast<void *>(&is_replaced), &info) != 0 ? info.dli_fname : nullptr;
}

void *open_device(const char *, int mode)
{
    return next_dlopen.get()(own_path(), mode);
}

void *open_device_in(Lmid_t space, const char *, int mode)
{
    return next_dlmopen.get()(space, own_path(), mode);
}

open_library *opener_of(const char *file) noexcept
{
    return is_replaced(file) ? &open_device : next_dlopen.get();
}

open_library_in *opener_in_of(const char *file) noexcept
{
    return is_replaced(file) ? &open_device_in : next_dlmopen.get();
}

// The device's symbols have no versions, so the C library does not find them by version.
void *find_in_device(void *library, const char *name, const char *version)
{
    static void *const device = next_dlopen.get()(own_path(), RTLD_LAZY | RTLD_NOLOAD);
    void *const found = dlsym(device, name);
    return found != nullptr ? found : next_dlvsym.get()(library, name, version);
}

find_version *finder_of(const char *version) noexcept
{
    const std::string_view node(version != nullptr ? version : "");
    return node.starts_with("IBVERBS_1.") || node.starts_with("RDMACM_1.") ? &find_in_device : next_dlvsym.get();
}

} // namespace

// The C library searches in the directories of the caller, which it identifies by the return address.
extern "C" JUMPS void *dlopen_of_program(const char *file, int mode)
{
    JUMP_TO opener_of(file)(file, mode);
}

extern "C" JUMPS void *dlmopen_of_program(Lmid_t space, const char *file, int mode)
{
    JUMP_TO opener_in_of(file)(space, file, mode);
}

extern "C" JUMPS void *dlvsym_of_program(void *library, const char *name, const char *version)
{
    JUMP_TO finder_of(version)(library, name, version);
}
