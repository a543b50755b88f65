// SPDX-License-Identifier: BSD-3-Clause
/* Replacements of the syslog functions of libc in the program. */
#pragma once

/* Calls by the library. */
extern struct syslog_spy {
    unsigned opened; /* number of calls of openlog(), which affects the whole program */
    unsigned messages;
    int priority;    /* last priority, with the facility of the message or of openlog() */
    char text[2048]; /* last message */
} syslog_spy;
