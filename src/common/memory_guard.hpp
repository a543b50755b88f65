// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <mutex>

// Guard of accesses to mapped files, in which a missing or damaged page raises SIGBUS.
namespace memory_guard
{

namespace detail
{

// Jump target of a faulting access of this thread; NULL outside call().
[[gnu::tls_model("initial-exec")]] inline constinit thread_local sigjmp_buf *volatile fault_jmp = nullptr;
inline struct sigaction previous_action = {};
inline std::once_flag installed;

inline void on_bus_error(int number, siginfo_t *info, void *context)
{
    const bool is_memory_fault =
            info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR; // not sent with kill() or sigqueue()
    if (fault_jmp != nullptr && is_memory_fault)
        siglongjmp(*fault_jmp, 1);
    if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
        previous_action.sa_sigaction(number, info, context);
    } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
        previous_action.sa_handler(number);
    } else {
        signal(SIGBUS, SIG_DFL); // returning repeats the fault, which now ends the process
    }
}

} // namespace detail

// Installs the handler of call(). Other SIGBUS signals are forwarded to the handler that was installed before.
inline void install() noexcept
{
    std::call_once(detail::installed, [] {
        struct sigaction action = {};
        action.sa_sigaction = detail::on_bus_error;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER; // the handler may be left with siglongjmp()
        sigaction(SIGBUS, &action, &detail::previous_action);
    });
}

// Calls f(argument). Returns false if an access fails: siglongjmp() then leaves f, which must not own resources.
inline bool call(void (*f)(void *), void *argument) noexcept
{
    sigjmp_buf target;
    sigjmp_buf *const before = detail::fault_jmp;
    if (sigsetjmp(target, 0) != 0) {
        detail::fault_jmp = before;
        return false;
    }
    detail::fault_jmp = &target;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    f(argument);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    detail::fault_jmp = before;
    return true;
}

} // namespace memory_guard
