// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "channel/control_client.hpp"
#include "channel/tls_stream.hpp"
#include "settings.hpp"

namespace mirror
{

replica::tls_keys read_key(const std::string &path);

// Control connection to a target. Functions throw failure: E_CONNECTION and E_TIMEOUT if the connection has failed, and
// E_FENCED, E_EXISTS, E_NOT_FOUND, E_BUSY or E_REJECTED if the target rejects a request.
class channel final : public replica::control_client
{
public:
    channel(const target_settings &to, const replica::tls_keys &key, const replica::deadline &until);

private:
    std::exception_ptr exception_of(const replica::control_error &error) const override;

    const std::string name_;
};

} // namespace mirror
