// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "bytes.hpp"

// What a copy of a mirrored set remembers of the protocol of docs/mirror.md, and the rules of what may follow what.
namespace replica
{

using set_uuid = std::array<std::byte, 16>;
inline constexpr std::uint32_t most_copies = 16;

// That nobody with a lower epoch writes to the copy any more. Epoch 0 was never promised.
struct mirror_promise {
    std::uint64_t epoch = 0;
    std::uint64_t writer = 0;

    bool operator==(const mirror_promise &) const = default;
};

enum class mirror_policy : std::uint32_t {
    safety = 0,       // the writer never acknowledges alone
    availability = 1, // it may
};

// Who belongs to the set, and who has everything. Copies are bits.
struct mirror_record {
    std::uint64_t epoch = 0;
    std::uint64_t version = 0;
    std::uint64_t writer = 0;
    std::uint16_t members = 0;
    std::uint16_t in_sync = 0;
    mirror_policy policy = mirror_policy::safety;
    bool closed = false; // the writer ended, and all copies in sync are equal
    // The writer's own copy: of those in sync all others are targets.
    std::uint32_t home = 0;
    // Of the program: up to where everything makes sense to it. What had been flushed before is on all that are in
    // sync.
    std::uint64_t mark = 0;

    bool operator==(const mirror_record &) const = default;
};

struct mirror_state {
    set_uuid set{};
    std::uint32_t copy = 0;
    std::uint64_t length = 0;
    mirror_promise promised;
    mirror_record committed;
    std::uint64_t cursor = 0; // how far a resync of this copy has come

    bool operator==(const mirror_state &) const = default;
};

constexpr bool is_newer(const mirror_record &a, const mirror_record &b)
{
    return a.epoch != b.epoch ? a.epoch > b.epoch : a.version > b.version;
}

// The targets that have to respond before a record is known to be the newest: each later record that counted is on one
// of them, because a record shares a target with the one before it.
constexpr std::uint32_t needed_targets(const mirror_record &r)
{
    return r.in_sync & ~(std::uint32_t{1} << r.home);
}

// An epoch is promised to the writer that asked first, and to the same again.
constexpr bool may_promise(const mirror_state &held, const mirror_promise &asked)
{
    return asked.epoch > held.promised.epoch || (asked.epoch != 0 && asked == held.promised);
}

// A record is of the writer that has the promise. One that was overtaken by a newer one stays away.
constexpr bool may_commit(const mirror_state &held, const mirror_record &asked)
{
    return mirror_promise{asked.epoch, asked.writer} == held.promised && asked.epoch != 0 &&
           (is_newer(asked, held.committed) || asked == held.committed);
}

inline constexpr std::size_t encoded_record_size = 48;
void put(byte_writer &to, const mirror_record &r);
// False: it is not there, or no record.
bool get(byte_reader &from, mirror_record &r);

inline constexpr std::size_t encoded_state_size = 52 + encoded_record_size;
void put(byte_writer &to, const mirror_state &s);
bool get(byte_reader &from, mirror_state &s);

} // namespace replica
