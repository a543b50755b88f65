// SPDX-License-Identifier: BSD-3-Clause
#include "client.hpp"

#include "api/memcpy.hpp"
#include "connected_client.hpp"
#include "replica_client.hpp"

namespace bench
{

namespace
{

class memcpy_client final : public timed_client
{
public:
    memcpy_client(const setup &point_setup, const std::string &target_path)
        : timed_client(point_setup),
          target_(target_path.empty() ? std::make_unique<target_memory>(shape_.data_size())
                                      : std::make_unique<target_memory>(shape_.data_size(), target_path))
    {
        std::vector<memcpy_api::connection *> all;
        for (std::uint32_t c = 0; c < params().connections; ++c) {
            connections_.push_back(std::make_unique<memcpy_api::connection>(data_.data(), *target_));
            all.push_back(connections_.back().get());
        }
        for (std::uint32_t t = 0; t < params().threads; ++t)
            runners_.push_back(make_runner(shape_.kind(), params(), lanes_, all, t));
    }

    void begin(std::uint64_t seed) override
    {
        timed_client::begin(seed);
        fill_target(target_->data(), shape_, params(), seed);
    }

private:
    std::optional<bool> compare_target(const std::vector<std::byte> &expected) const override
    {
        return std::memcmp(expected.data(), target_->data(), expected.size()) == 0;
    }

    std::unique_ptr<target_memory> target_;
    std::vector<std::unique_ptr<memcpy_api::connection>> connections_;
};

} // namespace

std::unique_ptr<client> open_client(const setup &point_setup, const address &to, const std::string &target_path)
{
    if (is_replica(workload_from(point_setup.workload)))
        return open_replica_client(point_setup, target_path);
    switch (point_setup.api) {
    case api::librpma:
        return std::make_unique<connected_client<rpma_api>>(point_setup, to);
    case api::verbs:
        return std::make_unique<connected_client<verbs_api>>(point_setup, to);
    case api::tcp:
        return std::make_unique<connected_client<tcp_api>>(point_setup, to);
    case api::memcpy:
        break;
    }
    return std::make_unique<memcpy_client>(point_setup, target_path);
}

} // namespace bench
