// SPDX-License-Identifier: BSD-3-Clause
#include "record/mirror_state.hpp"

namespace replica
{

void put(byte_writer &to, const mirror_record &r)
{
    to.put(r.epoch).put(r.version).put(r.writer).put(r.members).put(r.in_sync);
    to.put(static_cast<std::uint32_t>(r.policy)).put(static_cast<std::uint32_t>(r.closed)).put(r.writer_copy);
    to.put(r.mark);
}

bool get(byte_reader &from, mirror_record &r)
{
    r.epoch = from.get<std::uint64_t>();
    r.version = from.get<std::uint64_t>();
    r.writer = from.get<std::uint64_t>();
    r.members = from.get<std::uint16_t>();
    r.in_sync = from.get<std::uint16_t>();
    const auto policy = from.get<std::uint32_t>();
    const auto closed = from.get<std::uint32_t>();
    r.writer_copy = from.get<std::uint32_t>();
    r.mark = from.get<std::uint64_t>();
    r.policy = static_cast<mirror_policy>(policy);
    r.closed = closed == 1;
    return from.good() && policy <= 1 && closed <= 1 && r.writer_copy < max_copies && (r.in_sync & ~r.members) == 0;
}

void put(byte_writer &to, const mirror_state &s)
{
    to.put_raw(s.set.data(), s.set.size()).put(s.copy).put(s.length).put(s.promised.epoch).put(s.promised.writer);
    put(to, s.committed);
    to.put(s.cursor);
}

bool get(byte_reader &from, mirror_state &s)
{
    from.get_raw(s.set.data(), s.set.size());
    s.copy = from.get<std::uint32_t>();
    s.length = from.get<std::uint64_t>();
    s.promised.epoch = from.get<std::uint64_t>();
    s.promised.writer = from.get<std::uint64_t>();
    const bool record = get(from, s.committed);
    s.cursor = from.get<std::uint64_t>();
    return record && from.good() && s.copy < max_copies;
}

} // namespace replica
