// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <deque>
#include <vector>

#include "client.hpp"
#include "lane.hpp"
#include "layout.hpp"
#include "loop.hpp"
#include "target_memory.hpp"

namespace bench
{

// Base of the measuring clients of all apis: memory, threads, clocks and the data check.
class timed_client : public client
{
public:
    std::optional<double> memory_per_connection() const override { return memory_per_connection_; }
    void begin(std::uint64_t seed) override;
    double warm_up(double limit_s) override;
    run_result measure(double duration_s) override;

protected:
    explicit timed_client(const setup &point_setup);

    const parameters &params() const { return setup_.parameters; }
    // The target's memory if this process can read it: the client then compares it directly.
    virtual std::optional<bool> compare_target(const std::vector<std::byte> &) const { return std::nullopt; }

    setup setup_;
    bench::layout shape_;
    target_memory data_, messages_;
    std::deque<lane> lanes_;
    std::vector<std::unique_ptr<runner>> runners_; // one for each thread
    std::optional<double> memory_per_connection_;

private:
    using tallies = std::vector<std::unique_ptr<run_counts>>;
    template<class Watch>
    tallies run_threads(Watch watch);
    std::vector<std::byte> expected_data() const;
};

} // namespace bench
