// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.hpp"

using CURL = void;

namespace mirror
{

struct etcd_settings {
    std::vector<std::string> endpoints; // http://ADDRESS:PORT or https://...
    std::string ca, certificate, key;   // files for https; the system's CAs if ca is empty
    std::string user, password_file;    // empty without authentication
};

std::string to_base64(const std::string &bytes);
std::string from_base64(const std::string &text);

// Client of the JSON gateway of etcd v3. Used by one thread at a time.
class etcd_client
{
public:
    explicit etcd_client(const etcd_settings &of);

    // Calls the first endpoint that responds. Throws failure with E_ARBITER.
    nlohmann::json call(const std::string &path, const nlohmann::json &request, const replica::deadline &until);
    bool responds() const { return responds_; }

private:
    struct closer {
        void operator()(CURL *handle) const;
    };

    bool post(const std::string &url, const std::string &request, replica::deadline until, nlohmann::json &response);
    nlohmann::json call_once(const std::string &path, const nlohmann::json &request, const replica::deadline &until);
    void log_in(const replica::deadline &until);

    const etcd_settings settings_;
    std::unique_ptr<CURL, closer> handle_;
    std::size_t last_good_ = 0; // endpoint that responded last
    std::string error_;
    bool responds_ = true;
    bool logged_out_ = false; // the last call failed because of the token
    std::string token_;       // token of the user
};

} // namespace mirror
