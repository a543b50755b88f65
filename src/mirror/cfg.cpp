// SPDX-License-Identifier: BSD-3-Clause
#include "arbiter.hpp"
#include "failure.hpp"
#include "settings.hpp"

using namespace mirror;

namespace
{

template<class F>
int change(rpma_mirror_cfg *cfg, F &&f) noexcept
{
    if (cfg == nullptr)
        return fail(RPMA_MIRROR_E_INVAL, "the configuration is NULL");
    return guarded([&] { f(cfg->value); });
}

void check_range(int value, int max, const char *name)
{
    if (value < 0 || value > max)
        throw failure(RPMA_MIRROR_E_INVAL, std::string("invalid ") + name);
}

void check_text(const char *text, const char *name)
{
    if (text == nullptr)
        throw failure(RPMA_MIRROR_E_INVAL, std::string(name) + " cannot be NULL");
}

} // namespace

int rpma_mirror_cfg_new(struct rpma_mirror_cfg **cfg_ptr)
{
    if (cfg_ptr == nullptr)
        return fail(RPMA_MIRROR_E_INVAL, "cfg_ptr is NULL");
    return guarded([&] { *cfg_ptr = new rpma_mirror_cfg; });
}

int rpma_mirror_cfg_delete(struct rpma_mirror_cfg **cfg_ptr)
{
    if (cfg_ptr == nullptr)
        return fail(RPMA_MIRROR_E_INVAL, "cfg_ptr is NULL");
    delete *cfg_ptr;
    *cfg_ptr = nullptr;
    return 0;
}

int rpma_mirror_cfg_from_file(const char *path, struct rpma_mirror_cfg **cfg_ptr)
{
    if (path == nullptr || cfg_ptr == nullptr)
        return fail(RPMA_MIRROR_E_INVAL, "path and cfg_ptr cannot be NULL");
    return guarded([&] { *cfg_ptr = new rpma_mirror_cfg{read_set_file(path)}; });
}

int rpma_mirror_cfg_set_local_copy(
        struct rpma_mirror_cfg *cfg, unsigned copy, const char *path, size_t length, const char *state_path)
{
    return change(cfg, [&](settings &s) { s.set_local_copy(copy, path, length, state_path); });
}

int rpma_mirror_cfg_add_target(struct rpma_mirror_cfg *cfg, unsigned copy, const char *target, const char *poolset)
{
    return change(cfg, [&](settings &s) {
        check_text(target, "the target");
        check_text(poolset, "the name of the poolset");
        s.add_target(copy, target, poolset);
    });
}

int rpma_mirror_cfg_set_key_file(struct rpma_mirror_cfg *cfg, const char *path)
{
    return change(cfg, [&](settings &s) {
        check_text(path, "the path of the key");
        s.key_file = path;
    });
}

int rpma_mirror_cfg_set_policy(struct rpma_mirror_cfg *cfg, enum rpma_mirror_policy policy)
{
    return change(cfg, [&](settings &s) {
        check_range(policy, RPMA_MIRROR_POLICY_AVAILABILITY, "policy");
        s.policy = static_cast<replica::mirror_policy>(policy);
    });
}

int rpma_mirror_cfg_set_arbiter(struct rpma_mirror_cfg *cfg, const char *arbiter)
{
    return change(cfg, [&](settings &s) {
        check_text(arbiter, "the arbiter");
        check_arbiter(arbiter);
        s.arbiter = arbiter;
    });
}

int rpma_mirror_cfg_set_min_level(struct rpma_mirror_cfg *cfg, enum rpma_mirror_level level)
{
    return change(cfg, [&](settings &s) {
        check_range(level, RPMA_MIRROR_LEVEL_NATIVE_FLUSH, "level");
        s.min_level = level;
    });
}

int rpma_mirror_cfg_set_timeouts(struct rpma_mirror_cfg *cfg, unsigned operation_ms, unsigned open_ms)
{
    return change(cfg, [&](settings &s) { s.set_timeouts(operation_ms, open_ms); });
}

int rpma_mirror_cfg_set_slow_limit(struct rpma_mirror_cfg *cfg, unsigned count, unsigned late_ms)
{
    return change(cfg, [&](settings &s) { s.set_slow_limit(count, late_ms); });
}

int rpma_mirror_cfg_set_max_length(struct rpma_mirror_cfg *cfg, size_t length)
{
    return change(cfg, [&](settings &s) { s.set_max_length(length); });
}

int rpma_mirror_cfg_set_lanes(struct rpma_mirror_cfg *cfg, unsigned lanes, unsigned depth)
{
    return change(cfg, [&](settings &s) { s.set_lanes(lanes, depth); });
}

int rpma_mirror_cfg_set_device(struct rpma_mirror_cfg *cfg, enum rpma_mirror_device device)
{
    return change(cfg, [&](settings &s) {
        check_range(device, RPMA_MIRROR_DEVICE_SOFTRDMA, "kind of device");
        s.device = device;
    });
}

int rpma_mirror_cfg_set_resync_options(struct rpma_mirror_cfg *cfg, const struct rpma_mirror_resync_options *options)
{
    return change(cfg, [&](settings &s) { s.resync_limits = limits_of(options); });
}

int rpma_mirror_cfg_set_background_resync(struct rpma_mirror_cfg *cfg, int enabled, uint64_t bytes_per_second)
{
    return change(cfg, [&](settings &s) {
        s.background = enabled != 0;
        s.background_rate = bytes_per_second;
    });
}

int rpma_mirror_cfg_set_admin_socket(struct rpma_mirror_cfg *cfg, int enabled)
{
    return change(cfg, [&](settings &s) { s.admin_socket = enabled != 0; });
}

int rpma_mirror_cfg_get_admin_socket(const struct rpma_mirror_cfg *cfg, char **path)
{
    if (cfg == nullptr || path == nullptr)
        return fail(RPMA_MIRROR_E_INVAL, "cfg and path cannot be NULL");
    return guarded([&] {
        const std::string found = cfg->value.admin_path();
        if (found.empty())
            throw failure(
                    RPMA_MIRROR_E_NOT_FOUND, "socket for rpma-mirror: disabled, or the local copy is anonymous memory");
        *path = copy_for_caller(found);
    });
}

int rpma_mirror_cfg_set_event_function(struct rpma_mirror_cfg *cfg, rpma_mirror_event_function function, void *context)
{
    return change(cfg, [&](settings &s) {
        s.event = function;
        s.event_context = context;
    });
}

int rpma_mirror_cfg_set_eviction_function(
        struct rpma_mirror_cfg *cfg, rpma_mirror_eviction_function function, void *context)
{
    return change(cfg, [&](settings &s) {
        s.eviction = function;
        s.eviction_context = context;
    });
}
