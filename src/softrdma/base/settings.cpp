// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hpp"
#include "base/config.hpp"
#include "base/process.hpp"

namespace softrdma
{

const settings_values &settings()
{
    using config::setting;
    using config::value;
    static constinit process::single<const settings_values> values;
    return values.get([] {
        return new settings_values{
                .port_offset = value(setting::port_offset),
                .response_timeout = std::chrono::milliseconds(value(setting::cm_timeout_ms)),
                .timewait = std::chrono::milliseconds(value(setting::timewait_ms)),
                .exact_private_data = config::is(setting::private_data, config::private_data_word::exact),
                .loopback_is_wildcard = config::is(setting::loopback, config::loopback_word::wildcard),
        };
    });
}

} // namespace softrdma
