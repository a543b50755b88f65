// SPDX-License-Identifier: BSD-3-Clause
#include "control.hpp"

#include <algorithm>
#include <endian.h>

#include "bytes.hpp"

namespace replica
{

namespace
{

// A daemon of major version 0 sends an errno value in host byte order as greeting. A client of that version reads these
// bytes as EPROTONOSUPPORT.
constexpr unsigned char greeting_start[8] = {EPROTONOSUPPORT, 0, 0, 0, 'R', 'P', 'M', '1'};

// Offsets of the message size in the headers.
constexpr std::size_t request_size_at = 4;
constexpr std::size_t answer_size_at = 8;

void put_attributes(byte_writer &to, const pool_attributes &a)
{
    to.put_raw(a.signature, sizeof(a.signature));
    to.put(a.major).put(a.compat_features).put(a.incompat_features).put(a.ro_compat_features);
    to.put_raw(a.poolset_uuid, sizeof(a.poolset_uuid)).put_raw(a.uuid, sizeof(a.uuid));
    to.put_raw(a.next_uuid, sizeof(a.next_uuid)).put_raw(a.prev_uuid, sizeof(a.prev_uuid));
    to.put_raw(a.user_flags, sizeof(a.user_flags));
}

void get_attributes(byte_reader &from, pool_attributes &a)
{
    from.get_raw(a.signature, sizeof(a.signature));
    a.major = from.get<std::uint32_t>();
    a.compat_features = from.get<std::uint32_t>();
    a.incompat_features = from.get<std::uint32_t>();
    a.ro_compat_features = from.get<std::uint32_t>();
    from.get_raw(a.poolset_uuid, sizeof(a.poolset_uuid));
    from.get_raw(a.uuid, sizeof(a.uuid));
    from.get_raw(a.next_uuid, sizeof(a.next_uuid));
    from.get_raw(a.prev_uuid, sizeof(a.prev_uuid));
    from.get_raw(a.user_flags, sizeof(a.user_flags));
}

template<std::size_t Capacity>
void put_text(byte_writer &to, const short_text<Capacity> &text)
{
    to.put(static_cast<std::uint16_t>(text.view().size())).put_raw(text.view().data(), text.view().size());
}

// Reads a text. Returns false if it is missing or longer than Capacity.
template<std::size_t Capacity>
bool get_text(byte_reader &from, short_text<Capacity> &text)
{
    const std::size_t size = from.get<std::uint16_t>();
    char bytes[Capacity];
    if (!from.good() || size > Capacity || size > from.rest().size())
        return false;
    from.get_raw(bytes, size);
    return text.assign({bytes, size});
}

encoded_message finish(encoded_message &m, byte_writer &to, std::size_t size_at)
{
    m.set_size(to.size());
    byte_writer(m.begin() + size_at).put(static_cast<std::uint64_t>(to.size()));
    return m;
}

std::uint64_t size_in(std::span<const std::byte> header, std::size_t at)
{
    byte_reader from(header.subspan(at));
    return from.get<std::uint64_t>();
}

std::size_t acceptable(std::uint64_t size, std::size_t header)
{
    return size < header || size > max_message_size ? 0 : static_cast<std::size_t>(size);
}

void put_session(byte_writer &to, const request &r)
{
    const session_request &s = r.session;
    to.put(s.features).put(s.pool_size).put(s.lanes).put(s.devices).put(s.keep_alive_ms);
    if (r.type == request_type::create)
        put_attributes(to, s.attributes);
    put_text(to, s.set_name);
}

bool get_session(byte_reader &from, request &r)
{
    session_request &s = r.session;
    s.features = from.get<std::uint64_t>();
    s.pool_size = from.get<std::uint64_t>();
    s.lanes = from.get<std::uint32_t>();
    s.devices = from.get<std::uint32_t>();
    s.keep_alive_ms = from.get<std::uint32_t>();
    if (r.type == request_type::create)
        get_attributes(from, s.attributes);
    // Rejects a NUL in the name, because system calls would truncate the name there.
    return get_text(from, s.set_name) && s.set_name.view().find('\0') == std::string_view::npos;
}

void put_session(byte_writer &to, const session_answer &s)
{
    to.put(s.features).put(s.pool_size).put(static_cast<std::uint32_t>(s.has_header));
    to.put(static_cast<std::uint32_t>(s.method)).put(static_cast<std::uint32_t>(s.level));
    to.put(s.lanes).put(s.window).put(s.port).put(s.devices);
    to.put_raw(s.token.data(), s.token.size());
    put_text(to, s.address);
    put_text(to, s.peer);
    put_text(to, s.data_region);
    put_text(to, s.header_region);
    put_attributes(to, s.attributes);
}

bool get_session(byte_reader &from, session_answer &s)
{
    s.features = from.get<std::uint64_t>();
    s.pool_size = from.get<std::uint64_t>();
    const auto has_header = from.get<std::uint32_t>();
    const auto method_number = from.get<std::uint32_t>();
    const auto level_number = from.get<std::uint32_t>();
    s.lanes = from.get<std::uint32_t>();
    s.window = from.get<std::uint32_t>();
    s.port = from.get<std::uint32_t>();
    s.devices = from.get<std::uint32_t>();
    from.get_raw(s.token.data(), s.token.size());
    const bool texts = get_text(from, s.address) && get_text(from, s.peer) && get_text(from, s.data_region) &&
                       get_text(from, s.header_region);
    get_attributes(from, s.attributes);
    s.has_header = has_header == 1;
    s.method = static_cast<method>(method_number);
    s.level = static_cast<level>(level_number);
    const bool in_range = has_header <= 1 && method_number >= 1 && method_number <= 3 && level_number <= 3 &&
                          s.lanes >= 1 && s.lanes <= max_lanes && s.window >= 1 && s.window <= max_window &&
                          s.port >= 1 && s.port <= 65535 &&
                          (s.devices == device_hardware || s.devices == device_software);
    return texts && in_range && s.header_region.empty() != s.has_header &&
           s.address.view().find('\0') == std::string_view::npos;
}

bool is_request(std::uint32_t type)
{
    return type % 2 == 1 && type <= highest_request;
}

bool starts_session(request_type type)
{
    return type == request_type::create || type == request_type::open;
}

bool names_mirror(request_type type)
{
    return type >= request_type::mirror_create;
}

bool answers_session(request_type type)
{
    return starts_session(type) || type == request_type::mirror_attach;
}

void put_mirror(byte_writer &to, const mirror_request &m)
{
    to.put_raw(m.set.data(), m.set.size()).put(m.copy).put(m.length).put(m.offset);
    to.put(m.promise.epoch).put(m.promise.writer);
    put(to, m.record);
    to.put(m.lanes).put(m.devices);
    put_text(to, m.set_name);
}

bool get_mirror(byte_reader &from, mirror_request &m)
{
    from.get_raw(m.set.data(), m.set.size());
    m.copy = from.get<std::uint32_t>();
    m.length = from.get<std::uint64_t>();
    m.offset = from.get<std::uint64_t>();
    m.promise.epoch = from.get<std::uint64_t>();
    m.promise.writer = from.get<std::uint64_t>();
    const bool record = get(from, m.record);
    m.lanes = from.get<std::uint32_t>();
    m.devices = from.get<std::uint32_t>();
    return record && m.copy < max_copies && get_text(from, m.set_name) &&
           m.set_name.view().find('\0') == std::string_view::npos;
}

void put_hashes(byte_writer &to, const segment_hashes &h)
{
    to.put(h.count).put_raw(h.hashes.data(), h.count * sizeof(segment_hash));
}

bool get_hashes(byte_reader &from, segment_hashes &h)
{
    h.count = from.get<std::uint32_t>();
    if (!from.good() || h.count > max_hashes)
        return false;
    from.get_raw(h.hashes.data(), h.count * sizeof(segment_hash));
    return from.good();
}

void put_state(byte_writer &to, const mirror_state &s)
{
    put(to, s);
    to.put(static_cast<std::uint32_t>(s.resynced));
}

bool get_state(byte_reader &from, mirror_state &s)
{
    if (!get(from, s))
        return false;
    // Daemons of earlier versions end the message before this member.
    s.resynced = !from.rest().empty() && from.get<std::uint32_t>() == 1;
    return from.good();
}

void put_body(byte_writer &to, const answer &a)
{
    if (answers_session(a.type))
        put_session(to, a.session);
    else if (a.type == request_type::mirror_hash)
        put_hashes(to, a.hashes);
    else if (names_mirror(a.type))
        put_state(to, a.mirror);
    else if (a.type == request_type::mirror_challenge)
        to.put_raw(a.challenge.data(), a.challenge.size());
}

bool get_body(byte_reader &from, answer &a)
{
    if (answers_session(a.type))
        return get_session(from, a.session);
    if (a.type == request_type::mirror_hash)
        return get_hashes(from, a.hashes);
    if (names_mirror(a.type))
        return get_state(from, a.mirror);
    if (a.type == request_type::mirror_challenge)
        from.get_raw(a.challenge.data(), a.challenge.size());
    return true;
}

} // namespace

siphash_result prove_key(const mirror_key &key, const siphash_result &challenge)
{
    siphash_key first;
    std::array<std::byte, sizeof(mirror_key) - sizeof(siphash_key) + sizeof(siphash_result)> message;
    std::copy_n(key.begin(), first.size(), first.begin());
    const auto end = std::copy(key.begin() + first.size(), key.end(), message.begin());
    std::copy(challenge.begin(), challenge.end(), end);
    return siphash_128(first, message);
}

encoded_message encode(const greeting &g)
{
    encoded_message m;
    byte_writer to(m.begin());
    to.put_raw(greeting_start, sizeof(greeting_start)).put(g.major).put(g.minor).put(g.features);
    to.put(static_cast<std::uint32_t>(g.error));
    put_text(to, g.text);
    m.set_size(to.size());
    return m;
}

encoded_message encode(const request &r)
{
    encoded_message m;
    byte_writer to(m.begin());
    to.put(static_cast<std::uint32_t>(r.type)).put(std::uint64_t{0});
    to.put(protocol_major).put(r.minor).put(r.number);
    if (starts_session(r.type))
        put_session(to, r);
    else if (r.type == request_type::set_attributes)
        put_attributes(to, r.attributes);
    else if (r.type == request_type::close)
        to.put(static_cast<std::uint32_t>(r.remove));
    else if (r.type == request_type::mirror_prove)
        to.put_raw(r.proof.data(), r.proof.size());
    else if (names_mirror(r.type))
        put_mirror(to, r.mirror);
    return finish(m, to, request_size_at);
}

encoded_message encode(const answer &a)
{
    encoded_message m;
    byte_writer to(m.begin());
    to.put(static_cast<std::uint32_t>(a.status)).put(static_cast<std::uint32_t>(a.type) + 1).put(std::uint64_t{0});
    to.put(protocol_major).put(a.minor).put(a.number);
    if (a.status != status::success)
        put_text(to, a.text);
    else
        put_body(to, a);
    return finish(m, to, answer_size_at);
}

std::size_t request_size(std::span<const std::byte, request_header_size> header)
{
    return acceptable(size_in(header, request_size_at), header.size());
}

std::size_t answer_size(std::span<const std::byte, answer_header_size> header)
{
    return acceptable(size_in(header, answer_size_at), header.size());
}

std::size_t greeting_size(std::span<const std::byte, greeting_header_size> header)
{
    byte_reader from(std::span<const std::byte>(header).last(sizeof(std::uint16_t)));
    const std::size_t text = from.get<std::uint16_t>();
    return text > error_text::capacity ? 0 : header.size() + text;
}

decoded decode(std::span<const std::byte> bytes, greeting &to)
{
    byte_reader from(bytes);
    unsigned char start[sizeof(greeting_start)]{};
    from.get_raw(start, sizeof(start));
    // Greeting of a daemon of major version 0 that is ready.
    constexpr unsigned char ready_0[4]{};
    if (bytes.size() >= sizeof(ready_0) && std::memcmp(bytes.data(), ready_0, sizeof(ready_0)) == 0)
        return decoded::other_version;
    if (std::memcmp(start, greeting_start, sizeof(start)) != 0)
        return decoded::malformed;
    to.major = from.get<std::uint16_t>();
    to.minor = from.get<std::uint16_t>();
    if (from.good() && to.major != protocol_major)
        return decoded::other_version;
    to.features = from.get<std::uint64_t>();
    const auto error = from.get<std::uint32_t>();
    to.error = static_cast<int>(error);
    const bool good = get_text(from, to.text) && error < 4096;
    return good ? decoded::good : decoded::malformed;
}

// Reads the members after the type that requests and responses share: size, version and number.
template<class Message>
static decoded get_head(byte_reader &from, std::size_t received, Message &to)
{
    const auto size = from.get<std::uint64_t>();
    const auto major = from.get<std::uint16_t>();
    to.minor = from.get<std::uint16_t>();
    if (!from.good() || size != received || size > max_message_size)
        return decoded::malformed;
    if (major != protocol_major)
        return decoded::other_version;
    to.number = from.get<std::uint32_t>();
    return decoded::good;
}

decoded decode(std::span<const std::byte> bytes, request &to)
{
    byte_reader from(bytes);
    const auto type = from.get<std::uint32_t>();
    if (const decoded head = get_head(from, bytes.size(), to); head != decoded::good)
        return head;
    if (!is_request(type))
        return decoded::malformed;
    to.type = static_cast<request_type>(type);
    bool good = true;
    if (starts_session(to.type)) {
        good = get_session(from, to);
    } else if (to.type == request_type::set_attributes) {
        get_attributes(from, to.attributes);
    } else if (to.type == request_type::close) {
        const auto flags = from.get<std::uint32_t>();
        to.remove = flags == 1;
        good = flags <= 1;
    } else if (to.type == request_type::mirror_prove) {
        from.get_raw(to.proof.data(), to.proof.size());
    } else if (names_mirror(to.type)) {
        good = get_mirror(from, to.mirror);
    }
    return good && from.good() ? decoded::good : decoded::malformed;
}

decoded decode(std::span<const std::byte> bytes, answer &to)
{
    byte_reader from(bytes);
    const auto status_number = from.get<std::uint32_t>();
    const auto type = from.get<std::uint32_t>();
    if (const decoded head = get_head(from, bytes.size(), to); head != decoded::good)
        return head;
    if (type == 0 || !is_request(type - 1) || status_number > highest_status)
        return decoded::malformed;
    to.type = static_cast<request_type>(type - 1);
    to.status = static_cast<status>(status_number);
    bool good = true;
    if (to.status != status::success)
        good = get_text(from, to.text);
    else
        good = get_body(from, to);
    return good && from.good() ? decoded::good : decoded::malformed;
}

} // namespace replica
