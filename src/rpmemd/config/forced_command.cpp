// SPDX-License-Identifier: BSD-3-Clause
#include "config/forced_command.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "config/config.hpp"

namespace rpmemd
{

namespace
{

constexpr std::string_view blanks = " \t\n";
// Characters that are special to a shell outside of quotes, and within double quotes.
constexpr std::string_view special = ";&|<>()$`*?[]{}~#!";
constexpr std::string_view special_in_double = "$`";
// Within double quotes a backslash escapes only these.
constexpr std::string_view protected_in_double = "$`\"\\";

bool is_one_of(char c, std::string_view set)
{
    return set.find(c) != std::string_view::npos;
}

class word_reader
{
public:
    explicit word_reader(std::string_view line) : line_(line) {}

    bool skip_blanks()
    {
        while (at_ < line_.size() && is_one_of(line_[at_], blanks))
            ++at_;
        return at_ < line_.size();
    }

    std::string word()
    {
        std::string result;
        while (at_ < line_.size() && !is_one_of(line_[at_], blanks)) {
            const char c = line_[at_++];
            if (c == '\'')
                result += single_quoted();
            else if (c == '"')
                result += double_quoted();
            else if (c == '\\')
                result += protected_character();
            else if (is_one_of(c, special))
                reject(c);
            else
                result += c;
        }
        return result;
    }

private:
    [[noreturn]] static void reject(char c)
    {
        throw std::invalid_argument(std::string("'") + c + "' must be quoted: the command is not run by a shell");
    }

    std::string single_quoted()
    {
        const std::size_t end = line_.find('\'', at_);
        if (end == std::string_view::npos)
            throw std::invalid_argument("unterminated quote");
        std::string result(line_.substr(at_, end - at_));
        at_ = end + 1;
        return result;
    }

    std::string double_quoted()
    {
        std::string result;
        while (at_ < line_.size() && line_[at_] != '"') {
            char c = line_[at_++];
            if (is_one_of(c, special_in_double))
                reject(c);
            if (c == '\\' && at_ < line_.size() && is_one_of(line_[at_], protected_in_double))
                c = line_[at_++];
            result += c;
        }
        if (at_ == line_.size())
            throw std::invalid_argument("unterminated quote");
        ++at_;
        return result;
    }

    char protected_character()
    {
        if (at_ == line_.size())
            throw std::invalid_argument("backslash at the end");
        return line_[at_++];
    }

    std::string_view line_;
    std::size_t at_ = 0;
};

bool takes_a_set(const std::string &option)
{
    return option == "--remove" || option == "-r" || option == "--check";
}

bool is_allowed(const std::string &word)
{
    constexpr std::string_view alone[] = {"--force", "-f", "--pool-set", "-s", "--version"};
    return takes_a_set(word) || std::ranges::find(alone, word) != std::end(alone);
}

[[noreturn]] void reject_command(const std::string &command, const std::string &reason)
{
    throw config_error(exit_rejected, "command '" + command + "' rejected: " + reason);
}

} // namespace

std::vector<std::string> words_of_command(std::string_view line)
{
    word_reader reader(line);
    std::vector<std::string> words;
    while (reader.skip_blanks())
        words.push_back(reader.word());
    return words;
}

std::vector<std::string> forced_arguments()
{
    const char *const text = getenv("SSH_ORIGINAL_COMMAND");
    const std::string command = text == nullptr ? "" : text;
    std::vector<std::string> words;
    try {
        words = words_of_command(command);
    } catch (const std::invalid_argument &error) {
        reject_command(command, error.what());
    }
    if (!words.empty())
        words.erase(words.begin());
    for (std::size_t i = 0; i < words.size(); ++i) {
        const bool is_set = i > 0 && takes_a_set(words[i - 1]);
        if (is_set ? words[i].starts_with('-') : !is_allowed(words[i]))
            reject_command(command, "only --remove SET, --force, --pool-set, --check SET and --version are allowed");
    }
    return words;
}

} // namespace rpmemd
