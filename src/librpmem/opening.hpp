// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>

#include "replica_group.hpp"

namespace rpmem
{

// Creation or opening of a pool. With several targets, the membership records determine the replicas in sync. The other
// replicas are resynchronized before the call returns (docs/replication.md).
class opening
{
public:
    struct params {
        const char *target;
        const char *set_name;
        void *address;
        std::size_t size;
        unsigned lanes;
        bool create;
        replica::pool_attributes attributes;
    };
    // The arguments must outlive the opening.
    opening(replica_group &replicas, const params &requested, const target_list &targets);

    int run();
    unsigned lanes() const { return lanes_; }

private:
    using copy_mask = group::copy_mask;
    using target_function = std::function<int(remote_replica &rep, const replica::deadline &until)>;

    remote_replica::session_params session_params_of(bool create, const replica::pool_attributes &attributes) const;
    copy_mask on_each_target(copy_mask of, int timeout_ms, const target_function &f,
            const std::function<bool(copy_mask succeeded)> &is_complete = nullptr);
    copy_mask start();
    copy_mask open_pools(copy_mask of);
    int open_pool(remote_replica &rep, const replica::deadline &until) const;
    copy_mask connect(copy_mask of);
    bool has_required(copy_mask responded) const;

    int create_all();
    int open_all();
    int reject_lost_replica();
    int find_record();
    int find_in_sync(copy_mask *found) const;
    int check_pools(copy_mask in_sync) const;
    int acquire_epoch();
    int begin_epoch(copy_mask in_sync);
    void create_missing();
    int resync(copy_mask others, copy_mask *resynced);
    int fail_open(unsigned index, int error) const;
    int rollback();

    replica_group &replicas_;
    const call_settings &settings_;
    const unsigned count_;
    const params &params_;
    const target_list &targets_;
    // Size of the whole pool. params_.size can be smaller: pmempool inspects only the beginning of a pool.
    std::uint64_t pool_size_;
    unsigned lanes_ = 0;
    replica::set_uuid set_{};
    replica::mirror_promise promise_;
    replica::mirror_record record_; // newest of those that the targets had
};

} // namespace rpmem
