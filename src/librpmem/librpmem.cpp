// SPDX-License-Identifier: BSD-3-Clause
#include "abi.hpp"

#include <atomic>
#include <cstring>
#include <unistd.h>

#include "channel/command.hpp"
#include "failure.hpp"
#include "group/step.hpp"
#include "log.hpp"
#include "pool.hpp"
#include "state_file.hpp"

using namespace rpmem;

namespace
{

int check_session(const char *target, const char *set_name, const void *address, size_t size, const unsigned *lanes)
{
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    if (target == nullptr || set_name == nullptr)
        return fail(EINVAL, "the target and the name of the poolset cannot be NULL");
    if (lanes == nullptr || *lanes == 0)
        return fail(EINVAL, "the number of lanes is 0 or its pointer is NULL");
    if (address == nullptr || reinterpret_cast<std::uintptr_t>(address) % page != 0)
        return fail(EINVAL, "the address of the pool is NULL or not aligned to a page");
    if (size == 0 || size % page != 0)
        return fail(EINVAL, "the size of the pool is 0 or not a multiple of the page size");
    if (const char *const fault = replica::set_name_fault(set_name))
        return fail(EINVAL, "%s", fault);
    return 0;
}

// Call that creates or opens a pool, and whether its failure has been logged. Most programs print neither errno nor
// rpmem_errormsg(), so the first failure is logged by default.
struct opening_call {
    const char *name;
    std::atomic<bool> reported = false;

    RPMEMpool *end(RPMEMpool *pool, const char *target, const char *set_name)
    {
        if (pool != nullptr || reported.exchange(true))
            return pool;
        const char *const at = target == nullptr ? "" : target;
        const char *const of = set_name == nullptr ? "" : set_name;
        log_by_default(
                "%s: %s failed: %s (run rpmem-doctor '%s' '%s' to find the cause; RPMEM_LOG_LEVEL=1 reports each "
                "failure)",
                replica_name(at, of).c_str(), name, last_failure(), at, of);
        return pool;
    }
};
opening_call create_call{"rpmem_create"}, open_call{"rpmem_open"};

RPMEMpool *open_pool(const opening::params &params, unsigned *lanes)
{
    call_settings settings{};
    if (const char *const fault = read_settings(&settings)) {
        fail(EINVAL, "%s", fault);
        return nullptr;
    }
    if (settings.devices == 0) {
        fail(ENOMEDIUM, "RPMEM_ENABLE_VERBS and RPMEM_ENABLE_SOCKETS are both 0: all devices are disabled");
        return nullptr;
    }
    std::unique_ptr<rpmem_pool> pool;
    const auto open = [&] {
        pool = std::make_unique<rpmem_pool>(settings);
        return pool->open(params);
    };
    if (guarded(open) != 0) {
        const int error = errno;
        pool.reset();
        errno = error;
        return nullptr;
    }
    *lanes = pool->lanes();
    return pool.release();
}

int check_flags(unsigned flags, unsigned known)
{
    return (flags & ~known) == 0 ? 0 : fail(EINVAL, "unknown flags 0x%x", flags & ~known);
}

int check_write(RPMEMpool *pool, replica::range r, unsigned lane)
{
    if (pool == nullptr)
        return fail(EINVAL, "the pool is NULL");
    if (pool->check_lane(lane) != 0 || pool->check_writable(r) != 0)
        return -1;
    return 0;
}

int persist(RPMEMpool *pool, replica::range r, unsigned lane, replica::lane_request_kind kind)
{
    return guarded([&] { return pool->flush(r, lane) != 0 ? -1 : pool->drain(lane, kind); });
}

// Reports a failed removal. The exit status is the errno value of the daemon, with three exceptions: a shell returns
// 126 and 127 for commands that it cannot run, ssh returns 255 for a failed connection.
int report_remove(const replica::target &to, const char *program, const char *set_name, int status)
{
    switch (status) {
    case 126:
    case 127:
        return fail(
                ENOEXEC, "rpmemd: command not found or not executable on the target (install rpmemd or set RPMEM_CMD)");
    case 255:
        return to.local ? fail(EINVAL, "rpmemd: command line rejected (check RPMEM_CMD)")
                        : fail(ECONNREFUSED, "%s could not log in to %s, or the command was rejected there", program,
                                  to.node.c_str());
    default:
        return fail(status, "%s: cannot remove the pool at the target: %s", set_name, std::strerror(status));
    }
}

int remove_pool(const replica::target &to, const std::string &daemon, const call_settings &settings,
        const char *set_name, int flags)
{
    std::vector<std::string> arguments = {"--remove", set_name};
    if ((flags & RPMEM_REMOVE_FORCE) != 0)
        arguments.push_back("--force");
    if ((flags & RPMEM_REMOVE_POOL_SET) != 0)
        arguments.push_back("--pool-set");
    replica::command start(replica::daemon_words(to, settings.ssh, daemon, arguments));
    const int status = replica::process::run(start.words(), settings.session_timeout_ms());
    if (status < 0)
        return fail(errno, "cannot run %s: %s", start.words()[0], std::strerror(errno));
    return status == 0 ? 0 : report_remove(to, start.words()[0], set_name, status);
}

int remove_all(const target_list &targets, const char *pool_set, int flags, const call_settings &settings)
{
    std::string commands[target_list::max_targets];
    for (std::size_t i = 0; i < targets.count; ++i)
        commands[i] = next_command();
    // An unresponsive target does not prevent the removal from the others.
    int errors[target_list::max_targets] = {};
    replica::error_text reasons[target_list::max_targets];
    const auto remove_one = [&](unsigned i, const replica::deadline &) {
        if (guarded([&] { return remove_pool(targets.targets[i], commands[i], settings, pool_set, flags); }) == 0)
            return true;
        errors[i] = errno;
        reasons[i].assign(last_failure());
        return false;
    };
    const group::copy_mask removed = group::run_concurrently(group::bit_of(static_cast<unsigned>(targets.count)) - 1,
            replica::deadline(settings.session_timeout_ms()), 0, remove_one);
    int error = 0;
    for (auto i = static_cast<unsigned>(targets.count); i-- > 0;) {
        const std::string name = replica_name(targets.texts[i], pool_set);
        if ((removed & group::bit_of(i)) != 0) {
            record_removed(name.c_str());
            continue;
        }
        error = errors[i];
        if (targets.count > 1)
            fail(error, "%s: %s", name.c_str(), reasons[i].c_str());
    }
    if (error == 0)
        return 0;
    errno = error; // record_removed() can change it
    return -1;
}

} // namespace

RPMEMpool *rpmem_create(const char *target, const char *pool_set_name, void *pool_addr, size_t pool_size,
        unsigned *nlanes, const struct rpmem_pool_attr *create_attr)
{
    RPMEMpool *created = nullptr;
    if (check_session(target, pool_set_name, pool_addr, pool_size, nlanes) == 0) {
        opening::params params{target, pool_set_name, pool_addr, pool_size, *nlanes, true, {}};
        static_assert(sizeof(*create_attr) == sizeof(params.attributes));
        if (create_attr != nullptr)
            std::memcpy(static_cast<void *>(&params.attributes), create_attr, sizeof(params.attributes));
        created = open_pool(params, nlanes);
    }
    return create_call.end(created, target, pool_set_name);
}

RPMEMpool *rpmem_open(const char *target, const char *pool_set_name, void *pool_addr, size_t pool_size,
        unsigned *nlanes, struct rpmem_pool_attr *open_attr)
{
    RPMEMpool *opened = nullptr;
    if (check_session(target, pool_set_name, pool_addr, pool_size, nlanes) == 0)
        opened = open_pool({target, pool_set_name, pool_addr, pool_size, *nlanes, false, {}}, nlanes);
    if (opened != nullptr && open_attr != nullptr)
        std::memcpy(open_attr, &opened->attributes(), sizeof(*open_attr));
    return open_call.end(opened, target, pool_set_name);
}

int rpmem_set_attr(RPMEMpool *rpp, const struct rpmem_pool_attr *attr)
{
    return rpp == nullptr ? fail(EINVAL, "the pool is NULL") : guarded([&] { return rpp->set_attributes(attr); });
}

int rpmem_close(RPMEMpool *rpp)
{
    if (rpp == nullptr)
        return fail(EINVAL, "the pool is NULL");
    const int closed = guarded([&] { return rpp->close(); });
    const int error = errno;
    delete rpp;
    errno = error;
    return closed;
}

int rpmem_persist(RPMEMpool *rpp, size_t offset, size_t length, unsigned lane, unsigned flags)
{
    if (check_flags(flags, RPMEM_PERSIST_RELAXED) != 0 || check_write(rpp, {offset, length}, lane) != 0)
        return -1;
    if (length == 0)
        return 0;
    return persist(rpp, {offset, length}, lane, replica::lane_request_kind::flush);
}

int rpmem_flush(RPMEMpool *rpp, size_t offset, size_t length, unsigned lane, unsigned flags)
{
    if (check_flags(flags, RPMEM_FLUSH_RELAXED) != 0 || check_write(rpp, {offset, length}, lane) != 0)
        return -1;
    return length == 0 ? 0 : guarded([&] { return rpp->flush({offset, length}, lane); });
}

int rpmem_drain(RPMEMpool *rpp, unsigned lane, unsigned flags)
{
    if (check_flags(flags, 0) != 0)
        return -1;
    if (rpp == nullptr)
        return fail(EINVAL, "the pool is NULL");
    return rpp->check_lane(lane) != 0 ? -1
                                      : guarded([&] { return rpp->drain(lane, replica::lane_request_kind::flush); });
}

int rpmem_deep_persist(RPMEMpool *rpp, size_t offset, size_t length, unsigned lane)
{
    if (check_write(rpp, {offset, length}, lane) != 0)
        return -1;
    if (length == 0)
        return 0;
    return persist(rpp, {offset, length}, lane, replica::lane_request_kind::deep_flush);
}

int rpmem_read(RPMEMpool *rpp, void *buff, size_t offset, size_t length, unsigned lane)
{
    if (rpp == nullptr || (buff == nullptr && length > 0))
        return fail(EINVAL, "the pool or the buffer is NULL");
    if (rpp->check_lane(lane) != 0 || rpp->check_readable({offset, length}) != 0)
        return -1;
    return length == 0 ? 0 : guarded([&] { return rpp->read(buff, {offset, length}, lane); });
}

int rpmem_remove(const char *target, const char *pool_set, int flags)
{
    constexpr int known = RPMEM_REMOVE_FORCE | RPMEM_REMOVE_POOL_SET;
    if (target == nullptr || pool_set == nullptr)
        return fail(EINVAL, "the target and the name of the poolset cannot be NULL");
    if (check_flags(static_cast<unsigned>(flags), known) != 0)
        return -1;
    target_list targets;
    if (targets.parse(target) != 0)
        return -1;
    if (const char *const fault = replica::set_name_fault(pool_set))
        return fail(EINVAL, "%s", fault);
    call_settings settings{};
    if (const char *const fault = read_settings(&settings))
        return fail(EINVAL, "%s", fault);
    for (std::size_t i = 0; i < targets.count; ++i)
        targets.targets[i].local = targets.targets[i].local || settings.exec;
    return guarded([&] { return remove_all(targets, pool_set, flags, settings); });
}

const char *rpmem_check_version(unsigned major_required, unsigned minor_required)
{
    if (major_required != RPMEM_MAJOR_VERSION)
        return "librpmem major version mismatch: the library has 1";
    if (minor_required > RPMEM_MINOR_VERSION)
        return "librpmem minor version mismatch: the library has 3";
    return nullptr;
}

const char *rpmem_errormsg(void)
{
    return last_failure();
}
