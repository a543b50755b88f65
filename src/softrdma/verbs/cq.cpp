// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/cq.hpp"
#include "base/put_event.hpp"
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

// Maximum number of sources that a poll checks, because there may be hundreds. Other sources announce their deliveries.
constexpr std::size_t watch_limit = 8;

// Packs two adjacent 32-bit members of an ibv_wc into one word.
constexpr std::uint64_t side_by_side(std::uint32_t first, std::uint32_t second) noexcept
{
    return std::bit_cast<std::uint64_t>(std::array{first, second});
}

// Untouched entries of a large ring use no memory.
std::uint32_t mask_for(int entries) noexcept
{
    return std::bit_ceil(static_cast<std::uint32_t>(entries)) - 1;
}

// Delays the next poll. Without it, a polling program speculatively loads the same word several times before the
// response arrives. When the word changes, the CPU must repeat these loads, which delays a message by 25 ns on an Intel
// CPU.
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
      block_(context_of(owner).memory.allocate(sizeof(cq_block)))
{
    watched_.reserve(watch_limit);
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

void completion_queue::expect(std::int64_t entries)
{
    const lock_guard lock(lock_);
    expected_ += entries;
    count_if_needed();
}

// Counts entries only if they could overflow the queue: the shared counter costs each message a cache line that two
// CPUs write.
void completion_queue::count_if_needed()
{
    shared().capacity.store(static_cast<std::uint32_t>(cqe), std::memory_order_relaxed);
    if (expected_ > cqe && !counted_) {
        shared().used.store(static_cast<std::int32_t>(count_entries()), std::memory_order_relaxed);
        shared().counted.store(1, std::memory_order_relaxed);
        counted_ = true;
    }
    decide_when_to_ask();
}

void completion_queue::forget(const std::atomic<std::uint32_t> *freed)
{
    const lock_guard lock(lock_);
    for (std::uint32_t at = head_; at != tail_; ++at) {
        if (ring_[at & mask_].freed == freed)
            ring_[at & mask_].freed = nullptr;
    }
}

// Number of entries, plus messages that are not entries yet.
std::uint32_t completion_queue::count_entries() const noexcept
{
    std::uint32_t count = tail_ - head_;
    for (const inbound_source *source : sources_)
        count += source != nullptr ? source->waiting() : 0;
    return count;
}

// Returns false if the queue is full. A sender that finds the count too high sends the message over the network. This
// function corrects the count, which may include messages of peers that were stopped or killed before the delivery.
bool completion_queue::count_one_more() noexcept
{
    if (shared().used.fetch_add(1, std::memory_order_relaxed) < cqe)
        return true;
    const auto count = static_cast<std::int32_t>(count_entries());
    shared().used.store(count + 1, std::memory_order_relaxed);
    return count < cqe;
}

// Returns false if the queue has no space or has overflowed.
bool completion_queue::reserve_entry(std::uint32_t qpn)
{
    if (overflowed_)
        return false;
    const bool full = tail_ - head_ >= static_cast<std::uint32_t>(cqe) || (counted_ && !count_one_more());
    if (full || (fault::active() && fault::on_completion(qpn))) {
        overflow();
        return false;
    }
    return true;
}

void completion_queue::decide_when_to_ask() noexcept
{
    unasked_ = overflowed_ || counted_ ? 0 : static_cast<std::uint32_t>(cqe);
}

// Returns a new entry, which the caller fills, or NULL if the completion is lost.
completion_queue::entry *completion_queue::append(
        std::uint32_t qpn, std::atomic<std::uint32_t> *freed, std::uint32_t places)
{
    if ((tail_ - head_ >= unasked_ || fault::active()) && !reserve_entry(qpn)) [[unlikely]]
        return nullptr;
    entry &e = ring_[tail_++ & mask_];
    e.freed = freed;
    e.places = places;
    return &e;
}

void completion_queue::push(const ibv_wc &wc, bool solicited)
{
    {
        const lock_guard lock(lock_);
        entry *place = append(wc.qp_num, nullptr, 0);
        if (place == nullptr)
            return;
        place->put(wc);
        STATIC_PROBE(softrdma, completion, 3, place->words[0], place->words[1], place->words[3]);
    }
    wake(solicited || wc.status != IBV_WC_SUCCESS);
}

bool completion_queue::push_sent(std::uint32_t qpn, std::uint64_t id, ibv_wc_opcode opcode, std::uint32_t length,
        ibv_wc_status result, std::atomic<std::uint32_t> &freed, std::uint32_t places)
{
    {
        const lock_guard lock(lock_);
        entry *place = append(qpn, &freed, places);
        if (place == nullptr)
            return false;
        place->words = {id, side_by_side(result, opcode), side_by_side(0, length), side_by_side(0, qpn)};
        STATIC_PROBE(softrdma, completion, 3, place->words[0], place->words[1], place->words[3]);
    }
    wake(result != IBV_WC_SUCCESS);
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
            entry *place = append(wc.qp_num, nullptr, 0);
            if (place == nullptr)
                continue;
            place->put(wc);
            STATIC_PROBE(softrdma, completion, 3, place->words[0], place->words[1], place->words[3]);
            any = true;
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

inline void completion_queue::give_back_places(const entry &e) noexcept
{
    if (e.freed != nullptr) // written only with the lock held
        e.freed->store(e.freed->load(std::memory_order_relaxed) + e.places, std::memory_order_relaxed);
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
            give_back_places(e);
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
        give_back_places(e);
    }
    if (head_ == tail_)
        head_ = tail_ = 0; // these entries are in the cache already
    if (count < entries)
        count += take_inbound(entries - count, wc + count);
    if (count > 0 && counted_)
        shared().used.fetch_sub(count, std::memory_order_relaxed);
    return count;
}

int completion_queue::take_inbound(int entries, ibv_wc *wc)
{
    int count = 0;
    for (inbound_source *source : watched_) {
        if (count == entries)
            return count;
        count += source->drain(wc + count, entries - count);
    }
    if (count < entries && shared().summary.load(std::memory_order_acquire) != 0)
        count += take_announced(entries - count, wc + count);
    return count;
}

// Adds announcing sources to the polled ones, so that the next poll finds messages left over.
int completion_queue::take_announced(int entries, ibv_wc *wc)
{
    int count = 0;
    std::uint64_t words = shared().summary.exchange(0, std::memory_order_seq_cst);
    for (; words != 0; words &= words - 1) {
        const auto word = static_cast<std::size_t>(std::countr_zero(words));
        std::uint64_t bits = shared().work[word].exchange(0, std::memory_order_seq_cst);
        for (; bits != 0; bits &= bits - 1) {
            const std::size_t number = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
            for (std::size_t at = number; at < sources_.size(); at += work_words * 64) {
                if (sources_[at] == nullptr)
                    continue;
                watch(*sources_[at]);
                count += sources_[at]->drain(wc + count, entries - count);
            }
        }
    }
    return count;
}

void completion_queue::watch(inbound_source &source)
{
    if (std::find(watched_.begin(), watched_.end(), &source) != watched_.end())
        return;
    source.watched().store(1, std::memory_order_seq_cst);
    if (watched_.size() < watch_limit)
        return watched_.push_back(&source);
    inbound_source *&place = watched_[next_to_unwatch_++ % watch_limit];
    place->watched().store(0, std::memory_order_seq_cst);
    if (place->waiting() > 0) // delivered while the peer did not need to announce it
        announce_to_self(*place);
    place = &source;
}

void completion_queue::announce_to_self(const inbound_source &source)
{
    const auto number = std::find(sources_.begin(), sources_.end(), &source) - sources_.begin();
    shared().announce(static_cast<std::uint32_t>(number));
}

void completion_queue::announce(inbound_source &source)
{
    {
        const lock_guard lock(lock_);
        announce_to_self(source);
    }
    wake(false);
}

std::uint32_t completion_queue::attach(inbound_source &source)
{
    const lock_guard lock(lock_);
    const auto free = std::find(sources_.begin(), sources_.end(), nullptr);
    const auto number = static_cast<std::uint32_t>(free - sources_.begin());
    if (free == sources_.end())
        sources_.push_back(&source);
    else
        *free = &source;
    return number;
}

void completion_queue::detach(inbound_source &source)
{
    const lock_guard lock(lock_);
    std::replace(sources_.begin(), sources_.end(), &source, static_cast<inbound_source *>(nullptr));
    std::erase(watched_, &source);
}

void completion_queue::add_user(std::weak_ptr<completion_source> user)
{
    const lock_guard lock(lock_);
    users_.insert(std::move(user));
}

void completion_queue::remove_user(const std::weak_ptr<completion_source> &user)
{
    const lock_guard lock(lock_);
    users_.erase(user);
}

void completion_queue::add_stalled(std::weak_ptr<stalled_sender> sender) noexcept
{
    const lock_guard lock(lock_);
    try {
        stalled_.push_back(std::move(sender));
    } catch (const std::bad_alloc &) {
        return;
    }
    any_stalled_.store(true, std::memory_order_relaxed);
}

bool completion_queue::retry_stalled()
{
    if (!any_stalled_.load(std::memory_order_relaxed))
        return false;
    std::vector<std::weak_ptr<stalled_sender>> senders;
    {
        const lock_guard lock(lock_);
        senders.swap(stalled_);
        any_stalled_.store(false, std::memory_order_relaxed);
    }
    for (const auto &weak : senders) {
        if (const auto sender = weak.lock())
            sender->retry();
    }
    return !senders.empty();
}

void completion_queue::overflow()
{
    overflowed_ = true;
    decide_when_to_ask();
    ibv_async_event event{};
    event.element.cq = verbs();
    event.event_type = IBV_EVENT_CQ_ERR;
    context_of(context).async.push(event);
    // Deferred, because the caller holds locks of the users, or locks that follow them in the order. A destroyed user
    // is not notified: the queue may be destroyed too.
    context_of(context).mover.defer([this, users = std::vector(users_.begin(), users_.end())] {
        for (const auto &weak : users) {
            if (const auto user = weak.lock())
                user->completions_lost(verbs());
        }
    });
}

bool completion_queue::overflowed()
{
    const lock_guard lock(lock_);
    return overflowed_;
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
    count_if_needed();
    return 0;
}

int completion_queue::poll(int entries, ibv_wc *wc)
{
    const int count = take(entries, wc);
    return count > 0 || entries <= 0 ? count : poll_slow(entries, wc);
}

// Second part of a poll that found no completion.
int completion_queue::poll_slow(int entries, ibv_wc *wc)
{
    const int count = retry_stalled() ? take(entries, wc) : 0;
    if (count > 0)
        return count;
    // A polling program serves the network occasionally even without network users, because it may keep the CPU from
    // the progress thread.
    constexpr unsigned between_checks = 4096;
    const unsigned empty = empty_polls_.load(std::memory_order_relaxed);
    empty_polls_.store(empty + 1, std::memory_order_relaxed);
    const bool checks_network = network_users.load(std::memory_order_relaxed) > 0 || empty % between_checks == 0;
    if (checks_network && context_of(context).mover.poll())
        return take(entries, wc);
    cpu_relax();
    return 0;
}

} // namespace softrdma
