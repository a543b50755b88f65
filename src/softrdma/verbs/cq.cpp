// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/cq.hpp"
#include "base/or_no_memory.hpp"
#include "base/assert.hpp"
#include "base/unique_fd.hpp"
#include "fault/rules.hpp"
#include "probe.hpp"
#include "verbs/completion_channel.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <sys/eventfd.h>

namespace softrdma
{

namespace
{

constexpr std::uint64_t pack_words(std::uint32_t first, std::uint32_t second) noexcept
{
    return std::bit_cast<std::uint64_t>(std::array{first, second});
}

std::uint32_t mask_for(int entries) noexcept
{
    return std::bit_ceil(static_cast<std::uint32_t>(entries)) - 1;
}

// Delays the next poll: speculative loads of a word that then changes are repeated, for 25 ns on an Intel CPU.
void cpu_relax() noexcept
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static_assert(offsetof(ibv_wc, opcode) == offsetof(ibv_wc, status) + 4 && offsetof(ibv_wc, status) == 8 &&
              offsetof(ibv_wc, byte_len) == 20 && offsetof(ibv_wc, qp_num) == 28 && sizeof(ibv_wc) == 48);

} // namespace

completion_queue::completion_queue(ibv_context *owner, int entries, completion_channel *events, void *cookie)
    : ibv_cq_ex{}, mask_(mask_for(entries)), ring_(std::make_unique_for_overwrite<entry[]>(std::size_t{mask_} + 1)),
      block_(context_of(owner).memory.allocate(sizeof(cq_block))),
      overflow_call_([sources = sources_, cq = verbs()] { sources->notify(cq); })
{
    context = owner;
    cq_context = cookie;
    cqe = entries;
    pthread_mutex_init(&mutex, nullptr);
    pthread_cond_init(&cond, nullptr);
    if (block_ == nullptr)
        return;
    if (events != nullptr) {
        signal_ = unique_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (signal_.get() < 0 || !events->attach(*this))
            return;
        channel = events;
    }
    shared_ = new (block_->at) cq_block{};
    inbound_.use(*shared_);
    shared_->magic = cq_magic;
    shared_->serial = context_of(owner).memory.next_serial();
    shared_->event_fd.store(signal_.get(), std::memory_order_relaxed);
}

completion_queue::~completion_queue()
{
    if (channel != nullptr)
        static_cast<completion_channel *>(channel)->detach(*this);
    pthread_cond_destroy(&cond);
    pthread_mutex_destroy(&mutex);
}

// Returns a new entry, which the caller fills, or NULL if the completion is lost.
completion_queue::entry *completion_queue::append(
        std::uint32_t qpn, std::atomic<std::uint32_t> *freed, std::uint32_t sq_entries)
{
    if ((tail_ - head_ >= fast_limit_ || fault::active()) && !reserve_entry(qpn)) [[unlikely]]
        return nullptr;
    SOFTRDMA_ASSERT(tail_ - head_ <= mask_); // the ring has space
    entry &e = ring_[tail_++ & mask_];
    e.freed = freed;
    e.sq_entries = sq_entries;
    return &e;
}

bool completion_queue::append(const ibv_wc &wc)
{
    entry *added = append(wc.qp_num, nullptr, 0);
    if (added == nullptr)
        return false;
    added->put(wc);
    STATIC_PROBE(softrdma, completion, 3, added->words[0], added->words[1], added->words[3]);
    return true;
}

void completion_queue::push(const ibv_wc &wc, bool solicited)
{
    {
        const lock_guard lock(lock_);
        if (!append(wc))
            return;
    }
    wake(solicited || wc.status != IBV_WC_SUCCESS);
}

bool completion_queue::push(const send_completion &c)
{
    {
        const lock_guard lock(lock_);
        entry *added = append(c.qpn, c.freed, c.sq_entries);
        if (added == nullptr)
            return false;
        added->words = {c.wr_id, pack_words(c.status, c.opcode), pack_words(0, c.length), pack_words(0, c.qpn)};
        STATIC_PROBE(softrdma, completion, 3, added->words[0], added->words[1], added->words[3]);
    }
    wake(c.status != IBV_WC_SUCCESS);
    return true;
}

void completion_queue::collect(inbound_source &source)
{
    bool any = false;
    bool urgent = false;
    {
        const lock_guard lock(lock_);
        for (ibv_wc wc; source.drain(&wc, 1) == 1; urgent = urgent || wc.status != IBV_WC_SUCCESS) {
            if (counted_) // counted by the peer
                shared().used.fetch_sub(1, std::memory_order_relaxed);
            any = append(wc) || any;
        }
    }
    if (any)
        wake(urgent);
}

void completion_queue::wake(bool urgent)
{
    const std::uint64_t arming = ever_armed_.load(std::memory_order_seq_cst) ? shared().event_due(urgent) : 0;
    if (arming == 0)
        return;
    put_event(signal_.get());
    shared().signaled.store(arming, std::memory_order_release);
}

inline void completion_queue::release_sq_entries(const entry &e) noexcept
{
    if (e.freed != nullptr) // written only with the lock held
        e.freed->store(e.freed->load(std::memory_order_relaxed) + e.sq_entries, std::memory_order_relaxed);
}

void completion_queue::discard(std::uint32_t qpn)
{
    const lock_guard lock(lock_);
    std::uint32_t kept = head_;
    for (std::uint32_t at = head_; at != tail_; ++at) {
        const entry &e = ring_[at & mask_];
        ibv_wc wc;
        e.get(wc);
        if (wc.qp_num != qpn)
            ring_[kept++ & mask_] = e;
        else
            release_sq_entries(e);
    }
    if (counted_)
        shared().used.fetch_sub(static_cast<std::int32_t>(tail_ - kept), std::memory_order_relaxed);
    tail_ = kept;
}

int completion_queue::take(int entries, ibv_wc *wc)
{
    const lock_guard lock(lock_);
    int count = 0;
    for (; count < entries && head_ != tail_; ++count) {
        const entry &e = ring_[head_++ & mask_];
        e.get(wc[count]);
        release_sq_entries(e);
    }
    if (head_ == tail_)
        head_ = tail_ = 0; // the entries at the start are in the cache
    if (count < entries)
        count += inbound_.take(entries - count, wc + count);
    SOFTRDMA_ASSERT(count <= std::max(entries, 0));
    if (count > 0 && counted_)
        shared().used.fetch_sub(count, std::memory_order_relaxed);
    return count;
}

void completion_queue::announce(inbound_source &source)
{
    {
        const lock_guard lock(lock_);
        inbound_.announce(source);
    }
    wake(false);
}

int completion_queue::resize(int entries)
{
    const lock_guard lock(lock_);
    if (static_cast<std::uint32_t>(entries) < tail_ - head_)
        return EINVAL;
    if (const std::uint32_t mask = mask_for(entries); mask > mask_) {
        auto larger = std::make_unique_for_overwrite<entry[]>(std::size_t{mask} + 1);
        for (std::uint32_t at = head_; at != tail_; ++at)
            larger[at & mask] = ring_[at & mask_];
        ring_ = std::move(larger);
        mask_ = mask;
    }
    cqe = entries;
    SOFTRDMA_ASSERT(tail_ - head_ <= mask_ + 1);
    count_if_needed();
    return 0;
}

int completion_queue::poll(int entries, ibv_wc *wc)
{
    const int count = take(entries, wc);
    return count > 0 || entries <= 0 ? count : poll_slow(entries, wc);
}

int completion_queue::poll_slow(int entries, ibv_wc *wc)
{
    const int count = stalled.retry() ? take(entries, wc) : 0;
    if (count > 0)
        return count;
    // Serves the network at times even without network users: polls may keep the CPU from the progress thread.
    constexpr unsigned between_checks = 4096;
    const unsigned empty = empty_polls_.load(std::memory_order_relaxed);
    empty_polls_.store(empty + 1, std::memory_order_relaxed);
    const bool checks_network = network_users.load(std::memory_order_relaxed) > 0 || empty % between_checks == 0;
    if (checks_network && context_of(context).engine.poll())
        return take(entries, wc);
    cpu_relax();
    return 0;
}

int poll_cq(ibv_cq *cq, int entries, ibv_wc *wc)
{
    return cq_of(cq).poll(entries, wc);
}

int req_notify_cq(ibv_cq *cq, int solicited_only)
{
    return or_no_memory(ENOMEM, [&] {
        cq_of(cq).arm(solicited_only != 0);
        return 0;
    });
}

} // namespace softrdma
