// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.hpp"

#include <atomic>
#include <memory>
#include <pthread.h>

#include "leg.hpp"

// The handle of the C functions: a pool that is mirrored to one target or to several, each of which is a leg. Legs are
// bits. Those in sync have all that was acknowledged. Where there are several, each remembers which these are, as
// docs/replica.md tells; one that is lost leaves this record before anything is acknowledged without it.
struct rpmem_pool : heap_object {
public:
    explicit rpmem_pool(const rpmem::call_settings &settings) : settings_(settings) {}

    struct wanted {
        const char *target;
        const char *set_name;
        void *address;
        std::size_t size;
        unsigned lanes;
        bool create;
        replica::pool_attributes attributes;
    };

    // Functions that return int return 0, or -1 with the failure reported.
    int open(const wanted &w);
    int set_attributes(const rpmem_pool_attr *attributes);
    int close();

    int flush(replica::range r, unsigned lane);
    int drain(unsigned lane, replica::lane_request_kind kind);
    int read(void *to, replica::range r, unsigned lane);

    // 0, or an errno.
    int check_lane(unsigned lane) const;
    int check_writable(replica::range r) const;
    int check_readable(replica::range r) const;

    unsigned lanes() const { return lanes_; }
    const replica::pool_attributes &attributes() const { return attributes_; }

private:
    using legs = std::uint32_t;

    // Opening.
    rpmem::leg::terms terms_of(const wanted &w, bool create, const replica::pool_attributes &attributes) const;
    template<class F, class C>
    legs on_each_target(legs of, int timeout_ms, F f, C is_complete);
    legs start(const rpmem::target_list &targets, bool create);
    legs open_pools(legs of, const wanted &w);
    int open_pool(rpmem::leg &l, const wanted &w, const replica::deadline &until) const;
    legs connect(legs of, const wanted &w);
    bool has_needed(legs responded) const;
    int create_all(const wanted &w, const rpmem::target_list &targets);
    int open_all(const wanted &w, const rpmem::target_list &targets);
    int refuse_lost();
    int find_record();
    void number_legs();
    int find_in_sync(legs *found) const;
    int check_pools(legs in_sync) const;
    int begin_epoch(legs in_sync);
    void make_missing(const wanted &w);
    int level(legs others, legs *levelled);
    int give_up(unsigned index, int error);
    int undo();

    template<class F>
    static void each(legs of, F f)
    {
        for (; of != 0; of &= of - 1)
            f(static_cast<unsigned>(__builtin_ctz(of)));
    }
    template<class F>
    int on_each(F f);
    legs refused_by(legs of, const replica::mirror_record &record);
    int commit(legs staying, legs joining, bool closed);
    int evict(legs failed);
    void tell_lost(legs of);
    int outcome(int error);
    int fail_lost(int error);
    void settle();

    const rpmem::call_settings settings_;
    rpmem::replica_name_text name_;
    unsigned count_ = 0;
    std::unique_ptr<rpmem::leg> legs_[rpmem::target_list::most];
    std::uint64_t size_ = 0;
    // What programs have of the pool that know of all of it: pmempool opens the beginning, to look at it.
    std::uint64_t pool_size_ = 0;
    std::uint64_t data_begin_ = 0;
    unsigned lanes_ = 0;
    replica::pool_attributes attributes_;

    // Legs leave under the lock. Once the last ones are lost, with this errno, they stay in sync for ever.
    pthread_mutex_t membership_ = PTHREAD_MUTEX_INITIALIZER;
    std::atomic<legs> in_sync_ = 0;
    std::atomic<int> lost_ = 0;
    std::atomic<bool> loss_told_ = false;
    bool opened_ = false;
    bool keeps_record_ = false;
    replica::set_uuid set_{};
    replica::mirror_record record_;
};
