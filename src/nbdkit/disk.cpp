// SPDX-License-Identifier: BSD-3-Clause
#include "disk.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <stdexcept>

// On x86 this selects the vector instructions of the processor at run time. The hashes do not depend on them.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace nbdkit_mirror
{

struct disk::superblock {
    char magic[8];
    std::uint32_t version;
    std::uint32_t block_size;
    std::uint64_t blocks;
    std::uint64_t logical;
    std::uint64_t hash;  // hash of the members above
    std::uint64_t clean; // 1 if no block can be torn
};

// Describes the content of a block. A header is valid if its hash matches the other members and the data. The newest
// valid header of a logical block is used. 8-byte words are not torn.
struct disk::header {
    std::uint64_t sequence; // number of the write; a header with 0 was never used
    std::uint64_t logical;  // block of the disk; hole_bit marks zeros without data
    std::uint64_t hash;

    static constexpr std::uint64_t hole_bit = std::uint64_t{1} << 63;
};

// Blocks and ranges of one write that is posted as a whole.
struct disk::chunk {
    unsigned count = 0;
    std::uint64_t first = 0; // logical block
    std::array<std::uint32_t, chunk_blocks> blocks{};
    std::array<std::uint32_t, chunk_blocks> values{}; // new values of map_; none: unchanged
    std::array<rpma_mirror_range, std::size_t{2} * chunk_blocks> ranges{};
    unsigned n = 0;

    void add(std::uint64_t offset, std::uint64_t length)
    {
        for (unsigned i = n; i-- > 0 && i + 2 >= n;)
            if (ranges[i].offset + ranges[i].length == offset) {
                ranges[i].length += length;
                return;
            }
        ranges[n++] = {offset, length};
    }
};

namespace
{

constexpr char magic[8] = {'R', 'P', 'M', 'A', 'D', 'I', 'S', 'K'};
constexpr std::uint64_t min_blocks = 512;

[[noreturn]] void refuse(const std::string &line)
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
            rpma_mirror_map(cfg, nullptr, options.force ? RPMA_MIRROR_F_FORCE : 0, &address, &mirror_) != 0)
        refuse(rpma_mirror_error_message());
    address_ = static_cast<char *>(address);
    try {
        std::size_t length = 0;
        rpma_mirror_get_length(mirror_, &length);
        lay_out(length);
        load();
        store_clean(0);
        background_ =
                std::jthread([this, every = options.resync](const std::stop_token &stop) { background(stop, every); });
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

void disk::lay_out(std::uint64_t length)
{
    super_ = reinterpret_cast<superblock *>(address_);
    headers_ = reinterpret_cast<header *>(address_ + block_size);
    blocks_ = length < 2 * block_size ? 0 : (length - 2 * block_size) / (block_size + sizeof(header));
    if (blocks_ < min_blocks)
        refuse("set too small for a disk: " + std::to_string(length) + " bytes (create a set of 4 MiB or more)");
    if (blocks_ >= hole)
        refuse("set too large for a disk: " + std::to_string(length) + " bytes (create a set of less than 8 TiB)");
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
        refuse(rpma_mirror_error_message());
}

std::uint64_t disk::hash_of(const header &h, std::uint64_t block) const noexcept
{
    const std::uint64_t seed = XXH3_64bits(&h, offsetof(header, hash));
    return (h.logical & header::hole_bit) != 0 ? seed : XXH3_64bits_withSeed(data(block), block_size, seed);
}

// Finds the newest valid block of each logical block. After a crash the data of the blocks is read, and headers that do
// not match are erased, because a clean opening compares none.
void disk::load()
{
    const bool known = std::memcmp(super_->magic, magic, sizeof(magic)) == 0 &&
                       super_->hash == XXH3_64bits(super_, offsetof(superblock, hash));
    if (!known) {
        if (!is_zero(address_ + sizeof(superblock), data_ - sizeof(superblock)))
            refuse("set contains other data, not a disk (create a new set)");
        format();
    }
    if (super_->version != 1 || super_->block_size != block_size || super_->blocks != blocks_ ||
            super_->logical != logical_)
        refuse("disk has another layout than this version uses (update nbdkit-rpma-mirror-plugin)");
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
        refuse(rpma_mirror_error_message());
}

void disk::store_clean(std::uint64_t clean)
{
    if (rpma_mirror_atomic_write(mirror_, 0, offsetof(superblock, clean), clean) != 0)
        refuse(rpma_mirror_error_message());
}

int disk::fail(const char *what) noexcept
{
    if (!failed_.exchange(true))
        failed_function_(what);
    return EIO;
}

void disk::on_event(const rpma_mirror_event &event)
{
    const std::string copy = "copy " + std::to_string(event.copy);
    switch (event.type) {
    case RPMA_MIRROR_EVENT_FENCED:
        fail("another writer owns the set");
        break;
    case RPMA_MIRROR_EVENT_LEASE_EXPIRED:
        fail("the lease of the arbiter has expired");
        break;
    case RPMA_MIRROR_EVENT_EVICTED:
        event_function_(copy + " left the set: " + rpma_mirror_err_2str(event.error.code));
        break;
    case RPMA_MIRROR_EVENT_NO_TARGET:
        event_function_("no target is in sync");
        break;
    case RPMA_MIRROR_EVENT_IN_SYNC:
        event_function_(copy + " is in sync");
        break;
    default:
        break;
    }
}

// Flushes a word, which fails if another writer has fenced this one.
int disk::confirm() noexcept
{
    unsigned number = 0;
    lane &used = take_lane(number);
    const std::lock_guard guard(used.lock, std::adopt_lock);
    const auto start = std::chrono::steady_clock::now();
    const rpma_mirror_range magic_word{0, sizeof(magic)};
    if (rpma_mirror_optimized_flush(mirror_, number, &magic_word, 1, 0) != 0)
        return fail(rpma_mirror_error_message());
    confirmed_ = start;
    return 0;
}

// Detects fencing while the clients are idle, and resynchronizes targets that respond again.
void disk::background(const std::stop_token &stop, std::chrono::seconds interval)
{
    std::mutex lock;
    std::condition_variable_any ended;
    rpma_mirror_resync_options options{sizeof(options), 0, 0, nullptr, nullptr};
    options.progress = [](void *context, const rpma_mirror_progress *) {
        return static_cast<const std::stop_token *>(context)->stop_requested() ? 1 : 0;
    };
    options.context = const_cast<std::stop_token *>(&stop);
    const auto state = std::make_unique<rpma_mirror_state>();
    state->size = sizeof(*state);
    for (std::chrono::seconds passed{1}; !failed_; ++passed) {
        {
            std::unique_lock held(lock);
            ended.wait_for(held, stop, std::chrono::seconds(1), [] { return false; });
        }
        if (stop.stop_requested() || confirm() != 0)
            return;
        if (passed < interval || interval.count() == 0 || rpma_mirror_get_state(mirror_, state.get()) != 0)
            continue;
        for (unsigned copy = 0; copy < RPMA_MIRROR_MAX_COPIES && !stop.stop_requested(); ++copy)
            if ((state->members & ~state->in_sync) >> copy & 1)
                rpma_mirror_resync(mirror_, copy, &options);
        passed = {};
    }
}

// Copies the blocks of the map. After 2 s without a confirmation, confirms first that this process is still the writer,
// because it might have been stopped. The shared lock prevents the reuse of blocks while they are read.
int disk::read(char *to, std::uint64_t offset, std::uint64_t count) noexcept
{
    constexpr std::chrono::seconds max_age{2};
    if (failed_)
        return EIO;
    if (std::chrono::steady_clock::now() - confirmed_.load() > max_age && confirm() != 0)
        return EIO;
    const std::shared_lock held(readers_);
    while (count != 0) {
        const std::uint64_t within = offset % block_size;
        const std::uint64_t n = std::min(count, block_size - within);
        const std::uint32_t block = map_[offset / block_size].load(std::memory_order_acquire);
        if (block == none || (block & hole) != 0)
            std::memset(to, 0, n);
        else
            std::memcpy(to, data(block) + within, n);
        to += n;
        offset += n;
        count -= n;
    }
    return failed_ ? EIO : 0;
}

std::uint64_t disk::extent(std::uint64_t offset, std::uint64_t count, bool &is_hole) const noexcept
{
    const std::uint64_t end = offset + count;
    const auto hole_at = [&](std::uint64_t at) { return (map_[at / block_size] & hole) != 0; };
    is_hole = hole_at(offset);
    std::uint64_t at = (offset / block_size + 1) * block_size;
    while (at < end && hole_at(at) == is_hole)
        at += block_size;
    return std::min(at, end) - offset;
}

int disk::allocate(unsigned count, std::uint32_t *blocks) noexcept
{
    for (;;) {
        {
            const std::lock_guard guard(pool_);
            if (free_count_ >= count) {
                free_count_ -= count;
                for (unsigned i = 0; i < count; ++i) {
                    blocks[i] = free_[free_first_];
                    free_first_ = (free_first_ + 1) % free_.size();
                }
                return 0;
            }
        }
        if (const int error = drain(); error != 0)
            return error;
    }
}

disk::lane &disk::take_lane(unsigned &number) noexcept
{
    const auto lanes = static_cast<unsigned>(lanes_.size());
    const unsigned first = next_lane_++;
    for (unsigned i = 0; i < lanes; ++i) {
        number = (first + i) % lanes;
        if (lanes_[number].lock.try_lock())
            return lanes_[number];
    }
    number = first % lanes;
    lanes_[number].lock.lock();
    return lanes_[number];
}

// Waits until all earlier writes are durable, and frees the blocks that they replaced. After this, no flush sends these
// blocks, no reader copies them, and no recovery requires them.
int disk::drain() noexcept
{
    const std::uint64_t started = drains_started_;
    const std::lock_guard guard(draining_);
    if (failed_)
        return EIO;
    if (drains_done_ > started)
        return 0; // another drain began after this call
    const std::uint64_t own = ++drains_started_;
    {
        const std::lock_guard hold(pool_);
        drained_.swap(replaced_);
    }
    for (unsigned i = 0; i < lanes_.size(); ++i) {
        const std::lock_guard hold(lanes_[i].lock);
        if (lanes_[i].ticket != 0 && rpma_mirror_flush_wait(mirror_, i, lanes_[i].ticket, -1) != 0)
            return fail(rpma_mirror_error_message());
    }
    {
        const std::unique_lock no_readers(readers_);
    }
    const std::lock_guard hold(pool_);
    for (const std::uint32_t block : drained_)
        free_[(free_first_ + free_count_++) % free_.size()] = block;
    drained_.clear();
    drains_done_ = own;
    return failed_ ? EIO : 0;
}

// Writes data and headers to the allocated blocks. `from` is NULL for zeros.
int disk::fill(chunk &p, const char *from, std::uint64_t offset, std::uint64_t count) noexcept
{
    for (unsigned i = 0; i < p.count; ++i) {
        const std::uint64_t logical = p.first + i;
        const std::uint64_t start = std::max(offset, logical * block_size);
        const std::uint64_t end = std::min(offset + count, (logical + 1) * block_size);
        const bool whole = end - start == block_size;
        const std::uint32_t before = map_[logical];
        const bool was_hole = (before & hole) != 0;
        p.values[i] = none;
        if (from == nullptr && was_hole)
            continue;
        const std::uint32_t block = p.blocks[i];
        header next{++sequence_, logical, 0};
        p.values[i] = block;
        if (from == nullptr && whole) {
            next.logical |= header::hole_bit;
            p.values[i] |= hole;
        } else {
            char *const to = data(block);
            if (!whole && was_hole)
                std::memset(to, 0, block_size);
            else if (!whole)
                std::memcpy(to, data(before), block_size);
            if (from != nullptr)
                std::memcpy(to + (start - logical * block_size), from + (start - offset), end - start);
            else
                std::memset(to + (start - logical * block_size), 0, end - start);
            p.add(data_ + block * block_size, block_size);
        }
        next.hash = hash_of(next, block);
        headers_[block] = next;
        p.add(block_size + block * sizeof(header), sizeof(header));
    }
    return 0;
}

// Posts blocks of one group to all copies. The range must not cross a multiple of chunk_blocks blocks.
int disk::put_chunk(const char *from, std::uint64_t offset, std::uint64_t count, bool wait) noexcept
{
    chunk p;
    p.first = offset / block_size;
    p.count = static_cast<unsigned>((offset + count - 1) / block_size - p.first + 1);
    if (const int error = allocate(p.count, p.blocks.data()); error != 0)
        return error;
    unsigned number = 0;
    lane &used = take_lane(number);
    const std::lock_guard guard(used.lock, std::adopt_lock);
    {
        const std::lock_guard alone(groups_[p.first / chunk_blocks % groups_.size()]);
        fill(p, from, offset, count);
        if (p.n != 0 && rpma_mirror_flush_start(mirror_, number, p.ranges.data(), p.n, 0, &used.ticket) != 0)
            return fail(rpma_mirror_error_message());
        const std::lock_guard hold(pool_);
        for (unsigned i = 0; i < p.count; ++i) {
            std::uint32_t unused = p.blocks[i];
            if (p.values[i] != none)
                unused = map_[p.first + i].exchange(p.values[i], std::memory_order_acq_rel);
            if (unused != none)
                replaced_.push_back(unused & ~hole);
        }
    }
    if (wait && p.n != 0 && rpma_mirror_flush_wait(mirror_, number, used.ticket, -1) != 0)
        return fail(rpma_mirror_error_message());
    return failed_ ? EIO : 0;
}

int disk::put(const char *from, std::uint64_t offset, std::uint64_t count, bool durable) noexcept
{
    constexpr std::uint64_t group = chunk_blocks * block_size;
    const bool one = offset / group == (offset + count - 1) / group;
    while (count != 0) {
        if (failed_)
            return EIO;
        const std::uint64_t n = std::min(count, group - offset % group);
        if (const int error = put_chunk(from, offset, n, durable && one); error != 0)
            return error;
        from = from == nullptr ? nullptr : from + n;
        offset += n;
        count -= n;
    }
    return durable && !one ? drain() : 0;
}

int disk::write(const char *from, std::uint64_t offset, std::uint64_t count, bool durable) noexcept
{
    return put(from, offset, count, durable);
}

int disk::zero(std::uint64_t offset, std::uint64_t count, bool durable) noexcept
{
    return put(nullptr, offset, count, durable);
}

int disk::flush() noexcept
{
    return drain();
}

void disk::close()
{
    background_ = {};
    if (!failed_ && drain() == 0)
        store_clean(1);
    if (rpma_mirror_unmap(&mirror_) != 0)
        refuse(rpma_mirror_error_message());
}

} // namespace nbdkit_mirror
