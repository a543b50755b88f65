// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "abi.hpp"
#include "base/loss.hpp"
#include "record/mirror_state.hpp"

namespace mirror
{

struct target_settings {
    unsigned copy = 0;
    std::string address; // IP address or host name
    std::string port;
    std::string set_name;

    std::string name() const { return address + ":" + port; }
};

struct limits {
    std::uint64_t bytes_per_second = 0; // unlimited if 0
    rpma_mirror_progress_function progress = nullptr;
    void *context = nullptr;
    // Cancels if a loss is declared; NULL if nothing cancels. The thread then waits at most for one operation.
    replica::loss *cancel = nullptr;
    // Another call may cancel the operation to use the copy itself.
    bool yields = false;
};

// Converts the options, which may be NULL. Throws failure with E_INVAL.
limits limits_of(const rpma_mirror_resync_options *options);

struct settings {
    unsigned local_number = 0;
    std::string local_path; // anonymous memory if empty
    std::string state_path;
    std::uint64_t length = 0;
    std::uint64_t max_length = 0; // bytes of addresses to reserve, at least the length of the set
    std::vector<target_settings> targets;
    std::string key_file;
    replica::mirror_policy policy = replica::mirror_policy::safety;
    std::string arbiter = "operator";
    rpma_mirror_level min_level = RPMA_MIRROR_LEVEL_VOLATILE;
    int operation_ms = 2000;
    int open_ms = 10000;
    unsigned lanes = 1;
    unsigned depth = 128;
    rpma_mirror_device device = RPMA_MIRROR_DEVICE_ANY;
    rpma_mirror_event_function event = nullptr;
    void *event_context = nullptr;
    rpma_mirror_eviction_function eviction = nullptr;
    void *eviction_context = nullptr;
    limits resync_limits;                      // limits of the resync during opening
    bool background = true;                    // resynchronize targets that respond again
    std::uint64_t background_rate = 100 << 20; // bytes per second, unlimited if 0
    // A target is evicted after `slow_count` consecutive flushes that it confirmed after `slow_ms`; never if 0.
    unsigned slow_count = 0;
    int slow_ms = 0;
    bool has_local = false;
    bool admin_socket = true;

    // Throw failure with E_INVAL.
    void set_local_copy(unsigned copy, const char *path, std::uint64_t bytes, const char *state);
    void add_target(unsigned copy, const std::string &location, const std::string &set_name);
    void set_lanes(unsigned count, unsigned operations);
    void set_timeouts(unsigned operation, unsigned opening);
    void set_slow_limit(unsigned count, unsigned late_ms);
    void set_max_length(std::uint64_t bytes);
    // Throw failure with E_INVAL if a setting is missing that a writer, or a reader, requires.
    void check() const;
    void check_reader() const;

    // Returns the path of the socket for rpma-mirror(1), or "" if the set has none.
    std::string admin_path() const;

    const target_settings *target_of(unsigned copy) const;
    std::uint32_t target_copies() const;
    std::string names_of(std::uint32_t copies) const;
};

settings read_set_file(const std::string &path);

} // namespace mirror

struct rpma_mirror_cfg {
    mirror::settings value;
};
