// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/endpoint.hpp"
#include "base/assert.hpp"
#include "base/guard.hpp"

#include <algorithm>

namespace softrdma
{

std::chrono::microseconds endpoint::response_limit() const noexcept
{
    if (!has_response_limit || attr.timeout == 0)
        return std::chrono::microseconds(0);
    return retry_time(attr);
}

std::chrono::microseconds endpoint::retry_timeout() const noexcept
{
    constexpr std::chrono::microseconds max_timeout = std::chrono::seconds(1);
    if (managed)
        return std::chrono::microseconds(0);
    if (attr.timeout == 0) // an RNIC would retry forever
        return max_timeout;
    return std::min(max_timeout, retry_time(attr));
}

// Each poll retries, and so does a timer, whose delay grows with the time waited so far.
void endpoint::try_again_later(bool starts_wait) noexcept
{
    using std::chrono::microseconds;
    constexpr microseconds min_pause{50};
    constexpr microseconds max_pause{10000};
    cq_of(qp->send_cq).stalled.add(self);
    const auto now = std::chrono::steady_clock::now();
    if (starts_wait)
        waits_since_ = now;
    const auto pause = std::clamp(std::chrono::duration_cast<microseconds>(now - waits_since_), min_pause, max_pause);
    context_of(qp->context).engine.defer(std::move(retry_call), pause);
}

std::uint32_t endpoint::cut_segment(std::uint32_t left) const
{
    SOFTRDMA_ASSERT(left > short_segment && path != nullptr);
    const std::size_t fits =
            std::clamp<std::size_t>(path->send_space(), short_segment, max_segment) / word_size * word_size;
    return static_cast<std::uint32_t>(std::min<std::size_t>(left, fits));
}

bool gathered::collect(
        const ibv_pd *pd, std::span<const ibv_sge> sges, int access, std::uint64_t offset, std::uint64_t bytes)
{
    SOFTRDMA_ASSERT(count == 0);
    for (const ibv_sge &sge : sges) {
        if (bytes == 0)
            break;
        if (offset >= sge.length) {
            offset -= sge.length;
            continue;
        }
        const std::uint64_t part = std::min<std::uint64_t>(sge.length - offset, bytes);
        const std::uint64_t at = sge.addr + offset;
        region_pin pin = region_table::instance().pin(sge.lkey, domain_of(pd), access | access_local_read, at, part);
        if (!pin)
            return false;
        segments[count] = {pin->at(at), part};
        std::construct_at(&pins[count++], std::move(pin));
        bytes -= part;
        offset = 0;
    }
    return bytes == 0;
}

bool gathered::is_there() const noexcept
{
    for (std::size_t i = 0; i < count; ++i) {
        if (pins[i]->may_fault() &&
                !is_readable(static_cast<const std::byte *>(segments[i].iov_base), segments[i].iov_len))
            return false;
    }
    return true;
}

} // namespace softrdma
