// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "failure.hpp"

namespace mirror_tool
{

namespace
{

void add_rate(CLI::App &app, options &to)
{
    app.add_option("--rate", to.rate, "bytes per second of each copy, as 100M; 0, the default, is no limit")
            ->transform(CLI::AsSizeValue(false));
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
    CLI::App app("Shows and changes mirrored sets of persistent memory. SET-FILE is a set file: see librpma_mirror(7).",
            "rpma-mirror");
    app.set_version_flag("-V,--version", "rpma-mirror " RPMA_MIRROR_VERSION);
    app.require_subcommand(1);
    const auto add = [&](const char *name, const char *text) {
        CLI::App *const command = app.add_subcommand(name, text);
        command->add_option("SET-FILE", to.set_file, "the set file")->required();
        command->add_flag("--json", to.json, "print the result as JSON");
        return command;
    };
    const auto add_long = [&](const char *name, const char *text) {
        CLI::App *const command = add(name, text);
        command->add_option("--progress", to.progress, "on standard error: on, off, or auto: if it is a terminal")
                ->check(CLI::IsMember({"auto", "on", "off"}));
        return command;
    };
    add("status", "show the copies; asks the targets, and changes nothing")
            ->add_flag("--prometheus", to.prometheus, "print the result in the text format of Prometheus")
            ->excludes("--json");
    add("create", "make a new set: the home copy, and one on each target");
    CLI::App *const verify = add_long("verify", "compare copies with the home copy");
    add_copy(*verify, to, "only this one");
    add_rate(*verify, to);
    CLI::App *const resync = add_long("resync", "bring all copies level");
    add_rate(*resync, to);
    add_force(*resync, to, "although a copy that was in sync does not answer: what only it has is lost");
    CLI::App *const promote = add_long("promote", "take the set to this machine; the writer elsewhere is fenced");
    add_rate(*promote, to);
    add_force(*promote, to, "although a copy that was in sync does not answer: what only it has is lost");
    CLI::App *const fence = add("fence", "stop the writer, wherever it is, and start none");
    add_force(*fence, to, "although a target in sync does not answer, with which the writer may go on");
    CLI::App *const adding = add_long("add", "add a copy on another target, and bring it level");
    add_copy(*adding, to, "its number, 0 to 15");
    adding->get_option("COPY")->required();
    adding->add_option("TARGET", to.place, "ADDRESS:PORT of its rpmemd")->required();
    adding->add_option("POOLSET", to.pool_set, "the poolset there")->required();
    add_rate(*adding, to);
    CLI::App *const remove = add_long("remove", "remove a copy from the set");
    add_copy(*remove, to, "its number");
    remove->get_option("COPY")->required();
    add_force(*remove, to, "although a copy that was in sync does not answer: what only it has is lost");
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success &asked) {
        app.exit(asked);
        return std::nullopt;
    } catch (const CLI::ParseError &wrong) {
        std::string what = wrong.what();
        std::ranges::replace(what, '\n', ' ');
        throw failure(what + ": see rpma-mirror --help", exit_usage);
    }
    to.command = app.get_subcommands().front()->get_name();
    return to;
}

} // namespace mirror_tool
