// SPDX-License-Identifier: BSD-3-Clause
#include "replica_client.hpp"

#include "api/replica.hpp"
#include "timed_client.hpp"

namespace bench
{

namespace
{

constexpr std::size_t page = 4096;

// Loop over the lanes of a replica, one for each connection. The calls of librpmem are synchronous.
class replica_runner final : public runner
{
public:
    replica_runner(replica::pool &to, workload kind, std::uint32_t flushes_per_drain)
        : pool_(to), batch_(kind == workload::rpmem_flush_drain ? flushes_per_drain : 0)
    {
    }
    void add(lane &share) { lanes_.push_back(&share); }

    void run(control_block &control, run_counts &result) override
    {
        result.begin_ns = now_ns();
        // Runs at least once: on a busy machine this thread may start after the end of the measurement.
        do {
            for (lane *const share : lanes_) {
                const std::uint64_t started = now_ns();
                result.operations += batch_ == 0 ? persist(*share) : flush_and_drain(*share);
                result.all.record(now_ns() - started);
            }
            control.operations.store(result.operations, std::memory_order_relaxed);
        } while (!control.stop.load(std::memory_order_relaxed));
        result.end_ns = now_ns();
    }

private:
    std::uint32_t persist(lane &share)
    {
        pool_.persist(share.next_write(), share.block(), share.number());
        return 1;
    }
    std::uint32_t flush_and_drain(lane &share)
    {
        for (std::uint32_t i = 0; i < batch_; ++i)
            pool_.flush(share.next_write(), share.block(), share.number());
        pool_.drain(share.number());
        return batch_;
    }

    replica::pool &pool_;
    std::uint32_t batch_; // flushes for each drain; 0 means rpmem_persist for each block
    std::vector<lane *> lanes_;
};

class replica_client final : public timed_client
{
public:
    replica_client(const setup &point_setup, const std::string &target_path)
        : timed_client(point_setup),
          // Anonymous memory extends to the end of its last page.
          pool_({data_.data(), (shape_.data_size() + page - 1) / page * page}, params().connections, target_path)
    {
        for (std::uint32_t t = 0; t < params().threads; ++t) {
            auto created = std::make_unique<replica_runner>(pool_, shape_.kind(), params().flush_interval);
            for (std::uint32_t c = t; c < params().connections; c += params().threads)
                created->add(lanes_[c]);
            runners_.push_back(std::move(created));
        }
    }

    void begin(std::uint64_t seed) override
    {
        timed_client::begin(seed);
        fill_target(pool_.part(), shape_, params(), seed);
    }

private:
    std::optional<bool> compare_target(const std::vector<std::byte> &expected) const override
    {
        return std::memcmp(expected.data(), pool_.part(), expected.size()) == 0;
    }

    replica::pool pool_;
};

} // namespace

std::unique_ptr<client> open_replica_client(const setup &point_setup, const std::string &target_path)
{
    return std::make_unique<replica_client>(point_setup, target_path);
}

} // namespace bench
