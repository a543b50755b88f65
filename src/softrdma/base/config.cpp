// SPDX-License-Identifier: BSD-3-Clause
#include "base/config.hpp"
#include "base/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

namespace softrdma::config
{

namespace
{

constexpr int exit_usage = 2;
constexpr int day_ms = 24 * 60 * 60 * 1000;
constexpr int ports = 65535;
constexpr std::size_t count = static_cast<std::size_t>(setting::count);

struct entry {
    const char *name;
    std::array<const char *, 6> words{}; // the first is the default
    const char *former_name = nullptr;   // name in development versions, still accepted
    std::array<const char *, 6> former_words{};
    int min = 0; // these three are for numbers
    int max = 0;
    int fallback = 0;

    bool has_words() const noexcept { return words[0] != nullptr; }
    bool is_number() const noexcept { return min < max; }
};

constexpr std::array<entry, count> entries = {{
        {.name = "SOFTRDMA_TRANSPORT",
                .words = {"auto", "shm", "shm-fd", "tcp", "roce"},
                .former_name = "SOFTRDMA_PATH",
                .former_words = {"auto", "local", "descriptors", "tcp"}},
        {.name = "SOFTRDMA_ROCE", .words = {"connect", "listen", "off"}},
        {.name = "SOFTRDMA_ROCE_SOURCE_PORT", .words = {"flow", "fixed"}},
        {.name = "SOFTRDMA_TRUST", .words = {"user", "none"}},
        {.name = "SOFTRDMA_NATIVE_VERBS", .words = {"on", "off"}, .former_name = "SOFTRDMA_NATIVE"},
        {.name = "SOFTRDMA_READ_FLUSH", .words = {"on", "off"}},
        {.name = "SOFTRDMA_VOLATILE", .words = {"accept", "reject"}, .former_words = {"accept", "refuse"}},
        {.name = "SOFTRDMA_PRIVATE_DATA", .words = {"padded", "exact"}},
        {.name = "SOFTRDMA_LOOPBACK", .words = {"device", "wildcard"}, .former_words = {"device", "any"}},
        {.name = "SOFTRDMA_LINK", .words = {"ethernet", "infiniband"}},
        {.name = "SOFTRDMA_LOG", .words = {"off", "error", "warn", "info", "debug"}},
        {.name = "SOFTRDMA_CM_TIMEOUT_MS", .min = 1, .max = day_ms, .fallback = 20000},
        {.name = "SOFTRDMA_TIMEWAIT_MS", .min = 0, .max = day_ms, .fallback = 100},
        {.name = "SOFTRDMA_PORT_OFFSET", .min = -ports, .max = ports, .fallback = 0},
        {.name = "SOFTRDMA_FAULT"},
        {.name = "SOFTRDMA_POWERCUT"},
        {.name = "SOFTRDMA_TRACE"},
}};

const entry &entry_of(setting s) noexcept
{
    return entries[static_cast<std::size_t>(s)];
}

const char *name_in_use(const entry &e) noexcept
{
    return e.former_name != nullptr && getenv(e.name) == nullptr ? e.former_name : e.name;
}

const char *variable(const entry &e) noexcept
{
    const char *set = getenv(name_in_use(e));
    return set == nullptr || *set == '\0' ? nullptr : set;
}

bool parse_word(const entry &e, std::string_view set, int &value)
{
    for (const auto &words : {e.words, e.former_words}) {
        for (std::size_t i = 0; i < words.size() && words[i] != nullptr; ++i) {
            if (set == words[i]) {
                value = static_cast<int>(i);
                return true;
            }
        }
    }
    return false;
}

bool parse_number(const entry &e, const char *set, int &value)
{
    char *end = nullptr;
    errno = 0;
    const long number = strtol(set, &end, 10);
    value = static_cast<int>(number);
    return errno == 0 && end != set && *end == '\0' && number >= e.min && number <= e.max;
}

std::string expected(const entry &e)
{
    if (e.is_number())
        return " (use a number from " + std::to_string(e.min) + " to " + std::to_string(e.max) + ")";
    std::string text = " (use ";
    for (std::size_t i = 0; i < e.words.size() && e.words[i] != nullptr; ++i) {
        const bool last = i + 1 == e.words.size() || e.words[i + 1] == nullptr;
        text += (i == 0 ? "" : last ? " or " : ", ") + std::string(e.words[i]);
    }
    return text + ")";
}

struct parsed {
    std::array<int, count> values{};
    std::array<std::string, count> texts{}; // copies, because the program may change its environment later
    const entry *invalid = nullptr;         // first entry with an invalid value
};

parsed parse()
{
    parsed result;
    for (std::size_t i = 0; i < count; ++i) {
        const entry &e = entries[i];
        const char *set = variable(e);
        result.values[i] = e.fallback;
        if (set == nullptr)
            continue;
        const bool is_valid = e.has_words()   ? parse_word(e, set, result.values[i])
                              : e.is_number() ? parse_number(e, set, result.values[i])
                                              : !(result.texts[i] = set).empty();
        if (!is_valid && result.invalid == nullptr)
            result.invalid = &e;
    }
    return result;
}

[[noreturn]] void reject(const entry &e, const char *reason)
{
    fprintf(stderr, "softrdma: %s: invalid value '%s'%s\n", name_in_use(e), variable(e), reason);
    exit(exit_usage);
}

const parsed &all()
{
    static constinit process::single<const parsed> one;
    return one.get([] { return new parsed(parse()); });
}

} // namespace

const char *name(setting s) noexcept
{
    return name_in_use(entry_of(s));
}

bool parse_number(std::string_view text, std::uint64_t &value) noexcept
{
    const char *const end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, value);
    return error == std::errc{} && last == end;
}

int value(setting s)
{
    return all().values[static_cast<std::size_t>(s)];
}

const char *text(setting s)
{
    const std::string &set = all().texts[static_cast<std::size_t>(s)];
    return set.empty() ? nullptr : set.c_str();
}

void check()
{
    if (const entry *invalid = all().invalid; invalid != nullptr)
        reject(*invalid, expected(*invalid).c_str());
}

void report_unknown()
{
    constexpr std::string_view prefix = "SOFTRDMA_";
    for (char **at = environ; *at != nullptr; ++at) {
        const std::string_view name(*at, strcspn(*at, "="));
        const auto is_of = [&](const entry &e) {
            return name == e.name || (e.former_name != nullptr && name == e.former_name);
        };
        if (name.starts_with(prefix) && std::ranges::none_of(entries, is_of))
            fprintf(stderr, "softrdma: %.*s: unknown variable: ignored (see ENVIRONMENT in softrdma(1))\n",
                    static_cast<int>(name.size()), name.data());
    }
}

void reject(setting s, const char *reason)
{
    reject(entry_of(s), (std::string(": ") + reason).c_str());
}

} // namespace softrdma::config
