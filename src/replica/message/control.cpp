// SPDX-License-Identifier: BSD-3-Clause
#include "message/control.hpp"

#include <cerrno>
#include <cstring>

#include "bytes.hpp"

namespace replica
{

namespace
{

// Preamble for old versions. A daemon of version 0 sends an errno value in host byte order as greeting, so a client of
// version 0 reads EPROTONOSUPPORT, and one of version 1 its own greeting, with another major version and no text.
constexpr std::byte preamble[preamble_size] = {std::byte{EPROTONOSUPPORT}, {}, {}, {}, std::byte{'R'}, std::byte{'P'},
        std::byte{'M'}, std::byte{'1'}, {}, std::byte{protocol_major}};
constexpr std::size_t preamble_start = 8; // bytes before the version

bool has_size(const std::string &bytes, std::size_t size)
{
    return bytes.empty() || bytes.size() == size;
}

// Rejects a NUL, because system calls would truncate the text there.
bool is_text(const std::string &bytes, std::size_t max_size)
{
    return bytes.size() <= max_size && bytes.find('\0') == std::string::npos;
}

bool is_valid(const wire::attributes &a)
{
    const pool_attributes sizes;
    return has_size(a.signature(), sizeof(sizes.signature)) && has_size(a.poolset_uuid(), sizeof(sizes.poolset_uuid)) &&
           has_size(a.uuid(), sizeof(sizes.uuid)) && has_size(a.next_uuid(), sizeof(sizes.next_uuid)) &&
           has_size(a.prev_uuid(), sizeof(sizes.prev_uuid)) && has_size(a.user_flags(), sizeof(sizes.user_flags));
}

bool is_valid(const wire::record &r)
{
    return r.members() <= UINT16_MAX && (r.in_sync() & ~r.members()) == 0 && r.writer_copy() < max_copies;
}

bool is_valid(const wire::state &s)
{
    return has_size(s.set(), sizeof(set_uuid)) && s.copy() < max_copies && is_valid(s.committed());
}

bool is_descriptor(const std::string &bytes)
{
    return bytes.size() <= max_descriptor_size;
}

bool is_valid(const wire::region &r)
{
    return r.method() >= static_cast<std::uint32_t>(method::messages) &&
           r.method() <= static_cast<std::uint32_t>(method::visibility_flush) &&
           r.level() <= static_cast<std::uint32_t>(level::direct_write) && r.lanes() >= 1 && r.lanes() <= max_lanes &&
           r.window() >= 1 && r.window() <= max_window && r.port() >= 1 && r.port() <= UINT16_MAX &&
           (r.device() == device_hardware || r.device() == device_software) && is_text(r.address(), 63) &&
           r.token().size() == sizeof(token) && is_descriptor(r.peer_descriptor()) &&
           is_descriptor(r.data_descriptor()) && is_descriptor(r.header_descriptor()) &&
           r.header_descriptor().empty() != r.has_header() && is_valid(r.attributes());
}

bool is_valid(const greeting &g)
{
    return g.error() < 4096 && is_text(g.text(), error_text::capacity);
}

bool is_valid(const request &r)
{
    if (!is_text(r.set_name(), max_set_name_len) || !has_size(r.set(), sizeof(set_uuid)))
        return false;
    switch (r.body_case()) {
    case request::kCreate:
        return is_valid(r.create().attributes());
    case request::kSetAttributes:
        return is_valid(r.set_attributes());
    case request::kCreateCopy:
        return r.create_copy().copy() < max_copies;
    case request::kCommit:
        return is_valid(r.commit().record()) && r.commit().copy() < max_copies;
    default:
        return true;
    }
}

bool is_valid(const response &r)
{
    if (r.status() > max_status || !is_text(r.text(), error_text::capacity))
        return false;
    switch (r.body_case()) {
    case response::kRegion:
        return is_valid(r.region());
    case response::kState:
        return is_valid(r.state());
    case response::kImage:
        return is_valid(r.image().record());
    case response::kHashes:
        return r.hashes().size() % sizeof(segment_hash) == 0 && r.hashes().size() <= max_hashes * sizeof(segment_hash);
    default:
        return true;
    }
}

template<class Message>
decoded parse(std::string_view bytes, Message &to)
{
    return to.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) && is_valid(to) ? decoded::good
                                                                                           : decoded::malformed;
}

template<class T>
void put(const T &from, std::string *to)
{
    to->assign(reinterpret_cast<const char *>(&from), sizeof(from));
}

template<class T>
void get(const std::string &from, T &to)
{
    if (!from.empty())
        std::memcpy(&to, from.data(), sizeof(to));
}

} // namespace

std::string encode(const google::protobuf::MessageLite &message)
{
    std::string frame(frame_header_size, '\0');
    message.AppendToString(&frame);
    const std::uint32_t size = htobe32(static_cast<std::uint32_t>(frame.size() - frame_header_size));
    std::memcpy(frame.data(), &size, sizeof(size));
    return frame;
}

std::string encode(const greeting &message)
{
    const google::protobuf::MessageLite &content = message;
    return bytes_of(std::to_array(preamble)) + encode(content);
}

std::optional<std::size_t> message_size(std::span<const std::byte, frame_header_size> header)
{
    byte_reader from(header);
    const auto size = from.get<std::uint32_t>();
    return size > max_message_size ? std::nullopt : std::optional<std::size_t>(size);
}

decoded check_preamble(std::span<const std::byte> bytes)
{
    // Greeting of a daemon of version 0 that is ready.
    constexpr std::byte ready_0[4]{};
    if (bytes.size() >= sizeof(ready_0) && std::memcmp(bytes.data(), ready_0, sizeof(ready_0)) == 0)
        return decoded::other_version;
    const auto first = bytes.first(std::min(bytes.size(), preamble_start));
    if (!std::equal(first.begin(), first.end(), std::begin(preamble)))
        return decoded::malformed;
    byte_reader from(bytes.subspan(first.size()));
    const auto major = from.get<std::uint16_t>();
    return from.good() && major != protocol_major ? decoded::other_version : decoded::good;
}

decoded decode(std::string_view bytes, greeting &to)
{
    return parse(bytes, to);
}

decoded decode(std::string_view bytes, request &to)
{
    // Requests of versions 0 and 1 begin with their type, which is the size of a frame here, and have a zero byte next.
    if (!bytes.empty() && bytes.front() == '\0')
        return decoded::other_version;
    return parse(bytes, to);
}

decoded decode(std::string_view bytes, response &to)
{
    return parse(bytes, to);
}

response response_to(const request &r)
{
    response created;
    created.set_number(r.number());
    created.set_kind(static_cast<std::uint32_t>(r.body_case()));
    return created;
}

bool answers(const response &r, std::uint32_t number, request::BodyCase kind)
{
    // A daemon that does not know the kind of a request cannot repeat it.
    const bool is_unknown = r.kind() == 0 && r.status() == static_cast<std::uint32_t>(status::unsupported);
    if (r.number() != number || (r.kind() != static_cast<std::uint32_t>(kind) && !is_unknown))
        return false;
    if (r.status() != static_cast<std::uint32_t>(status::success))
        return true;
    switch (kind) {
    case request::kCreate:
    case request::kOpen:
    case request::kAttach:
    case request::kAttachReader:
        return r.has_region();
    case request::kCreateCopy:
    case request::kGetState:
    case request::kPrepare:
    case request::kCommit:
    case request::kCursor:
    case request::kResize:
        return r.has_state();
    case request::kHash:
    case request::kHashImage:
        return r.body_case() == response::kHashes;
    case request::kRead:
        return r.has_image();
    default:
        return true;
    }
}

void set_failure(response &r, status failed, std::string_view text)
{
    r.clear_body();
    r.set_status(static_cast<std::uint32_t>(failed));
    r.set_text(std::string(text.substr(0, error_text::capacity)));
}

mirror_promise from_wire(const wire::promise &p)
{
    return {p.epoch(), p.writer()};
}

void to_wire(const mirror_promise &p, wire::promise &to)
{
    to.set_epoch(p.epoch);
    to.set_writer(p.writer);
}

mirror_record from_wire(const wire::record &r)
{
    return {r.epoch(), r.version(), r.writer(), static_cast<std::uint16_t>(r.members()),
            static_cast<std::uint16_t>(r.in_sync()),
            r.availability() ? mirror_policy::availability : mirror_policy::safety, r.closed(), r.writer_copy(),
            r.mark()};
}

void to_wire(const mirror_record &r, wire::record &to)
{
    to.set_epoch(r.epoch);
    to.set_version(r.version);
    to.set_writer(r.writer);
    to.set_members(r.members);
    to.set_in_sync(r.in_sync);
    to.set_availability(r.policy == mirror_policy::availability);
    to.set_closed(r.closed);
    to.set_writer_copy(r.writer_copy);
    to.set_mark(r.mark);
}

mirror_state from_wire(const wire::state &s)
{
    return {array_of<set_uuid>(s.set()), s.copy(), s.length(), from_wire(s.promised()), from_wire(s.committed()),
            s.cursor(), s.resynced()};
}

void to_wire(const mirror_state &s, wire::state &to)
{
    to.set_set(bytes_of(s.set));
    to.set_copy(s.copy);
    to.set_length(s.length);
    to_wire(s.promised, *to.mutable_promised());
    to_wire(s.committed, *to.mutable_committed());
    to.set_cursor(s.cursor);
    to.set_resynced(s.resynced);
}

pool_attributes from_wire(const wire::attributes &a)
{
    pool_attributes to;
    get(a.signature(), to.signature);
    to.major = a.major();
    to.compat_features = a.compat_features();
    to.incompat_features = a.incompat_features();
    to.ro_compat_features = a.ro_compat_features();
    get(a.poolset_uuid(), to.poolset_uuid);
    get(a.uuid(), to.uuid);
    get(a.next_uuid(), to.next_uuid);
    get(a.prev_uuid(), to.prev_uuid);
    get(a.user_flags(), to.user_flags);
    return to;
}

void to_wire(const pool_attributes &a, wire::attributes &to)
{
    put(a.signature, to.mutable_signature());
    to.set_major(a.major);
    to.set_compat_features(a.compat_features);
    to.set_incompat_features(a.incompat_features);
    to.set_ro_compat_features(a.ro_compat_features);
    put(a.poolset_uuid, to.mutable_poolset_uuid());
    put(a.uuid, to.mutable_uuid());
    put(a.next_uuid, to.mutable_next_uuid());
    put(a.prev_uuid, to.mutable_prev_uuid());
    put(a.user_flags, to.mutable_user_flags());
}

} // namespace replica
