// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <thread>

#include "arbiter.hpp"
#include "wakeup.hpp"

namespace mirror
{

// Thread that renews the right to write. It takes no lock, so a long resync or membership change does not delay it.
class lease_renewal
{
public:
    // `fenced` is raised when another writer has the right.
    lease_renewal(arbiter &of, const wakeup &fenced) : arbiter_(of), fenced_(fenced) {}
    ~lease_renewal() { stop(); }
    lease_renewal(const lease_renewal &) = delete;
    lease_renewal &operator=(const lease_renewal &) = delete;

    // Called after the right was acquired. Starts no thread if it does not expire.
    void start();
    void stop();
    bool is_fenced() const { return is_fenced_; }

private:
    void renew();

    arbiter &arbiter_;
    const wakeup &fenced_;
    const wakeup stop_;
    std::atomic<bool> is_fenced_ = false;
    std::jthread thread_;
};

} // namespace mirror
