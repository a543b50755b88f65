// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "channel.hpp"
#include "child.hpp"
#include "results.hpp"

namespace bench
{

struct ends_options {
    std::string server_host; // empty: a server of our own on this machine
    std::string server_port = "7205";
    bool use_softrdma = false;      // for processes started here
    std::string host = "127.0.0.1"; // of the RDMA device, when the server is our own
    std::string target_path;        // empty: DRAM only
    std::string library;            // path of the librpma to measure; empty: the usual one
};

struct target_facts {
    std::string word, description, persistence;
    bool direct_write = false;
    bool here = false; // on this machine
};

// A client process of our own and a server, which is another one or elsewhere: where points are measured.
// Everything throws failure, or peer_gone when one of the two is no more.
class ends
{
public:
    explicit ends(const ends_options &options);

    // environment, and libraries with one entry without a label
    const results &facts() const { return facts_; }
    const target_facts &target() const { return target_; }

    // A point: open, warm up, run any number of times, close.
    void open(const setup &what);
    void warm_up(double limit_s);
    bench::repeat run(double duration_s);
    void close();

private:
    void start_server();
    void start_client();
    void greet();
    json ask_server(const json &request, double timeout_s);
    json ask_client(const json &request, double timeout_s);
    void begin(double for_s);
    std::vector<std::string> command(const std::vector<std::string> &words) const;

    ends_options options_;
    std::string library_directory_;
    std::unique_ptr<child> server_process_, client_process_;
    std::unique_ptr<channel> server_, client_;
    results facts_;
    target_facts target_;
    bool has_server_ = false; // the open point has a part there
    std::optional<double> server_memory_;
    std::uint64_t seed_ = 1;
};

} // namespace bench
