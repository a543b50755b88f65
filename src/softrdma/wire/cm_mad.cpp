// SPDX-License-Identifier: BSD-3-Clause
#include "wire/cm_mad.hpp"
#include "bytes.hpp"

#include <algorithm>
#include <utility>

namespace softrdma::roce
{

namespace
{

constexpr std::uint8_t base_version = 1;
constexpr std::uint8_t management_class = 7; // communication management
constexpr std::uint8_t class_version = 2;
constexpr std::uint8_t method_send = 3;

constexpr std::uint16_t permissive_lid = 0xffff; // RoCE has no LIDs
constexpr std::uint8_t path_hop_limit = 64;
constexpr std::uint32_t packet_rate = 16; // IBV_RATE_100_GBPS
constexpr std::size_t alternate_path_size = 44;
constexpr std::size_t additional_info_size = 72;

constexpr std::size_t path_request_field_size = 168;

constexpr struct {
    cm_attribute attribute;
    std::size_t size;
} field_sizes[] = {{cm_attribute::request, request_field_size}, {cm_attribute::receipt, 222},
        {cm_attribute::reject, reject_private_size}, {cm_attribute::reply, reply_private_size},
        {cm_attribute::ready, 224}, {cm_attribute::disconnect_request, 220}, {cm_attribute::disconnect_reply, 224},
        {cm_attribute::load_alternate_path, path_request_field_size},
        {cm_attribute::alternate_path_reply, reject_private_size}, {cm_attribute::resolve_request, resolve_field_size},
        {cm_attribute::resolve_reply, resolve_reply_private_size}};

// Writes a number of 24 bits and the byte after it.
void put_24(byte_writer &w, std::uint32_t number, unsigned last = 0) noexcept
{
    w.put(number << 8 | last);
}

unsigned bits(std::uint8_t value, unsigned count, unsigned position) noexcept
{
    return (value & ((1u << count) - 1)) << position;
}

// Reads bit fields of a number from its lowest bit.
class bit_reader
{
public:
    explicit bit_reader(std::uint32_t from) noexcept : left_(from) {}
    std::uint8_t get(unsigned count) noexcept
    {
        const auto value = static_cast<std::uint8_t>(left_ & ((1u << count) - 1));
        left_ >>= count;
        return value;
    }
    bit_reader &skip(unsigned count) noexcept
    {
        left_ >>= count;
        return *this;
    }
    std::uint32_t rest() const noexcept { return left_; }

private:
    std::uint32_t left_;
};

void put_zeros(byte_writer &w, std::size_t size) noexcept
{
    static constexpr std::array<std::byte, additional_info_size> zeros{};
    w.put_raw(zeros.data(), size);
}

void put_request(byte_writer &w, const cm_mad &m) noexcept
{
    w.put(std::uint32_t{0}).put(m.service_id).put(m.guid);
    put_zeros(w, 8);
    put_24(w, m.qpn, m.responder_resources);
    put_24(w, 0, m.initiator_depth);
    put_24(w, 0, bits(m.remote_timeout, 5, 3) | bits(m.transport, 2, 1) | bits(m.flow_control, 1, 0));
    put_24(w, m.psn, bits(m.local_timeout, 5, 3) | bits(m.retry_count, 3, 0));
    w.put(default_pkey);
    w.put(static_cast<std::uint8_t>(bits(m.mtu, 4, 4) | bits(m.rnr_retry_count, 3, 0)));
    w.put(static_cast<std::uint8_t>(bits(m.max_retries, 4, 4) | bits(m.srq, 1, 3)));
    w.put(permissive_lid).put(permissive_lid);
    w.put_raw(m.source.data(), m.source.size()).put_raw(m.destination.data(), m.destination.size());
    w.put(packet_rate).put(m.traffic_class).put(path_hop_limit).put(std::uint8_t{0});
    w.put(static_cast<std::uint8_t>(bits(m.ack_timeout, 5, 3)));
    put_zeros(w, alternate_path_size);
}

void get_request(byte_reader &r, cm_mad &m) noexcept
{
    r.ignore(4).get(m.service_id).get(m.guid).ignore(8);
    bit_reader queue_pair(r.get<std::uint32_t>());
    m.responder_resources = queue_pair.get(8);
    m.qpn = queue_pair.rest();
    m.initiator_depth = bit_reader(r.get<std::uint32_t>()).get(8);
    bit_reader service(r.get<std::uint32_t>());
    m.flow_control = service.get(1);
    m.transport = service.get(2);
    m.remote_timeout = service.get(5);
    bit_reader start(r.get<std::uint32_t>());
    m.retry_count = start.get(3);
    m.local_timeout = start.get(5);
    m.psn = start.rest();
    bit_reader path(r.ignore(2).get<std::uint8_t>());
    m.rnr_retry_count = path.get(3);
    m.mtu = path.skip(1).get(4);
    bit_reader limits(r.get<std::uint8_t>());
    m.srq = limits.skip(3).get(1);
    m.max_retries = limits.get(4);
    r.ignore(4).get_raw(m.source.data(), m.source.size()).get_raw(m.destination.data(), m.destination.size());
    r.ignore(4).get(m.traffic_class).ignore(2);
    m.ack_timeout = bit_reader(r.get<std::uint8_t>()).skip(3).get(5);
    r.ignore(alternate_path_size);
}

void put_reply(byte_writer &w, const cm_mad &m) noexcept
{
    w.put(m.remote_id).put(std::uint32_t{0});
    put_24(w, m.qpn);
    put_24(w, 0);
    put_24(w, m.psn);
    w.put(m.responder_resources).put(m.initiator_depth);
    w.put(static_cast<std::uint8_t>(bits(m.flow_control, 1, 0)));
    w.put(static_cast<std::uint8_t>(bits(m.rnr_retry_count, 3, 5) | bits(m.srq, 1, 4)));
    w.put(m.guid);
}

void get_reply(byte_reader &r, cm_mad &m) noexcept
{
    m.qpn = r.get(m.remote_id).ignore(4).get<std::uint32_t>() >> 8;
    m.psn = r.ignore(4).get<std::uint32_t>() >> 8;
    r.get(m.responder_resources).get(m.initiator_depth);
    m.flow_control = bit_reader(r.get<std::uint8_t>()).get(1);
    bit_reader counts(r.get<std::uint8_t>());
    m.srq = counts.skip(4).get(1);
    m.rnr_retry_count = counts.get(3);
    r.get(m.guid);
}

std::uint8_t subject_bits(const cm_mad &m) noexcept
{
    return static_cast<std::uint8_t>(bits(static_cast<std::uint8_t>(m.subject), 2, 6));
}

// Returns whether the subject has a value of the specification; its bits have one more.
bool get_subject(byte_reader &r, cm_mad &m) noexcept
{
    const std::uint8_t value = bit_reader(r.get<std::uint8_t>()).skip(6).get(2);
    m.subject = static_cast<cm_subject>(value);
    return value <= static_cast<std::uint8_t>(cm_subject::other);
}

// A receiver that does not know the ID of a sender, whose wait has ended, finds the connection by the sender's GUID.
void put_rejection(byte_writer &w, const cm_mad &m) noexcept
{
    const std::size_t info_size = m.reason == reject_reason::timeout ? sizeof(m.guid) : 0;
    w.put(m.remote_id).put(subject_bits(m)).put(static_cast<std::uint8_t>(info_size << 1)).put(m.reason);
    if (info_size != 0)
        w.put(m.guid);
    put_zeros(w, additional_info_size - info_size);
}

std::size_t field_size(cm_attribute attribute) noexcept
{
    const auto *found = std::ranges::find_if(field_sizes, [&](const auto &f) { return f.attribute == attribute; });
    return found == std::end(field_sizes) ? 0 : found->size;
}

} // namespace

mad_bytes encode(const cm_mad &m) noexcept
{
    mad_bytes bytes{};
    byte_writer w(bytes.data());
    w.put(base_version).put(management_class).put(class_version).put(method_send).put(std::uint32_t{0});
    w.put(m.transaction).put(m.attribute).put(std::uint16_t{0}).put(std::uint32_t{0});
    w.put(m.attribute == cm_attribute::resolve_reply ? m.remote_id : m.local_id);
    switch (m.attribute) {
    case cm_attribute::request:
        put_request(w, m);
        break;
    case cm_attribute::reply:
        put_reply(w, m);
        break;
    case cm_attribute::receipt:
        w.put(m.remote_id).put(subject_bits(m)).put(static_cast<std::uint8_t>(bits(m.service_timeout, 5, 3)));
        break;
    case cm_attribute::reject:
        put_rejection(w, m);
        break;
    case cm_attribute::disconnect_request:
        w.put(m.remote_id);
        put_24(w, m.qpn);
        break;
    case cm_attribute::alternate_path_reply:
        w.put(m.remote_id).put(std::uint8_t{0}).put(static_cast<std::uint8_t>(m.reason)).put(std::uint16_t{0});
        put_zeros(w, additional_info_size);
        break;
    case cm_attribute::load_alternate_path:
        w.put(m.remote_id);
        put_zeros(w, mad_size - w.size() - path_request_field_size);
        break;
    case cm_attribute::resolve_request:
        w.put(default_pkey).put(std::uint16_t{0}).put(m.service_id);
        break;
    case cm_attribute::resolve_reply:
        w.put(static_cast<std::uint8_t>(m.reason)).put(std::uint8_t{0}).put(std::uint16_t{0});
        put_24(w, m.qpn);
        w.put(m.service_id).put(m.qkey);
        put_zeros(w, additional_info_size);
        break;
    case cm_attribute::ready:
    case cm_attribute::disconnect_reply:
        w.put(m.remote_id);
        break;
    }
    w.put_raw(m.data.bytes.data(), std::min(m.data.size, field_size(m.attribute)));
    return bytes;
}

bool decode(std::span<const std::byte> bytes, cm_mad &m) noexcept
{
    if (bytes.size() != mad_size)
        return false;
    byte_reader r(bytes);
    constexpr std::array header{
            base_version, management_class, class_version, method_send, std::uint8_t{0}, std::uint8_t{0}};
    std::array<std::uint8_t, header.size()> received;
    r.get_raw(received.data(), received.size());
    if (received != header)
        return false;
    m = {};
    r.ignore(2).get(m.transaction).get(m.attribute).ignore(6).get(m.local_id);
    if (!is_request(m.attribute) && m.attribute != cm_attribute::reply && m.attribute != cm_attribute::resolve_reply)
        r.get(m.remote_id);
    bool is_valid = true;
    switch (m.attribute) {
    case cm_attribute::request:
        get_request(r, m);
        break;
    case cm_attribute::reply:
        get_reply(r, m);
        break;
    case cm_attribute::receipt:
        is_valid = get_subject(r, m);
        m.service_timeout = bit_reader(r.get<std::uint8_t>()).skip(3).get(5);
        break;
    case cm_attribute::reject:
        is_valid = get_subject(r, m);
        r.ignore(1).get(m.reason).ignore(additional_info_size);
        break;
    case cm_attribute::disconnect_request:
        m.qpn = r.get<std::uint32_t>() >> 8;
        break;
    case cm_attribute::alternate_path_reply:
        m.reason = r.ignore(1).get<std::uint8_t>();
        r.ignore(2 + additional_info_size);
        break;
    case cm_attribute::load_alternate_path:
        r.ignore(r.rest().size() - path_request_field_size);
        break;
    case cm_attribute::resolve_request:
        r.ignore(4).get(m.service_id);
        break;
    case cm_attribute::resolve_reply:
        m.remote_id = std::exchange(m.local_id, 0);
        m.reason = r.get<std::uint8_t>();
        m.qpn = r.ignore(3).get<std::uint32_t>() >> 8;
        r.get(m.service_id).get(m.qkey).ignore(additional_info_size);
        break;
    case cm_attribute::ready:
    case cm_attribute::disconnect_reply:
        break;
    default:
        return false;
    }
    m.data.size = field_size(m.attribute);
    r.get_raw(m.data.bytes.data(), m.data.size);
    return is_valid && r.good() && r.rest().empty();
}

private_data with_header(const ip_header &header, const private_data &data, std::size_t field_size) noexcept
{
    private_data field{.bytes = {}, .size = field_size};
    byte_writer w(field.bytes.data());
    w.put(std::uint8_t{0}).put(static_cast<std::uint8_t>(header.v4 ? 0x40 : 0x60)).put(header.source_port);
    for (const network_address &address : {header.source, header.destination}) {
        if (header.v4)
            put_zeros(w, mapped_v4_position);
        const std::size_t skipped = header.v4 ? mapped_v4_position : 0;
        w.put_raw(address.data() + skipped, address.size() - skipped);
    }
    w.put_raw(data.bytes.data(), std::min(data.size, field_size - ip_header_size));
    return field;
}

bool split_header(const private_data &field, ip_header &header, private_data &data) noexcept
{
    byte_reader r(std::span(field.bytes).first(field.size));
    const auto version = r.get<std::uint8_t>();
    const std::uint8_t ip_version = r.get<std::uint8_t>() >> 4;
    header.v4 = ip_version == 4;
    r.get(header.source_port);
    for (network_address *address : {&header.source, &header.destination}) {
        r.get_raw(address->data(), address->size());
        if (header.v4)
            std::copy_n(mapped_prefix.begin(), mapped_v4_position, address->begin());
    }
    data.size = std::max(field.size, ip_header_size) - ip_header_size;
    r.get_raw(data.bytes.data(), data.size);
    return version == 0 && (header.v4 || ip_version == 6) && r.good() && r.rest().empty();
}

} // namespace softrdma::roce
