// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/remote_access.hpp"
#include "base/copy.hpp"
#include "base/guard.hpp"
#include "pmem/policy.hpp"
#include "verbs/endpoint.hpp"
#include "verbs/native.hpp"
#include "verbs/qp_object.hpp"

namespace softrdma
{

ibv_wc_status status_of(std::uint8_t code) noexcept
{
    return code == syndrome::remote_access        ? IBV_WC_REM_ACCESS_ERR
           : code == syndrome::remote_operational ? IBV_WC_REM_OP_ERR
           : code == syndrome::unresponsive       ? IBV_WC_RETRY_EXC_ERR
                                                  : IBV_WC_REM_INV_REQ_ERR;
}

region_pin remote_access::find(std::uint32_t rkey, int access, std::uint64_t addr, std::uint64_t bytes) const
{
    return region_table::instance().pin(rkey, domain_of(qp_.pd), access, addr, bytes, object_of(&qp_).own_domain);
}

std::uint8_t remote_access::write(
        unsigned access, const remote_range &to, std::uint32_t offset, std::span<const std::byte> from)
{
    if ((access & IBV_ACCESS_REMOTE_WRITE) == 0)
        return syndrome::remote_access;
    if (from.empty())
        return syndrome::ack;
    const auto pin = find(to.rkey, IBV_ACCESS_REMOTE_WRITE, to.addr, to.length);
    if (!pin)
        return syndrome::remote_access;
    std::byte *at = pin->at(to.addr + offset);
    pin->about_to_store(at, from.size());
    if (!guarded([&] { copy_in(at, from.data(), from.size()); }))
        return syndrome::remote_operational;
    mark_dirty(pin, at, from.size());
    return syndrome::ack;
}

// Calls `store` with the word if the peer has that right. Returns the syndrome of the response.
template<typename Store>
std::uint8_t remote_access::store_word(unsigned access, int right, std::uint32_t rkey, std::uint64_t addr, Store store)
{
    if (addr % word_size != 0)
        return syndrome::invalid_request;
    if ((static_cast<int>(access) & right) == 0)
        return syndrome::remote_access;
    const auto pin = find(rkey, right, addr, word_size);
    if (!pin)
        return syndrome::remote_access;
    std::byte *to = pin->at(addr);
    if (!is_word_aligned(to))
        return syndrome::invalid_request;
    pin->about_to_store(to, word_size);
    if (!guarded([&] { store(to); }))
        return syndrome::remote_operational;
    mark_dirty(pin, to, word_size);
    return syndrome::ack;
}

std::uint8_t remote_access::write_word(unsigned access, std::uint32_t rkey, std::uint64_t addr, const std::byte *from)
{
    return store_word(
            access, IBV_ACCESS_REMOTE_WRITE, rkey, addr, [from](std::byte *to) { copy_in(to, from, word_size); });
}

std::uint8_t remote_access::check_read(unsigned access, const remote_range &from)
{
    if (from.length > limits::max_message)
        return syndrome::invalid_request;
    if ((access & IBV_ACCESS_REMOTE_READ) == 0)
        return syndrome::remote_access;
    if (from.length > 0 && !find(from.rkey, IBV_ACCESS_REMOTE_READ, from.addr, from.length))
        return syndrome::remote_access;
    return pmem::read_flushes() ? make_durable() : syndrome::ack;
}

std::uint8_t remote_access::operate(unsigned access, std::uint32_t rkey, std::uint64_t addr, const atomic_args &args,
        bool adds, std::uint64_t &original)
{
    return store_word(access, IBV_ACCESS_REMOTE_ATOMIC, rkey, addr, [&](std::byte *at) {
        auto *word = reinterpret_cast<std::uint64_t *>(at);
        if (adds) {
            original = __atomic_fetch_add(word, args.compare_add, __ATOMIC_SEQ_CST);
        } else {
            original = args.compare_add;
            __atomic_compare_exchange_n(word, &original, args.swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        }
    });
}

std::uint8_t remote_access::flush(unsigned access, std::uint32_t rkey, std::uint64_t addr, const flush_args &args)
{
    const bool whole = args.level == native::level_region;
    if (!args.is_valid())
        return syndrome::invalid_request;
    const bool uses_flush = context_of(qp_.context).memory.uses_flush().load(std::memory_order_relaxed) != 0;
    const int rights = rights_to_flush(args, uses_flush);
    if ((static_cast<int>(access) & rights) != rights)
        return syndrome::remote_access;
    const auto pin = find(rkey, rights, whole ? region_table::any_address : addr, whole ? 0 : args.length);
    if (!pin)
        return syndrome::remote_access;
    // Requests are executed in order and stores are coherent: stores before the FLUSH are visible already.
    if (!args.persists())
        return syndrome::ack;
    const auto begin = reinterpret_cast<std::uintptr_t>(whole ? pin->addr : pin->at(addr));
    return pin->sync(begin, whole ? pin->length : args.length) == 0 ? syndrome::ack : syndrome::remote_operational;
}

bool remote_access::scatter(
        const ibv_pd *pd, std::span<const ibv_sge> sges, std::uint64_t offset, std::span<const std::byte> from)
{
    gathered target;
    if (!target.collect(pd, sges, IBV_ACCESS_LOCAL_WRITE, offset, from.size()))
        return false;
    const std::byte *next = from.data();
    for (std::size_t i = 0; i < target.count; ++i) {
        auto *to = static_cast<std::byte *>(target.segments[i].iov_base);
        const std::size_t bytes = target.segments[i].iov_len;
        target.pins[i]->about_to_store(to, bytes);
        if (!guarded([&] { copy_to_place(to, next, bytes); }))
            return false;
        mark_dirty(target.pins[i], to, bytes);
        next += bytes;
    }
    return true;
}

void remote_access::mark_dirty(const region_pin &pin, std::byte *begin, std::size_t bytes)
{
    if (!pin->stored(begin, bytes))
        return;
    const auto from = reinterpret_cast<std::uintptr_t>(begin);
    if (dirty_.merge(pin.registered(), from, from + bytes))
        dirty_.forget([](const auto &region) { return !region_table::instance().pin(region); });
}

std::uint8_t remote_access::make_durable()
{
    const bool is_durable = dirty_.make_durable([](const auto &region, std::uint64_t begin, std::uint64_t end) {
        // A region that is gone was made durable when it was deregistered.
        const auto pin = region_table::instance().pin(region);
        return !pin || pin->sync_mapped(begin, end - begin) == 0;
    });
    return is_durable ? syndrome::ack : syndrome::remote_operational;
}

} // namespace softrdma
