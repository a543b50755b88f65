// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "region_lane.hpp"

namespace replica
{

// The memory that one target described, and the lanes through which it is written: ranges are posted, made durable and
// waited for there. Local memory, of which offset i is offset i of the target's, is registered as the source.
class region
{
public:
    struct terms {
        std::byte *address = nullptr;
        std::size_t size = 0;
        bool fetches = false; // the local memory is the destination of region_lane::fetch(), too
        std::uint32_t depth = 2;
        int timeout_ms = 0;      // of one operation
        std::uint64_t epoch = 0; // not 0: of the writer of a mirrored set
    };

    region() = default;
    ~region() { close(); }
    region(const region &) = delete;
    region &operator=(const region &) = delete;

    // With all lanes connected before `until`. 0 or an errno, and then why. lost() has to be open. What is half made is
    // for close().
    int open(const session_answer &target, const terms &wanted, const deadline &until, error_text *why);
    // Registers the local memory again, of which pages were replaced: what a device has pinned stays the old pages. No
    // lane is used meanwhile; what is under way on one is awaited, or the target is declared lost. 0 or an errno, with
    // which nothing can be sent from the memory before another call of this has succeeded.
    int register_again(const deadline &until);
    // Nobody uses a lane any more.
    void close();

    region_lane &lane(unsigned number) { return lanes_[number]; }
    unsigned lanes() const { return lane_count_; }
    // Where the data begins, after a header.
    std::uint64_t data_begin() const { return path_.data_begin; }
    replica::method method() const { return path_.method; }
    replica::level level() const { return level_; }
    replica::loss &lost() { return path_.lost; }
    const replica::loss &lost() const { return path_.lost; }

private:
    int prepare_peer(const session_answer &target, const terms &wanted, error_text *why);
    int register_memory();
    int connect_lanes(const session_answer &target, const terms &wanted, const deadline &until, error_text *why);
    void choose_method(const session_answer &target);

    data_path path_;
    std::byte *address_ = nullptr;
    std::size_t size_ = 0;
    int usage_ = 0; // RPMA_MR_USAGE_*
    replica::level level_ = level::volatile_memory;
    region_lane *lanes_ = nullptr;
    unsigned lane_count_ = 0;
};

} // namespace replica
