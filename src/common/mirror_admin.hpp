// SPDX-License-Identifier: BSD-3-Clause
// Messages between rpma-mirror(1) and the program that has the set open: lines of JSON (docs/replication.md).
#pragma once

#include <algorithm>
#include <librpma_mirror.h>
#include <nlohmann/json.hpp>
#include <string>

namespace mirror_admin
{

using json = nlohmann::ordered_json;

constexpr std::size_t max_request_size = 4096;
constexpr int line_interval_ms = 500; // longest pause between two lines of the program while it executes a request

template<class S, class F>
void each_member_of_copy(S &s, F &&f)
{
    f("state", s.state);
    f("level", s.level);
    f("is_local", s.is_local);
    f("last_error", s.last_error);
    f("promised_epoch", s.promised_epoch);
    f("record_epoch", s.record_epoch);
    f("record_version", s.record_version);
    f("cursor", s.cursor);
    f("location", s.location);
    f("poolset", s.poolset);
}

template<class S, class F>
void each_member_of_state(S &s, F &&f)
{
    f("is_open", s.is_open);
    f("uuid", s.uuid);
    f("length", s.length);
    f("epoch", s.epoch);
    f("version", s.version);
    f("writer", s.writer);
    f("policy", s.policy);
    f("clean", s.clean);
    f("members", s.members);
    f("in_sync", s.in_sync);
    f("level", s.level);
    f("consistency_point", s.consistency_point);
}

template<class S, class F>
void each_member_of_progress(S &s, F &&f)
{
    f("copy", s.copy);
    f("phase", s.phase);
    f("seconds_left", s.seconds_left);
    f("compared_bytes", s.compared_bytes);
    f("total_bytes", s.total_bytes);
    f("sent_bytes", s.sent_bytes);
    f("bytes_per_second", s.bytes_per_second);
}

template<class S, class F>
void each_member_of_report(S &s, F &&f)
{
    f("differing_segments", s.differing_segments);
    f("compared_bytes", s.compared_bytes);
    f("first_difference", s.first_difference);
    f("level", s.level);
}

// Stores a member in the object `to`, or reads it from the object `from`. Strings are arrays of char.
struct writer_of {
    json &to;

    template<class T>
    void operator()(const char *name, const T &value) const
    {
        to[name] = value;
    }
    template<std::size_t N>
    void operator()(const char *name, const char (&text)[N]) const
    {
        to[name] = std::string(text);
    }
};

struct reader_of {
    const json &from;

    template<class T>
    void operator()(const char *name, T &value) const
    {
        from.at(name).get_to(value);
    }
    template<std::size_t N>
    void operator()(const char *name, char (&text)[N]) const
    {
        const auto found = from.at(name).template get<std::string>();
        text[found.copy(text, N - 1)] = '\0';
    }
};

inline json to_json(const rpma_mirror_state &state)
{
    json whole;
    each_member_of_state(state, writer_of{whole});
    whole["copies"] = json::array();
    for (const rpma_mirror_copy &copy : state.copies)
        each_member_of_copy(copy, writer_of{whole["copies"].emplace_back()});
    return whole;
}

inline void from_json(const json &whole, rpma_mirror_state &state)
{
    each_member_of_state(state, reader_of{whole});
    const json &copies = whole.at("copies");
    for (std::size_t i = 0; i < std::min<std::size_t>(copies.size(), RPMA_MIRROR_MAX_COPIES); ++i)
        each_member_of_copy(state.copies[i], reader_of{copies[i]});
}

// Returns the line of a message. Replaces bytes that are not UTF-8, which paths can contain.
inline std::string line_of(const json &message)
{
    return message.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

} // namespace mirror_admin
