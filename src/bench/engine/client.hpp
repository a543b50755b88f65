// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>

#include "api/sides.hpp"
#include "results.hpp"

namespace bench
{

// Outcome of a timed run.
struct run_result {
    bench::repeat repeat;
    // Hash of what the target's data should contain, absent if the run left nothing there to look at.
    std::optional<std::uint64_t> expected_target;
};

// The measuring end of a point. Everything throws failure.
class client
{
public:
    virtual ~client() = default;
    // Bytes of this process's memory that a connection takes.
    virtual std::optional<double> memory_per_connection() const = 0;
    // Prepares the next run. The server has done the same with the same seed.
    virtual void begin(std::uint64_t seed) = 0;
    // Runs until the throughput is steady or limit_s is over; returns the seconds it took.
    virtual double warm_up(double limit_s) = 0;
    virtual run_result measure(double duration_s) = 0;
};

// to: the server's RDMA address. target_path: for memcpy and librpmem, where the target's memory is; empty for
// anonymous memory.
std::unique_ptr<client> open_client(const setup &what, const address &to, const std::string &target_path);

} // namespace bench
