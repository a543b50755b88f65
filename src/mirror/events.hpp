// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <deque>
#include <mutex>

#include "base/fd_owner.hpp"
#include "base/range.hpp"
#include "failure.hpp"
#include "settings.hpp"

namespace mirror
{

rpma_mirror_error make_error(unsigned copy, int code, int system = 0);

// Events for the program: calls its function, queues them for a descriptor, and stores the errors. Thread-safe.
class events
{
public:
    explicit events(const settings &of);

    void publish(rpma_mirror_event_type type, unsigned copy, const replica::mirror_record &record,
            const rpma_mirror_error &error = {});
    int fd() const { return readable_.get(); }
    // Removes the oldest event. Returns false if the queue is empty.
    bool next(rpma_mirror_event &to);
    std::size_t errors(rpma_mirror_error *to, std::size_t max);
    bool has_error(const rpma_mirror_error &like);
    void forget_errors(unsigned copy);
    // Removes errors whose range lies completely in the repaired one.
    void forget_errors(unsigned copy, replica::range repaired);

private:
    const settings &settings_;
    replica::fd_owner readable_;
    std::mutex lock_;
    std::deque<rpma_mirror_event> waiting_;
    std::deque<rpma_mirror_error> errors_;
};

} // namespace mirror
