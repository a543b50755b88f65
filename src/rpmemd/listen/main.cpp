// SPDX-License-Identifier: BSD-3-Clause
// Program rpmemd-listen, which rpmemd --listen executes with its own arguments.
#include <cerrno>
#include <cstdio>
#include <sys/prctl.h>

#include "config/failure.hpp"
#include "config/startup.hpp"
#include "listen/mirror_server.hpp"

int main(int argc, char **argv)
try {
    using namespace rpmemd;
    // Administrators select the process by the name of their command, for example with killall(1).
    prctl(PR_SET_NAME, "rpmemd");
    const std::optional<config> settings = read_config(argc, argv);
    if (!settings)
        return exit_done;
    if (!settings->listen)
        throw config_error(
                exit_rejected, "option --listen missing (run rpmemd; if --listen is a value, write --OPTION=--listen)");
    start_process(*settings);
    prepare_to_serve();
    try {
        return serve_mirrors(*settings);
    } catch (const failure &error) {
        log(log_level::err, error.what());
        std::fprintf(stderr, "rpmemd: %s\n", error.what());
        return error.os_errno() == EINVAL ? exit_rejected : exit_failed;
    }
} catch (const rpmemd::config_error &error) {
    rpmemd::log(rpmemd::log_level::err, error.what());
    return error.status();
} catch (const std::exception &error) {
    rpmemd::log(rpmemd::log_level::err, error.what());
    return rpmemd::exit_failed;
}
