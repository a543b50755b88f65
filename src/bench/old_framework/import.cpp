// SPDX-License-Identifier: BSD-3-Clause
#include "import.hpp"
#include "file.hpp"
#include "import_rows.hpp"

#include <nlohmann/json.hpp>

namespace bench::old_framework
{

namespace
{

using json = nlohmann::json;

std::string directory_of(const std::string &path)
{
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string stem_of(const std::string &path)
{
    const std::string name = path.substr(directory_of(path).size());
    return name.substr(0, name.rfind('.'));
}

json parse(const std::string &path, const std::string &text)
{
    try {
        return json::parse(text);
    } catch (const json::parse_error &) {
        throw results_error(path + ": is neither JSON nor CSV, or was cut short");
    }
}

template<class T>
T value_or(const json &object, const char *name, T otherwise)
{
    const auto found = object.find(name);
    if (found == object.end() || found->type() != json(otherwise).type())
        return otherwise;
    return found->get<T>();
}

// What a series of bench.json measures.
row_meaning meaning_of(const json &series, bool direct_write, const std::string &place)
{
    if (!series.is_object())
        throw results_error(place + ": is not an object");
    row_meaning meaning;
    for (const char *key : {"tool", "tool_mode", "rw", "filetype"})
        meaning.take_word(value_or<std::string>(series, key, ""));
    if (!value_or(series, "busy_wait_polling", true))
        meaning.take_word("blocking");
    if (!meaning.known())
        throw results_error(place + ": \"rw\" does not say what was measured");
    meaning.direct_write = direct_write;
    return meaning;
}

results empty_import(const std::string &path)
{
    results r;
    r.profile = "imported";
    r.complete = true;
    r.environment.tool = "the benchmarking framework of librpma 0.9 to 1.1";
    r.environment.notes = {"Imported from " + stem_of(path) +
                           ": single runs, whose data was not compared and whose environment is not recorded."};
    return r;
}

// Only what describes measurements is taken: the configuration in this file holds a password.
results import_bench(const std::string &path, const json &document)
{
    results r = empty_import(path);
    const std::string directory = directory_of(path);
    const json requirements = value_or(document, "requirements", json::object());
    for (const auto &[index, requirement] : requirements.items()) {
        const std::string place = path + ": requirements." + index;
        if (!requirement.is_object())
            throw results_error(place + ": is not an object");
        const bool direct_write = value_or(requirement, "direct_write_to_pmem", false);
        const json benchmarks = value_or(requirement, "benchmarks", json::object());
        for (const auto &[id, series] : benchmarks.items()) {
            const row_meaning meaning = meaning_of(series, direct_write, place + ".benchmarks." + id);
            const std::string file = directory + "benchmark_" + id + ".json";
            std::string text;
            try {
                text = read_file(file);
            } catch (const std::runtime_error &) {
                r.complete = false; // the run was not finished
                continue;
            }
            for (point &p : points_of_rows(parse(file, text), meaning, file))
                r.points.push_back(std::move(p));
        }
    }
    if (r.points.empty())
        throw results_error(path + ": no benchmark_<id>.json with rows lies beside it");
    return r;
}

row_meaning meaning_of_words(const std::string &path, const std::string &rows_are)
{
    row_meaning meaning;
    std::string word;
    const std::string words = rows_are.empty() ? stem_of(path) : rows_are;
    for (const char c : words + " ") {
        if (std::string("_-, :").find(c) == std::string::npos) {
            word += c;
            continue;
        }
        const bool taken = meaning.take_word(word);
        if (!taken && !rows_are.empty() && !word.empty())
            throw results_error("--rows-are: \"" + word + "\" is none of " + row_meaning::all_words());
        word.clear();
    }
    if (!meaning.known())
        throw results_error(path + ": its rows do not say what they measured: name it with --rows-are, for example "
                                   "--rows-are apm,write,pmem");
    meaning.direct_write = meaning.to_pmem;
    return meaning;
}

} // namespace

results load_any(const std::string &path, const std::string &rows_are)
{
    std::string text;
    try {
        text = read_file(path);
    } catch (const std::runtime_error &error) {
        throw results_error(error.what());
    }
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    const char first = start == std::string::npos ? '{' : text[start];
    if (first == '{') {
        const json document = json::parse(text, nullptr, false);
        if (document.is_object() && document.contains("requirements") && !document.contains("format"))
            return import_bench(path, document);
        return parse_results(text, path);
    }
    results r = empty_import(path);
    const json rows = first == '[' ? parse(path, text) : rows_of_csv(text, path);
    r.points = points_of_rows(rows, meaning_of_words(path, rows_are), path);
    if (r.points.empty())
        throw results_error(path + ": holds no rows");
    return r;
}

} // namespace bench::old_framework
