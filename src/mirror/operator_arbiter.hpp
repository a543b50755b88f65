// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "arbiter.hpp"

namespace mirror
{

// Arbiter for an operator or Pacemaker: each machine that opens the set may write. The records are those of the copies.
class operator_arbiter : public arbiter
{
public:
    record newest(const replica::set_uuid &, bool, const replica::deadline &) override { return {}; }
    promise acquire(const promise &requested, bool, record &newest_record, const replica::deadline &) override
    {
        newest_record = {};
        return requested;
    }
    void commit(const record &, const replica::deadline &) override {}
    void renew(const replica::deadline &) override {}
    int renew_ms() const override { return 0; }
    bool lost() const noexcept override { return false; }
    int lost_fd() const noexcept override { return -1; }
    void release(const replica::deadline &) noexcept override {}
};

} // namespace mirror
