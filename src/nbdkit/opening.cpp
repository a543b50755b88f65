// SPDX-License-Identifier: BSD-3-Clause
// Opens, formats and closes the set, and finds the blocks of the disk in it.
#include "format.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

// On x86, selects the vector instructions at run time. They do not change the hashes.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace nbdkit_mirror
{

namespace
{

constexpr std::uint64_t min_blocks = 512;

[[noreturn]] void reject(const std::string &line)
{
    throw std::runtime_error(line);
}

bool is_zero(const char *p, std::size_t n)
{
    return n == 0 || (*p == 0 && std::memcmp(p, p + 1, n - 1) == 0);
}

} // namespace

disk::disk(rpma_mirror_cfg *cfg, const disk_options &options, failed_function failed, event_function event)
    : failed_function_(std::move(failed)), event_function_(std::move(event)), lanes_(options.lanes), groups_(256)
{
    constexpr unsigned lane_depth = 256;
    const auto notify = [](void *self, const rpma_mirror_event *e) { static_cast<disk *>(self)->on_event(*e); };
    void *address = nullptr;
    if (rpma_mirror_cfg_set_lanes(cfg, options.lanes, lane_depth) != 0 ||
            rpma_mirror_cfg_set_event_function(cfg, notify, this) != 0 ||
            (!options.resync && rpma_mirror_cfg_set_background_resync(cfg, 0, 0) != 0) ||
            rpma_mirror_map(cfg, nullptr, options.force ? RPMA_MIRROR_F_FORCE : 0, &address, &mirror_) != 0)
        reject(rpma_mirror_error_message());
    address_ = static_cast<char *>(address);
    try {
        std::size_t length = 0;
        rpma_mirror_get_length(mirror_, &length);
        set_layout(length);
        load();
        store_clean(0);
        background_ = std::jthread([this](const std::stop_token &stop) { background(stop); });
    } catch (...) {
        rpma_mirror_unmap(&mirror_);
        throw;
    }
}

disk::~disk()
{
    background_ = {};
    rpma_mirror_unmap(&mirror_);
}

void disk::set_layout(std::uint64_t length)
{
    super_ = reinterpret_cast<superblock *>(address_);
    headers_ = reinterpret_cast<header *>(address_ + block_size);
    blocks_ = length < 2 * block_size ? 0 : (length - 2 * block_size) / (block_size + sizeof(header));
    if (blocks_ < min_blocks)
        reject("set too small for a disk: " + std::to_string(length) + " bytes (create a set of 4 MiB or more)");
    if (blocks_ >= hole)
        reject("set too large for a disk: " + std::to_string(length) + " bytes (create a set of less than 8 TiB)");
    data_ = (block_size + blocks_ * sizeof(header) + block_size - 1) / block_size * block_size;
    logical_ = blocks_ - std::clamp<std::uint64_t>(blocks_ / 16, min_blocks / 2, 65536);
}

void disk::format()
{
    superblock created{{}, 1, block_size, blocks_, logical_, 0, 0};
    std::memcpy(created.magic, magic, sizeof(magic));
    created.hash = XXH3_64bits(&created, offsetof(superblock, hash));
    std::memcpy(address_, &created, sizeof(created));
    const rpma_mirror_range all{0, sizeof(created)};
    if (rpma_mirror_optimized_flush(mirror_, 0, &all, 1, 0) != 0)
        reject(rpma_mirror_error_message());
}

std::uint64_t disk::hash_of(const header &h, std::uint64_t block) const noexcept
{
    const std::uint64_t seed = XXH3_64bits(&h, offsetof(header, hash));
    return (h.logical & header::hole_bit) != 0 ? seed : XXH3_64bits_withSeed(data(block), block_size, seed);
}

// Finds the newest valid block of each logical block. After a crash, reads the data of all blocks and erases headers
// that do not match it. After a clean close, headers are not compared.
void disk::load()
{
    const bool has_format = std::memcmp(super_->magic, magic, sizeof(magic)) == 0 &&
                            super_->hash == XXH3_64bits(super_, offsetof(superblock, hash));
    if (!has_format) {
        if (!is_zero(address_ + sizeof(superblock), data_ - sizeof(superblock)))
            reject("set contains other data, not a disk (create a new set)");
        format();
    }
    if (super_->version != 1 || super_->block_size != block_size || super_->blocks != blocks_ ||
            super_->logical != logical_)
        reject("disk has another layout than this version uses (update nbdkit-rpma-mirror-plugin)");
    const bool clean = super_->clean == 1;
    map_ = std::vector<std::atomic<std::uint32_t>>(logical_);
    for (auto &entry : map_)
        entry = none;
    std::uint64_t newest = 0;
    for (std::uint32_t block = 0; block < blocks_; ++block) {
        const header &h = headers_[block];
        const std::uint64_t logical = h.logical & ~header::hole_bit;
        newest = std::max(newest, h.sequence);
        if (h.sequence == 0 || logical >= logical_)
            continue;
        if (!clean && h.hash != hash_of(h, block)) {
            erase(block);
            continue;
        }
        const std::uint32_t before = map_[logical];
        if (before == none || headers_[before & ~hole].sequence < h.sequence)
            map_[logical] = block | ((h.logical & header::hole_bit) != 0 ? hole : 0);
    }
    sequence_ = newest;
    std::vector<bool> used(blocks_);
    for (const auto &entry : map_)
        if (entry != none)
            used[entry & ~hole] = true;
    replaced_.reserve(blocks_);
    drained_.reserve(blocks_);
    free_.resize(blocks_);
    for (std::uint32_t block = 0; block < blocks_; ++block)
        if (!used[block])
            free_[free_count_++] = block;
}

void disk::erase(std::uint64_t block)
{
    headers_[block] = {};
    const rpma_mirror_range r{block_size + block * sizeof(header), sizeof(header)};
    if (rpma_mirror_optimized_flush(mirror_, 0, &r, 1, 0) != 0)
        reject(rpma_mirror_error_message());
}

void disk::store_clean(std::uint64_t clean)
{
    if (rpma_mirror_atomic_write(mirror_, 0, offsetof(superblock, clean), clean) != 0)
        reject(rpma_mirror_error_message());
}

void disk::close()
{
    background_ = {};
    if (!failed_ && drain() == 0)
        store_clean(1);
    if (rpma_mirror_unmap(&mirror_) != 0)
        reject(rpma_mirror_error_message());
}

} // namespace nbdkit_mirror
