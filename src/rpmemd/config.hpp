// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/types.h>

#include "log.hpp"

// What the command line and the configuration files say.
namespace rpmemd
{

enum exit_status {
    exit_done = 0,
    exit_failed = 1,   // a bad configuration or poolset directory, or a client that vanished
    exit_refused = 255 // a bad command line or a malformed message
};

constexpr unsigned most_threads = 65535;

struct limits {
    unsigned lanes = 1024;
    unsigned threads = 64;
    std::uint64_t bytes = std::uint64_t{1} << 40;
    unsigned sessions = 64; // of one user
    // Connections that have not authenticated yet, of all addresses and of one.
    unsigned unauthenticated = 1024;
    unsigned unauthenticated_per_address = 512;
};

struct config {
    // Only from the command line.
    std::optional<std::string> remove; // a set
    std::optional<std::string> check;  // a set
    std::optional<std::string> listen; // ADDRESS:PORT; mirrored sets are served there
    std::string key_file;              // of the writers of mirrored sets
    bool force = false;
    bool pool_set = false; // remove the set file, too
    unsigned threads = 0;  // 0: one for each lane
    bool forced = false;   // take the arguments from SSH_ORIGINAL_COMMAND
    // From both; what is said later wins.
    std::string log_file = "/var/log/rpmemd.log";
    bool use_syslog = true;
    log_level level = log_level::err;
    std::string poolset_dir;
    bool persist_apm = false;
    bool read_only_header = true;
    bool follow_symlinks = false;
    std::optional<mode_t> umask;
    unsigned session_timeout_s = 60;
    rpmemd::limits limits;
};

// The end of the program before it has done anything; the message is empty if all is said.
class config_error : public std::runtime_error
{
public:
    config_error(exit_status status, const std::string &line) : std::runtime_error(line), status_(status) {}
    exit_status status() const { return status_; }

private:
    exit_status status_;
};

// Reads the files, too. Throws config_error. Empty if the question was for help or the version, which is answered on
// standard error.
std::optional<config> read_config(int argc, const char *const *argv);

// The value of a key of the configuration files. Throws std::invalid_argument, which says what is wrong with it.
void set_value(config &to, const std::string &key, const std::string &value);

// Throws std::invalid_argument for what is no decimal number in this range.
unsigned small_number(const std::string &value, unsigned lowest, unsigned highest);

// Throws config_error, which names file and line, for a file that cannot be read or says what it must not.
void read_config_file(config &to, const std::string &path);

} // namespace rpmemd
