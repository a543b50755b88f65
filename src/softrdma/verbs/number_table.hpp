// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/process.hpp"

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace softrdma
{

class datagram_qp;
class queue_pair;

class number_table
{
public:
    static number_table &instance() { return process::instance<number_table>(); }

    // `number` 0 requests an unused number. Returns the number, or 0 if none is free or it is in use.
    std::uint32_t add(const std::shared_ptr<queue_pair> &qp, std::uint32_t number);
    std::shared_ptr<queue_pair> find(std::uint32_t number);
    std::vector<std::shared_ptr<queue_pair>> all();
    void remove(std::uint32_t number)
    {
        const lock_guard lock(mutex_);
        pairs_.erase(number);
    }

    // Datagram queue pairs get their numbers from their UDP port; they are listed for reports only.
    void add_datagrams(const std::shared_ptr<datagram_qp> &qp);
    std::vector<std::shared_ptr<datagram_qp>> all_datagrams();

private:
    std::uint32_t fresh_number() REQUIRES(mutex_);

    ordered_mutex mutex_{lock_level::receives};
    std::uint32_t next_ GUARDED_BY(mutex_) = 0;
    std::unordered_map<std::uint32_t, std::shared_ptr<queue_pair>> pairs_ GUARDED_BY(mutex_);
    std::vector<std::weak_ptr<datagram_qp>> datagrams_ GUARDED_BY(mutex_);
};

} // namespace softrdma
