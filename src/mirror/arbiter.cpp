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

// The module is beside this library. libcurl and what that needs are loaded into programs that ask for etcd, and into
// no others; it stays.
make_function *load_etcd()
{
    Dl_info own{};
    dladdr(reinterpret_cast<const void *>(&check_arbiter), &own);
    const std::string path = own.dli_fname;
    const std::size_t slash = path.rfind('/');
    const std::string place = slash == std::string::npos ? "" : path.substr(0, slash + 1);
    void *const module = dlopen((place + "librpma_mirror/etcd.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    void *const found = module == nullptr ? nullptr : dlsym(module, "rpma_mirror_etcd_arbiter");
    if (found == nullptr)
        throw failure(RPMA_MIRROR_E_INVAL,
                std::string("the arbiter etcd cannot be loaded: install librpma-mirror-etcd (") + dlerror() + ")");
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
    throw failure(RPMA_MIRROR_E_INVAL, "there is no arbiter '" + text + "': write operator, or etcd URL");
}

} // namespace mirror
