// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/types.h>
#include <vector>

#include "config/access.hpp"
#include "config/log.hpp"

namespace rpmemd
{

enum exit_status {
    exit_done = 0,
    exit_failed = 1,    // a bad configuration or poolset directory, or a client that vanished
    exit_rejected = 255 // a bad command line or a malformed message
};

constexpr unsigned max_threads = 65535;
constexpr int send_timeout_ms = 30'000; // a client that does not receive a message for this time is disconnected

struct limits {
    unsigned lanes = 1024;
    unsigned threads = 64;
    std::uint64_t bytes = std::uint64_t{1} << 40;
    unsigned sessions = 64;                              // sessions of one user
    unsigned readers = 4;                                // readers of one mirrored set
    std::uint64_t reader_bytes = std::uint64_t{1} << 30; // images for all readers
    // Limits of unauthenticated connections, in total and per address.
    unsigned unauthenticated = 1024;
    unsigned unauthenticated_per_address = 512;
};

struct config {
    // Set only on the command line.
    std::optional<std::string> remove;
    std::optional<std::string> check;
    std::optional<std::string> listen; // ADDRESS:PORT; mirrored sets are served there
    std::string key_file;
    bool force = false;
    bool pool_set = false;          // remove the set file, too
    unsigned threads = 0;           // worker threads; one for each lane if 0
    std::vector<std::string> files; // configuration files that were read
    bool forced = false;            // take the arguments from SSH_ORIGINAL_COMMAND
    // Set in the files and on the command line. The last value takes effect.
    std::string log_file = "/var/log/rpmemd.log";
    bool use_syslog = true;
    log_level level = log_level::err;
    std::string poolset_dir;
    bool persist_apm = false;
    bool read_only_header = true;
    bool follow_symlinks = false;
    std::optional<mode_t> umask;
    unsigned session_timeout_s = 60;
    std::vector<grant> grants; // rights of the clients of --listen; without any, each may do everything
    std::string metrics;       // ADDRESS:PORT of the metrics of --listen; none if empty
    rpmemd::limits limits;
};

// Error that ends the program before it starts work. The message is empty if it has already been printed.
class config_error : public std::runtime_error
{
public:
    config_error(exit_status status, const std::string &line) : std::runtime_error(line), status_(status) {}
    exit_status status() const { return status_; }

private:
    exit_status status_;
};

// Returns nullopt if help or the version was requested, and printed to standard error. Throws config_error.
std::optional<config> read_config(int argc, const char *const *argv);

// Sets a key of the configuration files. Throws std::invalid_argument with the error for an invalid key or value.
void set_value(config &to, const std::string &key, const std::string &value);

// Parses a decimal number from `min` to `max`. Throws std::invalid_argument for any other value.
unsigned parse_number(const std::string &value, unsigned min, unsigned max);

// Throws config_error with file and line for a file that cannot be read or has an invalid line.
void read_config_file(config &to, const std::string &path);

} // namespace rpmemd
