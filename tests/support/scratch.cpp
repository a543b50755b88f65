// SPDX-License-Identifier: BSD-3-Clause
#include "scratch.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdlib.h>

#include "cmocka_headers.hpp"

namespace fs = std::filesystem;

scratch_directory::scratch_directory(const std::string &parent) : path(parent + "/test-XXXXXX")
{
    if (mkdtemp(path.data()) == nullptr)
        fail_msg("cannot make a directory in %s", parent.c_str());
}

scratch_directory::~scratch_directory()
{
    std::error_code ignored;
    fs::remove_all(path, ignored);
}

void scratch_directory::write(const std::string &name, const std::string &text, unsigned mode) const
{
    const fs::path file = path + "/" + name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    fs::permissions(file, fs::perms(mode));
}

std::string scratch_directory::read(const std::string &name) const
{
    std::ostringstream text;
    text << std::ifstream(path + "/" + name, std::ios::binary).rdbuf();
    return text.str();
}

std::string scratch_directory::read(const std::string &name, std::uint64_t offset, std::uint64_t bytes) const
{
    std::ifstream from(path + "/" + name, std::ios::binary);
    from.seekg(static_cast<std::streamoff>(offset));
    std::string text(bytes, '\0');
    from.read(text.data(), static_cast<std::streamsize>(bytes));
    assert_int_equal(from.gcount(), bytes);
    return text;
}

bool scratch_directory::has(const std::string &name) const
{
    return fs::exists(path + "/" + name);
}
