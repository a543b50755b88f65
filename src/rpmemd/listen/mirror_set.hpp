// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "lanes/lane_server.hpp"
#include "listen/image.hpp"
#include "message/control.hpp"
#include "store/set_lock.hpp"
#include "store/stored_copy.hpp"

namespace rpmemd
{

// Set that a request names, and the promise that its writer claims.
struct set_claim {
    replica::set_uuid set{};
    replica::mirror_promise promise;
};

// This target's copy of a mirrored set (docs/replication.md): a poolset without headers, the state file, and the lanes
// of the one writer. All functions are thread-safe and throw failure: ESTALE if another writer has the promise.
class mirror_set
{
public:
    mirror_set(const config &settings, const std::string &address, const std::string &name);

    // Creates the missing parts, and the state with the set, copy and length of `first`.
    replica::mirror_state create(const replica::mirror_state &first);
    replica::mirror_state status();
    // On return, the promise is durable, and writers of lower epochs can no longer access the copy.
    replica::mirror_state prepare(const set_claim &claim);
    replica::mirror_state commit(const set_claim &claim, const replica::mirror_record &record);
    // Replaces the lanes of the writer that has the promise. `client` is the argument of detach().
    void attach(const set_claim &claim, lane_request request, std::uint64_t client, replica::wire::region &to);
    std::string hash(const set_claim &claim, replica::range range);
    // Stores the progress of a resync of the copy. At the end of the copy, the resync is complete.
    replica::mirror_state set_cursor(const set_claim &claim, std::uint64_t cursor);
    // Sets the length of the copy, or with `reserve` only makes its parts long enough. New bytes are zero.
    // Lanes keep the length with which they were created. Other requests are executed while the parts are extended.
    replica::mirror_state resize(const set_claim &claim, std::uint64_t length, bool reserve);
    // Serves a reader's request for an image, and its later requests for the same image (see mirror_reading.cpp).
    void read(const set_claim &claim, bool any_time, std::uint64_t client, replica::wire::image &to);
    std::string hash_image(replica::range range, std::uint64_t client);
    void attach_reader(std::uint32_t devices, std::uint64_t client, replica::wire::region &to);
    void detach(std::uint64_t client);
    const set_metrics &metrics() const { return metrics_; }

private:
    void open();
    void check_set(const set_claim &claim) const;
    void check_promise(const set_claim &claim) const;
    void store(const replica::mirror_state &next);
    void revoke();
    void publish();
    set_reader &find_reader(std::uint64_t client);
    set_reader &add_reader(std::uint64_t client);
    bool is_quiet() const;
    void copy_now(set_reader &reader, bool needs_quiet);
    void copy_point();

    const config &settings_;
    const std::string address_;
    const std::string name_;
    set_metrics metrics_;
    set_lock lock_;
    stored_copy copy_;
    std::optional<lane_server> lanes_;
    std::uint64_t client_ = 0;                                     // owner of lanes_
    bool revoke_failed_ = false;                                   // lanes of a lower epoch could not be revoked
    std::map<std::uint64_t, std::unique_ptr<set_reader>> readers_; // key: client
    // Last consistency point that the attached writer set. Its first record only repeats an earlier one.
    std::optional<std::uint64_t> point_;
    std::uint64_t attachments_ = 0; // number of writers that have attached
};

} // namespace rpmemd
