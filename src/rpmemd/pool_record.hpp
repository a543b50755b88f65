// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "config.hpp"
#include "control.hpp"

namespace rpmemd
{

// What a target remembers of a pool that several targets have: which of them have everything. It is beside the set
// file; whoever has the pool open writes it. Functions throw failure.
class pool_record
{
public:
    pool_record(const config &settings, const std::string &set_name);

    // Epoch 0: there is none.
    replica::mirror_state read() const;
    // ESTALE: there is a newer record, EINVAL: it is of another set.
    replica::mirror_state commit(const replica::mirror_request &asked) const;
    void remove() const;

private:
    const std::string path_;
};

} // namespace rpmemd
