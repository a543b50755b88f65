// SPDX-License-Identifier: BSD-3-Clause
#include "store/poolset.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "base/text.hpp"
#include "config/failure.hpp"

namespace rpmemd
{

namespace
{

constexpr std::string_view first_line = "PMEMPOOLSET\n";

[[noreturn]] void reject(int line, const std::string &message)
{
    throw failure(EINVAL, "line " + std::to_string(line) + ": " + message);
}

std::vector<std::string> words_of(std::string_view line)
{
    constexpr std::string_view blanks = " \t";
    std::vector<std::string> words;
    for (std::size_t at = line.find_first_not_of(blanks); at != std::string_view::npos;) {
        const std::size_t end = line.find_first_of(blanks, at);
        words.emplace_back(line.substr(at, end == std::string_view::npos ? end : end - at));
        at = end == std::string_view::npos ? end : line.find_first_not_of(blanks, end);
    }
    return words;
}

struct unit {
    std::string_view suffix;
    std::uint64_t bytes;
};

constexpr std::array<unit, 17> units = {{{"", 1}, {"B", 1}, {"K", 1ull << 10}, {"KiB", 1ull << 10}, {"M", 1ull << 20},
        {"MiB", 1ull << 20}, {"G", 1ull << 30}, {"GiB", 1ull << 30}, {"T", 1ull << 40}, {"TiB", 1ull << 40},
        {"P", 1ull << 50}, {"PiB", 1ull << 50}, {"kB", 1000ull}, {"MB", 1000000ull}, {"GB", 1000000000ull},
        {"TB", 1000000000000ull}, {"PB", 1000000000000000ull}}};

std::optional<std::uint64_t> size_from(std::string_view word)
{
    std::uint64_t count = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (error != std::errc() || count == 0)
        return std::nullopt;
    const std::string_view suffix = word.substr(static_cast<std::size_t>(end - word.data()));
    for (const unit &u : units)
        if (suffix == u.suffix && count <= std::numeric_limits<std::int64_t>::max() / u.bytes)
            return count * u.bytes;
    return std::nullopt;
}

class parser
{
public:
    void line(int number, std::string_view text)
    {
        const std::vector<std::string> words = words_of(text.substr(0, text.find('#')));
        if (words.empty())
            return;
        if (words[0] == "OPTION")
            option(number, words);
        else if (words[0] == "REPLICA")
            replica(number, words);
        else
            part(number, words);
    }

    poolset finish(int last_line)
    {
        if (set_.parts.empty())
            reject(last_line, "set without parts (add a line such as '32M /dev/shm/pool.part0')");
        if (replicas_ != 1)
            reject(last_line, std::to_string(replicas_) +
                                      " replicas: REPLICA is not allowed in the set file of a remote replica");
        return set_;
    }

private:
    void option(int number, const std::vector<std::string> &words)
    {
        if (words.size() == 1)
            reject(number, "OPTION without a value (SINGLEHDR or NOHDRS)");
        for (std::size_t i = 1; i < words.size(); ++i) {
            if (words[i] == "SINGLEHDR")
                set_.single_header = true;
            else if (words[i] == "NOHDRS")
                set_.no_headers = true;
            else
                reject(number, "unknown option '" + words[i] + "' (SINGLEHDR or NOHDRS)");
        }
        if (set_.single_header && set_.no_headers)
            reject(number, "SINGLEHDR and NOHDRS exclude each other");
    }

    void replica(int number, const std::vector<std::string> &words)
    {
        if (words.size() != 1 && words.size() != 3)
            reject(number, "REPLICA requires no operands, or a host and a set");
        ++replicas_;
    }

    void part(int number, const std::vector<std::string> &words)
    {
        if (words.size() != 2)
            reject(number, "invalid part: expected size and path (blanks in a path are not supported)");
        if (words[1][0] != '/')
            reject(number, "path '" + words[1] + "' is not absolute");
        std::uint64_t size = 0;
        if (words[0] != "AUTO") {
            const std::optional<std::uint64_t> found = size_from(words[0]);
            if (!found)
                reject(number, "invalid size '" + words[0] + "' (examples: 33554432, 32M, 32MiB, 33MB)");
            if (*found < min_part_size)
                reject(number, "part smaller than 2 MiB");
            size = *found;
        }
        if (replicas_ == 1)
            set_.parts.push_back({words[1], size});
    }

    poolset set_;
    int replicas_ = 1;
};

} // namespace

poolset parse_poolset(std::string_view text)
{
    if (const char *const fault = replica::encoding_fault(text); fault != nullptr)
        reject(1, fault);
    if (const std::size_t at = text.find('\r'); at != std::string_view::npos)
        reject(1 + static_cast<int>(std::ranges::count(text.substr(0, at), '\n')),
                "ends with a carriage return (convert the file, for example with sed -i 's/\\r$//')");
    if (text.substr(0, first_line.size()) != first_line)
        reject(1, "expected PMEMPOOLSET");
    if (text.find('\0') != std::string_view::npos)
        reject(1, "invalid set file: contains NUL bytes");
    parser p;
    int number = 1;
    for (std::size_t at = first_line.size(); at < text.size();) {
        const std::size_t end = text.find('\n', at);
        p.line(++number, text.substr(at, end == std::string_view::npos ? end : end - at));
        at = end == std::string_view::npos ? text.size() : end + 1;
    }
    return p.finish(number);
}

} // namespace rpmemd
