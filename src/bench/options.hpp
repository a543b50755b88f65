// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "campaign/plan.hpp"
#include "control/agent.hpp"
#include "report/command.hpp"

// The command line, checked and turned into what is to be done.
namespace bench
{

enum class transport_choice {
    automatic,
    hardware,
    softrdma
};

// local, client and sweep
struct measure_command {
    std::string server; // empty: both ends on this machine
    std::string server_port = "7205";
    transport_choice transport = transport_choice::automatic;
    std::string host;            // of the device, when both ends are here
    std::string target = "auto"; // directory, PMem device, auto or none
    std::string library;
    std::string out;    // empty: a name made from the time
    std::string report; // empty: beside the results; "none": not written
    std::string resume; // file of a run to go on with
    bench::plan plan;
};

struct compare_command {
    measure_command measure;
    std::string against; // a library, verbs or tcp
};

using command = std::variant<measure_command, compare_command, report::options, server_settings, client_settings>;

// Throws failure for a wrong command line. Empty if the question was for help or the version, which is answered.
std::optional<command> parse_command(int argc, char **argv);

} // namespace bench
