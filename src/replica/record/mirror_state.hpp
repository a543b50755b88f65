// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "bytes.hpp"

namespace replica
{

using set_uuid = std::array<std::byte, 16>;
inline constexpr std::uint32_t max_copies = 16;

// Promise of a copy that it rejects writers of lower epochs. Epoch 0 is never promised.
struct mirror_promise {
    std::uint64_t epoch = 0;
    std::uint64_t writer = 0;

    bool operator==(const mirror_promise &) const = default;
};

enum class mirror_policy : std::uint32_t {
    safety = 0,       // the writer never acknowledges without a target
    availability = 1, // the writer may acknowledge without a target
};

// Membership record: members and copies in sync, as bit masks of copy numbers.
struct mirror_record {
    std::uint64_t epoch = 0;
    std::uint64_t version = 0;
    std::uint64_t writer = 0;
    std::uint16_t members = 0;
    std::uint16_t in_sync = 0;
    mirror_policy policy = mirror_policy::safety;
    bool closed = false; // clean: the writer closed the set, and all copies in sync are equal
    std::uint32_t writer_copy = 0;
    std::uint64_t mark = 0;

    bool operator==(const mirror_record &) const = default;
};

struct mirror_state {
    set_uuid set{};
    std::uint32_t copy = 0;
    std::uint64_t length = 0;
    mirror_promise promised;
    mirror_record committed;
    std::uint64_t cursor = 0; // offset up to which a resync of this copy has come
    // A resync has compared the whole copy since the last committed record. Earlier versions never report it.
    bool resynced = false;

    bool operator==(const mirror_state &) const = default;
};

constexpr bool is_newer(const mirror_record &a, const mirror_record &b)
{
    return a.epoch != b.epoch ? a.epoch > b.epoch : a.version > b.version;
}

// Targets that must respond before a record is known to be the newest. Each later committed record is on at least one
// of them, because a record shares a target with its predecessor.
constexpr std::uint32_t required_targets(const mirror_record &r)
{
    return r.in_sync & ~(std::uint32_t{1} << r.writer_copy);
}

// Returns whether the promise is allowed. An epoch belongs to its first writer, which may repeat the request.
constexpr bool may_promise(const mirror_state &state, const mirror_promise &requested)
{
    return requested.epoch > state.promised.epoch || (requested.epoch != 0 && requested == state.promised);
}

// Returns whether the record may be committed: by the writer with the promise, if not older than the committed one.
constexpr bool may_commit(const mirror_state &state, const mirror_record &requested)
{
    return mirror_promise{requested.epoch, requested.writer} == state.promised && requested.epoch != 0 &&
           (is_newer(requested, state.committed) || requested == state.committed);
}

// Returns whether the parts of the copy were replaced or changed, and no resync has completed since. A target that
// detects a change removes itself from the copies in sync of its record.
constexpr bool has_changed_parts(const mirror_state &state)
{
    return state.committed.epoch != 0 && (state.committed.in_sync >> state.copy & 1) == 0 && !state.resynced;
}

inline constexpr std::size_t encoded_record_size = 48;
void put(byte_writer &to, const mirror_record &r);
bool get(byte_reader &from, mirror_record &r);

inline constexpr std::size_t encoded_state_size = 52 + encoded_record_size;
void put(byte_writer &to, const mirror_state &s);
bool get(byte_reader &from, mirror_state &s);

} // namespace replica
