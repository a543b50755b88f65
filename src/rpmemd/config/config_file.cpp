// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>
#include <limits>
#include <map>
#include <sstream>

#include "base/text_file.hpp"
#include "config/config.hpp"
#include "config/location.hpp"

namespace rpmemd
{

namespace
{

std::invalid_argument invalid_value(const std::string &value, const std::string &expected)
{
    return std::invalid_argument("invalid value '" + value + "': " + expected);
}

bool yes_or_no(const std::string &value)
{
    if (value != "yes" && value != "no")
        throw invalid_value(value, "must be yes or no");
    return value == "yes";
}

std::uint64_t number(const std::string &value, std::uint64_t min, std::uint64_t max, int base = 10)
{
    std::size_t used = 0;
    std::uint64_t found = 0;
    try {
        if (!value.empty() && std::isdigit(static_cast<unsigned char>(value[0])) != 0)
            found = std::stoull(value, &used, base);
    } catch (const std::exception &) {
        used = 0;
    }
    if (used == 0 || used != value.size() || found < min || found > max)
        throw invalid_value(value,
                std::string(base == 8 ? "must be an octal number up to 777"
                                      : "must be a number from " + std::to_string(min) + " to " + std::to_string(max)));
    return found;
}

std::string directory(const std::string &value)
{
    static const std::string token = "$HOME";
    std::string path = value;
    for (std::size_t at = path.find(token); at != std::string::npos; at = path.find(token, at)) {
        const char *const user_dir = getenv("HOME");
        if (user_dir == nullptr || *user_dir == '\0')
            throw std::invalid_argument("'" + value + "': HOME is not set");
        path.replace(at, token.size(), user_dir);
        at += std::string_view(user_dir).size();
    }
    if (path.empty() || path[0] != '/')
        throw invalid_value(value, "the poolset directory must be an absolute path");
    return path;
}

log_level level(const std::string &value)
{
    const std::optional<log_level> found = log_level_from(value);
    if (!found)
        throw invalid_value(value, "must be err, warn, notice, info or debug");
    return *found;
}

template<unsigned limits::*limit>
void set_limit(config &to, const std::string &value)
{
    to.limits.*limit = parse_number(value, 1, max_threads);
}

template<std::uint64_t limits::*limit>
void set_bytes(config &to, const std::string &value)
{
    to.limits.*limit = number(value, 1, std::numeric_limits<std::int64_t>::max());
}

using setter = void (*)(config &, const std::string &);

const std::map<std::string, setter> &setters()
{
    static const std::map<std::string, setter> setters = {
            {"log-file",
                    [](config &to, const std::string &value) {
                        if (value.empty())
                            throw invalid_value(value, "must be the path of a file");
                        to.log_file = value;
                        to.use_syslog = false;
                    }},
            {"use-syslog", [](config &to, const std::string &value) { to.use_syslog = yes_or_no(value); }},
            {"log-level", [](config &to, const std::string &value) { to.level = level(value); }},
            {"poolset-dir", [](config &to, const std::string &value) { to.poolset_dir = directory(value); }},
            {"persist-apm", [](config &to, const std::string &value) { to.persist_apm = yes_or_no(value); }},
            // Accepted for compatibility: the general method is the default without persist-apm.
            {"persist-general", [](config &, const std::string &value) { (void)yes_or_no(value); }},
            {"read-only-header", [](config &to, const std::string &value) { to.read_only_header = yes_or_no(value); }},
            {"follow-symlinks", [](config &to, const std::string &value) { to.follow_symlinks = yes_or_no(value); }},
            {"umask", [](config &to,
                              const std::string &value) { to.umask = static_cast<mode_t>(number(value, 0, 0777, 8)); }},
            {"session-timeout",
                    [](config &to, const std::string &value) {
                        to.session_timeout_s = parse_number(value, 0, 24 * 3600);
                    }},
            {"identity", [](config &to, const std::string &value) { to.grants.push_back(parse_grant(value)); }},
            {"metrics",
                    [](config &to, const std::string &value) {
                        (void)parse_location(value);
                        to.metrics = value;
                    }},
            {"max-lanes", set_limit<&limits::lanes>},
            {"max-threads", set_limit<&limits::threads>},
            {"max-bytes", set_bytes<&limits::bytes>},
            {"max-sessions", set_limit<&limits::sessions>},
            {"max-readers", set_limit<&limits::readers>},
            {"max-reader-bytes", set_bytes<&limits::reader_bytes>},
            {"max-unauthenticated", set_limit<&limits::unauthenticated>},
            {"max-unauthenticated-per-address", set_limit<&limits::unauthenticated_per_address>},
    };
    return setters;
}

std::string trimmed(const std::string &text)
{
    constexpr const char *blanks = " \t\r";
    const std::size_t first = text.find_first_not_of(blanks);
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

void read_line(config &to, const std::string &line)
{
    const std::string text = trimmed(line.substr(0, line.find('#')));
    if (text.empty())
        return;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos)
        throw std::invalid_argument("'" + text + "': expected key = value");
    set_value(to, trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)));
}

} // namespace

unsigned parse_number(const std::string &value, unsigned min, unsigned max)
{
    return static_cast<unsigned>(number(value, min, max));
}

void set_value(config &to, const std::string &key, const std::string &value)
{
    const auto found = setters().find(key);
    if (found == setters().end())
        throw std::invalid_argument("unknown key '" + key + "'");
    found->second(to, value);
}

void read_config_file(config &to, const std::string &path)
{
    std::istringstream file;
    try {
        file.str(replica::read_text_file(path));
    } catch (const replica::file_error &error) {
        throw config_error(exit_failed, path + ": cannot be read: " + error.what());
    }
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        try {
            read_line(to, line);
        } catch (const std::invalid_argument &error) {
            throw config_error(exit_failed, path + ":" + std::to_string(number) + ": " + error.what());
        }
    }
    to.files.push_back(path);
}

} // namespace rpmemd
