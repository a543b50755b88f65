// SPDX-License-Identifier: BSD-3-Clause
#include "forced_command.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "config.hpp"

namespace rpmemd
{

namespace
{

constexpr std::string_view blanks = " \t\n";
// Outside of quotes, and between double quotes, a shell does something with these.
constexpr std::string_view special = ";&|<>()$`*?[]{}~#!";
constexpr std::string_view special_in_double = "$`";
// Between double quotes a backslash protects only these.
constexpr std::string_view protected_in_double = "$`\"\\";

bool is_one_of(char c, std::string_view set)
{
    return set.find(c) != std::string_view::npos;
}

// Reads the command line from its start to its end.
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
        std::string made;
        while (at_ < line_.size() && !is_one_of(line_[at_], blanks)) {
            const char c = line_[at_++];
            if (c == '\'')
                made += single_quoted();
            else if (c == '"')
                made += double_quoted();
            else if (c == '\\')
                made += protected_character();
            else if (is_one_of(c, special))
                refuse(c);
            else
                made += c;
        }
        return made;
    }

private:
    [[noreturn]] static void refuse(char c)
    {
        throw std::invalid_argument(std::string("'") + c + "' is not quoted, and there is no shell here");
    }

    std::string single_quoted()
    {
        const std::size_t end = line_.find('\'', at_);
        if (end == std::string_view::npos)
            throw std::invalid_argument("a quote is not closed");
        std::string made(line_.substr(at_, end - at_));
        at_ = end + 1;
        return made;
    }

    std::string double_quoted()
    {
        std::string made;
        while (at_ < line_.size() && line_[at_] != '"') {
            char c = line_[at_++];
            if (is_one_of(c, special_in_double))
                refuse(c);
            if (c == '\\' && at_ < line_.size() && is_one_of(line_[at_], protected_in_double))
                c = line_[at_++];
            made += c;
        }
        if (at_ == line_.size())
            throw std::invalid_argument("a quote is not closed");
        ++at_;
        return made;
    }

    char protected_character()
    {
        if (at_ == line_.size())
            throw std::invalid_argument("nothing follows a backslash");
        return line_[at_++];
    }

    std::string_view line_;
    std::size_t at_ = 0;
};

bool takes_a_set(const std::string &option)
{
    return option == "--remove" || option == "-r" || option == "--check";
}

bool may_be_asked(const std::string &word)
{
    constexpr std::string_view alone[] = {"--force", "-f", "--pool-set", "-s", "--version"};
    return takes_a_set(word) || std::ranges::find(alone, word) != std::end(alone);
}

[[noreturn]] void refuse_command(const std::string &asked, const std::string &why)
{
    throw config_error(exit_refused, "the command '" + asked + "' is not allowed here: " + why);
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
    const std::string asked = text == nullptr ? "" : text;
    std::vector<std::string> words;
    try {
        words = words_of_command(asked);
    } catch (const std::invalid_argument &problem) {
        refuse_command(asked, problem.what());
    }
    if (!words.empty())
        words.erase(words.begin());
    for (std::size_t i = 0; i < words.size(); ++i) {
        const bool is_set = i > 0 && takes_a_set(words[i - 1]);
        if (is_set ? words[i].starts_with('-') : !may_be_asked(words[i]))
            refuse_command(asked, "only --remove SET, --force, --pool-set, --check SET and --version are");
    }
    return words;
}

} // namespace rpmemd
