// SPDX-License-Identifier: BSD-3-Clause
// Requests of the simulated requester and responder, and the memory that the requests use.
#pragma once

#include "verbs_fixture.hpp"

#include <string_view>

// Each letter of a plan is a request: S SEND, W WRITE, w unsignaled WRITE, R READ, A FETCH AND ADD, F FLUSH. s, m and r
// are SEND, WRITE and READ of two segments. The responder rejects k (WRITE, wrong key), q (READ, wrong key) and l
// (SEND, longer than the receive).
inline constexpr std::string_view long_requests = "smr";

constexpr bool is_send(char request) noexcept
{
    return request == 'S' || request == 's' || request == 'l';
}

namespace rc
{

using namespace softrdma;

inline constexpr std::uint32_t first_psn = psn_mask - 1; // PSNs wrap within a plan
inline constexpr std::uint32_t slot = 64;
inline constexpr std::uint32_t long_size = short_segment + word_size;
inline constexpr std::uint32_t receive_size = word_size;
inline constexpr std::uint8_t rnr_retry = 1;
inline constexpr std::size_t max_plan = 8;

// Memory of both sides with a slot and a long area for each request of a plan.
struct plan_memory {
    struct memory {
        alignas(8) std::array<std::byte, max_plan * slot> slots{};
        std::vector<std::byte> area = std::vector<std::byte>(max_plan * std::size_t{long_size});
        ibv_mr *slots_mr = nullptr;
        ibv_mr *area_mr = nullptr;
    } requester, responder, receives; // receives: destinations of messages at the responder

    explicit plan_memory(protection_domain &pd)
    {
        const auto add = [&pd](std::byte *at, std::size_t size) {
            return region_table::instance().add(
                    &pd, at, size, reinterpret_cast<std::uintptr_t>(at), connected_pair::all_access);
        };
        for (memory *m : {&requester, &responder, &receives}) {
            m->slots_mr = add(m->slots.data(), m->slots.size());
            m->area_mr = add(m->area.data(), m->area.size());
        }
    }
};

// Objects that all worlds share.
struct host {
    verbs_device device;
    plan_memory forward{device.pd};
    plan_memory backward{device.pd}; // requests in the opposite direction
};

inline host &shared()
{
    static host one;
    return one;
}

inline bool is_long(char request) noexcept
{
    return long_requests.find(request) != std::string_view::npos;
}

inline std::uint32_t size_of(char request) noexcept
{
    return is_long(request) ? long_size : request == 'l' ? receive_size + 1 : word_size;
}

inline std::byte *place(plan_memory::memory &m, char request, std::size_t i) noexcept
{
    return is_long(request) ? m.area.data() + i * long_size : m.slots.data() + i * slot;
}

inline std::uint64_t address_of(plan_memory::memory &m, char request, std::size_t i) noexcept
{
    return reinterpret_cast<std::uintptr_t>(place(m, request, i));
}

// Value of the last byte that request `i` transfers.
inline std::byte last_byte(std::size_t i) noexcept
{
    return static_cast<std::byte>(0x10 + i);
}

inline ibv_wr_opcode opcode_of(char request) noexcept
{
    switch (request) {
    case 'S':
    case 's':
    case 'l':
        return IBV_WR_SEND;
    case 'R':
    case 'r':
    case 'q':
        return IBV_WR_RDMA_READ;
    case 'A':
        return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case 'F':
        return native::wr_flush;
    default:
        return IBV_WR_RDMA_WRITE;
    }
}

} // namespace rc
