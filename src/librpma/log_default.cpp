// SPDX-License-Identifier: BSD-3-Clause
#include "log.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>

namespace rpma::log
{

namespace
{

struct level_style {
    const char *tag;
    int severity;
};

constexpr level_style styles[] = {
        {"*FATAL* ", LOG_CRIT},
        {"*ERROR* ", LOG_ERR},
        {"*WARN*  ", LOG_WARNING},
        {"*NOTE*  ", LOG_NOTICE},
        {"*INFO*  ", LOG_INFO},
        {"*DEBUG* ", LOG_DEBUG},
};

// Formats the local time, for example "Nov 21 03:21:01.031908 ".
void format_time(char *to, std::size_t size)
{
    timespec now{};
    tm local{};
    char seconds[32];
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || localtime_r(&now.tv_sec, &local) == nullptr ||
            std::strftime(seconds, sizeof(seconds), "%b %d %H:%M:%S", &local) == 0 ||
            std::snprintf(to, size, "%s.%06ld ", seconds, now.tv_nsec / 1000) < 0)
        std::snprintf(to, size, "[time error] ");
}

// Formats the location, for example "file.cpp:   7: function: ".
void format_location(char *to, std::size_t size, const char *file_name, int line_no, const char *function_name)
{
    to[0] = '\0';
    if (file_name == nullptr)
        return;
    const char *const slash = std::strrchr(file_name, '/');
    const char *const base = slash != nullptr ? slash + 1 : file_name;
    if (std::snprintf(to, size, "%s: %3d: %s: ", base, line_no, function_name) < 0)
        std::snprintf(to, size, "[file info error]: ");
}

} // namespace

void write_default(rpma_log_level level, const char *file_name, const int line_no, const char *function_name,
        const char *message_format, ...)
{
    if (level == RPMA_LOG_DISABLED)
        return;
    const errno_guard keep_errno;

    char message[1024];
    va_list arguments;
    va_start(arguments, message_format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above
    const int length = std::vsnprintf(message, sizeof(message), message_format, arguments);
    va_end(arguments);
    if (length < 0)
        return;

    char location[256];
    format_location(location, sizeof(location), file_name, line_no, function_name);
    const level_style &style = styles[level];

    if (level <= thresholds[RPMA_LOG_THRESHOLD_AUX].load(std::memory_order_relaxed)) {
        char time[64];
        format_time(time, sizeof(time));
        std::fprintf(stderr, "%s[%ld] %s%s%s", time, syscall(SYS_gettid), style.tag, location, message);
    }
    // Each message contains the facility: openlog would replace that of the application.
    syslog(LOG_LOCAL7 | style.severity, "%s%s%s", style.tag, location, message);
}

} // namespace rpma::log
