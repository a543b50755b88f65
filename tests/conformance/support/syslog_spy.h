// SPDX-License-Identifier: BSD-3-Clause
/* The program's own syslog functions, which the library finds instead of those of libc. */
#ifndef CONFORMANCE_SYSLOG_SPY_H
#define CONFORMANCE_SYSLOG_SPY_H

/* Number of times that the library has set the identity and facility of the whole program. */
unsigned syslog_opened(void);

unsigned syslog_messages(void);

/* Text of the newest message; the facility is that of the message or of openlog. */
const char *syslog_text(void);
int syslog_priority(void);

#endif
