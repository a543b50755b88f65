// SPDX-License-Identifier: BSD-3-Clause
#include <bit>
#include <memory>

#include "prometheus.hpp"
#include "set.hpp"

using namespace mirror;

namespace
{

std::string to_hexadecimal(const unsigned char (&uuid)[16])
{
    constexpr const char *digits = "0123456789abcdef";
    std::string text;
    for (const unsigned char byte : uuid) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

} // namespace

std::string rpma_mirror::metrics()
{
    const auto now = std::make_unique<rpma_mirror_state>();
    state(*now);
    const std::string set = prometheus::label("set", to_hexadecimal(now->uuid));
    prometheus::page to("rpma_mirror_");
    const auto add = [&](const char *name, const char *type, const char *help, std::uint64_t value) {
        to.begin(name, type, help);
        to.add(set, value);
    };
    add("usable", "gauge", "1 unless the mirror has failed.", now->is_open);
    add("epoch", "gauge", "Epoch of the writer.", now->epoch);
    add("record_version", "gauge", "Version of the record within its epoch.", now->version);
    add("consistency_point", "gauge", "Number of the last consistency point, or 0.", now->consistency_point);
    add("copies", "gauge", "Copies that belong to the set.", static_cast<unsigned>(std::popcount(now->members)));
    add("copies_in_sync", "gauge", "Copies in sync.", static_cast<unsigned>(std::popcount(now->in_sync)));
    if (const std::int64_t left_ms = parts.decider->lease_left_ms(); left_ms >= 0)
        add("lease_left_milliseconds", "gauge", "Time until the lease of the writer expires.",
                static_cast<std::uint64_t>(left_ms));
    const auto add_copies = [&](const char *name, const char *help, auto value) {
        to.begin(name, "gauge", help);
        for (unsigned copy = 0; copy < RPMA_MIRROR_MAX_COPIES; ++copy)
            if (const rpma_mirror_copy &c = now->copies[copy]; c.state != RPMA_MIRROR_COPY_ABSENT)
                to.add(set + "," + prometheus::label("copy", std::to_string(copy)) + "," +
                                prometheus::label("location", c.location),
                        value(c));
    };
    add_copies("copy_in_sync", "1 if the copy is in sync.",
            [](const rpma_mirror_copy &c) { return std::uint64_t{c.state == RPMA_MIRROR_COPY_IN_SYNC}; });
    add_copies("copy_resyncing", "1 if the copy is resynchronized.",
            [](const rpma_mirror_copy &c) { return std::uint64_t{c.state == RPMA_MIRROR_COPY_RESYNCING}; });
    add_copies("copy_resync_cursor_bytes", "Position of a resync of the copy.",
            [](const rpma_mirror_copy &c) { return c.cursor; });
    const counters &counted = parts.counted;
    add("flushes_total", "counter", "Flushes that were started.", counted.flushes);
    add("flushed_ranges_total", "counter", "Ranges of these flushes.", counted.ranges);
    add("flushed_bytes_total", "counter", "Bytes of these flushes.", counted.bytes);
    add("evictions_total", "counter", "Copies that left the set.", counted.evictions);
    add("slow_evictions_total", "counter", "Copies that left the set because they confirmed late.",
            counted.slow_evictions);
    add("late_confirmations_total", "counter", "Flushes that a target confirmed late.", counted.late);
    add("resyncs_total", "counter", "Completed resyncs.", counted.resyncs);
    add("compared_bytes_total", "counter", "Bytes compared by resync and verify.", counted.compared);
    add("resync_sent_bytes_total", "counter", "Bytes sent by resyncs.", counted.sent);
    add("repaired_bytes_total", "counter", "Bytes of the local copy that were repaired.", counted.repaired);
    to.begin("flush_seconds", "histogram", "Durations of successful flushes, of tickets until the program takes them.");
    to.add(set, counted.flush_time);
    return to.text();
}
