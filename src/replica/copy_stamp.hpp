// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

#include "siphash.hpp"

namespace replica
{

// Identity of the files of a copy, with a sample of their content. A copy that was replaced, restored or resized has
// another stamp than its state file.
struct copy_stamp {
    std::uint64_t size = 0;  // bytes of all files; 0 without a stamp
    siphash_result files{};  // inodes
    siphash_result times{};  // change times; zero while a writer has the copy, and for devices
    siphash_result sample{}; // pages of the content; zero while a writer has the copy

    bool operator==(const copy_stamp &) const = default;
};

inline constexpr std::size_t encoded_stamp_size = sizeof(std::uint64_t) + 3 * sizeof(siphash_result);

enum class stamp_match {
    same,
    unknown, // no stamp was stored, or a device has no change time
    changed
};

// Returns the stamp of a copy that is in use by a writer: only properties that writing does not change.
copy_stamp stamp_files(std::span<const int> files, std::uint64_t length);
// Returns the stamp of a copy without a writer. `number` selects the pages of the sample. Memory that cannot be read
// raises no signal.
copy_stamp stamp_content(std::span<const int> files, std::span<const std::byte> content, std::uint64_t number);
// Advances the change times first, so that no earlier image of the files has the same. Without success there is no
// stamp.
copy_stamp settle(std::span<const int> files, std::span<const std::byte> content, std::uint64_t number);

// Compares the stamp of a closed copy with the one found now.
stamp_match match(const copy_stamp &stored, const copy_stamp &found);

} // namespace replica
