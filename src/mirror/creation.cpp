// SPDX-License-Identifier: BSD-3-Clause
// What is done to a set without opening it: creating, and fencing its writer.
#include "set.hpp"

#include <sys/random.h>

#include "failure.hpp"

using namespace mirror;
using replica::request_type;

namespace mirror
{

std::uint64_t random_writer()
{
    std::uint64_t number = 0;
    while (number == 0)
        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
            throw system_failure("cannot get random bytes");
    return number;
}

} // namespace mirror

void rpma_mirror::create(const settings &of)
{
    rpma_mirror m(of);
    const deadline until(of.open_ms);
    if (m.home_.open_state())
        throw failure(RPMA_MIRROR_E_EXISTS, "there is a home copy: " + of.state_path);
    const std::uint64_t length = m.home_.configured_length();
    if (length == 0)
        throw failure(RPMA_MIRROR_E_INVAL, "the set needs a length: there is no file yet that has one");
    if (getrandom(m.set_.data(), m.set_.size(), 0) != static_cast<ssize_t>(m.set_.size()))
        throw system_failure("cannot get random bytes");
    m.promise_ = {1, random_writer()};
    m.connect_all(until);
    record first;
    first.epoch = 1;
    first.version = 1;
    first.writer = m.promise_.writer;
    first.home = of.home_copy;
    first.policy = of.policy;
    first.members = static_cast<std::uint16_t>(m.home_bit());
    for (const target_settings &t : of.targets)
        first.members = static_cast<std::uint16_t>(first.members | 1U << t.copy);
    first.in_sync = first.members;
    for (const auto &c : m.copies_) {
        if (!c)
            continue;
        if (!c->answered && c->last_error != RPMA_MIRROR_E_MISSING)
            throw *c->problem;
        if (c->answered)
            throw failure(RPMA_MIRROR_E_EXISTS, "target " + c->where.name() + " has a copy of " + c->where.set_name +
                                                        ": remove its state there if it is not needed");
    }
    for (const auto &c : m.copies_) {
        if (!c)
            continue;
        replica::request r = m.about_promise(*c, request_type::mirror_create);
        r.mirror.length = length;
        c->control->ask(r, until);
        c->control->ask(m.about_promise(*c, request_type::mirror_prepare), until);
        r = m.about_promise(*c, request_type::mirror_commit);
        r.mirror.record = first;
        c->control->ask(r, until);
    }
    m.home_.make({m.set_, of.home_copy, length, m.promise_, first, 0});
}

std::uint64_t rpma_mirror::fence(const settings &of, bool force)
{
    rpma_mirror m(of);
    const deadline until(of.open_ms);
    m.connect_all(until);
    m.learn_set(false);
    m.take_epoch(true, until);
    m.prepare_all(until);
    const std::uint32_t missing = m.needed_ & ~m.answered();
    if (m.answered() == 0 || (missing != 0 && !force))
        throw failure(RPMA_MIRROR_E_INCOMPLETE, of.names_of(missing) + " does not answer: a writer may go on with it");
    return m.promise_.epoch;
}
