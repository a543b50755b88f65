// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "config.hpp"
#include "control.hpp"
#include "lane_server.hpp"
#include "mirror_file.hpp"
#include "pool.hpp"

namespace rpmemd
{

// This target's copy of a mirrored set, whose protocol docs/mirror.md tells: a poolset without headers, beside its set
// file the state, and the lanes of the one epoch that may write. All functions may be called by several threads, throw
// failure, and ESTALE says that another writer has the promise.
class mirror_set
{
public:
    // Nothing of it needs to be there yet.
    mirror_set(const config &settings, const std::string &address, const std::string &name);

    // Makes the parts that are missing, and the state.
    replica::mirror_state create(const replica::mirror_request &asked);
    replica::mirror_state status(const replica::mirror_request &asked);
    // When it returns the promise is durable, and nothing of lower epochs reaches the copy any more.
    replica::mirror_state prepare(const replica::mirror_request &asked);
    replica::mirror_state commit(const replica::mirror_request &asked);
    // Makes lanes for the writer that has the promise; those that it had before are gone. The client's number is for
    // detach().
    void attach(const replica::mirror_request &asked, std::uint64_t client, replica::session_answer &answer);
    // Of segments of the copy, for the writer that is attached.
    void hash(const replica::mirror_request &asked, replica::segment_hashes &to);
    // Keeps how far a resync of the copy has come.
    replica::mirror_state set_cursor(const replica::mirror_request &asked);
    // The client is gone, and its lanes with it.
    void detach(std::uint64_t client);

private:
    void open();
    void check_set(const replica::mirror_request &asked) const;
    void check_promise(const replica::mirror_request &asked) const;
    void store(const replica::mirror_state &next);
    void open_pool();
    bool has_changed();
    replica::copy_stamp next_stamp(const replica::mirror_record &next) const;
    std::span<const std::byte> content() const;
    void revoke();

    const config &settings_;
    const std::string address_;
    const std::string name_;
    const std::string state_path_;
    std::mutex lock_;
    std::optional<replica::mirror_file> file_;
    std::optional<pool> pool_;
    std::optional<lane_server> lanes_;
    std::uint64_t client_ = 0; // whose lanes they are
    bool stuck_ = false;       // lanes of a lower epoch could not be revoked
};

} // namespace rpmemd
