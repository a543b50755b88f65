// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "config/config.hpp"
#include "config/failure.hpp"
#include "message/control.hpp"

namespace rpmemd
{

// Membership record of a pool with several targets. Only the session that has the pool open commits a record.
class pool_record
{
public:
    pool_record(const config &settings, const std::string &set_name);

    // Returns the record, with epoch 0 if none is stored. Needs no lock.
    replica::mirror_state read() const;
    // Stores a promise: clients of lower epochs can no longer commit. Without a record the pool has no other client,
    // and nothing is stored. Throws ESTALE if this epoch or a higher one is promised to another client.
    replica::mirror_state prepare(const replica::mirror_promise &promise) const;
    // Throws ESTALE if the stored record or a promise to another client is newer, and EINVAL if the record belongs to
    // another set. A record of a higher epoch includes its promise, because its client has the pool open.
    replica::mirror_state commit(const replica::set_uuid &set, const replica::wire::commit_request &request) const;
    void remove() const;

private:
    failure write_failure(int error) const;

    const std::string path_;
};

} // namespace rpmemd
