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
    r.get_raw(d.bytes.data(), d.size);
    return r.good();
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
    cm_payload p;
    byte_writer w(p.bytes.data());
    w.put(magic).put(wire_version).put_raw(h.key.data(), h.key.size()).put(h.qpn).put(h.psn);
    w.put(h.responder_resources).put(h.initiator_depth).put(h.flow_control);
    w.put(h.retry_count).put(h.rnr_retry_count).put(h.srq);
    put(w, h.data);
    put(w, h.shm_address);
    p.size = w.size();
    return p;
}

cm_payload encode(const direct_handshake &h) noexcept
{
    cm_payload p;
    byte_writer w(p.bytes.data());
    w.put(magic).put(wire_version).put(h.from).put(h.to);
    put(w, h.shm_address);
    p.size = w.size();
    return p;
}

cm_payload encode(const shm_decision &d) noexcept
{
    cm_payload p;
    byte_writer w(p.bytes.data());
    w.put(static_cast<std::uint8_t>(d.shares));
    if (!d.shares && d.reason != no_shm_reason::none)
        w.put(static_cast<std::uint8_t>(d.reason));
    p.size = w.size();
    return p;
}

cm_payload encode(const cm_rejection &rejection) noexcept
{
    cm_payload p;
    byte_writer w(p.bytes.data());
    w.put(rejection.reason);
    put(w, rejection.data);
    p.size = w.size();
    return p;
}

bool decode(std::span<const std::byte> payload, cm_handshake &h) noexcept
{
    byte_reader r(payload);
    if (!begins(r))
        return false;
    r.get_raw(h.key.data(), h.key.size());
    h.qpn = r.get<std::uint32_t>();
    h.psn = r.get<std::uint32_t>();
    h.responder_resources = r.get<std::uint8_t>();
    h.initiator_depth = r.get<std::uint8_t>();
    h.flow_control = r.get<std::uint8_t>();
    h.retry_count = r.get<std::uint8_t>();
    h.rnr_retry_count = r.get<std::uint8_t>();
    h.srq = r.get<std::uint8_t>();
    return get(r, h.data) && get(r, h.shm_address) && h.qpn <= psn_mask && h.psn <= psn_mask;
}

bool decode(std::span<const std::byte> payload, direct_handshake &h) noexcept
{
    byte_reader r(payload);
    if (!begins(r))
        return false;
    h.from = r.get<std::uint32_t>();
    h.to = r.get<std::uint32_t>();
    return r.good() && get(r, h.shm_address);
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
    rejection.reason = r.get<std::uint32_t>();
    return get(r, rejection.data) && r.rest().empty();
}

} // namespace softrdma
