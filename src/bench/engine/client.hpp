// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "api/sides.hpp"
#include "results.hpp"

namespace bench
{

struct run_result {
    bench::repeat repeat;
    // Expected hash of the target's data; empty if the run wrote no data there.
    std::optional<std::uint64_t> expected_target;
};

class client
{
public:
    virtual ~client() = default;
    virtual std::optional<double> memory_per_connection() const = 0;
    // Prepares the next run. The server must have prepared it with the same seed.
    virtual void begin(std::uint64_t seed) = 0;
    // Runs until the throughput is steady or limit_s has passed. Returns the elapsed seconds.
    virtual double warm_up(double limit_s) = 0;
    virtual run_result measure(double duration_s) = 0;
};

// `to`: RDMA address of the server. `target_path`: target memory for memcpy and librpmem, anonymous memory if empty.
std::unique_ptr<client> open_client(const setup &point_setup, const address &to, const std::string &target_path);

} // namespace bench
