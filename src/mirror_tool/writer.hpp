// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>

#include "set.hpp"

namespace mirror_tool
{

// Thrown if the program that has the set open is stopped, overloaded or exiting.
class no_response : public failure
{
public:
    using failure::failure;
};

struct response_limits {
    int silence_s = 10; // maximum time between two lines
    int short_request_s = 30;
};
constexpr response_limits status_limits{2, 2};

// Set that another program on this machine has open. The functions send requests to its local socket.
class writer_set : public usable_set
{
public:
    // Returns nullptr if no program serves the set: it is closed, or its socket is disabled.
    static std::unique_ptr<writer_set> find(const rpma_mirror_cfg *cfg, response_limits limits = {});

    std::unique_ptr<rpma_mirror_state> state() const override;
    int verify(unsigned copy, progress &display, rpma_mirror_verify_report &report) override;
    void add(unsigned copy, const std::string &location, const std::string &pool_set, progress &display) override;
    int remove(unsigned copy, progress &display) override;
    std::unique_ptr<rpma_mirror_recovery_report> opening() const override { return nullptr; }
    void end(bool) override {}

    // Returns 0, or the code of the failure, which is described in `reason`.
    int resync(unsigned copy, progress &display, std::string &reason);
    void grow(std::uint64_t length, progress &display);
    std::string metrics() const;
    // Returns the reason why the mirror of the program has failed, or "". Valid after state().
    const std::string &failure_reason() const { return failure_reason_; }

private:
    using json = nlohmann::ordered_json;

    writer_set(std::string path, response_limits limits) : path_(std::move(path)), limits_(limits) {}
    json send_request(const json &request, progress *display, std::initializer_list<int> expected = {}) const;
    json report(const char *command) const;

    const std::string path_;
    const response_limits limits_;
    mutable std::string failure_reason_;
};

} // namespace mirror_tool
