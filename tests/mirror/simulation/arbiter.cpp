// SPDX-License-Identifier: BSD-3-Clause
// Simulated arbiter in place of the etcd module: a lease, an epoch and a record.
#include "arbiter.hpp"

#include <dlfcn.h>

#include "failure.hpp"
#include "history.hpp"
#include "real.hpp"

namespace simulation
{

namespace
{

constexpr time_us lease = 5 * second;

class simulated_arbiter : public mirror::arbiter
{
public:
    record newest(const replica::set_uuid &, bool seize, const replica::deadline &) override
    {
        travel();
        refuse_busy(seize);
        return keeper::instance->newest;
    }

    promise acquire(const promise &wanted, bool seize, record &known, const replica::deadline &) override
    {
        const time_us asked_at = world::instance->now();
        travel();
        refuse_busy(seize);
        keeper &k = *keeper::instance;
        known = k.newest;
        k.epoch = std::max({wanted.epoch, known.epoch + 1, k.epoch + 1});
        k.writer = own_ = wanted.writer;
        holds_from(asked_at);
        travel();
        return {k.epoch, own_};
    }

    void commit(const record &next, const replica::deadline &) override
    {
        travel();
        check_writer();
        keeper::instance->newest = next;
        world::instance->log("the arbiter has record %lu.%lu, in sync %x", next.epoch, next.version, next.in_sync);
        // If the writer dies now, no copy has the record.
        travel();
    }

    void renew(const replica::deadline &) override
    {
        const time_us asked_at = world::instance->now();
        travel();
        check_writer();
        holds_from(asked_at);
    }

    int renew_ms() const override { return static_cast<int>(lease / ms / 3); }
    bool lost() const noexcept override { return own_ != 0 && world::instance->now() >= valid_until_; }
    int lost_fd() const noexcept override { return -1; }
    void release(const replica::deadline &) noexcept override
    {
        if (keeper::instance->writer == own_)
            keeper::instance->writer = 0;
    }

private:
    static void travel()
    {
        world::instance->sleep(world::instance->between(100, 2 * ms));
        if (world::instance->now() < keeper::instance->silent_until)
            throw mirror::failure(RPMA_MIRROR_E_ARBITER, "the arbiter does not respond");
    }
    static bool is_held() { return keeper::instance->writer != 0 && world::instance->now() < keeper::instance->ends; }

    static void refuse_busy(bool seize)
    {
        if (!seize && is_held())
            throw mirror::failure(RPMA_MIRROR_E_BUSY, "another writer has the lease");
    }

    void check_writer() const
    {
        if (!is_held())
            throw mirror::failure(RPMA_MIRROR_E_ARBITER, "the lease has run out");
        if (keeper::instance->writer != own_)
            throw mirror::failure(RPMA_MIRROR_E_FENCED, "another writer owns the set");
    }

    void holds_from(time_us asked_at)
    {
        keeper::instance->ends = world::instance->now() + lease;
        valid_until_ = asked_at + lease;
    }

    std::uint64_t own_ = 0;
    time_us valid_until_ = 0;
};

} // namespace

keeper *keeper::instance = nullptr;

} // namespace simulation

extern "C" [[gnu::visibility("default")]] mirror::arbiter *rpma_mirror_etcd_arbiter(const std::string *)
{
    return new simulation::simulated_arbiter;
}

// The library loads its dependencies through this function.
extern "C" void *dlopen(const char *, int flags) noexcept
{
    return REAL(dlopen)(nullptr, flags);
}
