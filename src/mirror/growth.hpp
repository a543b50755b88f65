// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <optional>

#include "channel.hpp"
#include "flush.hpp"

namespace mirror
{

// Throws failure with E_INVAL unless a set can have the length.
void check_new_length(std::uint64_t length);

// Growth of a set while the program writes (docs/replication.md, Growth).
class grower
{
public:
    grower(set_parts &of, flusher &lanes);

    // On return, each copy in sync has the length durably. No length changes if not all parts can be made long enough.
    void grow(std::uint64_t length);

private:
    using deadline = replica::deadline;
    // Separate connections: a target that extends its parts slowly, or is silent, does not block that of the program.
    using channels = std::array<std::unique_ptr<channel>, replica::max_copies>;
    using failures = std::array<std::optional<failure>, replica::max_copies>;

    template<class F>
    failures call(std::uint32_t copies, F f);
    std::uint32_t begin(std::uint64_t length);
    void reserve(std::uint32_t copies, std::uint64_t length, channels &targets);
    void check_registration(std::uint64_t length) const;
    void commit(const failures &resized);
    void end_if_fenced(const failure &error, unsigned copy);
    void add_failed(std::uint32_t copies, const failures &of, failed_copies &to) const;
    std::uint32_t synced() const;

    set_parts &parts_;
    const settings &settings_;
    membership &membership_;
    local_copy &local_;
    remote_copies &copies_;
    flusher &flusher_;
};

} // namespace mirror
