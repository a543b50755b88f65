// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>

#include "error.hpp"

namespace rpma::log
{

extern constinit std::atomic<rpma_log_level> thresholds[RPMA_LOG_THRESHOLD_MAX];
extern constinit std::atomic<rpma_log_function *> function;

inline bool enabled(rpma_log_level level)
{
    return level <= thresholds[RPMA_LOG_THRESHOLD].load(std::memory_order_relaxed);
}

// Default log function: writes to syslog, and to stderr for messages within the auxiliary threshold.
[[gnu::cold, gnu::format(printf, 5, 6)]] void write_default(rpma_log_level level, const char *file_name,
        const int line_no, const char *function_name, const char *message_format, ...);

// Message of an errno value, without a shared buffer.
class errno_text
{
public:
    [[gnu::cold]] explicit errno_text(int error);
    const char *c_str() const { return text_; }

private:
    char buffer_[128];
    const char *text_;
};

// Logs "call(detail) failed: message of error", sets errno to error and returns errc::provider.
[[gnu::cold]] errc provider_error(int error, const char *call, const char *detail = "",
        const char *file_name = __builtin_FILE(), int line_no = __builtin_LINE(),
        const char *function_name = __builtin_FUNCTION());

} // namespace rpma::log

// Messages end with a newline. The pointer type has the format attribute, so the compiler checks the arguments.
// Restores errno, which a log function of the application may change.
#define RPMA_LOG(level, ...)                                                                                           \
    do {                                                                                                               \
        using checked_ [[gnu::format(printf, 5, 6)]] =                                                                 \
                void (*)(rpma_log_level, const char *, int, const char *, const char *, ...);                          \
        if (::rpma::log::enabled(level)) [[unlikely]]                                                                  \
            if (const checked_ write_ = ::rpma::log::function.load(std::memory_order_acquire); write_ != nullptr) {    \
                const ::errno_guard keep_errno_;                                                                       \
                write_(level, __FILE__, __LINE__, __func__, __VA_ARGS__);                                              \
            }                                                                                                          \
    } while (false)

#define RPMA_LOG_ERROR(...) RPMA_LOG(RPMA_LOG_LEVEL_ERROR, __VA_ARGS__)
#define RPMA_LOG_WARNING(...) RPMA_LOG(RPMA_LOG_LEVEL_WARNING, __VA_ARGS__)
#define RPMA_LOG_NOTICE(...) RPMA_LOG(RPMA_LOG_LEVEL_NOTICE, __VA_ARGS__)
#define RPMA_LOG_INFO(...) RPMA_LOG(RPMA_LOG_LEVEL_INFO, __VA_ARGS__)
#define RPMA_LOG_DEBUG(...) RPMA_LOG(RPMA_LOG_LEVEL_DEBUG, __VA_ARGS__)
