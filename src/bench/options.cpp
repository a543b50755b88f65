// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>

#include "campaign/compare.hpp"
#include "engine/layout.hpp"
#include "failure.hpp"
#include "version.hpp"

namespace bench
{

namespace
{

// What the user said about the plan; what was not said keeps the value of the profile or of the plainest point.
struct plan_words {
    std::string profile;
    std::string axis;
    bench::axes axes;
    bool has_axes = false; // any value was chosen
    std::optional<std::uint32_t> repeats;
    std::optional<double> duration_s, warm_up_s;
    std::vector<std::string> apis, flushes, pollings, accesses, block_sizes;
};

template<class E>
std::vector<E> words_to(const std::vector<std::string> &words, const char *what)
{
    std::vector<E> values;
    for (const std::string &word : words) {
        const std::optional<E> value = from_word<E>(word);
        if (!value)
            throw failure(fmt::format("unknown {} '{}': see rpma-bench --help", what, word), exit_usage);
        values.push_back(*value);
    }
    return values;
}

// 4096, 4K, 4KiB, 1M
std::uint64_t size_from(const std::string &word)
{
    std::size_t used = 0;
    std::uint64_t value = 0;
    try {
        value = std::stoull(word, &used);
    } catch (const std::exception &) {
        used = 0;
    }
    const std::string suffix = used == 0 ? "?" : word.substr(used);
    const char scale = suffix.empty() ? 'B' : static_cast<char>(std::toupper(suffix[0]));
    const bool known = suffix.size() < 2 || suffix.substr(1) == "iB" || suffix.substr(1) == "B";
    const auto shift = std::string("BKMG").find(scale);
    if (used == 0 || word[0] == '-' || !known || shift == std::string::npos || value > (UINT64_MAX >> 30))
        throw failure("'" + word + "' is no size: write 4096, 4K or 1M", exit_usage);
    return value << 10 * shift;
}

constexpr const char *axes_group = "Axes (lists, separated by commas)";

template<class T>
void add_list(CLI::App &app, const std::string &name, std::vector<T> &values, const std::string &text)
{
    app.add_option(name, values, text)->delimiter(',')->allow_extra_args(false)->group(axes_group);
}

void add_axes(CLI::App &app, plan_words &words)
{
    axes &a = words.axes;
    std::string names;
    for (const std::string &name : workload_names())
        names += (names.empty() ? "" : ", ") + name;
    add_list(app, "-w,--workload", a.workloads, names);
    add_list(app, "--api", words.apis, "librpma, verbs, tcp, memcpy");
    add_list(app, "-b,--block-size", words.block_sizes, "bytes, or 4K, 1M");
    add_list(app, "-d,--depth", a.depths, "operations in flight on a connection");
    add_list(app, "-c,--connections", a.connections, "connections in all");
    add_list(app, "-t,--threads", a.threads, "threads of the client, and of the server's program where it answers");
    add_list(app, "--flush", words.flushes, "visibility, persistent, none");
    add_list(app, "--flush-interval", a.flush_intervals, "writes for each flush");
    add_list(app, "--polling", words.pollings, "busy, event: how completions are waited for, at both ends");
    add_list(app, "--access", words.accesses, "sequential, random");
    add_list(app, "--read-percent", a.read_percents, "reads in a mix");
    add_list(app, "--cpu-load", a.cpu_loads, "percent of the target's processors kept busy");
    add_list(app, "--memory", a.memories, "dram, target: where the data lies at the server");
}

void add_measure(CLI::App &app, measure_command &to, plan_words &words)
{
    add_axes(app, words);
    app.add_option("--repeats", words.repeats, "timed runs of each point")->check(CLI::Range(1, 1000));
    app.add_option("--duration", words.duration_s, "seconds of each run")->check(CLI::Range(0.01, 3600.0));
    app.add_option("--warm-up", words.warm_up_s, "seconds after which a run starts, steady or not")
            ->check(CLI::Range(0.0, 3600.0));
    app.add_option("--lib", to.library, "the librpma.so.0 to measure, or a directory that has it");
    app.add_option("-o,--out", to.out, "result file");
    app.add_option("--report", to.report, "HTML file of the report, or none");
}

void add_local(CLI::App &app, measure_command &to)
{
    const std::map<std::string, transport_choice> choices = {{"auto", transport_choice::automatic},
            {"hardware", transport_choice::hardware}, {"softrdma", transport_choice::softrdma}};
    app.add_option("--transport", to.transport, "auto, hardware, softrdma")
            ->transform(CLI::CheckedTransformer(choices).description(""));
    app.add_option("--address", to.host, "of the RDMA device");
    app.add_option("--target", to.target, "directory for a file, or PMem device, for --memory target; or none");
}

void add_profile(CLI::App &app, plan_words &words, measure_command &to)
{
    app.add_option("-p,--profile", words.profile, "quick (two minutes), standard, full");
    app.add_option("--resume", to.resume, "go on with the run that left this result file");
}

bool has_axes(const CLI::App &app)
{
    const auto chosen = app.get_options([](const CLI::Option *o) { return o->get_group() == axes_group; });
    return std::ranges::any_of(chosen, [](const CLI::Option *o) { return o->count() != 0; });
}

void choose_timing(const plan_words &words, timing &t)
{
    t.repeats = words.repeats.value_or(t.repeats);
    t.duration_s = words.duration_s.value_or(t.duration_s);
    t.warm_up_limit_s = words.warm_up_s.value_or(t.warm_up_limit_s);
}

plan make_plan(plan_words words)
{
    axes &a = words.axes;
    if (!words.apis.empty())
        a.apis = words_to<api>(words.apis, "api");
    if (!words.flushes.empty())
        a.flushes = words_to<flush_kind>(words.flushes, "kind of flush");
    if (!words.pollings.empty())
        a.pollings = words_to<polling>(words.pollings, "way of polling");
    if (!words.accesses.empty())
        a.accesses = words_to<access>(words.accesses, "order of access");
    if (!words.block_sizes.empty())
        a.block_sizes.clear();
    for (const std::string &word : words.block_sizes)
        a.block_sizes.push_back(size_from(word));
    for (const std::string &memory : a.memories) {
        if (memory != "dram" && memory != planned_target)
            throw failure("unknown memory '" + memory + "': choose dram or target", exit_usage);
    }
    plan p;
    if (!words.profile.empty() && words.has_axes)
        throw failure("a profile has its own workloads and values: give --profile or those", exit_usage);
    if (a.workloads.empty() && (words.has_axes || !words.axis.empty()))
        a.workloads = {"read", "write_flush", "send_recv"};
    if (!words.axis.empty()) {
        p = plan_sweep(words.axis, a);
    } else if (words.has_axes) {
        p = {"custom", expand(a), {}};
    } else {
        p = plan_profile(words.profile.empty() ? "quick" : words.profile);
    }
    choose_timing(words, p.timing);
    return p;
}

void add_server(CLI::App &app, server_settings &to, std::string &direct_write)
{
    app.add_option("--address", to.host, "address of the RDMA device, where clients connect")->capture_default_str();
    app.add_option("--port", to.port, "of the control channel; 0: any")->capture_default_str();
    app.add_option("--rdma-port", to.rdma_port, "of the data's connections; any if absent");
    app.add_option("--target", to.target_path, "directory for a file, or PMem device, which is overwritten");
    app.add_option("--direct-write", direct_write, "on, off, auto: whether RDMA writes go past the caches to PMem")
            ->check(CLI::IsMember({"on", "off", "auto"}));
    app.add_flag("--once", to.once, "end after one client");
    app.add_option("--idle-limit", to.idle_limit_s, "seconds without a client after which to end")
            ->check(CLI::NonNegativeNumber);
    app.add_option("--ready-fd", to.ready_fd, "descriptor to which the port is written")->group("");
}

} // namespace

std::optional<command> parse_command(int argc, char **argv)
{
    CLI::App app(
            "Measures librpma, raw verbs, TCP and memcpy. rpma-bench(1) tells what each figure means.", "rpma-bench");
    app.set_version_flag("-V,--version", std::string("rpma-bench ") + tool_version);
    app.require_subcommand(1);
    app.option_defaults()->always_capture_default(false);

    measure_command measure;
    plan_words words;
    CLI::App *const local = app.add_subcommand("local", "measure with both ends on this machine");
    add_measure(*local, measure, words);
    add_local(*local, measure);
    add_profile(*local, words, measure);

    server_settings serving;
    std::string direct_write = "auto";
    CLI::App *const server = app.add_subcommand("server", "be the other end for clients");
    add_server(*server, serving, direct_write);

    CLI::App *const client = app.add_subcommand("client", "measure against a server");
    client->add_option("server", measure.server, "its address")->required();
    client->add_option("--port", measure.server_port, "of its control channel")->capture_default_str();
    add_measure(*client, measure, words);
    add_profile(*client, words, measure);

    CLI::App *const sweep = app.add_subcommand("sweep", "measure over the usual range of one axis");
    std::string axes_known;
    for (const std::string &name : sweep_names())
        axes_known += (axes_known.empty() ? "" : ", ") + name;
    sweep->add_option("axis", words.axis, axes_known)->required();
    sweep->add_option("--server", measure.server, "address of a server; both ends on this machine if absent");
    sweep->add_option("--port", measure.server_port, "of its control channel")->capture_default_str();
    add_measure(*sweep, measure, words);
    add_local(*sweep, measure);

    report::options reporting;
    const CLI::App *const report_verb = report::add_command(app, reporting);

    std::string against;
    CLI::App *const compare = app.add_subcommand("compare", "measure librpma and another library in turns");
    compare->add_option("--against", against, "the other librpma.so.0 or a directory that has it; verbs; tcp");
    add_measure(*compare, measure, words);
    add_local(*compare, measure);

    client_settings agent{};
    CLI::App *const agent_verb = app.add_subcommand("agent", "")->group("");
    agent_verb->add_option("--fd", agent.control_fd)->required();
    agent_verb->add_option("--server", agent.server_host)->required();
    agent_verb->add_option("--target", agent.target_path);

    try {
        app.parse(argc, argv);
    } catch (const CLI::Success &asked) {
        app.exit(asked);
        return std::nullopt;
    } catch (const CLI::ParseError &wrong) {
        const bool unknown = app.get_subcommands().empty() && app.remaining_size() > 0;
        const std::string what = unknown ? "there is no subcommand " + app.remaining().front() : wrong.what();
        throw failure(what + ": see rpma-bench --help", exit_usage);
    }
    if (server->parsed()) {
        if (direct_write != "auto")
            serving.direct_write = direct_write == "on";
        return serving;
    }
    if (agent_verb->parsed())
        return agent;
    if (report_verb->parsed())
        return reporting;
    for (const CLI::App *const verb : {local, client, sweep, compare})
        words.has_axes = words.has_axes || has_axes(*verb);
    if (!compare->parsed()) {
        measure.plan = make_plan(words);
        return measure;
    }
    const timing in_turns{15, 0.2, 0.6}; // many short runs, so that a disturbance hits both sides alike
    measure.plan = words.has_axes ? make_plan(words) : plan{"compare", comparison_setups(), {}};
    measure.plan.timing = in_turns;
    choose_timing(words, measure.plan.timing);
    return compare_command{measure, against};
}

} // namespace bench
