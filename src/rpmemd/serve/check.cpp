// SPDX-License-Identifier: BSD-3-Clause
#include "serve/check.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <netdb.h>
#include <optional>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd_owner.hpp"
#include "config/version.hpp"
#include "lanes/device.hpp"
#include "lanes/lane_server.hpp"
#include "lanes/policy.hpp"
#include "store/pool.hpp"
#include "store/process_count.hpp"
#include "store/set_file.hpp"

namespace rpmemd
{

namespace
{

constexpr int caller_limit_ms = 10'000;

void print_finding(const std::string &topic, bool good, const std::string &text, const std::string &remedy = "")
{
    std::printf("%s\t%s\t%s\t%s\n", topic.c_str(), good ? "ok" : "fail", text.c_str(), remedy.c_str());
}

// Runs `f` and prints the message of a failure as a finding. Returns true on success.
template<class F>
bool attempt(const std::string &topic, F f)
{
    try {
        f();
        return true;
    } catch (const failure &error) {
        print_finding(topic, false, error.what());
        return false;
    }
}

void check_sessions(const config &settings)
{
    if (const unsigned others = processes_like_this(); others >= settings.limits.sessions)
        throw failure(EUSERS,
                std::to_string(others) + " sessions of this user: limit reached (see max-sessions in rpmemd.conf)");
}

// Creates or opens the parts like a session and prints the findings. Returns nullopt if neither succeeds.
std::optional<pool> check_parts(const config &settings, const poolset &set)
{
    std::optional<pool> found;
    if (!attempt("part", [&] { found.emplace(pool::probe(settings, set)); }))
        return std::nullopt;
    for (const part &p : found->parts())
        print_finding("part", true, p.path() + (p.was_created() ? " can be created" : " exists"));
    print_finding("size", true, std::to_string(found->memory().size()) + " bytes");
    if (found->exists())
        print_finding("pool", true, "it exists: rpmem_open(3) opens it, and rpmem_create(3) fails (EEXIST)");
    return found;
}

void check_lanes(const config &settings, pool &probed, const std::string &address)
{
    lane_request request;
    request.pool_size = std::min<std::uint64_t>(probed.memory().size(), settings.limits.bytes);
    request.lanes = 1;
    request.devices = replica::device_hardware | replica::device_software;
    const lane_server lanes(settings, probed, request, lane_params{address});
    print_finding("level", true, describe(lanes.chosen().level, lanes.flushes_natively()));
}

bool flushes_natively(const device &on)
{
    alignas(page_size) static std::array<std::byte, page_size> page;
    const region_ptr region =
            register_memory(on, page.data(), page.size(), RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, "a page");
    int types = 0;
    check_rpma(rpma_mr_get_native_flush_type(region.get(), &types), "cannot query the native flush of the device");
    return types != 0;
}

void check_device(const std::string &address, bool &pins_memory)
{
    const device found = open_device(address, replica::device_hardware | replica::device_software);
    pins_memory = !found.is_software;
    const bool natively = flushes_natively(found);
    print_finding("device", true,
            std::string(found.is_software ? "softrdma, the software device" : "RDMA hardware") +
                    (natively ? ", which flushes natively" : ", which does not flush natively"));
}

void check_limits(std::uint64_t size, bool pins_memory)
{
    rlimit memory{}, files{};
    getrlimit(RLIMIT_MEMLOCK, &memory);
    getrlimit(RLIMIT_NOFILE, &files);
    const bool locks = !pins_memory || memory.rlim_cur == RLIM_INFINITY || memory.rlim_cur >= size;
    print_finding("memlock", locks,
            memory.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(memory.rlim_cur / 1024) + " KiB",
            locks ? "" : "raise memlock in /etc/security/limits.conf of the target: the device pins the whole pool");
    // rpmem-doctor compares the value: the required number of descriptors depends on the client.
    print_finding("nofile", true, std::to_string(files.rlim_cur) + " open files");
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
    const bool listens = listener.valid() && bind(listener.get(), found->ai_addr, found->ai_addrlen) == 0 &&
                         listen(listener.get(), 1) == 0;
    freeaddrinfo(found);
    if (!listens)
        throw system_failure("the target cannot listen");
    print_finding("data port", true, address + " " + port);
    if (std::fflush(stdout) == 0)
        echo(listener.get());
}

} // namespace

exit_status check_set(const config &settings, const std::string &set_name)
{
    print_finding("daemon", true, std::string("rpmemd ") + daemon_version);
    attempt("daemon", [&] { check_sessions(settings); });
    std::optional<pool> probed;
    std::string address;
    bool pins_memory = false;
    poolset set;
    if (attempt("set", [&] {
            set = read_poolset(settings.poolset_dir, set_name);
            print_finding("set", true,
                    set_name + " in " + settings.poolset_dir + ", " + std::to_string(set.parts.size()) + " parts");
        }))
        probed = check_parts(settings, set);
    if (attempt("device",
                [&] {
                    address = data_address();
                    check_device(address, pins_memory);
                }) &&
            probed)
        attempt("device", [&] { check_lanes(settings, *probed, address); });
    check_limits(probed ? probed->memory().size() : 0, pins_memory);
    if (probed)
        probed->rollback_create();
    probed.reset();
    if (!address.empty())
        attempt("data port", [&] { offer_port(address); });
    return exit_done;
}

} // namespace rpmemd
