// SPDX-License-Identifier: BSD-3-Clause
#include "base/guard.hpp"

#include <csetjmp>
#include <csignal>
#include <mutex>

namespace softrdma
{

namespace
{

// Jump target of a faulting copy of this thread; NULL outside guarded().
[[gnu::tls_model("initial-exec")]] constinit thread_local sigjmp_buf *volatile fault_jmp = nullptr;

struct sigaction &previous_action()
{
    static struct sigaction action = {};
    return action;
}

void on_bus_error(int number, siginfo_t *info, void *context)
{
    const bool is_memory_fault =
            info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR; // not sent with kill() or sigqueue()
    if (fault_jmp != nullptr && is_memory_fault)
        siglongjmp(*fault_jmp, 1);
    const struct sigaction &before = previous_action();
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        signal(SIGBUS, SIG_DFL); // returning repeats the fault, which now ends the process
    }
}

} // namespace

constinit std::atomic<bool> detail::guards{false};

void guard_mapped_files() noexcept
{
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action = {};
        action.sa_sigaction = on_bus_error;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER; // the handler may be left with siglongjmp()
        sigaction(SIGBUS, &action, &previous_action());
        detail::guards.store(true, std::memory_order_release);
    });
}

bool detail::call_guarded(void (*call)(void *), void *argument) noexcept
{
    sigjmp_buf target;
    sigjmp_buf *const before = fault_jmp;
    if (sigsetjmp(target, 0) != 0) {
        fault_jmp = before;
        return false;
    }
    fault_jmp = &target;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    call(argument);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    fault_jmp = before;
    return true;
}

bool is_readable(const std::byte *from, std::size_t bytes) noexcept
{
    constexpr std::size_t page = 4096; // minimum page size
    return guarded([=] {
        for (std::size_t at = 0; at < bytes; at += page)
            static_cast<void>(*const_cast<const volatile std::byte *>(from + at));
        static_cast<void>(*const_cast<const volatile std::byte *>(from + bytes - 1));
    });
}

} // namespace softrdma
