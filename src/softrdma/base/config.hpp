// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The settings of the environment, SOFTRDMA_*: one table of their names and values, which the device and the launcher
// share. A variable that is absent or empty has its default.
namespace softrdma::config
{

enum class setting {
    path,
    trust,
    native,
    read_flush,
    volatile_memory,
    private_data,
    loopback,
    link,
    log,
    cm_timeout_ms,
    timewait_ms,
    port_offset,
    fault,
    powercut,
    trace,
    count,
};

// Of a setting with words the place of the one that is set, in the order below; of one with a number the number.
int value(setting s);
// Of the others, whose rooms parse them: NULL if it is absent.
const char *text(setting s);

enum class path_word {
    automatic,
    local,
    descriptors,
    tcp
};
enum class trust_word {
    user,
    none
};
enum class switch_word {
    on,
    off
};
enum class volatile_word {
    accept,
    refuse
};
enum class private_data_word {
    padded,
    exact
};
enum class loopback_word {
    device,
    any
};
enum class link_word {
    ethernet,
    infiniband
};
enum class log_word {
    off,
    error,
    warn,
    info,
    debug
};

template<typename Word>
bool is(setting s, Word word)
{
    return value(s) == static_cast<int>(word);
}

// The name of the variable.
const char *name(setting s) noexcept;

// Ends the process with exit code 2, after one line, if the environment has a value without sense.
void check();
// Prints a line for each variable with the prefix SOFTRDMA_ that is not a setting, because its name may be misspelt.
void report_unknown();
// The same for a text of which its room found out `why` it has no sense.
[[noreturn]] void refuse(setting s, const char *why);

} // namespace softrdma::config
