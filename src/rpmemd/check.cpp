// SPDX-License-Identifier: BSD-3-Clause
#include "check.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <netdb.h>
#include <optional>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "device.hpp"
#include "fd_owner.hpp"
#include "lane_server.hpp"
#include "part.hpp"
#include "part_map.hpp"
#include "policy.hpp"
#include "set_file.hpp"

namespace rpmemd
{

namespace
{

constexpr rlim_t enough_files = 1024;
constexpr int caller_limit_ms = 10'000;

void tell(const std::string &topic, bool good, const std::string &text, const std::string &remedy = "")
{
    std::printf("%s\t%s\t%s\t%s\n", topic.c_str(), good ? "ok" : "gap", text.c_str(), remedy.c_str());
}

// The remedy is in the text of the failure.
template<class F>
bool attempt(const std::string &topic, F f)
{
    try {
        f();
        return true;
    } catch (const failure &problem) {
        tell(topic, false, problem.what());
        return false;
    }
}

void check_missing_part(const part_line &line)
{
    const std::string place = std::filesystem::path(line.path).parent_path();
    if (access(place.c_str(), W_OK | X_OK) != 0)
        throw system_failure("the part " + line.path + " cannot be created in " + place);
    struct statvfs facts {
    };
    if (statvfs(place.c_str(), &facts) != 0)
        throw system_failure("cannot look at " + place);
    const std::uint64_t free = std::uint64_t{facts.f_bavail} * facts.f_frsize;
    if (free < line.size)
        throw failure(ENOSPC, "the part " + line.path + " needs " + std::to_string(line.size) + " bytes, and " + place +
                                      " has " + std::to_string(free));
}

medium check_part_that_is_there(const config &settings, const poolset &set, const part_line &line)
{
    poolset one = set;
    one.parts = {line};
    const std::vector<part> opened = open_parts(one, {false, settings.follow_symlinks, settings.umask});
    return part_map(opened.front(), 0, page_size).medium();
}

// The weakest medium, if all parts are there.
std::optional<medium> check_parts(const config &settings, const poolset &set)
{
    std::optional<medium> weakest = medium::persistent;
    for (const part_line &line : set.parts) {
        const bool is_there = std::filesystem::exists(line.path);
        const bool good = attempt("part", [&] {
            if (!is_there)
                check_missing_part(line);
            else if (const medium found = check_part_that_is_there(settings, set, line); weakest)
                weakest = std::min(*weakest, found);
        });
        if (good)
            tell("part", true, line.path + (is_there ? " is there" : " can be created"));
        if (!good || !is_there)
            weakest.reset();
    }
    return weakest;
}

bool flushes_natively(const device &on)
{
    alignas(page_size) static std::array<std::byte, page_size> page;
    const region_ptr region =
            register_memory(on, page.data(), page.size(), RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, "a page");
    int types = 0;
    check_rpma(rpma_mr_get_native_flush_type(region.get(), &types), "cannot tell what the device flushes");
    return types != 0;
}

// True if it is a device of hardware.
bool check_device(const config &settings, const std::string &address, const std::optional<medium> &of_parts)
{
    const device found = open_device(address, replica::device_hardware | replica::device_software);
    const bool natively = flushes_natively(found);
    tell("device", true,
            std::string(found.is_software ? "softrdma, the software device" : "RDMA hardware") +
                    (natively ? ", which flushes natively" : ", which does not flush natively"));
    if (of_parts)
        tell("level", true,
                describe(choose_policy(*of_parts, settings.persist_apm, found.is_software).level, natively));
    return !found.is_software;
}

void check_limits(std::uint64_t size, bool pins_memory)
{
    rlimit memory{}, files{};
    getrlimit(RLIMIT_MEMLOCK, &memory);
    getrlimit(RLIMIT_NOFILE, &files);
    const bool locks = !pins_memory || memory.rlim_cur == RLIM_INFINITY || memory.rlim_cur >= size;
    tell("memlock", locks,
            memory.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(memory.rlim_cur / 1024) + " KiB",
            locks ? "" : "raise memlock in /etc/security/limits.conf of the target: the device pins the whole pool");
    tell("nofile", files.rlim_cur >= enough_files, std::to_string(files.rlim_cur) + " open files",
            files.rlim_cur >= enough_files ? "" : "raise nofile in /etc/security/limits.conf of the target");
}

void echo(int listener)
{
    pollfd waited{listener, POLLIN, 0};
    if (poll(&waited, 1, caller_limit_ms) != 1)
        return;
    const replica::fd_owner caller(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    std::array<char, 256> bytes{};
    for (;;) {
        pollfd sent{caller.get(), POLLIN, 0};
        if (poll(&sent, 1, caller_limit_ms) != 1)
            return;
        const ssize_t size = read(caller.get(), bytes.data(), bytes.size());
        if (size <= 0 || send(caller.get(), bytes.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL) != size)
            return;
    }
}

void offer_port(const std::string &address)
{
    addrinfo hints{}, *found = nullptr;
    hints.ai_flags = AI_NUMERICHOST;
    hints.ai_socktype = SOCK_STREAM;
    const std::string port = std::to_string(free_port(address));
    if (getaddrinfo(address.c_str(), port.c_str(), &hints, &found) != 0)
        return;
    const replica::fd_owner listener(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool listens = bind(listener.get(), found->ai_addr, found->ai_addrlen) == 0 && listen(listener.get(), 1) == 0;
    freeaddrinfo(found);
    if (!listens)
        throw system_failure("the target cannot listen");
    tell("data port", true, address + " " + port);
    std::fflush(stdout);
    echo(listener.get());
}

} // namespace

exit_status check_set(const config &settings, const std::string &set_name)
{
    poolset set;
    std::optional<medium> of_parts;
    if (attempt("set", [&] { set = parse_poolset(read_set_file(settings.poolset_dir, set_name)); })) {
        tell("set", true,
                set_name + " in " + settings.poolset_dir + ", " + std::to_string(set.parts.size()) + " parts");
        of_parts = check_parts(settings, set);
    }
    std::uint64_t size = 0;
    for (const part_line &line : set.parts)
        size += line.size;
    if (size != 0)
        tell("size", true, std::to_string(size) + " bytes");
    std::string address;
    bool pins_memory = true;
    attempt("device", [&] {
        address = data_address();
        pins_memory = check_device(settings, address, of_parts);
    });
    check_limits(size, pins_memory);
    if (!address.empty())
        attempt("data port", [&] { offer_port(address); });
    return exit_done;
}

} // namespace rpmemd
