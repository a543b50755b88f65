// SPDX-License-Identifier: BSD-3-Clause
// Seeded faults: the writer, or targets, are killed, or stopped and continued, at any moment; then this machine or
// another one takes the set. Every flush that was acknowledged has to be there, and no word may be torn.
// MIRROR_KILL_ROUNDS says how many rounds, MIRROR_KILL_SEED with which seed the first one is.
#include "fixture.hpp"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <new>
#include <random>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

constexpr std::uint64_t slots = 512;
constexpr std::uint64_t first_slot = 64 * 1024;
constexpr std::uint64_t slot_size = 4096 + 64;
constexpr std::uint64_t published_at = 1024;

// A word tells the number of its flush, and whether it is whole.
std::uint64_t word_of(std::uint64_t number)
{
    return number << 16 | (number * 0x9e3779b97f4a7c15 >> 48);
}

std::uint64_t slot_at(std::uint64_t number)
{
    return first_slot + number % slots * slot_size;
}

struct shared_facts {
    std::atomic<std::uint64_t> acknowledged;
    std::atomic<std::uint64_t> published;
    std::atomic<int> ended_with;
};

// Each flush has three ranges of its slot; each fourth is followed by a published word.
int write_one(const opened &m, std::uint64_t number, shared_facts &facts)
{
    const std::uint64_t at = slot_at(number), word = word_of(number);
    const rpma_mirror_range ranges[] = {{at, 8}, {at + 1000, 8}, {at + 4096, 16}};
    for (const std::uint64_t part : {at, at + 1000, at + 4096, at + 4104})
        std::memcpy(m.address() + part, &word, sizeof(word));
    int code = 0;
    if (number % 3 == 0) {
        std::uint64_t ticket = 0;
        code = rpma_mirror_flush_start(m.get(), 0, ranges, 3, 0, &ticket);
        code = code == 0 ? rpma_mirror_flush_wait(m.get(), 0, ticket, -1) : code;
    } else {
        code = rpma_mirror_optimized_flush(m.get(), 0, ranges, 3, number % 3 == 1 ? RPMA_MIRROR_F_LAST_RANGE_AFTER : 0);
    }
    if (code != 0)
        return code;
    facts.acknowledged = number;
    if (number % 4 != 0)
        return 0;
    code = rpma_mirror_publish8(m.get(), 0, published_at, word);
    if (code == 0)
        facts.published = number;
    return code;
}

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

void check_all(const opened &m, const shared_facts &facts)
{
    const std::uint64_t last = facts.acknowledged;
    for (std::uint64_t number = last > slots ? last - slots + 1 : 1; number <= last; ++number) {
        const std::uint64_t at = slot_at(number);
        for (const std::uint64_t part : {at, at + 1000, at + 4096, at + 4104}) {
            std::uint64_t word = 0;
            std::memcpy(&word, m.address() + part, sizeof(word));
            if (word != word_of(word >> 16) || word >> 16 < number)
                fail_msg("flush %lu of %lu is lost: there is %lx", number, last, word);
        }
    }
    std::uint64_t word = 0;
    std::memcpy(&word, m.address() + published_at, sizeof(word));
    if (word >> 16 < facts.published || (word != 0 && word != word_of(word >> 16)))
        fail_msg("published %lu, and there is %lx", facts.published.load(), word);
}

void check_copies(const opened &m, const std::vector<const target *> &targets)
{
    const std::string ours(m.address(), length);
    for (const target *const t : targets)
        assert_true(t->bytes(0, length) == ours);
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
        victim.go_on();
    {
        // A writer that is merely stopped has the home copy: only another machine can take the set.
        const bool elsewhere = stopped || choose(2) == 0;
        if (!stopped)
            waitpid(writer, nullptr, 0);
        if (!stopped)
            assert_ok(rpma_mirror_fence(there.get(), 0, nullptr));
        else if (rpma_mirror_fence(in_haste.get(), 0, nullptr) != 0)
            // On one host it may be stopped inside an operation on the memory of a target, which then promises nothing.
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
    // Whoever comes next finds the same.
    const opened again(choose(2) == 0 ? here.get() : there.get());
    check_all(again, facts);
}

void nothing_acknowledged_is_lost(void **)
{
    void *const memory = mmap(nullptr, sizeof(shared_facts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    auto *const facts = new (memory) shared_facts{};
    const char *const rounds = getenv("MIRROR_KILL_ROUNDS"), *const seed = getenv("MIRROR_KILL_SEED");
    const std::uint64_t begin = seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
    const std::uint64_t count = rounds == nullptr ? 8 : std::strtoull(rounds, nullptr, 10);
    for (std::uint64_t i = begin; i < begin + count; ++i) {
        print_message("seed %lu\n", i);
        one_round(i, *facts);
    }
    munmap(memory, sizeof(shared_facts));
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {cmocka_unit_test(nothing_acknowledged_is_lost)};
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
