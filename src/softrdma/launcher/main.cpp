// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/commands.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <getopt.h>
#include <optional>

#include "standard_output.hpp"

namespace softrdma::launcher
{

namespace
{

constexpr char help[] = R"(Usage: softrdma run [--auto] [--dropin] [--] PROGRAM [ARGUMENT...]
       softrdma trace -w FILE [--] PROGRAM [ARGUMENT...]
       softrdma info
       softrdma doctor PROGRAM
       softrdma ps [PID]
       softrdma fault PID RULES|off
       softrdma powercut PID
       softrdma --help | --version

Runs PROGRAM on a software RDMA device: its libibverbs and librdmacm calls are served over TCP,
without RDMA hardware, kernel modules or privileges.

  run    runs PROGRAM
  trace  runs it and writes each operation as a RoCEv2 packet to FILE, for Wireshark and tshark
  info   shows the device, its settings and the paths to other programs
  doctor  reports how PROGRAM finds libibverbs, and whether the device can be preloaded
  ps     lists the programs that use the device; with PID its queue pairs
  fault  injects faults into a program; off ends that
  powercut  cuts the power of a program that was started with SOFTRDMA_POWERCUT

      --auto     run: leave PROGRAM to the machine's own RDMA device if one has an active port
      --dropin   run: stand in for libibverbs.so.1 and librdmacm.so.1 with the versions of their symbols

  -h, --help     print this text
  -V, --version  print the version

See softrdma(1) for the environment variables and the guarantees of the device.
)";

constexpr std::array<option, 3> options = {{
        {"help", no_argument, nullptr, 'h'},
        {"version", no_argument, nullptr, 'V'},
        {nullptr, 0, nullptr, 0},
}};

constexpr std::array<option, 4> run_options = {{
        {"auto", no_argument, nullptr, 'a'},
        {"dropin", no_argument, nullptr, 'd'},
        {"help", no_argument, nullptr, 'h'},
        {nullptr, 0, nullptr, 0},
}};

// Options of a command, up to the first plain word.
struct command_line {
    std::string file;
    run_choice how;
    int first = 0;
    std::optional<int> end; // exit status, if the command does not run
};

int show_help()
{
    fputs(help, stdout);
    return 0;
}

command_line parse(int argc, char **argv, const char *letters, const option *words)
{
    command_line result;
    optind = 1;
    for (int c = 0; (c = getopt_long(argc, argv, letters, words, nullptr)) != -1;) {
        if (c == 'a' || c == 'd') {
            (c == 'a' ? result.how.prefer_hardware : result.how.dropin) = true;
            continue;
        }
        if (c == 'w') {
            result.file = optarg;
            continue;
        }
        if (c == 'h')
            result.end = show_help();
        else if (c == ':')
            result.end = usage(std::string("option '") + argv[optind - 1] + "' of " + argv[0] + " needs a value");
        else
            result.end = usage(std::string("unknown option '") + argv[optind - 1] + "' of " + argv[0]);
        break;
    }
    result.first = optind;
    return result;
}

int command(int argc, char **argv)
{
    const std::string name = argv[0];
    constexpr struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } plain[] = {{"info", info_command}, {"doctor", doctor_command}, {"ps", ps_command}, {"fault", fault_command},
            {"powercut", powercut_command}};
    const auto *found = std::find_if(std::begin(plain), std::end(plain), [&](const auto &c) { return name == c.name; });
    const bool runs = name == "run";
    if (found == std::end(plain) && !runs && name != "trace")
        return usage("unknown command '" + name + "'");
    const command_line line =
            parse(argc, argv, name == "trace" ? "+:hw:" : "+h", runs ? run_options.data() : run_options.data() + 2);
    if (line.end)
        return *line.end;
    argc -= line.first;
    argv += line.first;
    if (runs)
        return run_command(line.how, argc, argv);
    return found == std::end(plain) ? trace_command(line.file, argc, argv) : found->run(argc, argv);
}

} // namespace

int usage(const std::string &message)
{
    fprintf(stderr, "softrdma: %s (see softrdma --help)\n", message.c_str());
    return exit_usage;
}

int main(int argc, char **argv)
{
    opterr = 0;
    for (int c = 0; (c = getopt_long(argc, argv, "+hV", options.data(), nullptr)) != -1;) {
        if (c == 'h')
            return show_help();
        if (c == 'V')
            return printf("softrdma %s\n", SOFTRDMA_VERSION), 0;
        return usage(std::string("unknown option '") + argv[optind - 1] + "'");
    }
    return optind < argc ? command(argc - optind, argv + optind) : usage("no command given");
}

} // namespace softrdma::launcher

int main(int argc, char **argv)
{
    return standard_output::finish("softrdma", softrdma::launcher::main(argc, argv));
}
