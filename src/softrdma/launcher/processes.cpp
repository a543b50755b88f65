// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/commands.hpp"
#include "launcher/control.hpp"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace softrdma::launcher
{

namespace
{

std::string program_of(int pid)
{
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    std::getline(file, name);
    return printable(name);
}

std::string value_of(const std::string &line, const std::string &key)
{
    const auto at = line.find(" " + key + "=");
    if (at == std::string::npos)
        return "-";
    const auto begin = at + key.size() + 2;
    return line.substr(begin, line.find_first_of(" \n", begin) - begin);
}

struct totals {
    unsigned pairs = 0;
    unsigned local = 0;
    unsigned long long posted = 0;
    unsigned long long executed = 0;
};

totals totals_of(const std::string &report)
{
    totals sum;
    std::istringstream lines(report);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("qp "))
            continue;
        ++sum.pairs;
        const std::string transport = value_of(line, "transport");
        sum.local += transport == "shm" || transport == "shm-fd";
        sum.posted += strtoull(value_of(line, "posted").c_str(), nullptr, 10);
        sum.executed += strtoull(value_of(line, "executed").c_str(), nullptr, 10);
    }
    return sum;
}

void print_row(int pid)
{
    std::string report;
    const std::string program = program_of(pid);
    switch (send_request(pid, "report", report)) {
    case contact::answered: {
        report = printable(report);
        const totals sum = totals_of(report);
        printf("%7d  %-15s  %6u  %6u  %8s  %14s  %10llu  %10llu\n", pid, program.c_str(), sum.pairs, sum.local,
                value_of(report, "regions").c_str(), value_of(report, "bytes").c_str(), sum.posted, sum.executed);
        break;
    }
    case contact::unresponsive:
        printf("%7d  %-15s  no response (process stopped?)\n", pid, program.c_str());
        break;
    case contact::absent: // the process has exited
        break;
    }
}

int report_failure(int pid, contact result)
{
    fprintf(stderr,
            result == contact::unresponsive
                    ? "softrdma: process %d: no response (process stopped?)\n"
                    : "softrdma: process %d does not use softrdma, belongs to another user or is in another network "
                      "namespace (see softrdma ps)\n",
            pid);
    return exit_failure;
}

// Stores a printable reply. Returns 0, or an exit status after a message.
int request_reply(const char *process, const std::string &request, std::string &reply)
{
    const auto pid = parse_pid(process);
    if (!pid)
        return usage(std::string("'") + process + "' is not a process ID");
    const contact result = send_request(*pid, request, reply);
    reply = printable(reply);
    if (result != contact::answered)
        return report_failure(*pid, result);
    if (!reply.starts_with("error "))
        return 0;
    fprintf(stderr, "softrdma: process %d: %s", *pid, reply.c_str() + strlen("error "));
    return exit_failure;
}

int execute(const char *process, const std::string &request)
{
    std::string reply;
    return request_reply(process, request, reply);
}

} // namespace

int ps_command(int argc, char **argv)
{
    if (argc > 1)
        return usage("ps takes one process number at most");
    if (argc == 0) {
        printf("%7s  %-15s  %6s  %6s  %8s  %14s  %10s  %10s\n", "PID", "PROGRAM", "QPS", "LOCAL", "REGIONS", "BYTES",
                "POSTED", "EXECUTED");
        for (const int pid : device_processes())
            print_row(pid);
        return 0;
    }
    std::string report;
    const int failed = request_reply(argv[0], "report", report);
    if (failed == 0)
        fputs(report.c_str(), stdout);
    return failed;
}

int fault_command(int argc, char **argv)
{
    if (argc != 2)
        return usage("fault takes a process number and rules, or off");
    return execute(argv[0], std::string("fault ") + argv[1]);
}

int powercut_command(int argc, char **argv)
{
    return argc == 1 ? execute(argv[0], "powercut") : usage("powercut takes a process number");
}

} // namespace softrdma::launcher
