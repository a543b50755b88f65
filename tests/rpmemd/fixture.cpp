// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.hpp"

using namespace rpmemd;

scratch::scratch() : scratch_directory(std::filesystem::temp_directory_path())
{
    settings.poolset_dir = path;
}

void scratch::write(const std::string &name, const std::string &text, unsigned mode) const
{
    std::string whole = text;
    for (std::size_t at = whole.find('@'); at != std::string::npos; at = whole.find('@', at))
        whole.replace(at, 1, path + "/");
    scratch_directory::write(name, whole, mode);
}

void scratch::resize(const std::string &name, std::uint64_t size) const
{
    if (!has(name))
        write(name, "");
    std::filesystem::resize_file(path + "/" + name, size);
}

void scratch::write_at_start(const std::string &name, const header_page &page) const
{
    std::fstream file(path + "/" + name, std::ios::binary | std::ios::in | std::ios::out);
    file.write(reinterpret_cast<const char *>(page.data()), static_cast<std::streamsize>(page.size()));
    assert_true(file.good());
}

header_page scratch::first_page(const std::string &name) const
{
    header_page page{};
    std::ifstream file(path + "/" + name, std::ios::binary);
    file.read(reinterpret_cast<char *>(page.data()), static_cast<std::streamsize>(page.size()));
    assert_true(file.good());
    return page;
}

header_page original_header(const std::string &name)
{
    header_page page{};
    std::ifstream file(std::string(HEADERS_DIRECTORY "/") + name + ".header", std::ios::binary);
    file.read(reinterpret_cast<char *>(page.data()), static_cast<std::streamsize>(page.size()));
    assert_true(file.good());
    return page;
}

pool_attributes original_attributes(bool single_header)
{
    pool_attributes attributes;
    attributes.signature = {'F', 'I', 'X', 'T', 'U', 'R', 'E', '1'};
    attributes.major = 3;
    attributes.compat_features = 1;
    attributes.incompat_features = single_header ? 7 : 6;
    unsigned char first = 0x10;
    for (uuid *const id :
            {&attributes.poolset_uuid, &attributes.first_uuid, &attributes.next_uuid, &attributes.prev_uuid}) {
        std::iota(id->begin(), id->end(), first);
        first = static_cast<unsigned char>(first + 0x10);
    }
    return attributes;
}

int error_of(const std::function<void()> &f, const std::string &part_of_text)
{
    try {
        f();
    } catch (const failure &error) {
        if (std::string(error.what()).find(part_of_text) == std::string::npos)
            fail_msg("'%s' is not in '%s'", part_of_text.c_str(), error.what());
        return error.os_errno();
    }
    return 0;
}
