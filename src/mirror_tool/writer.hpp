// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json.hpp>

#include "set.hpp"

namespace mirror_tool
{

// Set that another program of this machine has open. Each function asks this program over its local socket.
class writer_set : public usable_set
{
public:
    // Returns nullptr if no program serves the set: it is closed, or its socket is switched off.
    static std::unique_ptr<writer_set> find(const rpma_mirror_cfg *cfg);

    std::unique_ptr<rpma_mirror_state> state() const override;
    int verify(unsigned copy, progress &shown, rpma_mirror_verify_report &report) override;
    void add(unsigned copy, const std::string &place, const std::string &pool_set, progress &shown) override;
    void remove(unsigned copy) override;
    std::unique_ptr<rpma_mirror_recovery_report> opening() const override { return nullptr; }
    void end(bool) override {}

    // Returns 0, or the code of the failure, which is described in `reason`.
    int resync(unsigned copy, progress &shown, std::string &reason);
    std::string metrics() const;
    // Returns the reason why the mirror of the program has failed, or "". Valid after state().
    const std::string &failure_reason() const { return failure_reason_; }

private:
    using json = nlohmann::ordered_json;

    explicit writer_set(std::string path) : path_(std::move(path)) {}
    json ask(const json &request, progress *shown, std::initializer_list<int> expected = {}) const;

    const std::string path_;
    mutable std::string failure_reason_;
};

} // namespace mirror_tool
