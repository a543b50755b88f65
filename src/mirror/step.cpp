// SPDX-License-Identifier: BSD-3-Clause
#include "step.hpp"

namespace mirror
{

void query_copies(const remote_copies &copies, std::uint32_t bits, const replica::deadline &until,
        replica::mirror_record &newest, const std::function<void(remote_copy &, const replica::deadline &)> &f,
        const std::function<bool(std::uint32_t responded)> &is_complete)
{
    group::step now(until, until.left_ms() / 10);
    group::each_copy(bits, [&](unsigned copy) {
        remote_copy &c = *copies[copy];
        now.start(copy, [&now, &newest, &f, &c](const replica::deadline &within) {
            c.responded = false;
            try {
                f(c, within);
                now.publish([&] {
                    if (is_newer(c.last_state.committed, newest))
                        newest = c.last_state.committed;
                });
                c.responded = true;
            } catch (const failure &error) {
                c.error = error;
            } catch (const std::exception &error) {
                c.error = failure(RPMA_MIRROR_E_SYSTEM, error.what());
            }
            if (!c.responded)
                c.last_error = c.error->code();
            return c.responded;
        });
    });
    now.finish(is_complete);
}

replica::set_uuid common_set(const remote_copies &copies, std::uint32_t bits)
{
    const remote_copy &first = *copies[group::first_of(bits)];
    group::each_copy(bits, [&](unsigned copy) {
        if (copies[copy]->last_state.set != first.last_state.set)
            throw failure(RPMA_MIRROR_E_INVAL, "targets " + first.where.name() + " and " + copies[copy]->where.name() +
                                                       ": have copies of different sets (correct the set file)");
    });
    return first.last_state.set;
}

} // namespace mirror
