// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lanes/lane_server.hpp"
#include "record/mirror_state.hpp"

namespace rpmemd
{

// Copy of a mirrored set in memory of the daemon, from which readers read. It does not change once it is complete.
class image
{
public:
    // Allocates the memory and populates it. `max_bytes` limits all images of the daemon.
    image(std::uint64_t length, std::uint64_t max_bytes);
    ~image();
    image(const image &) = delete;
    image &operator=(const image &) = delete;

    std::span<std::byte> memory() const { return {memory_, length_}; }
    // Copies content of the same length. Returns 0 or an errno value: ETIMEDOUT after `max_ms` (0: no limit).
    int copy(std::span<const std::byte> from, int max_ms) const;

    replica::mirror_record record;
    // The content is that of the consistency point in the record, or of a cleanly closed set.
    bool is_consistent = false;

private:
    std::uint64_t length_;
    std::byte *memory_ = nullptr;
};

// Client that reads a mirrored set. Its session uses it; commit() stores an image in it.
struct set_reader {
    std::shared_ptr<image> empty; // memory for the next copy
    std::shared_ptr<image> taken; // complete image
    bool waits = false;           // the next consistency point must be copied
    unsigned slow_copies = 0;     // copies that exceeded their time
    int copy_error = 0;           // errno value with which the last copy failed otherwise
    std::optional<lane_server> lanes;
};

} // namespace rpmemd
