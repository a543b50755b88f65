// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.hpp"

#include "heap.hpp"
#include "region.hpp"
#include "session.hpp"

namespace rpmem
{

using replica_name_text = replica::short_text<320>;

// How people, and the state file, call a replica.
replica_name_text replica_name(const char *target, const char *set_name);

} // namespace rpmem

// The handle of the C functions: a pool that is mirrored, from the start of the daemon to its end.
struct rpmem_pool : heap_object {
public:
    explicit rpmem_pool(const rpmem::call_settings &settings) : settings_(settings), session_(settings, region_.lost())
    {
    }

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

    unsigned lanes() const { return region_.lanes(); }
    const replica::pool_attributes &attributes() const { return attributes_; }

private:
    int start_session(const wanted &w, replica::answer *a);
    int check_level();
    int open_data_path(const wanted &w, const replica::session_answer &s);
    void give_up_silent_target(int error);
    int tell_close(bool remove);
    int outcome(int error);

    const rpmem::call_settings settings_;
    replica::region region_;
    rpmem::session session_;
    std::uint64_t size_ = 0;
    replica::pool_attributes attributes_;
    rpmem::replica_name_text name_;
    bool created_ = false;
    std::atomic<bool> loss_told_ = false;
};
