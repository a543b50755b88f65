// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace rpmemd
{

// A client whose connection was cut leaves a daemon that holds the parts: it waits for a client that never comes back.
// The next session of the same client takes them over: it asks that daemon, by a signal that others ignore, which then
// ends if its client misses its signs of life.

// Time after which a client that misses them is gone, in their intervals.
constexpr int missed_keep_alives = 2;

// Asks the other daemons of this user that have the file open, if their clients come from the address of this one's.
// Returns false if there are none.
bool ask_holders(int file);

// Blocks the signal in this thread and those that it starts. Returns a descriptor that is readable after ask_holders()
// of another daemon, -1 on failure.
int open_takeover_requests();

// Time in which a daemon that was asked has ended or does not end.
constexpr int takeover_time_ms = 2'500;

} // namespace rpmemd
