// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/inbound_sources.hpp"
#include "base/assert.hpp"

#include <algorithm>
#include <bit>

namespace softrdma
{

std::uint32_t inbound_sources::add(inbound_source &source)
{
    SOFTRDMA_ASSERT(std::find(sources_.begin(), sources_.end(), &source) == sources_.end());
    const auto free = std::find(sources_.begin(), sources_.end(), nullptr);
    const auto number = static_cast<std::uint32_t>(free - sources_.begin());
    if (free == sources_.end())
        sources_.push_back(&source);
    else
        *free = &source;
    return number;
}

void inbound_sources::remove(inbound_source &source)
{
    std::replace(sources_.begin(), sources_.end(), &source, static_cast<inbound_source *>(nullptr));
    std::erase(watched_, &source);
}

void inbound_sources::announce(const inbound_source &source) noexcept
{
    const auto found = std::find(sources_.begin(), sources_.end(), &source);
    SOFTRDMA_ASSERT(found != sources_.end());
    words_->announce(static_cast<std::uint32_t>(found - sources_.begin()));
}

std::uint32_t inbound_sources::waiting() const noexcept
{
    std::uint32_t count = 0;
    for (const inbound_source *source : sources_)
        count += source != nullptr ? source->waiting() : 0;
    return count;
}

// Drains the sources that have announced messages, and watches them: the next poll finds the messages that remain.
int inbound_sources::take_announced(int entries, ibv_wc *wc)
{
    int count = 0;
    std::uint64_t words = words_->summary.exchange(0, std::memory_order_seq_cst);
    for (; words != 0; words &= words - 1) {
        const auto word = static_cast<std::size_t>(std::countr_zero(words));
        std::uint64_t bits = words_->work[word].exchange(0, std::memory_order_seq_cst);
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
    SOFTRDMA_ASSERT(count <= entries);
    return count;
}

void inbound_sources::watch(inbound_source &source)
{
    if (std::find(watched_.begin(), watched_.end(), &source) != watched_.end())
        return;
    source.watched().store(1, std::memory_order_seq_cst);
    if (watched_.size() < watch_limit)
        return watched_.push_back(&source);
    SOFTRDMA_ASSERT(watched_.size() == watch_limit);
    inbound_source *&replaced = watched_[next_to_unwatch_++ % watch_limit];
    replaced->watched().store(0, std::memory_order_seq_cst);
    if (replaced->waiting() > 0) // delivered while the peer did not need to announce it
        announce(*replaced);
    replaced = &source;
}

} // namespace softrdma
