// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <librpma_mirror.h>
#include <memory>
#include <string>
#include <vector>

#include "failure.hpp"

namespace mirror_tool
{

struct cfg_deleter {
    void operator()(rpma_mirror_cfg *cfg) const { rpma_mirror_cfg_delete(&cfg); }
};
using cfg_ptr = std::unique_ptr<rpma_mirror_cfg, cfg_deleter>;

// Calls a function of librpma_mirror and returns its code. Throws failure unless the code is 0 or one of those
// expected.
int call(const std::function<int()> &f, std::initializer_list<int> expected = {});

// Reads a set file. Throws failure with exit_usage.
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

// Set that is open in this program. The destructor closes it and ignores errors.
class open_set
{
public:
    open_set(const rpma_mirror_cfg *cfg, bool force);
    ~open_set() { rpma_mirror_unmap(&mirror_); }
    open_set(const open_set &) = delete;
    open_set &operator=(const open_set &) = delete;

    rpma_mirror *get() const { return mirror_; }
    std::unique_ptr<rpma_mirror_state> state() const;
    void close();
    // Keeps the set open until the program exits, so that no copy is changed.
    void leave() { mirror_ = nullptr; }

private:
    rpma_mirror *mirror_ = nullptr;
};

std::vector<unsigned> copies_of(unsigned bits);

} // namespace mirror_tool
