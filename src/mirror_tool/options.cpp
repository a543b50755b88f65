// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "failure.hpp"

namespace mirror_tool
{

namespace
{

// Replaces a size by its number of bytes. Returns an error, or "". CLI11 accepts negative and too large numbers.
std::string to_bytes(std::string &text)
{
    const std::string size = text;
    std::uint64_t number = 0;
    try {
        if (std::from_chars(size.data(), size.data() + size.size(), number).ec == std::errc())
            return CLI::AsSizeValue(false)(text);
    } catch (const CLI::Error &) {
    }
    return "'" + size + "' is not a size such as 100M";
}

void add_rate(CLI::App &app, options &to)
{
    app.add_option(
               "--rate", to.rate, "maximum rate of each copy in bytes per second, such as 100M (default: 0, unlimited)")
            ->transform(CLI::Validator(to_bytes, ""));
}

void add_force(CLI::App &app, options &to, const std::string &text)
{
    app.add_flag("--force", to.force, text);
}

void add_copy(CLI::App &app, options &to, const std::string &text)
{
    app.add_option("COPY", to.copy, text)->check(CLI::Range(0, 15));
}

} // namespace

std::optional<options> parse(int argc, const char *const *argv)
{
    options to;
    CLI::App app(
            "Shows and changes mirrored sets of persistent memory. SET-FILE is a set file (see librpma_mirror(7)).",
            "rpma-mirror");
    app.set_version_flag("-V,--version", "rpma-mirror " RPMA_MIRROR_VERSION);
    app.require_subcommand(0, 1); // zero is allowed, so that a misspelled command is reported as such
    const auto add = [&](const char *name, const char *text) {
        CLI::App *const command = app.add_subcommand(name, text);
        command->add_option("SET-FILE", to.set_file, "the set file")->required();
        command->add_flag("--json", to.json, "print the result as JSON");
        return command;
    };
    const auto add_long = [&](const char *name, const char *text) {
        CLI::App *const command = add(name, text);
        command->add_option("--progress", to.progress,
                       "show the progress on standard error: on, off, or auto (if it is a terminal)")
                ->check(CLI::IsMember({"auto", "on", "off"}));
        return command;
    };
    add("status", "show the state of the copies, from the targets; does not change the set")
            ->add_flag("--prometheus", to.prometheus, "print the result in the text format of Prometheus")
            ->excludes("--json");
    add("create", "create a new set: the local copy, and one on each target");
    CLI::App *const verify = add_long("verify", "compare copies with the local copy");
    add_copy(*verify, to, "number of the only copy to compare");
    add_rate(*verify, to);
    CLI::App *const resync = add_long("resync", "resynchronize all copies");
    add_rate(*resync, to);
    add_force(*resync, to, "continue although a copy in sync is unreachable (its newer data is lost)");
    CLI::App *const promote = add_long("promote", "promote this machine, and fence the writer on another machine");
    add_rate(*promote, to);
    add_force(*promote, to, "continue although a copy in sync is unreachable (its newer data is lost)");
    CLI::App *const fence = add("fence", "stop the writer on any machine, without starting another one");
    add_force(*fence, to, "continue although a target in sync is unreachable (the writer may continue with it)");
    CLI::App *const adding = add_long("add", "add a copy on another target, and resynchronize it");
    add_copy(*adding, to, "number of the copy, 0 to 15");
    adding->get_option("COPY")->required();
    adding->add_option("TARGET", to.location, "ADDRESS:PORT of its rpmemd")->required();
    adding->add_option("POOLSET", to.pool_set, "poolset at the target")->required();
    add_rate(*adding, to);
    CLI::App *const read = add("read", "copy the set to a file while a program on another machine writes it");
    read->add_option("FILE", to.file, "the file, which is replaced when the copy is complete")->required();
    read->add_flag("--any-time", to.any_time, "do not wait for a consistency point; the copy is not consistent");
    read->add_option("--timeout", to.timeout_s, "maximum time in seconds (default: 60)")->check(CLI::Range(1, 86400));
    CLI::App *const grow = add_long("grow", "increase the length of a set");
    grow->add_option("LENGTH", to.length, "new length in bytes, such as 2G")
            ->required()
            ->transform(CLI::Validator(to_bytes, ""));
    add_rate(*grow, to);
    CLI::App *const remove = add_long("remove", "remove a copy from the set");
    add_copy(*remove, to, "number of the copy");
    remove->get_option("COPY")->required();
    add_force(*remove, to, "continue although a copy in sync is unreachable (its newer data is lost)");
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success &success) {
        app.exit(success);
        return std::nullopt;
    } catch (const CLI::ExtrasError &) {
        throw failure("unexpected argument '" + app.remaining(true).front() + "' (see rpma-mirror --help)", exit_usage);
    } catch (const CLI::ParseError &error) {
        std::string message = error.what();
        std::ranges::replace(message, '\n', ' ');
        throw failure(message + " (see rpma-mirror --help)", exit_usage);
    }
    if (app.get_subcommands().empty())
        throw failure("no command given (see rpma-mirror --help)", exit_usage);
    to.command = app.get_subcommands().front()->get_name();
    return to;
}

} // namespace mirror_tool
