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

// Makes a call of librpma_mirror and returns 0 or its code. Throws failure where that is none of those that are
// expected.
int call(const std::function<int()> &f, std::initializer_list<int> expected = {});

// Throws failure with exit_usage.
cfg_ptr read_cfg(const std::string &set_file);

// An output structure of the library that tells its size.
template<class T>
std::unique_ptr<T> sized()
{
    auto made = std::make_unique<T>();
    made->size = sizeof(T);
    return made;
}

std::unique_ptr<rpma_mirror_state> inspect(const rpma_mirror_cfg *cfg);

// Refuses to open a set that another machine may be writing to: opening would fence it.
void check_nobody_writes(const rpma_mirror_cfg *cfg);

// A set that this program has open. The destructor ends it without a word.
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
    // Ends with the program and leaves all copies as they are.
    void leave() { mirror_ = nullptr; }

private:
    rpma_mirror *mirror_ = nullptr;
};

std::vector<unsigned> copies_of(unsigned bits);

} // namespace mirror_tool
