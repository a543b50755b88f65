// SPDX-License-Identifier: BSD-3-Clause
#include "listen/metrics_text.hpp"

#include <bit>
#include <vector>

#include "config/version.hpp"
#include "listen/mirror_session.hpp"

namespace rpmemd
{

std::string metrics_text(const daemon_metrics &daemon, const mirror_sets &sets)
{
    prometheus::page to("rpmemd_");
    to.begin("build_info", "gauge", "Version of the daemon.");
    to.add(prometheus::label("version", daemon_version), 1);
    to.begin("clients", "gauge", "Authenticated connections.");
    to.add("", daemon.clients);
    to.begin("unauthenticated_connections", "gauge", "Connections that have not authenticated yet.");
    to.add("", daemon.unauthenticated);
    to.begin("rejected_clients_total", "counter", "Clients that were rejected because of max-sessions.");
    to.add("", daemon.rejected);

    struct row {
        std::string labels;
        const set_metrics &counted;
        set_metrics::snapshot now;
    };
    std::vector<row> rows;
    sets.each([&](const std::string &name, const set_metrics &counted) {
        if (const auto now = counted.latest())
            rows.push_back(
                    {prometheus::label("set", name) + "," + prometheus::label("copy", std::to_string(now->state.copy)),
                            counted, *now});
    });
    const auto add = [&](const char *name, const char *type, const char *help, auto value) {
        to.begin(name, type, help);
        for (const row &set : rows)
            to.add(set.labels, value(set));
    };
    const auto gauge = [&](const char *name, const char *help, auto value) {
        add(name, "gauge", help, [&](const row &set) {
            return static_cast<std::uint64_t>(value(set.now.state, set.now.state.committed));
        });
    };
    using state = const replica::mirror_state &;
    using record = const replica::mirror_record &;
    gauge("set_length_bytes", "Length of the set.", [](state s, record) { return s.length; });
    gauge("set_promised_epoch", "Epoch of the writer that has the promise.",
            [](state s, record) { return s.promised.epoch; });
    gauge("set_record_epoch", "Epoch of the record.", [](state, record r) { return r.epoch; });
    gauge("set_record_version", "Version of the record within its epoch.", [](state, record r) { return r.version; });
    gauge("set_copies", "Copies that belong to the set according to the record.",
            [](state, record r) { return std::popcount(r.members); });
    gauge("set_copies_in_sync", "Copies in sync according to the record.",
            [](state, record r) { return std::popcount(r.in_sync); });
    gauge("set_in_sync", "1 if this copy is in sync according to the record.",
            [](state s, record r) { return r.in_sync >> s.copy & 1; });
    gauge("set_clean", "1 if the writer closed the set.", [](state, record r) { return r.closed ? 1 : 0; });
    gauge("set_consistency_point", "Number of the last consistency point, or 0.",
            [](state, record r) { return r.mark; });
    gauge("set_resync_position_bytes", "Position of the last resync of this copy.",
            [](state s, record) { return s.cursor; });
    add("set_writer_attached", "gauge", "1 if a writer is connected.",
            [](const row &set) { return std::uint64_t{set.now.attached}; });
    add("set_readers", "gauge", "Readers that have an image of the set or wait for one.",
            [](const row &set) { return set.counted.readers.load(); });
    add("set_fenced_writers_total", "counter", "Writers whose connections were revoked by a higher epoch.",
            [](const row &set) { return set.counted.fenced_writers.load(); });
    add("set_lost_writers_total", "counter", "Writers that disconnected without closing the set.",
            [](const row &set) { return set.counted.lost_writers.load(); });
    add("set_flushed_bytes_total", "counter", "Bytes that this daemon made durable at the request of writers.",
            [](const row &set) { return set.counted.flushed_bytes.load(); });
    add("set_flush_errors_total", "counter", "Requests to make data durable that failed.",
            [](const row &set) { return set.counted.flush_errors.load(); });
    to.begin("set_flush_seconds", "histogram", "Durations of requests to make data durable.");
    for (const row &set : rows)
        to.add(set.labels, set.counted.flush_time);
    return to.text();
}

} // namespace rpmemd
