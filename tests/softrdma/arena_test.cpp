// SPDX-License-Identifier: BSD-3-Clause
// White-box: blocks of the shared segment are zeroed for each user, even if the system refuses fallocate(2).
#include "base/unique_fd.hpp"
#include "transport/shm/arena.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/types.h>

#include "cmocka_headers.hpp"

extern "C" {
int __real_fallocate(int fd, int mode, off_t offset, off_t length);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);
}

using namespace softrdma;

namespace
{

constexpr std::size_t size = 5 * page;
bool refuses = false;
unsigned calls = 0;

bool is_zero(const block &b)
{
    return std::all_of(b.at, b.at + b.size, [](std::byte byte) { return byte == std::byte{0}; });
}

// Returns the offset of a block after it was filled and released. Calls `before_release` in between.
template<typename F>
std::uint64_t use_block(const F &before_release)
{
    assert_true(arena::instance().shared());
    const auto used = arena::instance().allocate(size);
    assert_non_null(used.get());
    assert_true(is_zero(*used));
    memset(used->at, 0xa5, used->size);
    before_release(*used);
    return used->offset;
}

void expect_zeros_at(std::uint64_t offset)
{
    const auto next = arena::instance().allocate(size);
    assert_non_null(next.get());
    assert_int_equal(next->offset, offset);
    assert_true(is_zero(*next));
}

DEFINE_TEST(a_block_is_emptied, nullptr, nullptr)
{
    refuses = false;
    calls = 0;
    expect_zeros_at(use_block([](const block &) {}));
    assert_int_equal(calls, 2);
}

// In a single test, because cmocka replaces the handler of SIGBUS after each test. The pages of the second block are
// missing, as on a host without memory for them.
DEFINE_TEST(a_block_that_cannot_be_emptied_is_cleared_or_never_used_again, nullptr, nullptr)
{
    refuses = true;
    expect_zeros_at(use_block([](const block &) {}));
    const std::uint64_t offset = use_block([](const block &b) {
        const unique_fd nothing(memfd_create("nothing", MFD_CLOEXEC));
        void *at = mmap(b.at, b.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, nothing.get(), 0);
        assert_ptr_equal(at, b.at);
    });
    const auto next = arena::instance().allocate(size);
    assert_non_null(next.get());
    assert_int_not_equal(next->offset, offset);
    assert_true(is_zero(*next));
}

} // namespace

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length)
{
    ++calls;
    if (!refuses)
        return __real_fallocate(fd, mode, offset, length);
    errno = EPERM;
    return -1;
}
