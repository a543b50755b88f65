// SPDX-License-Identifier: BSD-3-Clause
/* Replacements of the syslog functions of libc in the program. */
#pragma once

/* Returns how many times the library called openlog(), which affects the whole program. */
unsigned syslog_opened(void);

unsigned syslog_messages(void);

/* Text and priority of the last message. The facility is that of the message or of openlog(). */
const char *syslog_text(void);
int syslog_priority(void);
