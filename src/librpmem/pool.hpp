// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "group/membership.hpp"
#include "remote_replica.hpp"

// Handle of the C functions: a pool that is replicated to one or several targets. Sets of replicas are bit masks.
// Replicas in sync contain all acknowledged data. Several targets store this in a membership record
// (docs/replication.md): a lost replica is removed from the record before data is acknowledged without it.
struct rpmem_pool {
public:
    explicit rpmem_pool(const rpmem::call_settings &settings) : settings_(settings) {}

    struct open_params {
        const char *target;
        const char *set_name;
        void *address;
        std::size_t size;
        unsigned lanes;
        bool create;
        replica::pool_attributes attributes;
    };

    // Functions that return int return 0, or -1 with the failure reported.
    int open(const open_params &params);
    int set_attributes(const rpmem_pool_attr *attributes);
    int close();

    int flush(replica::range r, unsigned lane);
    int drain(unsigned lane, replica::lane_request_kind kind);
    int read(void *to, replica::range r, unsigned lane);

    // Return 0, or -1 with the failure reported.
    int check_lane(unsigned lane) const;
    int check_writable(replica::range r) const;
    int check_readable(replica::range r) const;

    unsigned lanes() const { return lanes_; }
    const replica::pool_attributes &attributes() const { return attributes_; }

private:
    using copy_mask = group::copy_mask;
    using target_function = std::function<int(rpmem::remote_replica &rep, const replica::deadline &until)>;

    // Functions of opening.cpp and contact.cpp.
    rpmem::remote_replica::session_params session_params_of(
            const open_params &params, bool create, const replica::pool_attributes &attributes) const;
    copy_mask on_each_target(copy_mask of, int timeout_ms, const target_function &f,
            const std::function<bool(copy_mask succeeded)> &is_complete = nullptr);
    copy_mask start(const rpmem::target_list &targets, bool create);
    copy_mask open_pools(copy_mask of, const open_params &params);
    int open_pool(rpmem::remote_replica &rep, const open_params &params, const replica::deadline &until) const;
    copy_mask connect(copy_mask of, const open_params &params);
    bool has_required(copy_mask responded) const;
    int create_all(const open_params &params, const rpmem::target_list &targets);
    int open_all(const open_params &params, const rpmem::target_list &targets);
    int reject_lost_replica();
    int find_record();
    int find_in_sync(copy_mask *found) const;
    int check_pools(copy_mask in_sync) const;
    int acquire_epoch();
    int begin_epoch(copy_mask in_sync);
    void create_missing(const open_params &params);
    int resync(copy_mask others, copy_mask *resynced);
    int fail_open(unsigned index, int error) const;
    int rollback();

    template<class F>
    int for_each_in_sync(F f);
    copy_mask commit_failures(copy_mask of, const replica::mirror_record &record);
    copy_mask numbers_of(copy_mask of) const;
    int commit(copy_mask staying, copy_mask joining, bool closed);
    int evict(copy_mask failed);
    void report_lost(copy_mask of);
    int outcome(int error);
    int fail_lost(int error);
    void mark_clean();

    const rpmem::call_settings settings_;
    std::string name_;
    unsigned count_ = 0;
    std::unique_ptr<rpmem::remote_replica> replicas_[rpmem::target_list::max_targets];
    std::uint64_t size_ = 0;
    // Size of the whole pool. pmempool opens only the beginning of a pool to inspect it, so size_ can be smaller.
    std::uint64_t pool_size_ = 0;
    std::uint64_t data_begin_ = 0;
    unsigned lanes_ = 0;
    replica::pool_attributes attributes_;

    // Replicas are removed from in_sync_ only with membership_ locked. After the last ones are lost, with the errno
    // value lost_, in_sync_ no longer changes.
    std::mutex membership_;
    std::atomic<copy_mask> in_sync_ = 0;
    std::atomic<int> lost_ = 0;
    std::atomic<bool> loss_reported_ = false;
    bool opened_ = false;
    bool keeps_record_ = false;
    replica::set_uuid set_{};
    replica::mirror_promise promise_;
    replica::mirror_record record_;
};
