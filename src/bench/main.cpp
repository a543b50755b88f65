// SPDX-License-Identifier: BSD-3-Clause
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <librpma.h>
#include <sys/resource.h>
#include <unistd.h>

#include "campaign/campaign.hpp"
#include "campaign/compare.hpp"
#include "campaign/interruption.hpp"
#include "control/agent.hpp"
#include "control/ends.hpp"
#include "control/host_facts.hpp"
#include "failure.hpp"
#include "options.hpp"
#include "units.hpp"
#include "verdict.hpp"

namespace bench
{

namespace
{

// For a file target, when none was chosen.
std::string usual_target()
{
    const char *const temporary = getenv("TMPDIR");
    const std::string place = temporary != nullptr && *temporary != '\0' ? temporary : "/var/tmp";
    return ::access(place.c_str(), W_OK) == 0 ? place : "";
}

ends_options ends_for(const measure_command &what)
{
    ends_options options;
    options.library = what.library;
    options.server_host = what.server;
    options.server_port = what.server_port;
    if (!what.server.empty()) {
        options.use_softrdma = what.transport == transport_choice::softrdma;
        return options;
    }
    const std::string hardware = what.transport == transport_choice::softrdma ? "" : hardware_address();
    if (what.transport == transport_choice::hardware && hardware.empty() && what.host.empty())
        throw failure(
                "no RDMA device has an active port with an IPv4 address: see `rdma link show`, or use --transport "
                "softrdma",
                exit_cannot_run);
    options.use_softrdma = what.transport != transport_choice::hardware && hardware.empty();
    options.host = !what.host.empty() ? what.host : hardware.empty() ? "127.0.0.1" : hardware;
    options.target_path = what.target == "auto" ? usual_target() : what.target == "none" ? "" : what.target;
    if (options.use_softrdma) {
        fmt::print("No RDMA device with an active port: both ends run on softrdma, a software device.\n");
        if (const std::string why = why_no_local_path(); !why.empty())
            fmt::print("The path for programs of one host is {}.\n", why);
    }
    return options;
}

std::string result_file(const measure_command &what)
{
    if (!what.out.empty())
        return what.out;
    std::string stamp = now_utc();
    std::erase(stamp, ':');
    return "rpma-bench-" + stamp + ".json";
}

void tell_about(const ends &where, const bench::plan &p)
{
    const environment &e = where.facts().environment;
    fmt::print("Device {} ({}), target {}; {} points, {} {}\n", e.device, e.transport, where.target().description,
            p.setups.size(), was_busy(e.client) ? "on this busy machine more than" : "about",
            format_duration(estimate_s(p.setups.size(), p.timing)));
}

void check_same_place(const results &earlier, const results &now, const std::string &path)
{
    const library &before = earlier.libraries.at(0), &here = now.libraries.at(0);
    if (earlier.environment.device != now.environment.device || before.version != here.version)
        throw failure(path + " was measured on " + earlier.environment.device + " with librpma " + before.version +
                              ", not on " + now.environment.device + " with " + here.version + ": start a new run",
                exit_usage);
}

int finish(const results &r, const std::string &path, const std::string &report_file)
{
    fmt::print("{} is in {}\n", r.complete ? "The result" : "What was measured", path);
    if (report_file != "none") {
        report::options page;
        page.files = {path};
        page.out = report_file;
        if (report::run_command(page) != 0)
            return exit_failed;
    }
    if (!r.complete)
        throw failure("not every point could be measured: see FAILED above; repeat those with --resume " + path);
    return exit_done;
}

int measure(const measure_command &what)
{
    std::optional<resumed> earlier;
    if (!what.resume.empty())
        earlier = resume_from(what.resume, what.plan.timing);
    bench::plan plan = earlier ? earlier->plan : what.plan;
    const std::string path = earlier ? what.resume : result_file(what);

    ends where(ends_for(what));
    results r;
    if (earlier) {
        check_same_place(earlier->earlier, where.facts(), path);
        r = earlier->earlier;
    } else {
        plan.setups = settle(plan.setups, where);
        r = begin_results(plan.profile, where);
        add_points(r, plan.setups);
        tell_about(where, plan);
    }
    const interruption told("the points so far are in " + path + ": go on with --resume " + path);
    run_campaign(where, plan.timing, r, path);
    return finish(r, path, what.report);
}

int compare(const compare_command &what)
{
    if (what.against.empty())
        throw failure("name the other library with --against: a librpma.so.0, a directory that has one (Debian's: the "
                      "output of utils/fetch-debian-librpma DIRECTORY), verbs or tcp",
                exit_usage);
    const bool same_library = what.against == "verbs" || what.against == "tcp";
    const ends_options ours_at = ends_for(what.measure);
    ends_options other_at = ours_at;
    if (!same_library)
        other_at.library = what.against;
    ends ours(ours_at), other(other_at);

    bench::plan plan = what.measure.plan;
    plan.setups = settle(plan.setups, ours);
    results r = begin_results("compare", ours);
    const std::string label = same_library ? what.against : "other";
    if (!same_library) {
        library theirs = other.facts().libraries.at(0);
        theirs.label = label;
        r.libraries.push_back(theirs);
    }
    fmt::print("ours  {}\nother {}\n", r.libraries.front().file, same_library ? label : r.libraries.back().file);
    const api other_api = what.against == "verbs" ? api::verbs : what.against == "tcp" ? api::tcp : api::librpma;
    const std::string path = result_file(what.measure);
    const interruption told("the comparisons so far are in " + path);
    run_comparison({ours, api::librpma, "ours"}, {other, other_api, label}, plan.setups, plan.timing, r, path);
    return finish(r, path, what.measure.report);
}

int run(const server_settings &settings)
{
    serve(settings);
    return exit_done;
}

int run(const client_settings &settings)
{
    serve_client(settings);
    return exit_done;
}

int run(const measure_command &what)
{
    return measure(what);
}

int run(const compare_command &what)
{
    return compare(what);
}

int run(const report::options &what)
{
    return report::run_command(what);
}

// Some hundred connections need more descriptors than systems give at first, and both ends inherit what is set here.
void allow_many_descriptors()
{
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

} // namespace

} // namespace bench

int main(int argc, char **argv)
try {
    const std::optional<bench::command> command = bench::parse_command(argc, argv);
    if (!command)
        return bench::exit_done;
    // What goes wrong is told by the program itself.
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
    // A file that grows too large is an error to tell of, not a reason to die.
    signal(SIGXFSZ, SIG_IGN);
    bench::allow_many_descriptors();
    return std::visit([](const auto &what) { return bench::run(what); }, *command);
} catch (const bench::already_told &problem) {
    return problem.status();
} catch (const bench::failure &problem) {
    fmt::print(stderr, "rpma-bench: {}\n", problem.what());
    return problem.status();
} catch (const std::exception &problem) {
    fmt::print(stderr, "rpma-bench: {}\n", problem.what());
    return bench::exit_failed;
}
