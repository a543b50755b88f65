// SPDX-License-Identifier: BSD-3-Clause
#include "wire/cm_message.hpp"
#include "bytes.hpp"

namespace softrdma
{

namespace
{

constexpr std::uint64_t magic = 0x736f667472646d61; // "softrdma"

bool begins(byte_reader &r) noexcept
{
    return r.get<std::uint64_t>() == magic && r.get<std::uint8_t>() == wire_version;
}

void put(byte_writer &w, const private_data &d) noexcept
{
    w.put(static_cast<std::uint8_t>(d.size)).put_raw(d.bytes.data(), d.size);
}

bool get(byte_reader &r, private_data &d) noexcept
{
    d.size = r.get<std::uint8_t>();
    return r.get_raw(d.bytes.data(), d.size).good();
}

template<typename Put>
cm_payload payload_of(Put put_fields) noexcept
{
    cm_payload p;
    byte_writer w(p.bytes.data());
    put_fields(w);
    p.size = w.size();
    return p;
}

} // namespace

std::uint8_t version_of(std::span<const std::byte> payload) noexcept
{
    byte_reader r(payload);
    const bool is_ours = r.get<std::uint64_t>() == magic;
    const auto version = r.get<std::uint8_t>();
    return is_ours && r.good() ? version : std::uint8_t{0};
}

cm_payload encode(const cm_handshake &h) noexcept
{
    return payload_of([&](byte_writer &w) {
        w.put(magic).put(wire_version).put_raw(h.key.data(), h.key.size()).put(h.qpn).put(h.psn);
        w.put(h.responder_resources).put(h.initiator_depth).put(h.flow_control);
        w.put(h.retry_count).put(h.rnr_retry_count).put(h.srq);
        put(w, h.data);
        put(w, h.shm_address);
    });
}

cm_payload encode(const direct_handshake &h) noexcept
{
    return payload_of(
            [&](byte_writer &w) { put(w.put(magic).put(wire_version).put(h.from).put(h.to), h.shm_address); });
}

cm_payload encode(const shm_decision &d) noexcept
{
    return payload_of([&](byte_writer &w) {
        w.put(static_cast<std::uint8_t>(d.shares));
        if (!d.shares && d.reason != no_shm_reason::none)
            w.put(d.reason);
    });
}

cm_payload encode(const cm_rejection &rejection) noexcept
{
    return payload_of([&](byte_writer &w) { put(w.put(rejection.reason), rejection.data); });
}

bool decode(std::span<const std::byte> payload, cm_handshake &h) noexcept
{
    byte_reader r(payload);
    if (!begins(r))
        return false;
    r.get_raw(h.key.data(), h.key.size()).get(h.qpn).get(h.psn);
    r.get(h.responder_resources).get(h.initiator_depth).get(h.flow_control);
    r.get(h.retry_count).get(h.rnr_retry_count).get(h.srq);
    return get(r, h.data) && get(r, h.shm_address) && h.qpn <= psn_mask && h.psn <= psn_mask;
}

bool decode(std::span<const std::byte> payload, direct_handshake &h) noexcept
{
    byte_reader r(payload);
    return begins(r) && r.get(h.from).get(h.to).good() && get(r, h.shm_address);
}

bool decode(std::span<const std::byte> payload, shm_decision &d) noexcept
{
    byte_reader r(payload);
    d.shares = r.get<std::uint8_t>() != 0;
    const std::uint8_t reason = d.shares || r.rest().empty() ? 0 : r.get<std::uint8_t>();
    d.reason = reason < static_cast<std::uint8_t>(no_shm_reason::count) ? no_shm_reason{reason} : no_shm_reason::none;
    return r.good() && r.rest().empty();
}

bool decode(std::span<const std::byte> payload, cm_rejection &rejection) noexcept
{
    byte_reader r(payload);
    return get(r.get(rejection.reason), rejection.data) && r.rest().empty();
}

} // namespace softrdma
