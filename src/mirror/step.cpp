// SPDX-License-Identifier: BSD-3-Clause
#include "step.hpp"

namespace mirror
{

void query_copies(const remote_copies &copies, std::uint32_t bits, const replica::deadline &until,
        replica::mirror_record &newest, const std::function<void(remote_copy &, const replica::deadline &)> &f,
        const std::function<bool(std::uint32_t answered)> &is_complete)
{
    group::step now(until, until.left_ms() / 10);
    group::each_copy(bits, [&](unsigned copy) {
        remote_copy &c = *copies[copy];
        now.start(copy, [&now, &newest, &f, &c](const replica::deadline &within) {
            c.answered = false;
            try {
                f(c, within);
                now.publish([&] {
                    if (is_newer(c.known.committed, newest))
                        newest = c.known.committed;
                });
                c.answered = true;
            } catch (const failure &problem) {
                c.problem = problem;
            } catch (const std::exception &problem) {
                c.problem = failure(RPMA_MIRROR_E_SYSTEM, problem.what());
            }
            if (!c.answered)
                c.last_error = c.problem->code();
            return c.answered;
        });
    });
    now.finish(is_complete);
}

} // namespace mirror
