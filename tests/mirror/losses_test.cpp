// SPDX-License-Identifier: BSD-3-Clause
// The resources of a lost peer are released: after many losses a process has no more descriptors, threads and shared
// mappings than after the first ones. MIRROR_LOSSES is the number of losses (default 8).
#include "fixture.hpp"

#include <unistd.h>

#include "environment.h"
#include "resources.h"

namespace
{

// Fails if repeated calls of f leak resources of the process.
template<class F>
void lose_often(pid_t pid, F f)
{
    const unsigned losses = number_from("MIRROR_LOSSES", 8);
    f();
    f();
    const resources before = resources_of(pid);
    for (unsigned i = 0; i < losses; ++i)
        f();
    expect_resources(pid, &before);
}

FIXTURE_TEST(open_set<two>, a_writer_that_loses_targets_holds_no_more)
{
    lose_often(getpid(), [&] {
        b.kill();
        m.put(0, "alone");
        b.start();
        assert_ok(rpma_mirror_resync(m.get(), 2, nullptr));
        assert_int_equal(m.state().in_sync, 7);
    });
}

FIXTURE_TEST(set_of<one>, a_target_that_loses_writers_holds_no_more)
{
    lose_often(a.pid(), [&] { in_process_that_dies([&] { opened(cfg.get()).put(0, "the last"); }); });
}

} // namespace
