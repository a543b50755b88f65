// SPDX-License-Identifier: BSD-3-Clause
// White-box: a removal continues only after all read-side sections that were open have ended.
#include "base/read_section.hpp"
#include "transport/shared_layout.hpp"

#include <array>
#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_headers.hpp"
#include "shared_object.hpp"

using namespace softrdma;

namespace
{

struct alignas(cache_line) word {
    std::atomic<std::uint32_t> value{0};
};

// Memory shared by two processes.
struct board {
    word epoch;
    word open;      // the value in `published` may be used
    word published; // 0 if it was removed
    word missed;
    word uses;
    std::array<word, 64> busy; // lines that both processes write
};

void scatter_stores(board &b, std::uint32_t value)
{
    for (word &w : b.busy)
        w.value.store(value, std::memory_order_relaxed);
}

// Stores to contended cache lines first, which delays the visibility of the section until they arrive.
void use_again_and_again(board &b)
{
    for (std::uint32_t i = 0;; ++i) {
        scatter_stores(b, i);
        const read_section section(b.epoch.value);
        if (b.open.value.load(std::memory_order_acquire) == 0)
            continue;
        bool missed = false;
        for (unsigned attempts = 0; attempts < 1000; ++attempts) // no store in the loop
            missed = missed || b.published.value.load(std::memory_order_acquire) == 0;
        if (missed)
            b.missed.value.fetch_add(1, std::memory_order_relaxed);
        b.uses.value.fetch_add(1, std::memory_order_relaxed);
    }
}

void remove_repeatedly(board &b, std::uint32_t min_uses)
{
    const reader user{std::shared_ptr<const std::atomic<std::uint32_t>>(std::shared_ptr<void>(), &b.epoch.value),
            nullptr, nullptr, nullptr, true};
    for (std::uint32_t i = 0; i < 100000 || b.uses.value.load(std::memory_order_relaxed) < min_uses; ++i) {
        b.published.value.store(1, std::memory_order_release);
        b.open.value.store(1, std::memory_order_release);
        scatter_stores(b, i);
        b.open.value.store(0, std::memory_order_seq_cst);
        assert_true(grace_period({user}).ended_within(grace_limit));
        b.published.value.store(0, std::memory_order_release);
    }
}

DEFINE_TEST(memory_in_use_by_another_process_is_waited_for, nullptr, nullptr)
{
    const shared_object<board> shared;
    board &b = *shared;
    const pid_t user = fork();
    assert_true(user >= 0);
    if (user == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        barriers::enroll();
        use_again_and_again(b);
    }
    remove_repeatedly(b, 10000);
    kill(user, SIGKILL);
    waitpid(user, nullptr, 0);
    assert_int_equal(b.missed.value.load(), 0);
}

} // namespace
