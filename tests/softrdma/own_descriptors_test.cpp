// SPDX-License-Identifier: BSD-3-Clause
// White-box: threads with a private table of descriptors, also where a call reports success without any effect.
#include "base/own_descriptors.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <iterator>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_headers.hpp"

namespace
{

constexpr unsigned pretends = SECCOMP_RET_ERRNO; // returns 0 without any effect
constexpr unsigned refuses = SECCOMP_RET_ERRNO | EPERM;
constexpr unsigned works = SECCOMP_RET_ALLOW;

// Sets the results of the two calls that give a thread its own descriptor table, until the process ends.
void restrict(unsigned close_range_unshare, unsigned unshare)
{
    sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 3, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLOSE_RANGE_UNSHARE, 2, 1),
            BPF_STMT(BPF_RET | BPF_K, unshare),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_RET | BPF_K, close_range_unshare),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

// Runs a function in a child process. Returns true if the result is true and the child ends normally.
template<typename F>
bool holds_in_child(const F &f)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(f() ? 0 : 1);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

// Returns whether another process can see the lock of this process on the file.
bool is_locked(int fd)
{
    return holds_in_child([fd] {
        flock lock{};
        lock.l_type = F_WRLCK;
        return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;
    });
}

void check_with(unsigned close_range_unshare, unsigned unshare, bool expected)
{
    restrict(close_range_unshare, unshare);
    const int file = memfd_create("locked", MFD_CLOEXEC);
    flock lock{};
    lock.l_type = F_WRLCK;
    assert_int_equal(fcntl(file, F_SETLK, &lock), 0);
    int inner = -1;
    const bool called = softrdma::with_own_descriptors([&] {
        inner = fcntl(file, F_DUPFD_CLOEXEC, 100);
        close(file); // drops the locks of the table in which the file is closed
    });
    assert_int_equal(called, expected);
    assert_int_equal(inner >= 0, expected);
    assert_false(is_open(100));
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, file})
        assert_true(is_open(fd));
    assert_true(is_locked(file));
    close(file);
}

void check_in_child(unsigned close_range_unshare, unsigned unshare, bool expected)
{
    assert_true(holds_in_child([=] {
        check_with(close_range_unshare, unshare, expected);
        return true;
    }));
}

DEFINE_TEST(a_thread_gets_a_table_by_either_call, nullptr, nullptr)
{
    check_in_child(works, works, true);
    check_in_child(refuses, works, true);
    check_in_child(works, refuses, true);
}

DEFINE_TEST(a_call_that_only_pretends_is_found_out, nullptr, nullptr)
{
    check_in_child(pretends, works, true);
    check_in_child(pretends, refuses, false);
    check_in_child(pretends, pretends, false);
}

DEFINE_TEST(nothing_is_called_without_a_table, nullptr, nullptr)
{
    check_in_child(refuses, refuses, false);
}

} // namespace
