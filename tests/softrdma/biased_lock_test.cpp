// SPDX-License-Identifier: BSD-3-Clause
// White-box: who has the lock, and what it takes.
#include "base/biased_lock.hpp"
#include "base/spin_lock.hpp"

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <csetjmp>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mutex>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

extern "C" {
#include <cmocka.h>
}

using namespace softrdma;

namespace
{

constexpr std::uint32_t first = 16;
constexpr std::uint32_t most = 64;

class counting_lock
{
public:
    void lock()
    {
        lock_.lock();
        ++taken;
    }
    void unlock() { lock_.unlock(); }

    static inline unsigned taken = 0;

private:
    spin_lock lock_;
};

template<typename Lock>
void take(Lock &lock, unsigned times)
{
    for (unsigned i = 0; i < times; ++i)
        const std::lock_guard guard(lock);
}

template<typename Lock>
void take_elsewhere(Lock &lock, unsigned times)
{
    std::thread([&] { take(lock, times); }).join();
}

// How many of that many acquisitions take the lock underneath.
template<typename Lock>
unsigned costly(Lock &lock, unsigned times)
{
    const unsigned before = counting_lock::taken;
    take(lock, times);
    return counting_lock::taken - before;
}

void a_thread_that_comes_often_is_at_home(void **)
{
    biased<counting_lock, first, most> lock;
    assert_true(local::barriers::enroll()); // every kernel since 4.16
    assert_int_equal(costly(lock, 1000), first + 1);
    assert_int_equal(costly(lock, 1000), 0);
}

void a_home_that_was_called_off_comes_back_later(void **)
{
    biased<counting_lock, first, most> lock;
    take(lock, 1000);
    for (unsigned threshold = 2 * first; threshold <= most; threshold *= 2) {
        take_elsewhere(lock, 1);
        assert_int_equal(costly(lock, 1000), threshold + 1);
    }
    take_elsewhere(lock, 1);
    assert_int_equal(costly(lock, 1000), most + 1);
}

void no_other_thread_becomes_the_home(void **)
{
    biased<counting_lock, first, most> lock;
    take(lock, 1000);
    const unsigned before = counting_lock::taken;
    take_elsewhere(lock, 1000);
    assert_int_equal(counting_lock::taken - before, 1000);
}

// A fiber may go on in another thread. What that one does with the lock, the home waits for.
void another_thread_may_unlock_it(void **)
{
    for (unsigned times = 0; times < 2 * first; ++times) { // as one of the others, on the way home, and at home
        biased<counting_lock, first, most> lock;
        take(lock, times);
        lock.lock();
        std::atomic<bool> given_back{false};
        std::thread elsewhere([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            given_back.store(true);
            lock.unlock();
        });
        lock.lock();
        assert_true(given_back.load());
        lock.unlock();
        elsewhere.join();
        take_elsewhere(lock, 1);
        take(lock, 1000);
    }
}

// The second thread comes at all times: while the first is at home, on its way back, or one of the others.
void count_together(unsigned long least_rounds, unsigned long least_visits)
{
    biased<spin_lock, first, most> lock;
    unsigned long count = 0; // by one of them at a time
    unsigned long collisions = 0;
    bool alone = true;
    const auto add = [&] {
        const std::lock_guard guard(lock);
        if (!std::exchange(alone, false))
            ++collisions;
        ++count;
        alone = true;
    };
    std::atomic<bool> done{false};
    std::atomic<unsigned long> visits{0};
    std::thread fd_peer([&] {
        for (; !done.load(std::memory_order_relaxed); ++visits) {
            add();
            for (unsigned i = 0; i < visits % 512; ++i)
                std::atomic_signal_fence(std::memory_order_seq_cst);
        }
    });
    unsigned long rounds = 0;
    for (; rounds < least_rounds || visits.load(std::memory_order_relaxed) < least_visits; ++rounds)
        add();
    done.store(true);
    fd_peer.join();
    assert_int_equal(collisions, 0);
    assert_int_equal(count, rounds + visits.load());
}

void two_threads_never_have_it_at_once(void **)
{
    count_together(5'000'000, 1000);
}

// Of its children too: the last test.
void it_holds_in_a_program_that_forbids_itself_the_system_call(void **)
{
    std::array<sock_filter, 4> refuse{sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
            sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_membarrier},
            sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
            sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const sock_fprog program{refuse.size(), refuse.data()};
    assert_true(local::barriers::enroll());
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    assert_int_equal(syscall(SYS_membarrier, 0, 0, 0), -1);
    count_together(100'000, 100);
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
            cmocka_unit_test(a_thread_that_comes_often_is_at_home),
            cmocka_unit_test(a_home_that_was_called_off_comes_back_later),
            cmocka_unit_test(no_other_thread_becomes_the_home),
            cmocka_unit_test(another_thread_may_unlock_it),
            cmocka_unit_test(two_threads_never_have_it_at_once),
            cmocka_unit_test(it_holds_in_a_program_that_forbids_itself_the_system_call),
    };
    return cmocka_run_group_tests_name("softrdma biased lock", tests, nullptr, nullptr);
}
