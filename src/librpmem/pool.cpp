// SPDX-License-Identifier: BSD-3-Clause
#include "pool.hpp"

#include <cerrno>
#include <cstring>

#include "failure.hpp"

using namespace rpmem;
using group::bit_of;
using group::first_of;
using replica::range;

int rpmem_pool::open(const opening::params &params)
{
    target_list targets;
    if (targets.parse(params.target) != 0)
        return -1;
    replicas_.assign(targets, params.target, params.set_name);
    opening attempt(replicas_, params, targets);
    if (attempt.run() != 0)
        return -1;
    remote_replica &first = replicas_[first_of(replicas_.in_sync())];
    size_ = params.size;
    data_begin_ = first.region().data_begin();
    lanes_ = attempt.lanes();
    attributes_ = first.attributes();
    return 0;
}

int rpmem_pool::flush(range r, unsigned lane)
{
    return replicas_.for_each_in_sync([&](remote_replica &rep) { return rep.region().lane(lane).flush(r); });
}

int rpmem_pool::drain(unsigned lane, replica::lane_request_kind kind)
{
    // Submits to all targets before waiting, so that they work concurrently.
    if (replicas_.count() > 1)
        if (const int result = replicas_.for_each_in_sync(
                    [&](remote_replica &rep) { return rep.region().lane(lane).begin_drain(kind); });
                result != 0)
            return result;
    return replicas_.for_each_in_sync([&](remote_replica &rep) { return rep.region().lane(lane).drain(kind); });
}

int rpmem_pool::read(void *to, range r, unsigned lane)
{
    while (replicas_.lost() == 0) {
        const auto first = first_of(replicas_.in_sync());
        replica::region &from = replicas_[first].region();
        const int error = from.lost().error() != 0 ? from.lost().error() : from.lane(lane).read(to, r);
        if (error == 0)
            return 0;
        if (replicas_.evict(bit_of(first)) != 0)
            return -1;
    }
    return replicas_.fail_lost(replicas_.lost());
}

int rpmem_pool::set_attributes(const rpmem_pool_attr *attributes)
{
    replica::pool_attributes next;
    static_assert(sizeof(*attributes) == sizeof(next));
    if (attributes != nullptr)
        std::memcpy(static_cast<void *>(&next), attributes, sizeof(next));
    const bool has_header = data_begin_ != 0;
    if (is_zero(next) == has_header)
        return fail(EINVAL, has_header ? "a pool with a header cannot have attributes that are all zero"
                                       : "a pool without a header cannot have attributes");
    return has_header ? replicas_.set_attributes(next) : 0;
}

int rpmem_pool::close()
{
    for (unsigned lane = 0; lane < lanes_ && replicas_.keeps_record() && replicas_.lost() == 0; ++lane)
        drain(lane, replica::lane_request_kind::flush);
    return replicas_.close();
}

int rpmem_pool::check_lane(unsigned lane) const
{
    if (lane >= lanes_)
        return fail(EINVAL, "lane %u: out of range: the pool has %u lanes", lane, lanes_);
    return 0;
}

int rpmem_pool::check_writable(range r) const
{
    if (r.offset < data_begin_)
        return fail(EINVAL, "offset %zu: inside the pool header, which ends at %zu", static_cast<std::size_t>(r.offset),
                static_cast<std::size_t>(data_begin_));
    return check_readable(r);
}

int rpmem_pool::check_readable(range r) const
{
    if (!range_fits(r, 0, size_))
        return fail(EINVAL, "range of %zu bytes at offset %zu: outside the pool of %zu bytes",
                static_cast<std::size_t>(r.length), static_cast<std::size_t>(r.offset),
                static_cast<std::size_t>(size_));
    return 0;
}
