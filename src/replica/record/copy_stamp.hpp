// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>

#include "base/siphash.hpp"

namespace replica
{

// Identity of the files of a copy, with a sample of their content. Detects that a copy was replaced or resized.
struct copy_stamp {
    std::uint64_t size = 0;  // bytes of all files; 0 without a stamp
    siphash_result files{};  // inodes
    siphash_result times{};  // change times; zero while a writer uses the copy, and for devices
    siphash_result sample{}; // pages of the content; zero while a writer uses the copy

    // Size of files that were being extended, of which only the inodes are known.
    static constexpr std::uint64_t unknown_size = UINT64_MAX;
    bool has_size() const { return size != 0 && size != unknown_size; }
    bool has_content() const { return sample != siphash_result{}; }
    copy_stamp without_content() const { return {.size = size, .files = files}; }

    bool operator==(const copy_stamp &) const = default;
};

inline constexpr std::size_t encoded_stamp_size = sizeof(std::uint64_t) + 3 * sizeof(siphash_result);

enum class stamp_match {
    same,
    unknown, // no stamp was stored, or a device, which has no change time
    changed
};

// Returns the stamp of a copy that a writer uses: only properties that writing does not change.
copy_stamp stamp_files(std::span<const int> files, std::uint64_t length);
copy_stamp stamp_inodes(std::span<const int> files);
// Returns whether the files have this stamp of a copy that a writer uses. Files may follow those of stamp_inodes().
bool has_stamp(std::span<const int> files, std::uint64_t length, const copy_stamp &stored);
// Returns the stamp of a copy without a writer. `number` selects the sampled pages. Raises no signal for bad memory.
copy_stamp stamp_content(std::span<const int> files, std::span<const std::byte> content, std::uint64_t number);
// Advances the change times beyond those of any backup. Returns the stamp, or an empty one on failure.
copy_stamp settle(std::span<const int> files, std::span<const std::byte> content, std::uint64_t number);

// Returns the stamp of a copy with or without a writer, like stamp_files() or settle().
copy_stamp current_stamp(
        std::span<const int> files, std::span<const std::byte> content, std::uint64_t number, bool is_quiet);

// Calls f, which extends the files of a copy and thus changes their stamp. Stores `meanwhile` before the call, and the
// current stamp afterwards, also if f throws. After a crash in the middle, the copy has the stamp `meanwhile`.
template<class Store, class Current, class F>
void extend_files(const copy_stamp &meanwhile, bool has_stamp, Store &&store, Current &&current, F &&f)
{
    store(meanwhile);
    try {
        f();
    } catch (...) {
        if (has_stamp)
            store(current());
        throw;
    }
    if (has_stamp)
        store(current());
}

// Compares the stored stamp of a clean copy with the current one.
stamp_match match(const copy_stamp &stored, const copy_stamp &found);

} // namespace replica
