// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/number_table.hpp"
#include "base/assert.hpp"

#include <sys/random.h>

namespace softrdma
{

// Limit of these numbers. Numbers of queue pairs behind a TCP port start with the port, at least 1024.
constexpr std::uint32_t range = 1024 << 8;

std::uint32_t number_table::add(const std::shared_ptr<queue_pair> &qp, std::uint32_t number)
{
    const lock_guard lock(mutex_);
    if (number == 0 && pairs_.size() < range - 2)
        number = fresh_number();
    SOFTRDMA_ASSERT(number < 1u << 24); // numbers have 24 bits in packets
    return number != 0 && pairs_.emplace(number, qp).second ? number : 0;
}

std::uint32_t number_table::fresh_number()
{
    if (next_ == 0 && getrandom(&next_, sizeof(next_), 0) != sizeof(next_))
        next_ = 1;
    do {
        next_ = (next_ + 1) % range;
    } while (next_ < 2 || pairs_.contains(next_)); // 0 and 1 are the management queue pairs
    return next_;
}

std::shared_ptr<queue_pair> number_table::find(std::uint32_t number)
{
    const lock_guard lock(mutex_);
    const auto found = pairs_.find(number);
    return found == pairs_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<queue_pair>> number_table::all()
{
    const lock_guard lock(mutex_);
    std::vector<std::shared_ptr<queue_pair>> list;
    for (const auto &[number, qp] : pairs_)
        list.push_back(qp);
    return list;
}

void number_table::add_datagrams(const std::shared_ptr<datagram_qp> &qp)
{
    const lock_guard lock(mutex_);
    std::erase_if(datagrams_, [](const auto &other) { return other.expired(); });
    datagrams_.push_back(qp);
}

std::vector<std::shared_ptr<datagram_qp>> number_table::all_datagrams()
{
    const lock_guard lock(mutex_);
    std::vector<std::shared_ptr<datagram_qp>> list;
    for (const auto &other : datagrams_) {
        if (auto qp = other.lock(); qp != nullptr)
            list.push_back(std::move(qp));
    }
    return list;
}

} // namespace softrdma
