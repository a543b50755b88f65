// SPDX-License-Identifier: BSD-3-Clause
#include "arbiter.hpp"

#include <dlfcn.h>

#include "failure.hpp"
#include "operator_arbiter.hpp"

namespace mirror
{

namespace
{

using make_function = arbiter *(const std::string *);

// Loads the module beside this library, so that only programs with etcd load libcurl. The module is never unloaded.
make_function *load_etcd()
{
    Dl_info library{};
    dladdr(reinterpret_cast<const void *>(&check_arbiter), &library);
    const std::string path = library.dli_fname;
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "" : path.substr(0, slash + 1);
    void *const module = dlopen((directory + "librpma_mirror/etcd.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    void *const found = module == nullptr ? nullptr : dlsym(module, "rpma_mirror_etcd_arbiter");
    if (found == nullptr)
        throw failure(RPMA_MIRROR_E_INVAL,
                std::string("arbiter etcd: cannot load the module: ") + dlerror() + " (install librpma-mirror-etcd)");
    return reinterpret_cast<make_function *>(found);
}

} // namespace

void check_arbiter(const std::string &text)
{
    (void)make_arbiter(text);
}

std::unique_ptr<arbiter> make_arbiter(const std::string &text)
{
    if (text == "operator")
        return std::make_unique<operator_arbiter>();
    if (const std::string etcd = "etcd "; text.starts_with(etcd)) {
        const std::string words = text.substr(etcd.size());
        return std::unique_ptr<arbiter>(load_etcd()(&words));
    }
    throw failure(RPMA_MIRROR_E_INVAL, "unknown arbiter '" + text + "' (use operator, or etcd URL)");
}

} // namespace mirror
