// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

#include "siphash.hpp"

namespace replica
{

// Identity of the files of a copy, with a sample of their content. If a copy is replaced, restored or resized, its
// stamp no longer matches the one in its state file.
struct copy_stamp {
    std::uint64_t size = 0;  // bytes of all files; 0 without a stamp
    siphash_result files{};  // inodes
    siphash_result times{};  // change times; zero while a writer uses the copy, and for devices
    siphash_result sample{}; // pages of the content; zero while a writer uses the copy

    bool operator==(const copy_stamp &) const = default;
};

inline constexpr std::size_t encoded_stamp_size = sizeof(std::uint64_t) + 3 * sizeof(siphash_result);

enum class stamp_match {
    same,
    unknown, // no stamp was stored, or a device, which has no change time
    changed
};

// Returns the stamp of a copy that a writer uses. Contains only properties that writing does not change.
copy_stamp stamp_files(std::span<const int> files, std::uint64_t length);
// Returns the stamp of a copy without a writer. `number` selects the sampled pages. Raises no signal for bad memory.
copy_stamp stamp_content(std::span<const int> files, std::span<const std::byte> content, std::uint64_t number);
// Advances the change times, which no earlier image of the files has. Returns the stamp, or an empty one on failure.
copy_stamp settle(std::span<const int> files, std::span<const std::byte> content, std::uint64_t number);

// Returns the stamp of a copy with or without a writer, like stamp_files() or settle().
copy_stamp present_stamp(
        std::span<const int> files, std::span<const std::byte> content, std::uint64_t number, bool is_quiet);

// Calls f, which extends the files of a copy. store() removes the stored stamp before the call and replaces it
// afterwards, also if f throws. After a crash in the middle, the copy has no stamp.
template<class Store, class Present, class F>
void extend_files(bool has_stamp, Store &&store, Present &&present, F &&f)
{
    store(copy_stamp());
    try {
        f();
    } catch (...) {
        if (has_stamp)
            store(present());
        throw;
    }
    if (has_stamp)
        store(present());
}

// Compares the stored stamp of a clean copy with the present one.
stamp_match match(const copy_stamp &stored, const copy_stamp &found);

} // namespace replica
