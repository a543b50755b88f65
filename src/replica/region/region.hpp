// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "region/region_lane.hpp"

namespace replica
{

// Memory region of a target, and the lanes that write to it: ranges are posted on a lane, made durable and waited for
// there. Registers the local memory, in which each offset corresponds to the same offset of the target.
class region
{
public:
    struct settings {
        std::byte *address = nullptr;
        std::size_t size = 0;
        bool fetches = false; // the local memory is the destination of region_lane::fetch(), too
        std::uint32_t depth = 2;
        int timeout_ms = 0;      // timeout of one operation
        std::uint64_t epoch = 0; // epoch of the writer of a mirrored set, 0 for a pool
        std::uint32_t devices = device_hardware | device_software; // allowed kinds of the local device
    };

    region() = default;
    ~region() { close(); }
    region(const region &) = delete;
    region &operator=(const region &) = delete;

    // Connects all lanes before `until`. Returns 0, or an errno value and stores the reason. The caller must have
    // opened lost(), and must call close() after a failure.
    int open(const wire::region &target, const settings &params, const deadline &until, error_text *reason);
    // Waits for the outstanding requests of all lanes, and declares the target lost if it does not confirm them. The
    // caller must not use a lane during the call. Returns 0 or an errno value.
    int wait_for_all(const deadline &until);
    // Checks whether `size` more bytes of local memory can be registered. Returns 0, or an errno value and the reason.
    int check_registration(std::size_t size, error_text *reason) const;
    // Registers the local memory again after pages were replaced, because a device keeps the old pages pinned. Waits
    // for outstanding requests or declares the target lost. The caller must not use a lane during the call. Returns 0
    // or an errno value, after which the memory cannot be sent until a later call succeeds.
    int reregister(const deadline &until);
    void close();

    region_lane &lane(unsigned number) { return lanes_[number]; }
    unsigned lanes() const { return lane_count_; }
    std::uint64_t data_begin() const { return path_.data_begin; }
    replica::method method() const { return path_.method; }
    replica::level level() const { return level_; }
    replica::loss &lost() { return path_.lost; }
    const replica::loss &lost() const { return path_.lost; }

private:
    int prepare_peer(const wire::region &target, const settings &params, error_text *reason);
    int register_memory(std::size_t size, rpma_mr_local **to, error_text *reason) const;
    int connect_lanes(const wire::region &target, const settings &params, const deadline &until, error_text *reason);
    void choose_method(const wire::region &target);

    data_path path_;
    std::byte *address_ = nullptr;
    std::size_t size_ = 0;
    int usage_ = 0; // RPMA_MR_USAGE_*
    replica::level level_ = level::volatile_memory;
    region_lane *lanes_ = nullptr;
    unsigned lane_count_ = 0;
};

} // namespace replica
