// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.hpp"

#include <atomic>
#include <memory>
#include <pthread.h>

#include "remote_replica.hpp"

// Handle of the C functions: a pool that is replicated to one or several targets. Sets of replicas are bit masks.
// Replicas in sync contain all acknowledged data. Several targets store this in a membership record
// (docs/replication.md): a lost replica is removed from the record before data is acknowledged without it.
struct rpmem_pool : heap_object {
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
    using replica_mask = std::uint32_t;

    // Functions of opening.cpp and contact.cpp.
    rpmem::remote_replica::session_params session_params_of(
            const open_params &params, bool create, const replica::pool_attributes &attributes) const;
    template<class F, class C>
    replica_mask on_each_target(replica_mask of, int timeout_ms, F f, C is_complete);
    replica_mask start(const rpmem::target_list &targets, bool create);
    replica_mask open_pools(replica_mask of, const open_params &params);
    int open_pool(rpmem::remote_replica &rep, const open_params &params, const replica::deadline &until) const;
    replica_mask connect(replica_mask of, const open_params &params);
    bool has_required(replica_mask responded) const;
    int create_all(const open_params &params, const rpmem::target_list &targets);
    int open_all(const open_params &params, const rpmem::target_list &targets);
    int reject_lost_replica();
    int find_record();
    void assign_replica_ids();
    int find_in_sync(replica_mask *found) const;
    int check_pools(replica_mask in_sync) const;
    int begin_epoch(replica_mask in_sync);
    void create_missing(const open_params &params);
    int resync(replica_mask others, replica_mask *resynced);
    int fail_open(unsigned index, int error);
    int rollback();

    template<class F>
    static void each(replica_mask of, F f)
    {
        for (; of != 0; of &= of - 1)
            f(static_cast<unsigned>(__builtin_ctz(of)));
    }
    template<class F>
    int for_each_in_sync(F f);
    replica_mask commit_failures(replica_mask of, const replica::mirror_record &record);
    int commit(replica_mask staying, replica_mask joining, bool closed);
    int evict(replica_mask failed);
    void report_lost(replica_mask of);
    int outcome(int error);
    int fail_lost(int error);
    void mark_clean();

    const rpmem::call_settings settings_;
    rpmem::replica_name_text name_;
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
    pthread_mutex_t membership_ = PTHREAD_MUTEX_INITIALIZER;
    std::atomic<replica_mask> in_sync_ = 0;
    std::atomic<int> lost_ = 0;
    std::atomic<bool> loss_reported_ = false;
    bool opened_ = false;
    bool keeps_record_ = false;
    replica::set_uuid set_{};
    replica::mirror_record record_;
};
