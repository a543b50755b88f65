// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/failure.hpp"
#include "store/pool.hpp"
#include "store/poolset.hpp"

#include "scratch.hpp"
#include "cmocka_headers.hpp"

// Facilities shared by the unit tests of the daemon.

// Temporary directory. The settings use it as the poolset directory.
struct scratch : scratch_directory {
    rpmemd::config settings;

    scratch();

    // Writes a file. Each @ in the text stands for the path of the directory.
    void write(const std::string &name, const std::string &text, unsigned mode = 0644) const;
    void resize(const std::string &name, std::uint64_t size) const;
    void write_at_start(const std::string &name, const rpmemd::header_page &page) const;
    rpmemd::header_page first_page(const std::string &name) const;
};

rpmemd::header_page original_header(const std::string &name);

// Attributes with which the original daemon created the pools of the header files.
rpmemd::pool_attributes original_attributes(bool single_header = false);

// Returns the errno value of the failure that f throws, whose text must contain part_of_text; 0 if f does not throw.
int error_of(const std::function<void()> &f, const std::string &part_of_text = "");
