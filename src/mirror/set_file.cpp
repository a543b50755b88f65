// SPDX-License-Identifier: BSD-3-Clause
// Parser of set files, which describe a set on one machine.
#include "settings.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "arbiter.hpp"
#include "base/text.hpp"
#include "base/text_file.hpp"
#include "failure.hpp"

namespace mirror
{

namespace
{

constexpr const char *first_line = "RPMAMIRROR";

struct line {
    std::string key;
    std::vector<std::string> words;
    std::string rest; // the words, separated by one blank
};

unsigned long long number(const std::string &word, bool units)
{
    char *end = nullptr;
    errno = 0;
    unsigned long long value = std::strtoull(word.c_str(), &end, 10);
    if (word.empty() || word[0] < '0' || word[0] > '9' || errno != 0)
        throw failure(RPMA_MIRROR_E_INVAL, "'" + word + "' is not a number");
    const std::string unit = end;
    const std::string multiples = "KMGT";
    if (units && unit.size() == 1 && multiples.find(unit[0]) != std::string::npos) {
        const unsigned shift = 10 * static_cast<unsigned>(multiples.find(unit[0]) + 1);
        if (value > UINT64_MAX >> shift)
            throw failure(RPMA_MIRROR_E_INVAL, "'" + word + "' is too large");
        return value << shift;
    }
    if (!unit.empty() || (!units && value > UINT32_MAX))
        throw failure(RPMA_MIRROR_E_INVAL, "'" + word + "' is not a number" + (units ? " with K, M, G or T" : ""));
    return value;
}

unsigned small(const std::string &word)
{
    return static_cast<unsigned>(number(word, false));
}

// Replaces a key or value of development versions.
std::string current_word(const std::string &word)
{
    static const std::map<std::string, std::string> former = {
            {"home", "local"}, {"page-cache", "written-back"}, {"hardware", "kernel"}, {"software", "softrdma"}};
    const auto found = former.find(word);
    return found == former.end() ? word : found->second;
}

// Returns the index of the word in the list. Throws failure if it is missing.
std::size_t choose(const std::string &word, std::initializer_list<const char *> words)
{
    const std::string current = current_word(word);
    std::string all;
    std::size_t index = 0;
    for (const char *const expected : words) {
        if (current == expected)
            return index;
        ++index;
        all += all.empty() ? expected : std::string(" or ") + expected;
    }
    throw failure(RPMA_MIRROR_E_INVAL, "invalid value '" + word + "' (use " + all + ")");
}

void need(const line &l, std::size_t min, std::size_t max, const char *usage)
{
    if (l.words.size() < min || l.words.size() > max)
        throw failure(RPMA_MIRROR_E_INVAL, std::string("wrong number of values (syntax: ") + usage + ")");
}

void apply_local_copy(settings &to, const line &l)
{
    need(l, 2, 4, "local COPY PATH [LENGTH [STATE-PATH]], or local COPY anonymous LENGTH");
    const bool anonymous = l.words[1] == "anonymous";
    to.set_local_copy(small(l.words[0]), anonymous ? nullptr : l.words[1].c_str(),
            l.words.size() > 2 ? number(l.words[2], true) : 0, l.words.size() > 3 ? l.words[3].c_str() : nullptr);
}

void apply(settings &to, const line &l)
{
    if (l.key == "local")
        return apply_local_copy(to, l);
    if (l.key == "target") {
        need(l, 3, 3, "target COPY ADDRESS:PORT POOLSET");
        return to.add_target(small(l.words[0]), l.words[1], l.words[2]);
    }
    if (l.key == "lanes") {
        need(l, 1, 2, "lanes COUNT [DEPTH]");
        return to.set_lanes(small(l.words[0]), l.words.size() > 1 ? small(l.words[1]) : to.depth);
    }
    if (l.key == "background-resync") {
        need(l, 1, 2, "background-resync on [BYTES-PER-SECOND], or background-resync off");
        to.background = choose(l.words[0], {"off", "on"}) == 1;
        if (l.words.size() > 1)
            to.background_rate = number(l.words[1], true);
        return;
    }
    if (l.key == "admin-socket") {
        need(l, 1, 1, "admin-socket on|off");
        to.admin_socket = choose(l.words[0], {"off", "on"}) == 1;
        return;
    }
    if (l.key == "timeouts") {
        need(l, 2, 2, "timeouts OPERATION-MS OPEN-MS");
        return to.set_timeouts(small(l.words[0]), small(l.words[1]));
    }
    if (l.key == "slow-after") {
        need(l, 2, 2, "slow-after COUNT MS");
        return to.set_slow_limit(small(l.words[0]), small(l.words[1]));
    }
    if (l.key == "arbiter") {
        need(l, 1, SIZE_MAX, "arbiter operator, or arbiter etcd URL");
        check_arbiter(l.rest);
        to.arbiter = l.rest;
        return;
    }
    need(l, 1, 1, "KEY VALUE");
    const std::string &word = l.words[0];
    if (l.key == "max-length")
        return to.set_max_length(number(word, true));
    if (l.key == "key-file")
        to.key_file = word;
    else if (l.key == "policy")
        to.policy = static_cast<replica::mirror_policy>(choose(word, {"safety", "availability"}));
    else if (l.key == "min-level")
        to.min_level = static_cast<rpma_mirror_level>(
                choose(word, {"volatile", "written-back", "cpu-flushed", "direct-write", "native-flush"}));
    else if (l.key == "device")
        to.device = static_cast<rpma_mirror_device>(choose(word, {"any", "kernel", "softrdma"}));
    else
        throw failure(RPMA_MIRROR_E_INVAL, "unknown key '" + l.key + "'");
}

// Rejects a state path that is the set file: PATH.mirror is the default state path and a likely name of a set file.
void check_state_is_not(const std::string &path, const std::string &state_path)
{
    std::error_code ignored;
    if (std::filesystem::equivalent(path, state_path, ignored))
        throw failure(RPMA_MIRROR_E_INVAL,
                "state path of the local copy is this set file (rename it, or set a STATE-PATH "
                "after the length)");
}

// Rejects a second line with a key of which a set file can have only one line.
void check_single(std::map<std::string, unsigned> &lines, const std::string &key, unsigned number_of_line)
{
    if (const auto [first, is_new] = lines.emplace(key, number_of_line); !is_new && key != "target")
        throw failure(RPMA_MIRROR_E_INVAL, "second line '" + key + "': line " + std::to_string(first->second) +
                                                   " already has this key (remove one of them)");
}

line split(const std::string &text)
{
    line l;
    std::istringstream from(text.substr(0, text.find('#')));
    from >> l.key;
    l.key = current_word(l.key);
    for (std::string word; from >> word; l.words.push_back(word))
        l.rest += l.rest.empty() ? word : " " + word;
    return l;
}

} // namespace

settings read_set_file(const std::string &path)
{
    std::istringstream file;
    try {
        file.str(replica::read_text_file(path));
    } catch (const replica::file_error &error) {
        throw error.os_errno() == ENOENT
                ? failure(RPMA_MIRROR_E_NOT_FOUND, "set file not found: " + path, ENOENT)
                : failure(RPMA_MIRROR_E_SYSTEM, "cannot read " + path + ": " + error.what(), error.os_errno());
    }
    settings to;
    std::map<std::string, unsigned> lines; // first line of each key
    std::string text;
    for (unsigned number_of_line = 1; std::getline(file, text); ++number_of_line) {
        const line l = split(text);
        try {
            if (const char *const fault = replica::encoding_fault(text); fault != nullptr && number_of_line == 1)
                throw failure(RPMA_MIRROR_E_INVAL, fault);
            // At the end of a line, a carriage return counts as a blank.
            if (const std::size_t at = text.find('\r'); at < text.size() - 1)
                throw failure(RPMA_MIRROR_E_INVAL, "contains a carriage return (end each line with a line feed)");
            if (number_of_line == 1 && (l.key != first_line || !l.words.empty()))
                throw failure(RPMA_MIRROR_E_INVAL, std::string("the first line of a set file is ") + first_line);
            if (number_of_line > 1 && !l.key.empty()) {
                check_single(lines, l.key, number_of_line);
                apply(to, l);
            }
            if (l.key == "local")
                check_state_is_not(path, to.state_path);
        } catch (const failure &error) {
            throw failure(error.code(), path + ":" + std::to_string(number_of_line) + ": " + error.what());
        }
    }
    try {
        to.check();
    } catch (const failure &error) {
        throw failure(error.code(), path + ": " + error.what());
    }
    return to;
}

} // namespace mirror
