// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace rpmemd
{

constexpr int missed_keep_alives = 2; // number of missed keep-alive intervals after which a client has gone

// Signals other daemons of this user that have the file open for a client at this address. Returns false if none has.
bool request_takeover(int file);

// Blocks the signal. Returns a descriptor that is readable after request_takeover() of another daemon, or -1.
int open_takeover_requests();

// Time within which a signaled daemon exits. A daemon that runs longer is stuck.
constexpr int takeover_time_ms = 2'500;

} // namespace rpmemd
