// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string_view>

// Settings from the environment, SOFTRDMA_*, of device and launcher. An absent or empty variable has its default.
namespace softrdma::config
{

enum class setting {
    transport,
    roce,
    roce_source_port,
    trust,
    native_verbs,
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

// Value of a setting: the index of its keyword in the order of the enumerations below, or its number.
int value(setting s);
const char *text(setting s); // string of a setting that another module parses; NULL if it is absent

enum class transport_word {
    automatic,
    shm,
    shm_fd,
    tcp,
    roce
};
enum class roce_word {
    connect,
    listen,
    off
};
enum class source_port_word {
    flow,
    fixed
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
    reject
};
enum class private_data_word {
    padded,
    exact
};
enum class loopback_word {
    device,
    wildcard
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

const char *name(setting s) noexcept;
bool parse_number(std::string_view text, std::uint64_t &value) noexcept; // false unless it is a decimal number

void check();          // prints one line and exits with code 2 if a setting has an invalid value
void report_unknown(); // prints a line for each variable SOFTRDMA_* that is not a setting
[[noreturn]] void reject(setting s, const char *reason); // like check(), for a string that another module parses

} // namespace softrdma::config
