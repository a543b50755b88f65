// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <librpma_mirror.h>
#include <map>
#include <mutex>

#include "options.hpp"

namespace mirror_tool
{

// Shows the progress of the copies on standard error, and cancels the operation after SIGINT or SIGTERM.
class progress
{
public:
    explicit progress(const options &of);
    ~progress();
    progress(const progress &) = delete;
    progress &operator=(const progress &) = delete;

    // Options for the library, which may call the progress function in several threads.
    const rpma_mirror_resync_options *resync_options() const { return &resync_options_; }
    std::uint64_t rate() const { return resync_options_.bytes_per_second; }
    void update(const rpma_mirror_progress &p);
    static bool is_canceled();
    void end_line();

private:
    static int called(void *self, const rpma_mirror_progress *p);
    void show(const rpma_mirror_progress &p);

    rpma_mirror_resync_options resync_options_{};
    const bool terminal_;
    const bool shown_;
    std::mutex lock_;
    std::map<unsigned, rpma_mirror_progress> copies_;
    std::int64_t shown_at_ms_ = 0;
    bool in_line_ = false;
};

} // namespace mirror_tool
