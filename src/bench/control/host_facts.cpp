// SPDX-License-Identifier: BSD-3-Clause
#include "host_facts.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <elf.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <librpma.h>
#include <link.h>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>

namespace bench
{

namespace
{

namespace fs = std::filesystem;

std::string first_line(const std::string &path)
{
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::string value_of(const std::string &path, const std::string &key, char separator)
{
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const std::size_t at = line.find(separator);
        if (!line.starts_with(key) || at == std::string::npos)
            continue;
        const std::size_t from = line.find_first_not_of(" \t\"", at + 1);
        if (from == std::string::npos)
            continue;
        return line.substr(from, line.find_last_not_of(" \t\"") + 1 - from);
    }
    return {};
}

std::string real_path(const std::string &path)
{
    std::error_code error;
    const fs::path found = fs::canonical(path, error);
    return error ? path : found.string();
}

struct object {
    std::string name;
    std::string build_id;
};

std::string build_id_in(const char *record, std::size_t size)
{
    for (std::size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
        const auto *const head = reinterpret_cast<const ElfW(Nhdr) *>(record + at);
        const std::size_t name = at + sizeof *head;
        const std::size_t content = name + (head->n_namesz + 3U) / 4U * 4U;
        if (head->n_type == NT_GNU_BUILD_ID && content + head->n_descsz <= size) {
            std::string id;
            for (std::size_t i = 0; i < head->n_descsz && i < 6; ++i)
                id += fmt::format("{:02x}", static_cast<unsigned char>(record[content + i]));
            return id;
        }
        at = content + (head->n_descsz + 3U) / 4U * 4U;
    }
    return {};
}

object mapped_object(const std::string &part)
{
    struct search {
        const std::string &part;
        object found;
    } state{part, {}};
    dl_iterate_phdr(
            [](dl_phdr_info *info, std::size_t, void *data) {
                search &s = *static_cast<search *>(data);
                if (fs::path(info->dlpi_name).filename().string().find(s.part) == std::string::npos)
                    return 0;
                s.found.name = info->dlpi_name;
                for (int i = 0; i < info->dlpi_phnum; ++i) {
                    const ElfW(Phdr) &header = info->dlpi_phdr[i];
                    if (header.p_type == PT_NOTE && s.found.build_id.empty())
                        s.found.build_id = build_id_in(
                                reinterpret_cast<const char *>(info->dlpi_addr + header.p_vaddr), header.p_memsz);
                }
                return 1;
            },
            &state);
    return state.found;
}

// Finds rpma_version() at run time, because a library before 1.4 lacks it.
std::string version_of_librpma()
{
    const auto get_version = reinterpret_cast<decltype(&rpma_version)>(dlsym(RTLD_DEFAULT, "rpma_version"));
    if (get_version == nullptr)
        return "before 1.4";
    const unsigned version = get_version();
    return fmt::format("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
}

} // namespace

host describe_host()
{
    host h;
    h.cpu = value_of("/proc/cpuinfo", "model name", ':');
    h.cores = std::thread::hardware_concurrency();
    if (const std::string total = value_of("/proc/meminfo", "MemTotal", ':'); !total.empty())
        h.memory_bytes = std::stoull(total) * 1024;
    h.os = value_of("/etc/os-release", "PRETTY_NAME", '=');
    utsname name{};
    if (uname(&name) == 0) {
        h.kernel = std::string(name.sysname) + " " + name.release + " " + name.machine;
        if (h.cpu.empty())
            h.cpu = name.machine;
    }
    h.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    double load = 0;
    if (getloadavg(&load, 1) == 1)
        h.load = load;
    return h;
}

library describe_library()
{
    library l;
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void *>(&rpma_peer_new), &info) != 0 && info.dli_fname != nullptr)
        l.file = real_path(info.dli_fname);
    l.version = version_of_librpma();
    if (const object mapped = mapped_object("librpma.so"); !mapped.build_id.empty())
        l.version += " (build " + mapped.build_id + ")";
    return l;
}

std::string rdma_core_version()
{
    // libibverbs.so.1.14.44.0 belongs to rdma-core 44.0.
    const std::string file = fs::path(real_path(mapped_object("libibverbs.so").name)).filename();
    const std::size_t abi = file.find(".so.1.");
    const std::size_t version = abi == std::string::npos ? abi : file.find('.', abi + 6);
    return version == std::string::npos ? "" : file.substr(version + 1);
}

bool is_softrdma(const std::string &device)
{
    return device.starts_with("softrdma");
}

std::string transport_of(const std::string &device)
{
    if (is_softrdma(device)) {
        const char *path = getenv("SOFTRDMA_TRANSPORT");
        if (path == nullptr)
            path = getenv("SOFTRDMA_PATH"); // name in development versions
        return fmt::format("softrdma (path {})", path == nullptr || *path == '\0' ? "auto" : path);
    }
    if (device.empty())
        return {};
    const std::string base = "/sys/class/infiniband/" + device;
    const std::string link = first_line(base + "/ports/1/link_layer");
    std::error_code error;
    const fs::path driver = fs::read_symlink(base + "/device/driver", error);
    if (!error)
        return driver.filename().string() + (link.empty() ? "" : " over " + link);
    return device.starts_with("rxe") ? "SoftRoCE (rxe)" : device.starts_with("siw") ? "SoftiWARP (siw)" : device;
}

} // namespace bench
