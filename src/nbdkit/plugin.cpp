// SPDX-License-Identifier: BSD-3-Clause
// Callbacks of nbdkit. Errors are one line; nbdkit adds the name of the plugin.
#define NBDKIT_API_VERSION 2
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
#include <nbdkit-plugin.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>

#include "disk.hpp"

using nbdkit_mirror::disk;

namespace
{

struct cfg_deleter {
    void operator()(rpma_mirror_cfg *cfg) const { rpma_mirror_cfg_delete(&cfg); }
};

constexpr char help[] = "set=PATH      (required) Set file of librpma_mirror.\n"
                        "lanes=COUNT   Writes in flight at a time, 1 to 64 (default 16).\n"
                        "resync=BOOL   Resynchronize targets that respond again (default true).\n"
                        "force=true    Open without a target in sync that does not respond: its data is lost.";

std::string set_file;
nbdkit_mirror::disk_options options;
std::unique_ptr<rpma_mirror_cfg, cfg_deleter> cfg;
std::unique_ptr<disk> opened;

int config(const char *key, const char *value)
{
    const std::string_view name = key;
    if (*value == '\0') {
        nbdkit_error("%s=: value missing (use %s=VALUE)", key, key);
        return -1;
    }
    if (name == "set") {
        if (!set_file.empty()) {
            nbdkit_error("set=%s: second set file (start one nbdkit for each set)", value);
            return -1;
        }
        char *const path = nbdkit_absolute_path(value);
        if (path == nullptr)
            return -1;
        set_file = path;
        free(path);
        return 0;
    }
    if (name == "lanes") {
        if (nbdkit_parse_unsigned("lanes", value, &options.lanes) != 0)
            return -1;
        if (options.lanes >= 1 && options.lanes <= 64)
            return 0;
        nbdkit_error("lanes=%s: out of range (use 1 to 64)", value);
        return -1;
    }
    if (name == "resync") {
        const int enabled = nbdkit_parse_bool(value);
        options.resync = enabled == 1;
        return enabled < 0 ? -1 : 0;
    }
    if (name == "force") {
        options.force = std::string_view(value) == "true";
        if (options.force || std::string_view(value) == "false")
            return 0;
        nbdkit_error("force=%s: not a boolean (use true or false)", value);
        return -1;
    }
    nbdkit_error("%s: unknown parameter (use set, lanes, resync or force)", key);
    return -1;
}

int config_complete()
{
    if (set_file.empty()) {
        nbdkit_error("no set file (add set=PATH)");
        return -1;
    }
    rpma_mirror_cfg *read = nullptr;
    if (rpma_mirror_cfg_from_file(set_file.c_str(), &read) != 0) {
        nbdkit_error("%s", rpma_mirror_error_message());
        return -1;
    }
    cfg.reset(read);
    return 0;
}

int get_ready()
{
    const auto state = std::make_unique<rpma_mirror_state>();
    state->size = sizeof(*state);
    if (rpma_mirror_inspect(cfg.get(), state.get()) != 0)
        nbdkit_error("%s: %s", set_file.c_str(), rpma_mirror_error_message());
    else if (state->epoch == 0)
        nbdkit_error("%s: set does not exist (run rpma-mirror create %s)", set_file.c_str(), set_file.c_str());
    else
        return 0;
    return -1;
}

// Makes requests fail with EIO for 1 s, then exits. nbdkit_shutdown() would wait for clients, and return ESHUTDOWN.
void failed(const std::string &reason)
{
    static constexpr std::chrono::seconds delay{1};
    nbdkit_error("%s: disk failed: %s (all requests fail; nbdkit ends)", set_file.c_str(), reason.c_str());
    std::thread([] {
        std::this_thread::sleep_for(delay);
        _exit(EXIT_FAILURE);
    }).detach();
}

int after_fork()
try {
    opened = std::make_unique<disk>(cfg.get(), options, failed,
            [](const std::string &line) { nbdkit_error("%s: %s", set_file.c_str(), line.c_str()); });
    return 0;
} catch (const std::exception &error) {
    nbdkit_error("%s: %s", set_file.c_str(), error.what());
    return -1;
}

void cleanup()
try {
    if (opened)
        opened->close();
    opened.reset();
} catch (const std::exception &error) {
    nbdkit_error("%s: set not closed cleanly: %s", set_file.c_str(), error.what());
    opened.reset();
}

void unload()
{
    opened.reset();
    cfg.reset();
}

int to_result(int error)
{
    if (error == 0)
        return 0;
    nbdkit_set_error(error);
    return -1;
}

int yes(void * /*handle*/)
{
    return 1;
}

nbdkit_plugin make_plugin()
{
    nbdkit_plugin p{};
    p.name = "rpma-mirror";
    p.longname = "mirrored set of librpma_mirror as a disk";
    p.version = RPMA_MIRROR_VERSION;
    p.description = "Network block device with copies in the memory of several machines";
    p.config = config;
    p.config_complete = config_complete;
    p.config_help = help;
    p.magic_config_key = "set";
    p.get_ready = get_ready;
    p.after_fork = after_fork;
    p.cleanup = cleanup;
    p.unload = unload;
    p.open = [](int) -> void * { return opened->failed() ? nullptr : NBDKIT_HANDLE_NOT_NEEDED; };
    p.get_size = [](void *) { return static_cast<std::int64_t>(opened->size()); };
    p.can_write = p.can_flush = p.can_trim = p.can_zero = p.can_fast_zero = p.can_multi_conn = p.can_extents = yes;
    p.can_fua = [](void *) { return NBDKIT_FUA_NATIVE; };
    p.is_rotational = [](void *) { return 0; };
    p.can_cache = [](void *) { return NBDKIT_CACHE_NONE; };
    p.block_size = [](void *, std::uint32_t *minimum, std::uint32_t *preferred, std::uint32_t *maximum) {
        constexpr std::uint32_t sector = 512;
        *minimum = sector;
        *preferred = disk::block_size;
        *maximum = 32U << 20;
        return 0;
    };
    p.pread = [](void *, void *to, std::uint32_t count, std::uint64_t offset, std::uint32_t) {
        return to_result(opened->read(static_cast<char *>(to), offset, count));
    };
    p.pwrite = [](void *, const void *from, std::uint32_t count, std::uint64_t offset, std::uint32_t flags) {
        return to_result(opened->write(static_cast<const char *>(from), offset, count, (flags & NBDKIT_FLAG_FUA) != 0));
    };
    p.trim = [](void *, std::uint32_t count, std::uint64_t offset, std::uint32_t flags) {
        return to_result(opened->zero(offset, count, (flags & NBDKIT_FLAG_FUA) != 0));
    };
    p.zero = [](void *, std::uint32_t count, std::uint64_t offset, std::uint32_t flags) {
        return to_result(opened->zero(offset, count, (flags & NBDKIT_FLAG_FUA) != 0));
    };
    p.flush = [](void *, std::uint32_t) { return to_result(opened->flush()); };
    p.extents = [](void *, std::uint32_t count, std::uint64_t offset, std::uint32_t flags, nbdkit_extents *to) {
        const std::uint64_t end = offset + count;
        while (offset < end) {
            bool hole = false;
            const std::uint64_t n = opened->extent(offset, end - offset, hole);
            if (nbdkit_add_extent(to, offset, n, hole ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO : 0) != 0)
                return -1;
            if ((flags & NBDKIT_FLAG_REQ_ONE) != 0)
                break;
            offset += n;
        }
        return 0;
    };
    p.errno_is_preserved = 0;
    return p;
}

nbdkit_plugin plugin = make_plugin();

} // namespace

NBDKIT_REGISTER_PLUGIN(plugin)
