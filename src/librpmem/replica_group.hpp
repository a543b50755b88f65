// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "group/membership.hpp"
#include "remote_replica.hpp"

namespace rpmem
{

// Replicas of a pool on one or several targets. Sets of replicas are bit masks. Replicas in sync contain all
// acknowledged data. Several targets store this in a membership record (docs/replication.md): a lost replica is removed
// from the record before data is acknowledged without it.
class replica_group
{
public:
    using copy_mask = group::copy_mask;

    explicit replica_group(const call_settings &settings) : settings_(settings) {}

    // Creates the replicas, one for each target, without starting them. The strings are those of rpmem_open().
    void assign(const target_list &targets, const char *target, const char *set_name);
    // Commits the first record of an epoch. Without it, no record is kept.
    int begin(const replica::set_uuid &set, const replica::mirror_record &first, std::uint64_t pool_size,
            copy_mask in_sync);
    int commit(copy_mask staying, copy_mask joining, bool closed);
    int set_attributes(const replica::pool_attributes &attributes);
    // After this call, RPMEM_ON_LOSS determines the result of calls on a lost pool.
    void set_opened() { opened_ = true; }
    int close();

    template<class F>
    int for_each_in_sync(F f);
    int evict(copy_mask failed);
    void report_lost(copy_mask of);
    int fail_lost(int error);

    const call_settings &settings() const { return settings_; }
    const char *name() const { return name_.c_str(); }
    unsigned count() const { return count_; }
    remote_replica &operator[](unsigned index) const { return *replicas_[index]; }
    bool keeps_record() const { return keeps_record_; }
    copy_mask in_sync() const { return in_sync_; }
    // Returns the errno value with which the last replicas in sync were lost, or 0.
    int lost() const { return lost_; }

private:
    template<class F>
    copy_mask failures_of(copy_mask of, F f);
    copy_mask commit_failures(copy_mask of, const replica::mirror_record &record);
    copy_mask numbers_of(copy_mask of) const;
    int outcome(int error);

    const call_settings settings_;
    std::string name_;
    unsigned count_ = 0;
    std::unique_ptr<remote_replica> replicas_[target_list::max_targets];

    // Replicas leave in_sync_ only with membership_ locked. After the last ones are lost (lost_), it no longer changes.
    std::mutex membership_;
    std::atomic<copy_mask> in_sync_ = 0;
    std::atomic<int> lost_ = 0;
    std::atomic<bool> loss_reported_ = false;
    bool opened_ = false;
    bool keeps_record_ = false;
    std::uint64_t pool_size_ = 0; // size of the whole pool in records
    replica::set_uuid set_{};
    replica::mirror_record record_;
};

// Calls f for each replica in sync. f returns 0, or an errno value with which the replica is declared lost.
template<class F>
int replica_group::for_each_in_sync(F f)
{
    if (const int lost = lost_.load(std::memory_order_acquire); lost != 0)
        return outcome(lost);
    copy_mask failed = 0;
    group::each_copy(in_sync_.load(std::memory_order_acquire), [&](unsigned index) {
        remote_replica &rep = *replicas_[index];
        const int error = rep.lost() != 0 ? rep.lost() : f(rep);
        if (error == 0)
            return;
        failed |= group::bit_of(index);
        rep.region().lost().declare(error);
    });
    return failed == 0 ? 0 : evict(failed);
}

} // namespace rpmem
