// SPDX-License-Identifier: BSD-3-Clause
#include "results.hpp"
#include "file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace bench
{

namespace
{

using json = nlohmann::ordered_json;

constexpr const char *format_name = "rpma-bench-results";
constexpr int format_version = 1;

template<class E>
struct words;
template<>
struct words<api> {
    static constexpr std::array list = {"librpma", "verbs", "tcp", "memcpy"};
};
template<>
struct words<flush_kind> {
    static constexpr std::array list = {"none", "visibility", "persistent"};
};
template<>
struct words<polling> {
    static constexpr std::array list = {"busy", "event"};
};
template<>
struct words<access> {
    static constexpr std::array list = {"sequential", "random"};
};
template<>
struct words<status> {
    static constexpr std::array list = {"done", "failed", "skipped"};
};

template<class E>
const char *word_of(E value)
{
    return words<E>::list.at(static_cast<std::size_t>(value));
}

template<class T, class U>
concept is = std::same_as<std::remove_const_t<T>, U>;

// Each structure names its members once; writer and reader below both walk them.

void members(auto &visit, is<parameters> auto &v)
{
    visit("block_size", v.block_size);
    visit("depth", v.depth);
    visit("connections", v.connections);
    visit("threads", v.threads);
    visit("flush", v.flush);
    visit("flush_interval", v.flush_interval);
    visit("polling", v.polling);
    visit("access", v.access);
    visit("read_percent", v.read_percent);
    visit("cpu_load", v.cpu_load);
    visit("target", v.target);
}

void members(auto &visit, is<setup> auto &v)
{
    visit("workload", v.workload);
    visit("api", v.api);
    visit("library", v.library);
    visit("parameters", v.parameters);
}

void members(auto &visit, is<latency> auto &v)
{
    visit("min", v.min_ns);
    visit("mean", v.mean_ns);
    visit("max", v.max_ns);
    visit("stddev", v.stddev_ns);
    visit("percentiles", v.percentiles);
    visit("histogram", v.histogram);
}

void members(auto &visit, is<measure> auto &v)
{
    visit("operations", v.operations);
    visit("ops_per_s", v.ops_per_s);
    visit("bytes_per_s", v.bytes_per_s);
    visit("latency_ns", v.latency);
}

void members(auto &visit, is<both_ends> auto &v)
{
    visit("client", v.client);
    visit("server", v.server);
}

void members(auto &visit, is<repeat> auto &v)
{
    visit("duration_s", v.duration_s);
    members(visit, v.all);
    visit("reads", v.reads);
    visit("writes", v.writes);
    visit("cpu_s", v.cpu_s);
    visit("memory_per_connection_bytes", v.memory_per_connection_bytes);
    visit("verified", v.verified);
}

void members(auto &visit, is<point> auto &v)
{
    members(visit, v.setup);
    visit("status", v.status);
    visit("reason", v.reason);
    visit("repeats", v.repeats);
}

void members(auto &visit, is<pair> auto &v)
{
    visit("ours", v.ours);
    visit("other", v.other);
    visit("metric", v.metric);
    visit("ours_value", v.ours_value);
    visit("other_value", v.other_value);
    visit("ratio", v.ratio);
    visit("ratio_low", v.ratio_low);
    visit("ratio_high", v.ratio_high);
    visit("runs", v.runs);
}

void members(auto &visit, is<host> auto &v)
{
    visit("cpu", v.cpu);
    visit("cores", v.cores);
    visit("memory_bytes", v.memory_bytes);
    visit("os", v.os);
    visit("kernel", v.kernel);
    visit("governor", v.governor);
    visit("load", v.load);
}

void members(auto &visit, is<library> auto &v)
{
    visit("label", v.label);
    visit("file", v.file);
    visit("version", v.version);
}

void members(auto &visit, is<environment> auto &v)
{
    visit("client", v.client);
    visit("server", v.server);
    visit("same_host", v.same_host);
    visit("device", v.device);
    visit("transport", v.transport);
    visit("persistence_level", v.persistence_level);
    visit("target_memory", v.target_memory);
    visit("rdma_core", v.rdma_core);
    visit("tool", v.tool);
    visit("notes", v.notes);
}

void members(auto &visit, is<results> auto &v)
{
    visit("profile", v.profile);
    visit("complete", v.complete);
    visit("started", v.started);
    visit("duration_s", v.duration_s);
    visit("environment", v.environment);
    visit("libraries", v.libraries);
    visit("points", v.points);
    visit("pairs", v.pairs);
}

class writer
{
public:
    json object = json::object();

    template<class T>
    void operator()(const char *name, const std::optional<T> &value)
    {
        if (value)
            object[name] = to_json(*value);
    }
    void operator()(const char *name, const auto &value) { object[name] = to_json(value); }

private:
    static json to_json(const std::string &value) { return value; }
    static json to_json(std::integral auto value) { return value; }
    static json to_json(double value) { return value; }
    // Short, because there are many.
    static json to_json(const percentile &value) { return json::array({value.rank, value.ns}); }
    static json to_json(const bucket &value) { return json::array({value.ns, value.count}); }
    template<class E>
    requires std::is_enum_v<E>
    static json to_json(E value) { return word_of(value); }
    template<class T>
    static json to_json(const std::vector<T> &values)
    {
        json array = json::array();
        for (const T &value : values)
            array.push_back(to_json(value));
        return array;
    }
    template<class T>
    requires std::is_class_v<T>
    static json to_json(const T &value)
    {
        writer nested;
        members(nested, value);
        return std::move(nested.object);
    }
};

class reader
{
public:
    reader(const json &value, std::string place) : value_(value), place_(std::move(place))
    {
        if (!value.is_object())
            fail("an object");
    }

    template<class T>
    void operator()(const char *name, std::optional<T> &to) const
    {
        const auto found = value_.find(name);
        if (found != value_.end() && !found->is_null())
            read(*found, place_ + "." + name, to.emplace());
    }
    template<class T>
    void operator()(const char *name, T &to) const
    {
        const auto found = value_.find(name);
        if (found == value_.end())
            throw results_error(place_ + ": \"" + name + "\" is missing");
        read(*found, place_ + "." + name, to);
    }

private:
    [[noreturn]] static void fail(const std::string &place, const std::string &wanted)
    {
        throw results_error(place + ": is not " + wanted);
    }
    [[noreturn]] void fail(const std::string &wanted) const { fail(place_, wanted); }

    static void read(const json &from, const std::string &place, std::string &to)
    {
        if (!from.is_string())
            fail(place, "a text");
        to = from.get<std::string>();
    }
    static void read(const json &from, const std::string &place, bool &to)
    {
        if (!from.is_boolean())
            fail(place, "true or false");
        to = from.get<bool>();
    }
    template<std::unsigned_integral T>
    static void read(const json &from, const std::string &place, T &to)
    {
        if (!from.is_number_unsigned() || from.get<std::uint64_t>() > std::numeric_limits<T>::max())
            fail(place, "a whole number in range");
        to = from.get<T>();
    }
    static void read(const json &from, const std::string &place, double &to)
    {
        if (!from.is_number() || !(from.get<double>() >= 0) || !std::isfinite(from.get<double>()))
            fail(place, "a number from 0 up");
        to = from.get<double>();
    }
    template<class E>
    requires std::is_enum_v<E>
    static void read(const json &from, const std::string &place, E &to)
    {
        const auto value = from.is_string() ? from_word<E>(from.get<std::string>()) : std::nullopt;
        if (!value) {
            std::string wanted;
            for (const char *word : words<E>::list)
                wanted += (wanted.empty() ? "one of " : ", ") + std::string(word);
            fail(place, wanted);
        }
        to = *value;
    }
    static void read(const json &from, const std::string &place, percentile &to)
    {
        read_two(from, place, to.rank, to.ns);
        if (to.rank > 100)
            fail(place, "a percentile: its rank is above 100");
    }
    static void read(const json &from, const std::string &place, bucket &to) { read_two(from, place, to.ns, to.count); }
    static void read_two(const json &from, const std::string &place, auto &first, auto &second)
    {
        if (!from.is_array() || from.size() != 2)
            fail(place, "a pair of numbers");
        read(from[0], place + "[0]", first);
        read(from[1], place + "[1]", second);
    }
    template<class T>
    static void read(const json &from, const std::string &place, std::vector<T> &to)
    {
        if (!from.is_array())
            fail(place, "a list");
        to.clear();
        for (std::size_t i = 0; i < from.size(); ++i)
            read(from[i], place + "[" + std::to_string(i) + "]", to.emplace_back());
    }
    template<class T>
    requires std::is_class_v<T>
    static void read(const json &from, const std::string &place, T &to)
    {
        const reader nested(from, place);
        members(nested, to);
    }

    const json &value_;
    std::string place_;
};

json parse_json(const std::string &text, const std::string &name)
{
    try {
        return json::parse(text);
    } catch (const json::parse_error &error) {
        const std::size_t end = std::min(text.size(), error.byte);
        const auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
        throw results_error(
                name + ":" + std::to_string(lines + 1) +
                (error.byte > text.size() ? ": ends in the middle: the file was cut short" : ": is not JSON"));
    }
}

void check_order(const std::string &name, const results &r)
{
    for (std::size_t i = 0; i < r.points.size(); ++i) {
        for (const repeat &one : r.points[i].repeats) {
            const auto &ranks = one.all.latency.percentiles;
            const auto &buckets = one.all.latency.histogram;
            if (!std::ranges::is_sorted(ranks, {}, &percentile::rank) ||
                    !std::ranges::is_sorted(buckets, {}, &bucket::ns))
                throw results_error(
                        name + ": points[" + std::to_string(i) + "]: percentiles and histogram must ascend");
        }
    }
}

} // namespace

results parse_results(const std::string &text, const std::string &name)
{
    const json document = parse_json(text, name);
    if (!document.is_object() || !document.contains("format") || document["format"] != format_name)
        throw results_error(name + ": is not a result file of rpma-bench: \"format\" is not \"" + format_name + "\"");
    if (!document.contains("version") || document["version"] != format_version)
        throw results_error(name + ": is of version " +
                            (document.contains("version") ? document["version"].dump() : "none") +
                            ", and this rpma-bench reads " + std::to_string(format_version));
    results r;
    const reader read(document, name + ": results");
    members(read, r);
    check_order(name, r);
    return r;
}

results load_results(const std::string &path)
{
    try {
        return parse_results(read_file(path), path);
    } catch (const results_error &) {
        throw;
    } catch (const std::runtime_error &error) {
        throw results_error(error.what());
    }
}

std::string format_results(const results &r)
{
    writer write;
    write.object["format"] = format_name;
    write.object["version"] = format_version;
    members(write, r);
    // The names of devices and files need not be UTF-8.
    return write.object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

void save_results(const std::string &path, const results &r)
{
    try {
        replace_file(path, format_results(r));
    } catch (const std::exception &error) {
        throw results_error(error.what());
    }
}

const char *to_word(api value)
{
    return word_of(value);
}

const char *to_word(flush_kind value)
{
    return word_of(value);
}

const char *to_word(polling value)
{
    return word_of(value);
}

const char *to_word(access value)
{
    return word_of(value);
}

const char *to_word(status value)
{
    return word_of(value);
}

template<class E>
std::optional<E> from_word(const std::string &word)
{
    const auto found = std::ranges::find(words<E>::list, word);
    if (found == words<E>::list.end())
        return std::nullopt;
    return static_cast<E>(found - words<E>::list.begin());
}

template std::optional<api> from_word(const std::string &word);
template std::optional<flush_kind> from_word(const std::string &word);
template std::optional<polling> from_word(const std::string &word);
template std::optional<access> from_word(const std::string &word);
template std::optional<status> from_word(const std::string &word);

} // namespace bench
