// SPDX-License-Identifier: BSD-3-Clause
#include <CLI/CLI.hpp>
#include <csignal>
#include <fmt/format.h>
#include <librpma.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "control/agent.hpp"
#include "failure.hpp"

// Entry of the two processes of a measurement. rpma-bench starts them, plans the points and stores the results.
namespace
{

void run(int argc, char **argv)
{
    CLI::App app("Serves the two ends of rpma-bench.", "rpma-bench-engine");
    app.require_subcommand(1);
    pid_t parent = 0;
    app.add_option("--parent", parent);

    bench::server_settings serving;
    std::string direct_write = "auto";
    CLI::App *const server = app.add_subcommand("server");
    server->add_option("--address", serving.host);
    server->add_option("--port", serving.port);
    server->add_option("--rdma-port", serving.rdma_port);
    server->add_option("--target", serving.target_path);
    server->add_option("--direct-write", direct_write);
    server->add_flag("--once", serving.once);
    server->add_option("--idle-limit", serving.idle_limit_s);
    server->add_option("--ready-fd", serving.ready_fd);

    bench::client_settings client{};
    CLI::App *const agent = app.add_subcommand("agent");
    agent->add_option("--fd", client.control_fd)->required();
    agent->add_option("--server", client.server_host)->required();
    agent->add_option("--target", client.target_path);
    app.parse(argc, argv);

    if (parent != 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            throw bench::failure("the program that started this one has ended");
        signal(SIGINT, SIG_IGN); // a terminal sends it to all processes; the parent handles it
    }
    if (direct_write != "auto")
        serving.direct_write = direct_write == "on";
    if (server->parsed())
        bench::serve(serving);
    else
        bench::serve_client(client);
}

} // namespace

int main(int argc, char **argv)
try {
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED); // the program itself reports errors
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
    signal(SIGXFSZ, SIG_IGN); // a file that grows too large is an error to report
    run(argc, argv);
    return bench::exit_done;
} catch (const bench::failure &error) {
    fmt::print(stderr, "rpma-bench: {}\n", error.what());
    return error.status();
} catch (const std::exception &error) {
    fmt::print(stderr, "rpma-bench: {}\n", error.what());
    return bench::exit_failed;
}
