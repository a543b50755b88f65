// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include "remote_copy.hpp"

namespace mirror
{

// Memory of one image of a reader, which the program can only read.
class image_memory
{
public:
    image_memory() = default;
    ~image_memory();
    image_memory(const image_memory &) = delete;
    image_memory &operator=(const image_memory &) = delete;

    void allocate(std::uint64_t length);
    void protect(bool read_only) const;
    std::byte *address() const { return address_; }
    std::uint64_t length() const { return length_; }

private:
    std::byte *address_ = nullptr;
    std::uint64_t length_ = 0;
};

} // namespace mirror

// Handle of the C functions: a set that is open for reading (docs/replication.md, Readers). It is connected to targets
// only during refresh(), which fetches a complete image into the memory that is not current.
struct rpma_mirror_reader {
public:
    explicit rpma_mirror_reader(const mirror::settings &of);

    void refresh(bool any_time, int timeout_ms);
    void describe(rpma_mirror_image &to) const;

private:
    using deadline = replica::deadline;

    void query(std::uint32_t copies, const deadline &until,
            const std::function<void(mirror::remote_copy &, const deadline &)> &f);
    void connect(const deadline &until);
    void read_from(mirror::remote_copy &c, bool any_time, std::int64_t started_ms, const deadline &until);
    // Image that a target has, and the time of the last request before it.
    struct taken_image {
        replica::mirror_record record;
        bool is_consistent;
        std::int64_t after_ms;
    };
    taken_image wait_for_image(mirror::remote_copy &c, bool any_time, const deadline &until) const;
    void fetch(mirror::remote_copy &c, const deadline &until);
    void fetch_batch(mirror::remote_copy &c, replica::region_lane &lane, replica::range extent, const deadline &until);
    std::uint32_t responded() const;
    bool is_newest_proven() const;
    void set_age(const taken_image &taken, std::int64_t started_ms, bool is_proven);

    const mirror::settings settings_;
    replica::tls_keys key_;
    mirror::remote_copies copies_;
    replica::set_uuid set_{};
    std::uint64_t length_ = 0;
    replica::mirror_record newest_;
    std::array<mirror::image_memory, 2> memory_;
    unsigned current_ = 0;
    rpma_mirror_image image_{};
    std::int64_t as_of_ms_ = 0; // the image contains each flush that was acknowledged before
};
