// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.hpp"

#include "opening.hpp"

// Handle of the C functions: data path of a pool that is replicated to one or several targets.
struct rpmem_pool {
public:
    explicit rpmem_pool(const rpmem::call_settings &settings) : replicas_(settings) {}

    int open(const rpmem::opening::params &params);
    int set_attributes(const rpmem_pool_attr *attributes);
    int close();

    int flush(replica::range r, unsigned lane);
    int drain(unsigned lane, replica::lane_request_kind kind);
    int read(void *to, replica::range r, unsigned lane);

    int check_lane(unsigned lane) const;
    int check_writable(replica::range r) const;
    int check_readable(replica::range r) const;

    unsigned lanes() const { return lanes_; }
    const replica::pool_attributes &attributes() const { return attributes_; }

private:
    rpmem::replica_group replicas_;
    std::uint64_t size_ = 0; // length of the part that the program opened
    std::uint64_t data_begin_ = 0;
    unsigned lanes_ = 0;
    replica::pool_attributes attributes_;
};
