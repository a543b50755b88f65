// SPDX-License-Identifier: BSD-3-Clause
// usage: ..._replay DIRECTORY: gives each file, and beginnings of it, to a fuzz target.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

// Maximum number of prefixes. For a longer file, only some lengths are tested.
constexpr std::size_t max_prefixes = 512;

int main(int argc, char **argv)
{
    int files = 0;
    for (const auto &entry : std::filesystem::directory_iterator(argc > 1 ? argv[1] : ".")) {
        std::ifstream file(entry.path(), std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        const std::size_t step = 1 + bytes.size() / max_prefixes;
        for (std::size_t size = bytes.size() % step; size <= bytes.size(); size += step) {
            const std::vector<std::uint8_t> exact(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
            LLVMFuzzerTestOneInput(exact.data(), exact.size());
        }
        ++files;
    }
    printf("%d files\n", files);
    return files > 0 ? 0 : 1;
}
