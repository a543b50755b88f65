// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "compare.hpp"
#include "flush.hpp"

namespace mirror
{

// Verification of copies, and repair of pages from another copy.
class verifier
{
public:
    verifier(set_parts &of, flusher &lanes, comparer &with);

    // Returns the weakest level at which a copy was verified.
    rpma_mirror_verify_level flush_and_verify(unsigned lane, const rpma_mirror_range *ranges, std::size_t n,
            unsigned flags, rpma_mirror_error *first_bad);
    void check(unsigned copy, replica::range r, rpma_mirror_error *errors, std::size_t *n);
    void repair_range(replica::range r, unsigned source);
    void verify(unsigned copy, const limits &within, rpma_mirror_verify_report &report);

private:
    using range = replica::range;

    void overwrite_local_copy(range r, const std::vector<std::byte> &valid);

    set_parts &parts_;
    const settings &settings_;
    membership &membership_;
    events &events_;
    local_copy &local_;
    const remote_copies &copies_;
    counters &counted_;
    flusher &flusher_;
    comparer &comparer_;
};

} // namespace mirror
