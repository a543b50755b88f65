// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "record/mirror_state.hpp"

namespace mirror
{

// Interface of an arbiter, which decides which writer may own a set. Safety does not depend on it: the targets accept
// only one writer at a time. It stores the last record that was committed with it. Functions throw failure: E_FENCED if
// another writer has the right to write, E_ARBITER if the arbiter does not respond before the deadline. One thread at a
// time calls them, except renew(), which may run concurrently with commit(), and lost() and lost_fd().
class arbiter
{
public:
    using record = replica::mirror_record;
    using promise = replica::mirror_promise;

    virtual ~arbiter() = default;
    arbiter() = default;
    arbiter(const arbiter &) = delete;
    arbiter &operator=(const arbiter &) = delete;

    // Returns the newest record of the set, with epoch 0 if the arbiter has none. Called once, before acquire(), and
    // throws E_BUSY like it. Does not change the state of the arbiter.
    virtual record newest(const replica::set_uuid &set, bool seize, const replica::deadline &until) = 0;

    // Acquires the right to write for the writer `requested`. Throws E_BUSY if another writer has it and `seize` is
    // false. The resulting epoch is at least that of `requested`, and above each epoch that the arbiter has granted.
    // `newest_record` receives its newest record, with epoch 0 if it has none.
    virtual promise acquire(
            const promise &requested, bool seize, record &newest_record, const replica::deadline &until) = 0;

    // Replaces the record, before the commit on the copies, if this writer, which called acquire(), may still write.
    virtual void commit(const record &next, const replica::deadline &until) = 0;

    // Renews the right to write, if it expires. Called every renew_ms() milliseconds, or never if that is 0.
    virtual void renew(const replica::deadline &until) = 0;
    virtual int renew_ms() const = 0;

    // Returns true if the right to write is lost: no flush may be acknowledged. Lock-free; each flush calls it.
    virtual bool lost() const noexcept = 0;
    // Descriptor that is readable after the loss, or -1 if the arbiter cannot report it.
    virtual int lost_fd() const noexcept = 0;
    // Returns the milliseconds until the right to write expires, or -1 if it does not expire.
    virtual std::int64_t lease_left_ms() const noexcept { return -1; }

    virtual void release(const replica::deadline &until) noexcept = 0;
};

// Creates the arbiter of rpma_mirror_cfg_set_arbiter(): "operator", or NAME and its settings. Throws E_INVAL.
std::unique_ptr<arbiter> make_arbiter(const std::string &text);

// Checks the text of an arbiter without connecting. Throws failure with E_INVAL for an invalid text.
void check_arbiter(const std::string &text);

} // namespace mirror
