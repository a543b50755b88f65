// SPDX-License-Identifier: BSD-3-Clause
#include "config/config.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <vector>

#include "config/forced_command.hpp"
#include "config/version.hpp"

namespace rpmemd
{

namespace
{

constexpr const char *system_file = "/etc/rpmemd/rpmemd.conf";
constexpr const char *user_file = ".rpmemd.conf"; // in HOME

// Values of the command line, in their order. They are applied after the files were read.
struct parsed_options {
    std::string file; // replaces the standard ones
    std::string threads;
    std::string transport = "stdio";
    std::vector<std::pair<std::string, std::string>> values;
};

void add_value(CLI::App &app, parsed_options &parsed, const std::string &key, const std::string &text)
{
    app.add_option_function<std::string>(
               "--" + key, [&parsed, key](const std::string &value) { parsed.values.emplace_back(key, value); }, text)
            ->type_name("");
}

void add_switch(CLI::App &app, parsed_options &parsed, const std::string &key, const std::string &text)
{
    app.add_flag_callback(
               "--" + key, [&parsed, key] { parsed.values.emplace_back(key, "yes"); }, text)
            ->disable_flag_override();
}

void set_version(CLI::App &app)
{
    app.set_version_flag("-V,--version", std::string("rpmemd ") + daemon_version, "print the version and exit");
}

void add_set(CLI::App &app, const std::string &names, std::optional<std::string> &to, const std::string &text)
{
    app.add_option_function<std::string>(
               names, [&to](const std::string &value) { to = value; }, text)
            ->type_name("SET");
}

void add_options(CLI::App &app, parsed_options &parsed, config &to)
{
    app.set_help_flag("-h,--help", "print this help and exit");
    set_version(app);
    app.add_option("-c,--config", parsed.file, "file to read instead of the standard ones")->type_name("PATH");
    add_set(app, "-r,--remove", to.remove, "remove the parts of this set and exit");
    add_set(app, "--check", to.check, "check this set and this machine, and print the findings for rpmem-doctor");
    app.add_option_function<std::string>(
               "--listen", [&to](const std::string &value) { to.listen = value; },
               "serve mirrored sets here, for every client that has a key, until SIGTERM")
            ->type_name("ADDRESS:PORT");
    app.add_option("--key-file", to.key_file, "file with the keys of the clients of --listen, in lines NAME:KEY")
            ->type_name("PATH");
    app.add_flag("-f,--force", to.force, "continue after errors (requires --remove)")->disable_flag_override();
    app.add_flag("-s,--pool-set", to.pool_set, "delete the set file, too (requires --remove)")->disable_flag_override();
    app.add_option("-t,--nthreads", parsed.threads, "number of worker threads (0: one for each lane)")->type_name("N");
    app.add_flag("--forced", to.forced, "read the arguments from SSH_ORIGINAL_COMMAND, for a forced command of ssh")
            ->disable_flag_override();
    app.add_option("--transport", parsed.transport, "transport of the control channel; only stdio is supported")
            ->type_name("");
    add_value(app, parsed, "log-file", "file to log to instead of syslog");
    add_value(app, parsed, "poolset-dir", "directory of the set files (default: $HOME)");
    add_switch(app, parsed, "persist-apm", "RDMA writes reach persistent memory past the caches");
    add_switch(app, parsed, "persist-general", "accepted, without effect");
    add_switch(app, parsed, "use-syslog", "log to syslog");
    add_value(app, parsed, "log-level", "err, warn, notice, info or debug");
    add_value(app, parsed, "session-timeout", "disconnect a client that is silent for this many seconds (0: never)");
    add_value(app, parsed, "umask", "umask of new part files (default: they get mode 0600)");
    add_value(app, parsed, "read-only-header", "yes or no: clients may only read the pool header");
    add_switch(app, parsed, "follow-symlinks", "accept part files that are symbolic links");
    add_value(app, parsed, "metrics", "ADDRESS:PORT at which --listen serves its metrics over HTTP");
    add_value(app, parsed, "max-lanes", "maximum number of lanes of a session");
    add_value(app, parsed, "max-threads", "maximum number of worker threads of a session");
    add_value(app, parsed, "max-bytes", "maximum size of a pool, in bytes");
    add_value(app, parsed, "max-sessions", "maximum number of concurrent sessions of a user");
    add_value(app, parsed, "max-readers", "maximum number of readers of a mirrored set");
    add_value(app, parsed, "max-reader-bytes", "maximum size of all images for readers, in bytes");
    add_value(app, parsed, "max-unauthenticated", "maximum number of unauthenticated connections to --listen");
    add_value(app, parsed, "max-unauthenticated-per-address",
            "maximum number of unauthenticated connections from one address");
}

// Parses SSH_ORIGINAL_COMMAND. Returns false if it requested the version, which is then printed.
bool read_forced(config &to)
{
    CLI::App app("", "rpmemd");
    add_set(app, "-r,--remove", to.remove, "");
    add_set(app, "--check", to.check, "");
    app.add_flag("-f,--force", to.force);
    app.add_flag("-s,--pool-set", to.pool_set);
    set_version(app);
    std::vector<std::string> arguments = forced_arguments();
    std::reverse(arguments.begin(), arguments.end());
    try {
        app.parse(arguments);
    } catch (const CLI::Success &help) {
        app.exit(help, std::cerr, std::cerr);
        return false;
    } catch (const CLI::ParseError &error) {
        throw config_error(exit_rejected, std::string(error.what()) + ", in SSH_ORIGINAL_COMMAND");
    }
    return true;
}

void read_files(config &to, const std::string &chosen)
{
    if (!chosen.empty()) {
        read_config_file(to, chosen);
        return;
    }
    std::vector<std::string> standard = {system_file};
    if (const char *const user_dir = getenv("HOME"); user_dir != nullptr && *user_dir != '\0')
        standard.push_back(std::string(user_dir) + "/" + user_file);
    for (const std::string &path : standard) {
        std::error_code ignored;
        if (std::filesystem::exists(path, ignored))
            read_config_file(to, path);
    }
}

void apply(config &to, const std::string &key, const std::string &value)
{
    try {
        set_value(to, key, value);
    } catch (const std::invalid_argument &error) {
        const exit_status status = key == "poolset-dir" ? exit_failed : exit_rejected;
        throw config_error(status, "--" + key + ": " + error.what());
    }
}

unsigned thread_count(const std::string &value)
{
    try {
        return parse_number(value, 0, max_threads);
    } catch (const std::invalid_argument &error) {
        throw config_error(exit_rejected, std::string("--nthreads: ") + error.what());
    }
}

void check_poolset_dir(config &to)
{
    if (to.poolset_dir.empty()) {
        const char *const user_dir = getenv("HOME");
        if (user_dir == nullptr || *user_dir != '/')
            throw config_error(
                    exit_failed, "poolset directory: HOME is not an absolute path (set it, or use --poolset-dir)");
        to.poolset_dir = user_dir;
    }
    std::error_code error;
    if (!std::filesystem::is_directory(to.poolset_dir, error))
        throw config_error(exit_failed,
                "poolset directory " + to.poolset_dir + ": " + (error ? error.message() : "not a directory"));
}

} // namespace

std::optional<config> read_config(int argc, const char *const *argv)
{
    CLI::App app("Keeps the pools of remote replicas, for librpmem. It is started by the client, over ssh or directly.",
            "rpmemd");
    config to;
    parsed_options parsed;
    add_options(app, parsed, to);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success &help) {
        // Help goes to standard error: standard output is the control channel.
        app.exit(help, std::cerr, std::cerr);
        return std::nullopt;
    } catch (const CLI::ExtrasError &) {
        throw config_error(exit_rejected, "unexpected argument '" + app.remaining().front() + "' (see rpmemd --help)");
    } catch (const CLI::ParseError &error) {
        throw config_error(exit_rejected, std::string(error.what()) + " (see rpmemd --help)");
    }
    if (parsed.transport != "stdio")
        throw config_error(exit_rejected, "--transport: unknown '" + parsed.transport + "' (only stdio is supported)");
    if (to.forced && !read_forced(to))
        return std::nullopt;
    if (!to.remove && (to.force || to.pool_set))
        throw config_error(exit_rejected, "--force and --pool-set require --remove (see rpmemd --help)");
    if (to.listen.has_value() != !to.key_file.empty())
        throw config_error(exit_rejected, "--listen and --key-file require each other (see rpmemd --help)");
    if (to.listen && (to.remove || to.check || to.forced))
        throw config_error(exit_rejected, "--listen cannot be combined with --remove, --check or --forced");
    if (app.count("--config") != 0 && parsed.file.empty())
        throw config_error(exit_failed, "--config: empty file name");
    read_files(to, parsed.file);
    for (const auto &[key, value] : parsed.values)
        apply(to, key, value);
    if (app.count("--nthreads") != 0)
        to.threads = thread_count(parsed.threads);
    check_poolset_dir(to);
    return to;
}

} // namespace rpmemd
