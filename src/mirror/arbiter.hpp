// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "clock.hpp"
#include "mirror_state.hpp"

namespace mirror
{

// Whoever decides which writer may have a set. It is not trusted for safety: the targets accept one writer at a time
// whatever it says. What it knows is the record that was committed with it last.
//
// Functions throw failure: E_FENCED if another writer has the right to write, E_ARBITER if nobody answers before the
// deadline. They are called by one thread at a time, except renew(), which may run beside commit(), and lost() and
// lost_fd().
class arbiter
{
public:
    using record = replica::mirror_record;
    using promise = replica::mirror_promise;

    virtual ~arbiter() = default;
    arbiter() = default;
    arbiter(const arbiter &) = delete;
    arbiter &operator=(const arbiter &) = delete;

    // Returns the newest record of the set, with epoch 0 if the arbiter has none. Called once, before take(), and
    // throws E_BUSY like it. Changes nothing at the arbiter.
    virtual record newest(const replica::set_uuid &set, bool seize, const replica::deadline &until) = 0;

    // Takes the right to write for the writer wanted. E_BUSY: another one has it, and it is not to be seized. The epoch
    // that results is at least that of wanted, and above every epoch that the arbiter has given. known becomes its
    // newest record; epoch 0: it has none.
    virtual promise take(const promise &wanted, bool seize, record &known, const replica::deadline &until) = 0;

    // Replaces the record, if it is still the one of this writer. Called before the record is committed on the copies.
    // The first call of a writer follows take().
    virtual void commit(const record &next, const replica::deadline &until) = 0;

    // Prolongs the right to write, where it runs out by itself. The library calls it every renew_ms() milliseconds; 0:
    // never.
    virtual void renew(const replica::deadline &until) = 0;
    virtual int renew_ms() const = 0;

    // Whether the right to write is known to be lost: nothing may be acknowledged any more. May be called by any thread
    // at any time, takes no lock, and is called by each flush.
    virtual bool lost() const noexcept = 0;
    // Readable from that moment on, or -1 where nothing tells.
    virtual int lost_fd() const noexcept = 0;

    // Gives the right back. Does not throw.
    virtual void release(const replica::deadline &until) noexcept = 0;
};

// Made from the text of rpma_mirror_cfg_set_arbiter(): "operator", or NAME and words that the arbiter NAME understands.
// Throws failure with E_INVAL.
std::unique_ptr<arbiter> make_arbiter(const std::string &text);

// Whether the text is one of those. Throws failure with E_INVAL if not, and connects nowhere.
void check_arbiter(const std::string &text);

} // namespace mirror
