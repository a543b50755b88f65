// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "config.hpp"
#include "failure.hpp"
#include "pool.hpp"
#include "poolset.hpp"

// Its macro "fail" must not meet the standard library.
extern "C" {
#include <cmocka.h>
}

// Facilities shared by the tests of the daemon's parts.

// A directory that goes with its contents. The settings have it as the poolset directory.
struct scratch {
    std::string path;
    rpmemd::config settings;

    scratch();
    ~scratch();
    scratch(const scratch &) = delete;
    scratch &operator=(const scratch &) = delete;

    // The paths of the parts in a text stand after an @.
    void write(const std::string &name, const std::string &text, unsigned mode = 0644) const;
    std::string read(const std::string &name) const;
    bool has(const std::string &name) const;
    void resize(const std::string &name, std::uint64_t size) const;
    void write_at_start(const std::string &name, const rpmemd::header_page &page) const;
    rpmemd::header_page first_page(const std::string &name) const;
};

rpmemd::header_page original_header(const std::string &name);

// With what the original daemon was asked to create the pools of the headers.
rpmemd::pool_attributes original_attributes(bool single_header = false);

// The errno value of the failure that f throws, whose text has such a part; 0 if it throws none.
int error_of(const std::function<void()> &f, const std::string &part_of_text = "");
