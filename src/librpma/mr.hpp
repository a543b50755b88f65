// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heap.hpp"
#include "peer.hpp"

struct rpma_mr_local : heap_object {
public:
    static rpma::result<rpma_mr_local *> create(rpma_peer &peer, void *ptr, std::size_t size, int usage);
    rpma::errc close() { return mr_.close(); }

    // Returns whether the range is inside the region and fits into one message. Cannot wrap.
    bool can_transfer(std::size_t offset, std::size_t len) const
    {
        return len <= max_transfer_ && offset <= size_ - len;
    }

    // The range must satisfy can_transfer().
    ibv_sge sge(std::size_t offset, std::size_t len) const
    {
        ibv_sge part;
        memcpy(&part, &whole_, sizeof(part)); // one copy: copying members costs two more instructions
        part.addr += offset;
        part.length = static_cast<std::uint32_t>(len);
        return part;
    }

    void *ptr() const { return mr_->addr; }
    std::size_t size() const { return size_; }
    // RPMA_MR_USAGE_FLUSH_TYPE_* bits for which a native flush by a remote peer is sufficient.
    unsigned native_flush_types() const { return native_flush_types_; }
    void write_descriptor(unsigned char *to) const;
    rpma::errc advise(std::size_t offset, std::size_t len, int advice, std::uint32_t flags) const;

private:
    rpma_mr_local(rpma::rdma::mr_handle &&mr, unsigned described_usage, unsigned native_flush_types,
            std::uint32_t max_message)
        : whole_{reinterpret_cast<std::uintptr_t>(mr->addr), 0, mr->lkey}, size_(mr->length),
          max_transfer_(std::min<std::size_t>(size_, max_message)), described_usage_(described_usage),
          native_flush_types_(native_flush_types), mr_(std::move(mr))
    {
    }

    const ibv_sge whole_; // its length is invalid, because the length of the region can exceed an element
    const std::size_t size_;
    const std::size_t max_transfer_;
    const unsigned described_usage_;
    const unsigned native_flush_types_;
    rpma::rdma::mr_handle mr_;
};

struct rpma_mr_remote : heap_object {
public:
    static constexpr std::size_t descriptor_size = 21;

    static rpma::result<rpma_mr_remote *> create(const unsigned char *descriptor);

    bool contains(std::size_t offset, std::size_t len) const { return len <= size_ && offset <= size_ - len; }

    // Like contains(), for a length that a native flush can carry.
    bool can_flush_range(std::size_t offset, std::size_t len) const
    {
        return len <= max_flush_ && offset <= size_ - len;
    }

    // Returns whether 8 aligned bytes are inside the region; false if its base is not a multiple of 8.
    bool contains_aligned_word(std::size_t offset) const { return offset < aligned_words_size_; }

    // Logs a warning, once, if the base of the region prevents atomic writes from being atomic.
    void warn_if_unaligned() const;

    // Returns the address of the read that emulates a flush of the range at offset. It is inside the region.
    std::uint64_t flush_read_address(std::size_t offset) const
    {
        return base_ + std::min(offset, size_ - flush_read_length_);
    }
    std::uint32_t flush_read_length() const { return flush_read_length_; }

    std::uint64_t address(std::size_t offset) const { return base_ + offset; }
    std::uint32_t rkey() const { return rkey_; }
    std::size_t size() const { return size_; }
    unsigned usage() const { return usage_; }

    // Returns the placement of a native flush: visibility for regions that support only that.
    unsigned native_flush_type(unsigned type) const { return type | min_native_flush_type_; }

private:
    rpma_mr_remote(std::uint64_t base, std::size_t size, std::uint32_t rkey, unsigned usage, bool visibility_only)
        : base_(base), size_(size), max_flush_(std::min<std::size_t>(size, UINT32_MAX)),
          aligned_words_size_(base % 8 == 0 ? size & ~std::size_t{7} : 0), rkey_(rkey),
          flush_read_length_(static_cast<std::uint32_t>(std::min<std::size_t>(size, 8))), usage_(usage),
          min_native_flush_type_(visibility_only ? RPMA_FLUSH_TYPE_VISIBILITY : RPMA_FLUSH_TYPE_PERSISTENT)
    {
    }

    const std::uint64_t base_;
    const std::size_t size_;
    const std::size_t max_flush_;
    const std::size_t aligned_words_size_;
    const std::uint32_t rkey_;
    const std::uint32_t flush_read_length_;
    const unsigned usage_;
    static_assert(RPMA_FLUSH_TYPE_PERSISTENT == 0 && RPMA_FLUSH_TYPE_VISIBILITY == 1);
    const unsigned min_native_flush_type_;
    mutable std::atomic<bool> warned_unaligned_ = false;
};
