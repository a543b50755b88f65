// SPDX-License-Identifier: BSD-3-Clause
// Seeded faults: the writer or targets are killed, or stopped and continued, at any moment; then this or another
// machine opens the set. Every acknowledged flush must be there, and no word may be torn. MIRROR_KILL_ROUNDS is the
// number of rounds, MIRROR_KILL_SEED the seed of the first one.
#include "shared_object.hpp"
#include "workload.hpp"

#include <csignal>
#include <cstdlib>
#include <new>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

pid_t start_writer(const rpma_mirror_cfg *cfg, shared_facts &facts)
{
    const pid_t pid = fork_writer();
    if (pid != 0)
        return pid;
    const opened m(cfg);
    int code = 0;
    for (std::uint64_t number = 1; code == 0; ++number)
        code = write_one(m, number, facts);
    facts.ended_with = code;
    _exit(0);
}

void one_round(std::uint64_t seed, shared_facts &facts)
{
    std::mt19937_64 random(seed);
    const auto choose = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
    facts.acknowledged = 0;
    facts.published = 0;
    facts.ended_with = 0;
    std::vector<std::unique_ptr<target>> all;
    std::vector<const target *> targets;
    for (unsigned left = 1 + choose(3); left > 0; --left)
        targets.push_back(all.emplace_back(std::make_unique<target>()).get());
    const host first, second(5);
    const cfg_ptr here = first.cfg(targets), there = second.cfg(targets);
    const cfg_ptr in_haste = second.cfg(targets, "timeouts 400 4000\n");
    assert_ok(rpma_mirror_create(here.get()));
    const pid_t writer = start_writer(here.get(), facts);
    while (facts.acknowledged == 0) {
        usleep(1000);
        if (waitpid(writer, nullptr, WNOHANG) == writer)
            fail_msg("the writer ended with %s", rpma_mirror_err_2str(facts.ended_with));
    }
    usleep(choose(30'000));
    target &victim = *all[choose(static_cast<unsigned>(all.size()))];
    const unsigned fault = choose(4);
    if (fault == 0)
        victim.kill();
    if (fault == 1)
        victim.stop();
    usleep(choose(30'000));
    const bool stopped = fault == 3;
    kill(writer, stopped ? SIGSTOP : SIGKILL);
    if (fault == 0)
        victim.start();
    if (fault == 1)
        victim.resume();
    {
        // A stopped writer locks the local copy, so only another machine can open the set.
        const bool elsewhere = stopped || choose(2) == 0;
        if (!stopped)
            waitpid(writer, nullptr, 0);
        if (!stopped)
            assert_ok(rpma_mirror_fence(there.get(), 0, nullptr));
        else if (rpma_mirror_fence(in_haste.get(), 0, nullptr) != 0)
            // On one host, the writer may be stopped during an access to a target's memory. The target then makes no
            // promise.
            kill(writer, SIGCONT);
        const opened m(elsewhere ? there.get() : here.get());
        if (stopped) {
            kill(writer, SIGCONT);
            waitpid(writer, nullptr, 0);
            assert_int_equal(facts.ended_with.load(), RPMA_MIRROR_E_FENCED);
        }
        check_all(m, facts);
        check_copies(m, targets);
    }
    // The next writer must find the same content.
    const opened again(choose(2) == 0 ? here.get() : there.get());
    check_all(again, facts);
}

TEST(nothing_acknowledged_is_lost)
{
    const shared_object<shared_facts> facts;
    run_rounds([&](std::uint64_t seed) { one_round(seed, *facts); });
}

} // namespace
