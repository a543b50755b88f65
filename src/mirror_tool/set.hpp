// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <librpma_mirror.h>
#include <memory>
#include <string>
#include <vector>

#include "failure.hpp"
#include "progress.hpp"

namespace mirror_tool
{

struct cfg_deleter {
    void operator()(rpma_mirror_cfg *cfg) const { rpma_mirror_cfg_delete(&cfg); }
};
using cfg_ptr = std::unique_ptr<rpma_mirror_cfg, cfg_deleter>;

// Returns the code of a function of librpma_mirror. Throws failure unless it is 0 or expected.
int call(const std::function<int()> &f, std::initializer_list<int> expected = {});

cfg_ptr read_cfg(const std::string &set_file);

// Creates an output structure of the library with its member size set.
template<class T>
std::unique_ptr<T> make_output()
{
    auto created = std::make_unique<T>();
    created->size = sizeof(T);
    return created;
}

std::unique_ptr<rpma_mirror_state> inspect(const rpma_mirror_cfg *cfg);

// Throws failure if another machine might be writing to the set, because opening it would fence that writer.
void check_not_in_use(const rpma_mirror_cfg *cfg);

// Set that is open in this program or in another one on this machine.
class usable_set
{
public:
    usable_set() = default;
    virtual ~usable_set() = default;
    usable_set(const usable_set &) = delete;
    usable_set &operator=(const usable_set &) = delete;

    virtual std::unique_ptr<rpma_mirror_state> state() const = 0;
    // Returns 0, RPMA_MIRROR_E_VERIFY, or RPMA_MIRROR_E_STALE without a report.
    virtual int verify(unsigned copy, progress &display, rpma_mirror_verify_report &report) = 0;
    virtual void add(unsigned copy, const std::string &location, const std::string &pool_set, progress &display) = 0;
    // Returns 0, or RPMA_MIRROR_E_NOT_FOUND if the set does not have the copy.
    virtual int remove(unsigned copy, progress &display) = 0;
    // Report of the opening by this program, or nullptr.
    virtual std::unique_ptr<rpma_mirror_recovery_report> opening() const = 0;
    // Ends the use without an error. `unchanged`: no copy is changed.
    virtual void end(bool unchanged) = 0;
};

// Set that this program opened. The destructor closes it and ignores errors.
class open_set : public usable_set
{
public:
    open_set(const rpma_mirror_cfg *cfg, bool force);
    ~open_set() override { rpma_mirror_unmap(&mirror_); }

    std::unique_ptr<rpma_mirror_state> state() const override;
    int verify(unsigned copy, progress &display, rpma_mirror_verify_report &report) override;
    void add(unsigned copy, const std::string &location, const std::string &pool_set, progress &display) override;
    int remove(unsigned copy, progress &display) override;
    std::unique_ptr<rpma_mirror_recovery_report> opening() const override;
    // With `unchanged` the set stays open until the program exits.
    void end(bool unchanged) override;

private:
    rpma_mirror *mirror_ = nullptr;
};

std::vector<unsigned> copies_of(unsigned bits);

} // namespace mirror_tool
