// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>

#include "commands.hpp"
#include "standard_output.hpp"

namespace
{

int run(int argc, char **argv)
try {
    const std::optional<mirror_tool::options> opts = mirror_tool::parse(argc, argv);
    return opts ? mirror_tool::run(*opts) : mirror_tool::exit_done;
} catch (const mirror_tool::failure &error) {
    std::fprintf(stderr, "rpma-mirror: %s\n", error.what());
    return error.status();
} catch (const std::exception &error) {
    std::fprintf(stderr, "rpma-mirror: %s\n", error.what());
    return mirror_tool::exit_failed;
}

} // namespace

int main(int argc, char **argv)
{
    return standard_output::finish("rpma-mirror", run(argc, argv));
}
